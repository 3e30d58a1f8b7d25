"""What the ways to search a graph have in common: methods, and a reserve of devices."""

from __future__ import annotations

from ooc_graph.layout.names import APSP, FROM_ONE, MULTI_SOURCE_BFS

ON_CUDA = (*FROM_ONE, APSP, MULTI_SOURCE_BFS)
"""Kernels that CUDA devices have."""
CUDA_FIXED_BYTES = 32 << 20
"""Device memory that a search takes whatever the graph."""

GRAPH500 = "graph500"
"""What plans call the main job, which has searches of several kernels."""

ROWS, EDGES = "rows", "edges"
"""Methods: over rows of arcs, or over a list of edges."""
METHODS = (ROWS, EDGES)
