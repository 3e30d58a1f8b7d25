"""What Dask's configuration says under ``ooc-graph``; its defaults are in ``ooc-graph.yaml``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
from dask.utils import parse_timedelta

from ooc_graph.errors import UsageError

_FILE = Path(__file__).parents[1] / "ooc-graph.yaml"
(_DEFAULTS,) = dask.config.collect_yaml([str(_FILE)])
dask.config.update_defaults(_DEFAULTS)


def setting(name: str) -> Any:
    """What is configured under a name, or the default."""
    return dask.config.get(f"ooc-graph.{name}", _DEFAULTS["ooc-graph"][name])


def answer_timeout_s() -> float:
    """Longest wait for the answer to one question, in seconds."""
    return _seconds("answer-timeout", 0.1)


def patience_s() -> float:
    """Longest wait for a worker that can do the work, in seconds."""
    return _seconds("patience", 0.0)


def _seconds(name: str, least: float) -> float:
    # Dask's parser raises errors of many kinds.
    with suppress(Exception):
        if least <= (seconds := float(parse_timedelta(setting(name)))) < float("inf"):
            return seconds
    raise refusal(
        name, f"give a time from {least:g} s on, such as {_DEFAULTS['ooc-graph'][name]!r}"
    )


def refusal(name: str, advice: str) -> UsageError:
    """The error of a setting that cannot be what it is."""
    return UsageError(f"ooc-graph.{name} is {setting(name)!r} in Dask's configuration: {advice}")
