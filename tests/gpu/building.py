"""Builds on a CUDA device, and what they must be the same as."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.manifest import Manifest
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.cuda_build import build_into
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.workforce import Workforce
from ooc_graph.types import NoProgress

MIB = 1 << 20


def build_there(
    source: EdgeSource,
    out: Path,
    *,
    device_memory_bytes: int | None = None,
    progress: NoProgress | None = None,
    **options: Any,
) -> BuildReport:
    """Build on the device, with threads of this process."""
    made = BuildOptions(**options)
    with (
        ThreadPoolExecutor(3) as executor,
        partial_store(out, "graph", overwrite=made.overwrite) as partial,
    ):
        return build_into(
            partial,
            source,
            options=made,
            workforce=Workforce(executor, BuildBudget(1 << 30, 1, 3), lambda function: function()),
            progress=progress or NoProgress(),
            device_memory_bytes=device_memory_bytes,
        )


def manifest(report: BuildReport) -> Manifest:
    assert report.manifest is not None
    return report.manifest


def assert_same(report: BuildReport, expected: BuildReport) -> None:
    mine, theirs = manifest(report), manifest(expected)
    differ = {
        path
        for path in {*mine.files, *theirs.files}
        if mine.files.get(path) != theirs.files.get(path)
    }
    assert not differ, sorted(differ)[:5]
    assert mine.sha256 == theirs.sha256
    assert (report.edges, report.arcs) == (expected.edges, expected.arcs)
