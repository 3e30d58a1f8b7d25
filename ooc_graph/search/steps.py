"""A search of a whole graph by the steps of ranks, and what ranks have found put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.model.task import SearchTask, Trace, slowest, trace_of
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.traverse.states import NO_STATES
from ooc_graph.types import AnyArray, Dealing

Arrays = tuple[AnyArray, ...]


def by_steps(
    start: Callable[..., Any], task: SearchTask, graph: Graph, ranks: Mapping[int, Any]
) -> tuple[Trace, list[Any]]:
    """What the ranks of a whole graph find, all of which are in this process."""
    from ooc_graph.exchange.ranks import run_in_process  # noqa: PLC0415 (few searches need it)

    begun, device = perf_counter(), process.device(task.strategy.device)
    found = run_in_process(*start(task, graph, ranks, device, lambda _rank: NO_STATES))
    trace = slowest([trace_of(task.kernel, one) for one in found])
    return Trace(perf_counter() - begun, trace.levels), found


def of_all_rows(graph: Graph, ranks: int, parts: Iterable[Arrays]) -> Arrays:
    """Arrays of all rows from those of each rank's; those without axes are as of any rank."""
    whole: Arrays = ()
    for rank, arrays in enumerate(parts):
        if ranks == 1:
            return arrays
        whole = whole or tuple(
            np.empty(graph.rows, array.dtype) if array.ndim else array for array in arrays
        )
        for every, own in zip(whole, arrays, strict=True):
            if own.ndim:
                Dealing(graph.rows, ranks, rank).put(own, every)
    return whole
