"""Breadth-first order and tree, and connected components, as SciPy has them."""

from __future__ import annotations

from typing import Any

from scipy.sparse import csgraph as scipys

from ooc_graph.csgraph.matrices import all_threads, arcs_of, as_csr, is_small, sides_of
from ooc_graph.kernels.cpu.csr.branches import branches
from ooc_graph.kernels.cpu.csr.components import weak_components
from ooc_graph.kernels.cpu.csr.order import breadth_first


def breadth_first_order(
    csgraph: Any, i_start: int, directed: bool = True, return_predecessors: bool = True
) -> Any:
    """Vertices in the order of a breadth-first search; `scipy.sparse.csgraph.breadth_first_order`.

    The order is SciPy's: by the predecessor's position, then as its row has them.

    Parameters
    ----------
    csgraph
        Graph of N vertices: sparse, dense or masked, (N, N).
    i_start
        Vertex to begin at.
    directed
        Whether arcs are followed forwards only.
    return_predecessors
        Whether predecessors are returned, too.

    Returns
    -------
    node_array : ndarray
        Vertices that were reached, int32.
    predecessors : ndarray
        Predecessor of each vertex, int32 (N,); -9999 where there is none.

    Raises
    ------
    ValueError
        If the graph is no square, or has no vertex ``i_start``.
    """
    start, matrix = _checked(csgraph, i_start, directed=directed)
    if is_small(matrix):
        return scipys.breadth_first_order(matrix, start, directed, return_predecessors)
    sides = sides_of(arcs_of(matrix, weighted=False), directed=directed)
    order, predecessors = breadth_first(sides, start, all_threads())
    return (order, predecessors) if return_predecessors else order


def _checked(csgraph: Any, i_start: int, *, directed: bool) -> tuple[int, Any]:
    """The vertex to begin at and the matrix; ValueError if that has no such vertex."""
    if isinstance(i_start, str | bytes):
        raise TypeError(f"i_start is {i_start!r}: give a number")
    start, matrix = int(i_start), as_csr(csgraph, directed=directed)
    if not 0 <= start < matrix.shape[0]:
        raise ValueError(f"i_start is {start}: the graph has vertices 0 to {matrix.shape[0] - 1}")
    return start, matrix


def breadth_first_tree(csgraph: Any, i_start: int, directed: bool = True) -> Any:
    """Tree of a breadth-first search; `scipy.sparse.csgraph.breadth_first_tree`.

    Parameters and errors are those of `breadth_first_order`.

    Returns
    -------
    sparse array or matrix
        The graph's arcs from predecessors, (N, N), in compressed rows.
    """
    start, matrix = _checked(csgraph, i_start, directed=directed)
    if is_small(matrix):
        return scipys.breadth_first_tree(matrix, start, directed)
    arcs = arcs_of(matrix, weighted=True)
    sides = sides_of(arcs._replace(weights=arcs.weights[:0]), directed=directed)
    order, predecessors = breadth_first(sides, start, all_threads())
    tree = branches(arcs, order, predecessors, all_threads(), directed=directed)
    return type(matrix)((tree.data, tree.indices, tree.indptr), shape=matrix.shape)


def connected_components(
    csgraph: Any, directed: bool = True, connection: str = "weak", return_labels: bool = True
) -> Any:
    """Connected components; `scipy.sparse.csgraph.connected_components`.

    Strongly connected ones of a directed graph are found by SciPy.

    Parameters
    ----------
    csgraph
        Graph of N vertices: sparse, dense or masked, (N, N).
    directed
        Whether the graph is directed; if it is not, ``connection`` does not matter.
    connection
        ``weak``: joined by arcs of any direction; ``strong``: each can be reached from each.
    return_labels
        Whether labels are returned, too.

    Returns
    -------
    n_components : int
        How many there are.
    labels : ndarray
        Component of each vertex, int32 (N,), numbered by their smallest vertices if weak.

    Raises
    ------
    ValueError
        If the graph is no square, or ``connection`` is neither.
    """
    if connection.lower() not in ("weak", "strong"):
        raise ValueError("connection must be 'weak' or 'strong'")
    matrix = as_csr(csgraph, directed=directed)
    if is_small(matrix) or (directed and connection.lower() == "strong"):
        return scipys.connected_components(matrix, directed, connection, return_labels)
    count, labels = weak_components(arcs_of(matrix, weighted=False), all_threads())
    return (count, labels) if return_labels else count
