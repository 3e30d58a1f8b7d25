"""What comes along with the package for those who write job files: examples, and a JSON schema."""

from __future__ import annotations

import json
from pathlib import Path

from ooc_graph.errors import UsageError
from ooc_graph.jobs.mistakes import nearest
from ooc_graph.jobs.model import Job

_INSTALLED = Path(__file__).with_name("examples")
EXAMPLES = _INSTALLED if _INSTALLED.exists() else Path(__file__).parents[2] / "pipelines"
"""Job files that come along: in the wheel beside this file, in a checkout in ``pipelines``."""
SCHEMA = Path(__file__).with_name("job.schema.json")
"""The schema as a file, for editors."""


def schema_text() -> str:
    """The JSON schema of job files."""
    return json.dumps(Job.model_json_schema(), indent=1) + "\n"


def example_of(name: str) -> str:
    """A job file that comes along. UsageError: there is none of the name."""
    names = sorted(path.stem for path in EXAMPLES.glob("*.toml"))
    if name not in names:
        raise UsageError(f"--example {name}: {nearest(name, names)}")
    return (EXAMPLES / f"{name}.toml").read_text()
