"""Levels or distances from many vertices together, by what each library has for that.

Ours: `ooc_graph.multi_source_bfs` and `johnson`, and reading the matrix, which is in the order of
the input. networkit: `SPSP`, for levels of a graph without weights. igraph: `distances`. SciPy:
`dijkstra` with many indices; for BFS `breadth_first_order` from one after another, which takes less
time than `dijkstra` without weights. GraphBLAS: the products of single searches, of matrices; but
SSSP on thin graphs one after another, where matrices take longer. Nobody is asked for parents. What
is timed and what not is as for single searches (peers_adapters). Beside them stand our single
searches, one after another.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from harness.timing import timed
from peers_adapters import Graphblas, Igraph, Networkit, Scipy, Search, levels_of
from peers_ours import Ours, plain

import ooc_graph as og
from ooc_graph.types import AnyArray

THIN = 4  # arcs a vertex
Way = tuple[Callable[[], Any], Callable[[Any], AnyArray]]
"""What is timed, and what makes float64 (sources, vertices) of what it gives, +inf unreached."""


def ours(library: Ours, kernel: str, sources: list[int]) -> Way:
    given, where = (library.graph, library.ids[sources]), {"device": "cpu"}
    if kernel == "bfs":
        return lambda: og.multi_source_bfs(*given, **where).level, plain
    return lambda: og.johnson(*given, **where).distance, plain


def singly(library: Any, kernel: str, sources: list[int]) -> Way:
    search = partial(map, getattr(library, kernel), sources)
    return lambda: list(search()), lambda found: np.array([one.measure() for one in found])


def networkit(library: Networkit, kernel: str, sources: list[int]) -> Way:
    graph, module = library.graph, library.library
    graph = graph if kernel == "sssp" else module.graphtools.toUnweighted(graph)
    search = module.distance.SPSP(graph, sources)
    return search.run, lambda _: library.distances(search)


def igraph(library: Igraph, kernel: str, sources: list[int]) -> Way:
    weights = library.weights if kernel == "sssp" else None
    return partial(library.graph.distances, sources, weights=weights), np.asarray


def scipy(library: Scipy, kernel: str, sources: list[int]) -> Way:
    module, matrix = library.library, library.matrix
    if kernel == "sssp":
        return partial(module.dijkstra, matrix, indices=sources), np.asarray
    each = partial(map, partial(module.breadth_first_order, matrix), sources)
    return lambda: list(each()), lambda found: np.array([levels_of(*one) for one in found])


def graphblas(library: Graphblas, kernel: str, sources: list[int]) -> Way:
    if kernel == "sssp" and library.out.nvals < THIN * library.out.nrows:
        return singly(library, kernel, sources)
    shape = {"nrows": len(sources), "ncols": library.out.nrows, "dtype": library.out.dtype}
    begin = partial(library.library.Matrix.from_coo, range(len(sources)), sources, **shape)
    if kernel == "sssp":
        return lambda: library.distances(begin(0)), lambda found: found.to_dense(dtype=float)
    pair = library.library.semiring.any_pair
    return lambda: library.levels(begin(1), pair), lambda found: found.to_dense(np.inf, float)


WAYS: dict[type, Callable[..., Way]] = {
    Ours: ours, Networkit: networkit, Igraph: igraph, Scipy: scipy, Graphblas: graphblas
}  # fmt: skip


class Many:
    """A library that is given many vertices where others are given one."""

    def __init__(self, library: Any, way: Callable[..., Way], more: str = "") -> None:
        self.name, self._way = library.name + more, partial(way, library)
        self.version, self.build_s = library.version, library.build_s
        self.bfs, self.sssp = (partial(self._search, kernel) for kernel in ("bfs", "sssp"))

    def _search(self, kernel: str, sources: list[int]) -> Search:
        run, measure = self._way(kernel, sources)
        elapsed_s, _, found = timed(run)
        return Search(elapsed_s, lambda: measure(found))


def many_of(libraries: Sequence[Any]) -> list[Many]:
    """Those that have a way; our own single searches come last."""
    found = [Many(one, WAYS[type(one)]) for one in libraries if type(one) in WAYS]
    return [*found, Many(libraries[0], singly, " one by one")]
