"""What is said of Graph500's searches whose rows are not all in the memory that they run in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ooc_graph.graph500.run import BatchTask, Run, Searched, io_of
from ooc_graph.memory.cpu.disk_probe import Probe, probe_disk
from ooc_graph.memory.cpu.plan import describe
from ooc_graph.memory.cuda.disk import describe_disk
from ooc_graph.memory.cuda.pinned_plan import describe_device
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.resources import CUDA
from ooc_graph.model.strategy import MEMORY, PINNED
from ooc_graph.shards.device_tiers import DeviceTierSearch
from ooc_graph.shards.load import Graph

DISK = "disk"


def where_rows_are(task: BatchTask) -> str:
    """A line where a CUDA device searches rows that are not there; else nothing."""
    if task.device != CUDA or task.tier == MEMORY:
        return ""
    where = "in pinned host memory" if task.tier == PINNED else "in the store"
    checked = ", and are validated on the CPU" if task.validate else ""
    return f"{task.kernel} has its rows {where}; its answers go to host memory{checked}"


def describe_engine(task: BatchTask) -> dict[str, Any]:
    """What searches hold of a graph, by the plan that they really have; runs on the worker.

    Names and values, JSON-able; nothing if all rows are in the memory that they run in.
    """
    with task.engine() as engine:
        if engine.pinned is not None:
            return describe_device(engine.pinned)
        if engine.io_stats is None:
            return {}
        if not isinstance(engine.search, DeviceTierSearch):
            return describe(engine.search.plan)
        unpinned = engine.search.unpinned
        said = {"why nothing is pinned": unpinned} if unpinned else {}
        return {**describe_disk(engine.search.plan), **said}


def tier_facts(facts: dict[str, Any], found: Sequence[Searched]) -> dict[str, Any]:
    """What `describe_engine` gave, with what searches read of the store."""
    if facts and facts["tier"] == DISK:
        return facts | describe_io(io_of(found))
    return facts


def with_disk(
    run: Run, graph: Graph, searched: dict[str, list[Searched]]
) -> dict[str, dict[str, Any]]:
    """What is said of kernels by tier; where arcs stay in the store, what its disk gives at most.

    That is measured now, when no more searches come, for it takes what the page cache has.
    """
    if all(facts["tier"] != DISK for facts in run.tiers.values()):
        return dict(run.tiers)
    try:
        probe = run.workplace.call(probe_disk, Path(graph.path))
    except OSError:
        # Searches have been made by what is there: their report is not to be lost for this.
        return dict(run.tiers)
    return {
        kernel: {**facts, **describe_probe(probe, io_of(searched[kernel]).bytes_s)}
        if facts["tier"] == DISK
        else facts
        for kernel, facts in run.tiers.items()
    }


def describe_io(io_stats: IoStats) -> dict[str, Any]:
    """What was read of the store, and how, as names and numbers, JSON-able."""
    return {
        "bytes read of the store": io_stats.bytes,
        "blocks read": io_stats.blocks,
        "blocks given again from memory": io_stats.kept_blocks,
        "bytes given again from memory": io_stats.kept_bytes,
        "rows fetched": io_stats.rows,
        "seconds of reading": rounded(io_stats.reading_s),
        "seconds that searches waited for it": rounded(io_stats.waited_s),
        "share of reading time in which searches went on": rounded(io_stats.overlap),
        "blocks in flight, on average": rounded(io_stats.blocks_in_flight),
        "bytes read a second of reading": rounded(io_stats.bytes_s),
    }


def describe_probe(probe: Probe, read_bytes_s: float | None) -> dict[str, Any]:
    """What the disk gives at most, and the share of it that reading at such a rate is."""
    rate = probe.bytes_s
    share = None if rate is None or read_bytes_s is None else read_bytes_s / rate
    return {
        "disk: bytes read in sequence": probe.bytes,
        "disk: bytes a second in sequence": rounded(rate),
        "disk: had the page cache most of that": probe.is_cached,
        "share of the disk's rate in sequence": rounded(share),
    }


def rounded(value: float | None) -> float | None:
    """To four digits: more of a measured time say nothing."""
    return None if value is None else float(f"{value:.4g}")
