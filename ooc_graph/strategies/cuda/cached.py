"""Rows that this process still has for searches on its CUDA device."""

from __future__ import annotations

from ooc_graph.memory.cuda.pinned_plan import BfsPlan, near_arc_bytes
from ooc_graph.model.request import ANY, Request
from ooc_graph.model.resources import CUDA, Resources
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph


def cached_on_device(graph: Graph, request: Request, resources: Resources) -> int | None:
    """Device memory that rows were loaded within which this process still has; 0: all are there.

    None if it has none, or they may not be taken again: rows that are asked for on the device may
    have been refused, and be in pinned memory, of which there may be too much by now.
    """
    if resources.is_limited or request.exchange != ANY:
        return None
    held = engine_cache.held_within(graph, request.kernel, CUDA)
    most_bytes = resources.cuda_limits.pinned_bytes
    if held is None:
        return None
    if most_bytes is not None and pinned_bytes(graph, request.kernel) > most_bytes:
        return None
    return held[0]


def pinned_bytes(graph: Graph, kernel: str) -> int:
    """Pinned host memory that a graph's rows take: neighbours, and for SSSP weights as stored."""
    weights = None if kernel == "bfs" else graph.weight_dtype
    return graph.arcs * (BfsPlan.arc_bytes if weights is None else near_arc_bytes(weights))
