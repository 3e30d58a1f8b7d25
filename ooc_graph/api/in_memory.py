"""`from_edges`: the Python API's way from arrays to a graph that is searched, without a store."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np

from ooc_graph.boundary import public
from ooc_graph.edges.arrays import ArraySource
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.edges.opening import open_source
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.machine import default_limit_bytes
from ooc_graph.shards.build_options import BuildOptions
from ooc_graph.shards.in_memory import build_in_memory
from ooc_graph.shards.load import Graph
from ooc_graph.threads import cores

# Bytes that a vertex without edges takes while vertices are numbered: its internal id, and what
# every thread counts.
_NUMBERED_BYTES, _COUNTED_BYTES = 4, 5


@public
def from_edges(
    source: Any,
    target: Any = None,
    weight: Any = None,
    *,
    vertices: int | None = None,
    directed: bool = False,
    rows: str | None = None,
) -> Graph:
    """Make a graph in memory of edges in memory; nothing is written.

    `bfs`, `sssp` and `components` take it as they take an opened store, in this process. Its
    arrays have the bytes that a store of the same edges has when it is loaded: internal ids by
    falling number of tuples, self-loops dropped, of duplicates the lightest kept, rows in both
    directions. All cores work on it.

    Parameters
    ----------
    source, target
        Integers (m,), in host memory: original ids, zero or more. Or ``source`` alone: a
        `Kronecker`, whose edges are made block by block and kept nowhere.
    weight
        Numbers (m,), or None.
    vertices
        Original ids are 0 to ``vertices - 1``, isolated ones included. None: the vertices are
        those that the edges name, gaps allowed.
    directed
        Whether (u, v) leads from u to v only.
    rows
        ``hub``, ``light`` or ``both`` row orders; None: both where there are weights, else hub.

    Returns
    -------
    Graph
        In host memory as long as it, or the latest search, refers to it.

    Raises
    ------
    InputError
        Arrays that hold no edges, or an id outside ``vertices``.
    UsageError
        A call that cannot be carried out.
    MemoryBudgetError
        More ``vertices`` than memory has room for.

    Notes
    -----
    Memory beside the arguments, at its peak, with ids and weights of 32 bits: 24 bytes an
    undirected edge and 12 a directed one and side in both orders (neighbours twice and weights
    once), which duplicates no longer take when it returns; 12 and 6 bytes in hub order alone.
    Vertices take at most 24 bytes each while they are numbered, and 5 more a thread; every
    thread has about 15 MB of scratch, and 36 bytes for each arc of a row that has more than
    half a million.

    Examples
    --------
    >>> import numpy as np
    >>> import ooc_graph as og
    >>> graph = og.from_edges(np.array([7, 7, 9]), np.array([9, 8, 5]))
    >>> og.bfs(graph, 7).level
    array([2, 0, 1, 1], dtype=int32)
    """
    edges = _source(source, target, weight, vertices, directed)
    orders = BuildOptions(rows=rows).orders(edges.weighted)
    engine_cache.release()
    return build_in_memory(edges, orders, cores())


def _source(
    source: Any, target: Any, weight: Any, vertices: int | None, directed: bool
) -> EdgeSource:
    if isinstance(source, Kronecker):
        if target is not None or weight is not None or vertices is not None or directed:
            raise UsageError("a Kronecker graph stands alone: it says all about its edges itself")
        return source
    if target is None:
        raise UsageError("give source and target, two vectors of ids, or a Kronecker alone")
    columns = (source, target) if weight is None else (source, target, weight)
    opened: Any = open_source(tuple(np.asarray(c) for c in columns), directed=directed)
    if vertices is None:
        return opened  # type: ignore[no-any-return]
    ranged: ArraySource = replace(opened, id_range=(0, _declared(vertices)))
    return ranged


def _declared(vertices: Any) -> int:
    """Number of vertices that a caller gives, if memory has room to number so many."""
    try:
        count = operator.index(vertices)
    except TypeError:
        raise UsageError(f"vertices is {vertices!r}: give an integer") from None
    if count < 1:
        raise UsageError(f"vertices is {vertices}: give at least 1")
    needed, free = count * (_NUMBERED_BYTES + _COUNTED_BYTES * cores()), default_limit_bytes()
    if needed > free:
        raise MemoryBudgetError(
            f"{count:,} vertices need {needed:,} bytes at least, and {free:,} may be used; leave "
            "vertices= out, or make a store of the edges with build()"
        )
    return count
