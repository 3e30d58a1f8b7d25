"""The Python API: what a search would hold in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ooc_graph.answers.asked import Asked
from ooc_graph.answers.reductions import BINS, Bins
from ooc_graph.api.vertices import positions_of
from ooc_graph.boundary import public
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import (
    FROM_ONE,
    MULTI_SOURCE_BFS,
    ORDER_OF,
    PAGERANK,
    WEIGHTED_PAGERANK,
)
from ooc_graph.model.request import GRAPH500, Many, Request
from ooc_graph.model.resources import CPU, CUDA, CudaLimits, parse_bytes
from ooc_graph.runtime.configured import configured_bytes
from ooc_graph.runtime.machine import default_limit_bytes
from ooc_graph.runtime.this_process import planned
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.many.tiers import KERNELS as MANY
from ooc_graph.types import DeviceName, Kernel, Reduction

ALONE = (*FROM_ONE, PAGERANK, WEIGHTED_PAGERANK)
"""Kernels that are planned, besides those of many sources."""


@public
def plan(
    graph: Graph | str | Path | Kronecker,
    kernel: Kernel = "bfs",
    *,
    sources: Any = None,
    targets: Any = None,
    reduce: Reduction | None = None,
    bins: int = BINS,
    parents: bool = False,
    memory_limit: str | int | None = None,
    device: DeviceName = "cpu",
    device_memory: str | int | None = None,
    host_memory: str | int | None = None,
) -> dict[str, Any]:
    """What a search by one worker keeps in memory, and what stays elsewhere.

    Nothing is searched. If the lengths of the rows matter, they are read from the store. An answer
    that is not written (``out=None``) takes 20 or 24 bytes per vertex in addition, and 4 or 8 per
    row until it is in order; from many sources it takes all of ``bytes of the answer``.

    Parameters
    ----------
    graph
        A built graph, or its path; for ``graph500`` the generator, `Kronecker`.
    kernel
        ``bfs`` or ``sssp``; ``pagerank``, or ``weighted_pagerank`` if weights count; for many
        sources ``apsp`` (as `johnson`) or ``multi_source_bfs``; or ``graph500``: the minimum memory
        of each part of that job, on the CPU.
    sources, targets, reduce, bins, parents
        As for `johnson`, only for kernels of many sources.
    memory_limit
        Bytes (or "4GiB") of the worker; None: 80 % of what is free.
    device
        ``cpu`` or ``cuda``.
    device_memory, host_memory
        As for `bfs`. If ``device_memory`` is given, no device is needed.

    Returns
    -------
    dict
        As ``ooc-graph plan --json`` prints it: ``tier``, bytes in memory by purpose (``bytes: …``),
        ``share of arcs in memory``, ``bytes that stay in the store``. For a CUDA device also
        ``device bytes: …``, ``share of arcs on the device``, ``bytes of pinned host memory``. For
        many sources also how they are divided, and the minimum memory
        (docs/reference/many_sources.md).

    Raises
    ------
    MemoryBudgetError
        Says how much memory is needed.
    UsageError, NegativeWeightError
        There is no such kernel, or the graph has no rows for it.
    UnknownVertexError, InputError
        A source or target is unknown or given twice, or none is given.
    """
    from ooc_graph.search.plan import plan as plan_for  # noqa: PLC0415 (many modules)

    if device not in (CPU, CUDA):
        raise UsageError(f"device {device!r}: choose {CPU} or {CUDA}")
    given_bytes = configured_bytes("memory-limit", parse_bytes(memory_limit))
    limit_bytes = default_limit_bytes() if given_bytes is None else given_bytes
    is_of_many = any(one is not None for one in (sources, targets, reduce)) or parents
    if isinstance(graph, Kronecker) or kernel == GRAPH500:
        if not isinstance(graph, Kronecker) or kernel != GRAPH500 or device != CPU or is_of_many:
            raise UsageError(f"{GRAPH500}: give a Kronecker graph, and a memory limit of the CPU")
        from ooc_graph.graph500.batches import describe  # noqa: PLC0415 (many modules)
        from ooc_graph.graph500.run import Graph500Options  # noqa: PLC0415

        options = Graph500Options(graph.scale, graph.edge_factor, graph.seeds)
        return describe(graph, options, limit_bytes)
    opened = graph if isinstance(graph, Graph) else Graph.open(graph)
    limits = CudaLimits.of(device_memory, host_memory).require_cuda(device)
    if kernel in MANY:
        asked = Asked(None, None, reduce, parents, Bins(bins), kernel == MULTI_SOURCE_BFS)
        request = _of_many(opened, sources, targets, asked)
    else:
        if is_of_many or bins != BINS:
            raise UsageError(
                f"sources, targets and what is asked of them are for kernels {' and '.join(MANY)}"
            )
        if kernel not in ALONE:
            raise UsageError(f"kernel {kernel!r}: choose {', '.join(ALONE + MANY)}")
        request = Request(kernel).require_together(device)
    opened.require(ORDER_OF[kernel], signed=kernel in MANY)
    return plan_for(opened, request, planned(limit_bytes, device, limits)).describe()


def _of_many(graph: Graph, sources: Any, targets: Any, asked: Asked) -> Request:
    from ooc_graph.search.many import specs_of  # noqa: PLC0415 (many modules)

    if targets is not None:
        asked = replace(asked, targets=positions_of(graph, targets, "targets"))
    count = graph.vertices if sources is None else len(positions_of(graph, sources))
    return Request(asked.kernel, many=Many(specs_of(graph, count, asked), asked, in_memory=False))
