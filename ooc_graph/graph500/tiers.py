"""What is said of Graph500's searches whose rows are not all in the memory that they run in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ooc_graph.graph500.run import BatchTask, Run, Searched, io_of
from ooc_graph.memory.cpu.plan import describe
from ooc_graph.memory.cuda.disk import describe_disk
from ooc_graph.memory.cuda.pinned_plan import describe_device
from ooc_graph.model.resources import CUDA
from ooc_graph.model.strategy import MEMORY, PINNED
from ooc_graph.shards.device_tiers import DeviceTierSearch
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.on_disk import describe_io, describe_probe, probe_of

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
        probe = run.workplace.call(probe_of, str(graph.path))
    except OSError:
        # Searches have been made by what is there: their report is not to be lost for this.
        return dict(run.tiers)
    return {
        kernel: {**facts, **describe_probe(probe, io_of(searched[kernel]).bytes_s)}
        if facts["tier"] == DISK
        else facts
        for kernel, facts in run.tiers.items()
    }
