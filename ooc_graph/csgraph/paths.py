"""Shortest paths, as SciPy has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csgraph as scipys

from ooc_graph.csgraph.found import Asked, all_from_each, from_each, from_nearest
from ooc_graph.csgraph.matrices import as_csr, has_negative, is_small, vertices_of
from ooc_graph.csgraph.traversal import breadth_first_order
from ooc_graph.types import AnyArray, IntArray


def dijkstra(
    csgraph: Any,
    directed: bool = True,
    indices: Any = None,
    return_predecessors: bool = False,
    unweighted: bool = False,
    limit: float = np.inf,
    min_only: bool = False,
) -> Any:
    """Shortest distances on weights of 0 or more; `scipy.sparse.csgraph.dijkstra`.

    Graphs with negative weights are left to SciPy, which warns of them.

    Parameters
    ----------
    csgraph
        Graph of N vertices: sparse, dense or masked, (N, N).
    directed
        Whether arcs are followed forwards only.
    indices
        Vertices to search from, of any shape; None: all.
    return_predecessors
        Whether predecessors are returned, too.
    unweighted
        Whether every arc has length 1.
    limit
        Vertices farther than this are not reached.
    min_only
        Whether the distance from the nearest of ``indices`` is wanted.

    Returns
    -------
    dist_matrix : ndarray
        Distances, float64, of the shape of ``indices`` and N; infinite if not reached. With
        ``min_only`` (N,).
    predecessors : ndarray
        With ``return_predecessors``: int32, of the same shape; -9999 where there is none.
    sources : ndarray
        With ``return_predecessors`` and ``min_only``: the nearest of ``indices``, int32 (N,).

    Raises
    ------
    ValueError
        If the graph is no square, the limit is negative, or it has not all of the vertices.
    """
    matrix, asked = as_csr(csgraph, directed=directed), Asked(directed, return_predecessors)
    sources, shape = vertices_of(indices, matrix.shape[0])
    if not float(limit) >= 0:
        raise ValueError("limit must be >= 0")
    is_few = is_small(matrix, 1 if min_only else len(sources))
    if is_few or (not unweighted and has_negative(matrix)):
        given = indices, return_predecessors, unweighted, limit, min_only
        return scipys.dijkstra(matrix, directed, *given)
    asked = asked._replace(unweighted=unweighted, limit=float(limit))
    if min_only:
        return from_nearest(matrix, sources, asked)
    return _shaped(from_each(matrix, sources, asked), shape)


def johnson(
    csgraph: Any,
    directed: bool = True,
    indices: Any = None,
    return_predecessors: bool = False,
    unweighted: bool = False,
) -> Any:
    """Shortest distances on weights of any sign; `scipy.sparse.csgraph.johnson`.

    Parameters, results and errors are those of `dijkstra`; and `NegativeCycleError` if the graph
    has a cycle of negative weight.
    """
    matrix = as_csr(csgraph, directed=directed)
    sources, shape = vertices_of(indices, matrix.shape[0])
    if is_small(matrix, len(sources)):
        return scipys.johnson(matrix, directed, indices, return_predecessors, unweighted)
    asked = Asked(directed, return_predecessors, unweighted)
    find = all_from_each if not unweighted and has_negative(matrix) else from_each
    return _shaped(find(matrix, sources, asked), shape)


def bellman_ford(
    csgraph: Any,
    directed: bool = True,
    indices: Any = None,
    return_predecessors: bool = False,
    unweighted: bool = False,
) -> Any:
    """Shortest distances on weights of any sign; `scipy.sparse.csgraph.bellman_ford`.

    Parameters, results and errors are those of `johnson`, whose algorithm it is; but only cycles
    that can be reached from one of ``indices`` matter.
    """
    matrix = as_csr(csgraph, directed=directed)
    given = directed, indices, return_predecessors, unweighted
    sources, _ = vertices_of(indices, matrix.shape[0])
    if is_small(matrix, len(sources)):
        return scipys.bellman_ford(matrix, *given)
    try:
        return johnson(matrix, *given)
    except scipys.NegativeCycleError as error:
        cycle = getattr(error.__cause__, "cycle", ())
        if indices is None or _is_reached(matrix, sources, cycle, directed=directed):
            raise
    # Rare, and as slow as SciPy is.
    return scipys.bellman_ford(matrix, *given)


def _is_reached(matrix: Any, sources: IntArray, cycle: Sequence[int], *, directed: bool) -> bool:
    """Whether a cycle can be reached from any of the sources."""
    orders = (breadth_first_order(matrix, int(one), directed, False) for one in sources)
    return any(np.isin(cycle, order).any() for order in orders)


def floyd_warshall(
    csgraph: Any,
    directed: bool = True,
    return_predecessors: bool = False,
    unweighted: bool = False,
    overwrite: bool = False,
) -> Any:
    """Shortest distances of all pairs; `scipy.sparse.csgraph.floyd_warshall`.

    Parameters, results and errors are those of `johnson`, whose algorithm it is. Nothing is
    written to ``csgraph``, not even with ``overwrite``.
    """
    matrix = as_csr(csgraph, directed=directed, added=False)
    if is_small(matrix, matrix.shape[0]):
        given = return_predecessors, unweighted, overwrite
        return scipys.floyd_warshall(matrix, directed, *given)
    return johnson(matrix, directed, None, return_predecessors, unweighted)


def shortest_path(
    csgraph: Any,
    method: str = "auto",
    directed: bool = True,
    return_predecessors: bool = False,
    unweighted: bool = False,
    overwrite: bool = False,
    indices: Any = None,
) -> Any:
    """Shortest distances by a method; `scipy.sparse.csgraph.shortest_path`.

    Parameters
    ----------
    csgraph, directed, return_predecessors, unweighted, indices
        As for `dijkstra`.
    method
        ``auto``: what suits the weights; ``D``: `dijkstra`; ``J``: `johnson`; ``BF``:
        `bellman_ford`; ``FW``: `floyd_warshall`, without ``indices``.
    overwrite
        As for `floyd_warshall`.

    Returns
    -------
    dist_matrix, predecessors : ndarray
        As those of `dijkstra`.

    Raises
    ------
    ValueError
        If the method is unknown, or as for `dijkstra`.
    NegativeCycleError
        As for the methods.
    """
    if method == "FW":
        if indices is not None:
            raise ValueError("Cannot specify indices with method == 'FW'.")
        return floyd_warshall(csgraph, directed, return_predecessors, unweighted, overwrite)
    by = {"auto": johnson, "D": dijkstra, "J": johnson, "BF": bellman_ford}
    if method not in by:
        raise ValueError(f"unrecognized method '{method}'")
    return by[method](csgraph, directed, indices, return_predecessors, unweighted)


def _shaped(found: tuple[AnyArray, ...], shape: tuple[int, ...]) -> Any:
    """Answers of the sources' shape: distances, or distances and predecessors."""
    answers = tuple(one.reshape(*shape, one.shape[-1]) for one in found)
    return answers if len(answers) > 1 else answers[0]
