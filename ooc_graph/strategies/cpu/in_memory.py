"""Searches on the CPU that bring all rows into memory."""

from __future__ import annotations

from typing import Any

from ooc_graph.kernels.common.decisions import FIXED_ROW_BYTES, hubs_hold_much, may_fix_rows
from ooc_graph.kernels.common.sssp.survey import first_rows
from ooc_graph.kernels.cpu.sssp.near_far_search import may_pair_rows, paired_bytes
from ooc_graph.model.kernel import ORDER_OF, ROWS
from ooc_graph.model.request import ANY, Request
from ooc_graph.model.resources import CPU, Resources
from ooc_graph.model.strategy import MEMORY, too_little
from ooc_graph.model.way import Way
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph

ADVICE = "raise --memory-limit or add workers that have the memory"
STATE_BYTES = {"bfs": 56, "sssp": 96, "components": 40}
"""Bytes a vertex beside the rows: state of a search, heads kept apart, id tables, the answer's
pieces. Measured peaks are below it."""


class InMemory:
    """All rows in memory, in one or two forms; one process searches."""

    name, device, tier = "cpu/memory", CPU, MEMORY

    def lacks(self, graph: Graph, request: Request, resources: Resources) -> str:  # noqa: ARG002
        """It is one rank."""
        is_asked = request.method == ROWS and request.exchange == ANY
        return "" if is_asked else "another method or ranks are asked for"

    def cached(self, graph: Graph, request: Request, resources: Resources) -> Way | None:
        """What the search before left here."""
        if resources.is_limited or self.lacks(graph, request, resources):
            return None
        held = engine_cache.held_within(graph, request.kernel)
        return None if held is None or held[0] else Way(CPU, "one", copies=held[1])

    def reserve(self, graph: Graph, request: Request, resources: Resources) -> Way:
        """Rows in a second form, too, if there is room for it."""
        available = resources.process_limit_bytes
        least = resident_bytes(graph, request.kernel, copies=False)
        if least > available:
            raise too_little(f"{request.kernel} on {graph.path}", least, available, ADVICE)
        return Way(CPU, "one", copies=resident_bytes(graph, request.kernel) <= available)

    def describe(
        self, graph: Graph, request: Request, resources: Resources, way: Way
    ) -> dict[str, Any]:
        """Rows, their second form, and what vertices take."""
        needed = resident_bytes(graph, request.kernel, copies=way.copies)
        least = resident_bytes(graph, request.kernel, copies=False)
        return describe_rows(graph, request.kernel, resources, "memory", least, needed - least)


def describe_rows(
    graph: Graph, kernel: str, resources: Resources, tier: str, least: int, copied: int
) -> dict[str, Any]:
    """What a process holds that has rows in memory, JSON-able.

    Parameters
    ----------
    tier
        Its name.
    least, copied
        Bytes without rows in another form, and bytes of these.
    """
    rows = graph.resident_bytes(ORDER_OF[kernel])
    return {
        "kernel": kernel,
        "tier": tier,
        "budget": resources.process_limit_bytes,
        "bytes: rows": rows,
        "bytes: rows in another form": copied,
        "bytes: id tables and vertex state": least - rows,
        "bytes: in all": least + copied,
        "share of arcs in memory": 1.0,
        "bytes that stay in the store": 0,
    }


def resident_bytes(graph: Graph, kernel: str, *, copies: bool = True) -> int:
    """Memory of one rank that searches the whole graph; without ``copies``, the least."""
    rows = graph.resident_bytes(ORDER_OF[kernel])
    copied = _copied_bytes(graph, kernel) if copies else 0
    return rows + copied + graph.rows * STATE_BYTES[kernel]


def _copied_bytes(graph: Graph, kernel: str) -> int:
    """Memory of rows that one rank may keep in another form too, heads aside.

    Short rows get fixed places for BFS; weights lie beside their arcs for near-far.
    """
    sides = 2 if graph.directed else 1
    if kernel == "bfs" and may_fix_rows(graph.rows * sides, graph.arcs):
        return FIXED_ROW_BYTES * graph.rows * sides
    weights, arcs = graph.weight_dtype, graph.arcs // sides
    if kernel != "sssp" or weights is None or not may_pair_rows(weights, graph.rows, arcs):
        return 0
    if weights.kind == "f" and hubs_hold_much(graph.head_share(first_rows(graph.rows))):
        return 0
    return paired_bytes(graph.rows, arcs)
