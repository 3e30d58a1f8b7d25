"""`from_edges`: the Python API's way from arrays to a graph that is searched, without a store."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

from ooc_graph.boundary import public
from ooc_graph.edges.copied import in_memory
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.edges.objects import host_vector
from ooc_graph.edges.opening import open_source
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.machine import default_limit_bytes
from ooc_graph.shards.build_options import BuildOptions
from ooc_graph.shards.in_memory import build_in_memory
from ooc_graph.shards.load import Graph
from ooc_graph.threads import cores
from ooc_graph.types import RowOrders

# Bytes that a vertex without edges takes while vertices are numbered: its internal id, and what
# every thread counts.
_NUMBERED_BYTES, _COUNTED_BYTES = 4, 5


@public
def from_edges(
    edges: Any = None,
    /,
    target: Any = None,
    weight: Any = None,
    *,
    source: Any = None,
    vertices: int | None = None,
    directed: bool | None = None,
    rows: RowOrders | None = None,
) -> Graph:
    """Make a graph in memory; nothing is written.

    `bfs`, `sssp` and `components` accept it like an opened store, in this process. Its arrays have
    the bytes that a store of the same edges has when it is loaded: internal ids by falling number
    of tuples, self-loops dropped, of duplicates the lightest kept, rows in both directions. All
    cores work on it.

    Parameters
    ----------
    edges
        Anything that `open_source` accepts: a frame, a sparse matrix, a networkx or igraph graph, a
        list of pairs, paths; or a `Kronecker`, whose edges are generated block by block and not
        kept. Or a vector of sources, which may be given as ``source=``.
    source, target
        With vectors: original ids, integers (m,), zero or more. With other edges: the columns, as
        for `open_source`.
    weight
        With vectors: numbers (m,), or None. With other edges: the column or attribute.
    vertices
        Original ids are 0 to ``vertices - 1``, isolated ones included. None: the vertices are those
        that the edges name, gaps allowed, or those of a matrix or a graph.
    directed
        Whether (u, v) leads from u to v only; None: what a graph or file says, otherwise
        undirected.
    rows
        ``hub``, ``light`` or ``both`` row orders; None: both if there are weights, otherwise hub.

    Returns
    -------
    Graph
        In host memory as long as it, or the latest search, refers to it.

    Raises
    ------
    InputError
        Arrays that do not contain edges, or an id outside ``vertices``.
    UsageError
        A call that cannot be carried out.
    MemoryBudgetError
        If so many ``vertices`` need more memory than there is.

    Notes
    -----
    Peak memory in addition to the arguments, with ids and weights of 32 bits: in both orders, 24
    bytes per undirected edge, and 12 per directed one and side (neighbours twice and weights once);
    in hub order alone, 12 and 6. Duplicates take none of this when the call returns. Vertices take
    at most 24 bytes each while they are numbered, and 5 more per thread. Every thread has about 15
    MB of scratch, and 36 bytes for each arc of a row that has more than half a million. Edges of
    files and Dask collections are copied first: 16 bytes each, and 8 for a weight, and half of that
    more at the peak.

    Examples
    --------
    >>> import numpy as np
    >>> import ooc_graph as og
    >>> graph = og.from_edges(np.array([7, 7, 9]), np.array([9, 8, 5]))
    >>> og.bfs(graph, 7).level
    array([2, 0, 1, 1], dtype=int32)
    >>> og.bfs(og.from_edges([(7, 9), (7, 8), (9, 5)]), 7).level
    array([2, 0, 1, 1], dtype=int32)
    """
    given = {"source": source, "target": target, "weight": weight, "directed": directed}
    opened = _opened(edges, given, vertices)
    orders = BuildOptions(rows=rows).orders(opened.weighted)
    engine_cache.release()
    return build_in_memory(opened, orders, cores())


def _opened(edges: Any, given: dict[str, Any], vertices: int | None) -> EdgeSource:
    if isinstance(edges, Kronecker):
        if vertices is not None or any(v is not None and v is not False for v in given.values()):
            raise UsageError("a Kronecker graph stands alone: it says all about its edges itself")
        return edges
    opened = in_memory(_source(edges, **given))
    if vertices is None:
        return opened
    if opened.id_range is not None or opened.listed is not None:
        raise UsageError("vertices: these edges come with their vertices")
    return replace(opened, id_range=(0, _declared(vertices)))


def _source(edges: Any, source: Any, target: Any, weight: Any, directed: bool | None) -> EdgeSource:
    """Edges of vectors, or of one object with names of its columns."""
    if edges is None:
        edges, source = source, None
    if edges is None:
        raise UsageError("give source and target, two vectors of ids, or edges of any other kind")
    if target is None or isinstance(target, (str, int)):
        chosen = {"source": source, "target": target, "weight": weight}
        return open_source(edges, directed=directed, **chosen)
    if source is not None:
        raise UsageError("source: the vector of sources is given twice")
    columns = (edges, target) if weight is None else (edges, target, weight)
    # Lists are vectors here, though a list of lists has edges in it.
    return open_source(tuple(map(host_vector, columns)), directed=directed)


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
