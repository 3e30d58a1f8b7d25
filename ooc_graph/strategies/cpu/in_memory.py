"""Memory that searches of one graph on the CPU need where all rows are brought into it."""

from __future__ import annotations

from ooc_graph.kernels.common.decisions import FIXED_ROW_BYTES, hubs_hold_much, may_fix_rows
from ooc_graph.kernels.common.sssp.survey import first_rows
from ooc_graph.kernels.cpu.sssp.near_far_search import may_pair_rows, paired_bytes
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.resources import Resources
from ooc_graph.shards.load import Graph

# Bytes a vertex beside the rows: state of a search, heads kept apart, id tables, the answer's
# pieces. Measured peaks are below it.
_STATE_BYTES = {"bfs": 56, "sssp": 96, "components": 40}


def resident_bytes(graph: Graph, kernel: str, *, copies: bool = True) -> int:
    """Memory of one rank that searches the whole graph; without ``copies``, the least."""
    rows = graph.resident_bytes(ORDER_OF[kernel])
    copied = _copied_bytes(graph, kernel) if copies else 0
    return rows + copied + graph.rows * _STATE_BYTES[kernel]


def ranks_bytes(graph: Graph, kernel: str, resources: Resources) -> int:
    """Memory of the busiest worker where many ranks search."""
    rows = graph.resident_bytes(ORDER_OF[kernel])
    return rows * busiest(graph, resources) // graph.shards + graph.rows * _STATE_BYTES[kernel]


def least_in_memory(graph: Graph, kernel: str, resources: Resources) -> int:
    """Least memory of a worker, where all rows are brought into memory."""
    whole = resident_bytes(graph, kernel, copies=False)
    return min(whole, ranks_bytes(graph, kernel, resources)) if resources.has_ranks else whole


def busiest(graph: Graph, resources: Resources) -> int:
    """Shards of the busiest worker: they are dealt whole, and every worker takes part."""
    return -(-graph.shards // min(resources.processes, graph.shards))


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
