"""Runs of Graph500 on the CPU of this process, every answer of which holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ooc_graph.graph500.job import graph500
from ooc_graph.graph500.run import Graph500Options
from tests.said import Said


def run(scale: int, folder: Path, limit_bytes: int | None = None, **options: Any) -> Said:
    """What is said of a run; two searches of each kernel and no energy if nothing else is given."""
    said, chosen = Said(), {"searches": 2, "energy": False} | options
    outcome = graph500(
        Graph500Options(scale, **chosen),
        folder,
        client=None,
        memory_limit_bytes=limit_bytes,
        device="cpu",
        progress=said,
        overwrite=True,
    )
    assert outcome.failure is None
    return said
