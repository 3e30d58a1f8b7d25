"""What the ways to search a graph have in common: orders of rows, and a reserve of devices."""

from __future__ import annotations

from ooc_graph.layout.names import APSP, HUB, LIGHT, MULTI_SOURCE_BFS

ORDER_OF = {
    "bfs": HUB,
    "sssp": LIGHT,
    "components": HUB,
    APSP: LIGHT,
    MULTI_SOURCE_BFS: HUB,
}
"""Order of the rows that a kernel searches."""
ON_CUDA = ("bfs", "sssp", APSP, MULTI_SOURCE_BFS)
"""Kernels that CUDA devices have."""
CUDA_FIXED_BYTES = 32 << 20
"""Device memory that a search takes whatever the graph."""

ROWS, EDGES = "rows", "edges"
"""Methods: over rows of arcs, or over a list of edges."""
METHODS = (ROWS, EDGES)
