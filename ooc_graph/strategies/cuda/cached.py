"""Rows that this process still has for searches on its CUDA device."""

from __future__ import annotations

from ooc_graph.memory.cuda.device_facts import near_arc_bytes
from ooc_graph.memory.cuda.pinned_plan import BfsPlan
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.resources import CUDA, Resources
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph


def cached_on_device(
    strategy: str, graph: Graph, request: Request, resources: Resources
) -> Reservation | None:
    """What this process holds by a strategy on its device, or has served by another."""
    if resources.is_limited or not request.is_plain:
        return None
    capacity = resources.capacity(request.answer_bytes)
    cached = engine_cache.reservations(graph, request.kernel, CUDA, capacity)
    return next((one for one in cached if one.strategy == strategy), None)


def pinned_bytes(graph: Graph, kernel: str) -> int:
    """Pinned host memory that a graph's rows take: neighbours, and for SSSP weights as stored."""
    weights = None if kernel == "bfs" else graph.weight_dtype
    return graph.arcs * (BfsPlan.arc_bytes if weights is None else near_arc_bytes(weights))
