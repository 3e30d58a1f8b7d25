"""Memory of grouped edges, as tests compare it with what is reserved."""

from __future__ import annotations

from ooc_graph.kernels.cpu.edge_list.grouped import GroupedEdges


def edge_bytes(edges: GroupedEdges) -> int:
    """Bytes of the edges: ends and weights."""
    return int(edges.ends.nbytes + edges.weights.nbytes)


def table_bytes(edges: GroupedEdges) -> int:
    """Bytes of the table of pieces."""
    tables = (edges.begin, edges.tail, edges.head, edges.lightest)
    return int(sum(table.nbytes for table in tables))
