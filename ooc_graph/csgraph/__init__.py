"""`scipy.sparse.csgraph`, with faster functions: same signatures, same shapes, same values.

    from ooc_graph.csgraph import dijkstra

in place of ``from scipy.sparse.csgraph import dijkstra`` is all that changes.

Own functions
    `shortest_path`, `dijkstra`, `johnson`, `bellman_ford`, `floyd_warshall`,
    `breadth_first_order`, `breadth_first_tree`, `connected_components`. They run on all cores of
    this process, and leave small graphs to SciPy (`ooc_graph.csgraph.matrices.is_small`).
SciPy's functions
    All other names, unchanged.
"""

try:
    from scipy.sparse import csgraph as _scipys
    from scipy.sparse.csgraph import *  # noqa: F403 - SciPy's names, as many as its version has
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "ooc_graph.csgraph needs SciPy: pip install 'ooc-graph[scipy]'", name=error.name
    ) from error

from ooc_graph.csgraph.paths import (
    bellman_ford,
    dijkstra,
    floyd_warshall,
    johnson,
    shortest_path,
)
from ooc_graph.csgraph.traversal import (
    breadth_first_order,
    breadth_first_tree,
    connected_components,
)

OWN = (
    bellman_ford,
    breadth_first_order,
    breadth_first_tree,
    connected_components,
    dijkstra,
    floyd_warshall,
    johnson,
    shortest_path,
)
"""The functions that are not SciPy's."""

__all__ = list(_scipys.__all__)
