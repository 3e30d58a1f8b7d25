"""What SciPy's users give as a graph, as arcs that kernels take."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any

import numpy as np
from scipy.sparse import csgraph as scipys
from scipy.sparse import issparse

from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.csr.arcs import Arcs, any_negative, no_arcs, transposed
from ooc_graph.kernels.cpu.csr.symmetry import is_symmetric
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray, IntArray

SMALL_ARCS = 1 << 17
"""Looks at an arc, over all searches, below which SciPy is called: it is done in milliseconds, and
to compile kernels, or to start threads, takes longer."""


def is_small(matrix: Any, searches: int = 1) -> bool:
    """Whether a graph is so small that SciPy's own function does this number of searches faster."""
    looks = max(matrix.nnz, matrix.shape[0]) * searches
    return bool(looks < SMALL_ARCS or matrix.nnz == 0)


@cache
def all_threads() -> Team:
    """The threads of all calls."""
    return Team(cores())


def as_csr(csgraph: Any, *, directed: bool = True, added: bool = True) -> Any:
    """A graph as SciPy's sparse array or matrix in compressed rows; no copy if it is one.

    Of dense arrays 0, infinity and NaN are no arcs, of masked arrays what is masked. If the graph
    is not ``directed``, its transpose may come. Arcs that stand there several times are ``added``
    up if they are not float64, as SciPy's functions do, except `floyd_warshall`.
    """
    if issparse(csgraph):
        if csgraph.ndim == 2 and csgraph.format == "csc" and not directed:
            csgraph = csgraph.T
        matrix = csgraph.tocsr()
    elif np.ma.isMaskedArray(csgraph):
        matrix = scipys.csgraph_from_masked(csgraph)
    else:
        matrix = scipys.csgraph_from_dense(np.asarray(csgraph))
    if matrix.ndim != 2:
        raise ValueError("compressed-sparse graph must be 2-D")
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError("compressed-sparse graph must be shape (N, N)")
    arcs = int(matrix.indptr[-1])
    if len(matrix.data) > arcs or len(matrix.indices) > arcs:
        # Arrays may be longer than what they hold. The caller's are left as they are.
        matrix = copy(matrix)
        matrix.data, matrix.indices = matrix.data[:arcs], matrix.indices[:arcs]
    if matrix.dtype != np.float64 and not matrix.has_canonical_format:
        if added:  # which the conversion does; it also sorts rows
            matrix = matrix.astype(np.float64)
        else:
            parts = matrix.data.astype(np.float64), matrix.indices, matrix.indptr
            matrix = type(matrix)(parts, shape=matrix.shape)
    return matrix


def has_negative(matrix: Any) -> bool:
    """Whether a weight is below 0, whatever NaN stands beside it."""
    if matrix.dtype != np.float64:
        return bool((matrix.data < 0).any())
    return any_negative(np.require(matrix.data, np.float64, ("C", "W")), all_threads())


def arcs_of(matrix: Any, *, weighted: bool) -> Arcs:
    """The arcs of a matrix in compressed rows, its own arrays if they have the types.

    Arrays that cannot be written are copied: kernels would be compiled for them once more.
    """
    weights = matrix.data if weighted else matrix.data[:0]
    # SciPy's own type where it suffices, which need not be converted.
    offsets = np.int32 if matrix.indptr[-1] <= np.iinfo(np.int32).max else np.int64
    return Arcs(
        np.require(matrix.indptr, offsets, ("C", "W")),
        np.require(matrix.indices, np.int32, ("C", "W")),
        np.require(weights, np.float64, ("C", "W")),
    )


def sides_of(arcs: Arcs, *, directed: bool) -> tuple[Arcs, Arcs]:
    """Arcs to follow: forwards, and backwards where that leads elsewhere."""
    is_enough = directed or is_symmetric(arcs, all_threads())
    return arcs, no_arcs(arcs) if is_enough else transposed(arcs, all_threads())


def vertices_of(indices: Any, vertices: int) -> tuple[IntArray, tuple[int, ...]]:
    """Vertices that ``indices`` names, int64 (count,), and the shape in which it does so."""
    if indices is None:
        return np.arange(vertices), (vertices,)
    given: AnyArray = np.array(indices, dtype=np.int64)
    chosen = given.reshape(-1)
    chosen[chosen < 0] += vertices
    if ((chosen < 0) | (chosen >= vertices)).any():
        raise ValueError("indices out of range 0...N")
    return chosen, given.shape
