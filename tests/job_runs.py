"""Small jobs, and what a run of one leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from tests.command_line import Ended, listing

Command: TypeAlias = Callable[..., Ended]
"""The command with its words; what it said."""

EDGES, CHANGED = "10 20 4\n20 30 1\n10 30 7\n30 40 2\n", "10 20 4\n20 30 2\n30 50 9\n"
SMALL = """
[source]
kind = "files"
path = "edges.txt"
directed = true

[[stage]]
kind = "bfs"
roots = [10, 30]

[[stage]]
kind = "components"

[[stage]]
kind = "validate"
of = "bfs"

[[stage]]
kind = "export"
of = "bfs"
"""
WHOLE = """
[source]
kind = "kronecker"
scale = 14
weighted = true

[[stage]]
kind = "bfs"
keys = 8

[[stage]]
kind = "sssp"
keys = 8

[[stage]]
name = "pairs"
kind = "many"
kernel = "apsp"
keys = 32

[[stage]]
kind = "components"

[[stage]]
kind = "pagerank"

[[stage]]
name = "validate-bfs"
kind = "validate"
of = "bfs"

[[stage]]
name = "validate-sssp"
kind = "validate"
of = "sssp"

[[stage]]
kind = "export"
of = "sssp"
"""
STEPS = ("build", "bfs", "components", "validate", "export")


def small_job(folder: Path, more: str = "", edges: str = EDGES) -> Path:
    """A job of each kind of stage, and its edges."""
    (folder / "edges.txt").write_text(edges)
    (folder / "small.toml").write_text(SMALL + more)
    return folder / "small.toml"


def published(folder: Path) -> dict[str, str]:
    """Stores and exported files of a run, with a hash of each file."""
    found = listing(folder)
    return {
        name: found[name]
        for name in found
        if name.endswith(".csv") or (".zarr/" in name and "partial" not in name)
    }


def skipped(said: Any) -> int:
    """How many steps a run said to be done already."""
    return str(said.out).count("finished already, skipped")


def done_by(said: Any) -> list[str]:
    """Steps that a run did, in their order."""
    lines = str(said.out).splitlines()
    return [line.partition(":")[0] for line in lines if ": done in " in line]


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def summary(folder: Path) -> Any:
    return json.loads((folder / "summary.json").read_text())
