"""Other libraries behind one interface: given a simple graph, searched from a vertex, timed.

What is timed is the library's own call and nothing else; reading its answer comes after. No
library is asked for more than levels or distances, except where it cannot do without (SciPy's BFS
gives predecessors). Each gets the threads that it takes by itself.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any, ClassVar

import numpy as np
from harness.timing import timed
from peers_graphs import Edges

from ooc_graph.types import AnyArray, IntArray


@dataclass(frozen=True)
class Search:
    """One timed search; its answer is valid until the next one."""

    elapsed_s: float
    answer: Callable[[], AnyArray]
    """Gives levels as int64 with -1 where unreached, or distances as float64 with +inf."""
    published_s: float | None = None
    """The search and its answer by original id, where that is another thing."""
    arcs: int | None = None
    """Arcs examined, where the library says."""


class Peer:
    """What the other libraries have in common.

    A library has a `_build` of its own, and a search from a vertex for each of its `kernels`, by
    that name. `build_s` is the time from edges in memory to what is searched.
    """

    name: ClassVar[str]
    module: ClassVar[str]
    package: ClassVar[str]
    kernels: ClassVar[tuple[str, ...]] = ("bfs", "sssp")

    def __init__(self) -> None:
        self.version = metadata.version(self.package)
        self.build_s: float | None = None
        self._library: Any = importlib.import_module(self.module)

    @classmethod
    def installed(cls) -> bool:
        return importlib.util.find_spec(cls.module) is not None

    def build(self, edges: Edges) -> None:
        """Take the graph in place of what was there."""
        self.build_s = timed(lambda: self._build(edges)).elapsed_s

    def _build(self, edges: Edges) -> None:
        raise NotImplementedError


class Networkit(Peer):
    """BFS and Dijkstra without paths."""

    name, module, package = "networkit", "networkit", "networkit"

    def _build(self, edges: Edges) -> None:
        ends = (edges.u, edges.v)
        weighted = edges.w is not None
        self._graph = self._library.GraphFromCoo(
            (np.asarray(edges.w, np.float64), ends) if weighted else ends,
            n=edges.vertices,
            weighted=weighted,
            directed=edges.directed,
        )

    def bfs(self, source: int) -> Search:
        search = self._library.distance.BFS(self._graph, source, storePaths=False)
        return Search(timed(search.run).elapsed_s, lambda: _levels(self._reached(search)))

    def sssp(self, source: int) -> Search:
        search = self._library.distance.Dijkstra(self._graph, source, storePaths=False)
        return Search(timed(search.run).elapsed_s, lambda: self._reached(search))

    @staticmethod
    def _reached(search: Any) -> AnyArray:
        distance = np.array(search.getDistances(), np.float64)
        distance[distance == np.finfo(np.float64).max] = np.inf
        return distance


class Igraph(Peer):
    """`Graph.distances`: BFS without weights, Dijkstra with; reading the weights is in the time.

    The library reads the Python list of weights anew at every call; there is no other way.
    """

    name, module, package = "igraph", "igraph", "igraph"

    def _build(self, edges: Edges) -> None:
        ends = np.column_stack([edges.u, edges.v])
        self._graph = self._library.Graph(n=edges.vertices, edges=ends, directed=edges.directed)
        self._weights = None if edges.w is None else edges.w.tolist()

    def bfs(self, source: int) -> Search:
        elapsed_s, _, rows = timed(lambda: self._graph.distances(source, mode="out"))
        return Search(elapsed_s, lambda: _levels(np.array(rows[0], np.float64)))

    def sssp(self, source: int) -> Search:
        elapsed_s, _, rows = timed(
            lambda: self._graph.distances(
                source, weights=self._weights, mode="out", algorithm="dijkstra"
            )
        )
        return Search(elapsed_s, lambda: np.array(rows[0], np.float64))


class Scipy(Peer):
    """`breadth_first_order` and `dijkstra`, one thread, on a CSR matrix with both directions."""

    name, module, package = "SciPy", "scipy.sparse.csgraph", "scipy"

    def _build(self, edges: Edges) -> None:
        u, v, w = edges.both_ways()
        data = np.ones(len(u)) if w is None else w.astype(np.float64)
        shape = (edges.vertices, edges.vertices)
        sparse = importlib.import_module("scipy.sparse")
        ends = (u.astype(np.int32), v.astype(np.int32))
        self._matrix = sparse.coo_array((data, ends), shape=shape).tocsr()

    def bfs(self, source: int) -> Search:
        elapsed_s, _, (order, predecessor) = timed(
            lambda: self._library.breadth_first_order(self._matrix, source, directed=True)
        )
        return Search(elapsed_s, lambda: levels_of(order, predecessor))

    def sssp(self, source: int) -> Search:
        elapsed_s, _, distance = timed(
            lambda: self._library.dijkstra(self._matrix, directed=True, indices=source)
        )
        return Search(elapsed_s, lambda: distance)


class Graphblas(Peer):
    """Levels by masked products over (any, pair), pushed or pulled as LAGraph does."""

    name, module, package = "GraphBLAS", "graphblas", "python-graphblas"
    kernels = ("bfs",)
    _PULL_ABOVE = 16

    def __init__(self) -> None:
        super().__init__()
        self._library.init("suitesparse", blocking=True)

    def _build(self, edges: Edges) -> None:
        u, v, _ = edges.both_ways()
        size = edges.vertices
        boolean = self._library.dtypes.BOOL
        make = self._library.Matrix.from_coo
        self._out = make(u, v, True, nrows=size, ncols=size, dtype=boolean)
        self._into = self._out.T.new() if edges.directed else self._out

    def bfs(self, source: int) -> Search:
        elapsed_s, _, level = timed(lambda: self._search(source))
        return Search(elapsed_s, lambda: level.to_dense(fill_value=-1))

    def _search(self, source: int) -> Any:
        vector, product = self._library.Vector, self._library.semiring.any_pair[bool]
        size = self._out.nrows
        level, frontier = vector(np.int64, size), vector(bool, size)
        frontier[source] = True
        for depth in range(size):
            level(frontier.S)[:] << depth
            pull = frontier.nvals * self._PULL_ABOVE > size
            found = product(self._into @ frontier if pull else frontier @ self._out)
            frontier(~level.S, replace=True) << found
            if not frontier.nvals:
                break
        return level


PEERS: tuple[type[Peer], ...] = (Networkit, Igraph, Scipy, Graphblas)


def levels_of(order: IntArray, predecessor: IntArray) -> IntArray:
    """Levels from the order of visits and the predecessors; int64 (vertices,), -1 unreached.

    In a breadth-first order the predecessors' places ascend, so that a level is a stretch of it.
    """
    place = np.empty(len(predecessor), np.int64)
    place[order] = np.arange(len(order))
    above = place[predecessor[order[1:]]]
    level = np.full(len(predecessor), -1, np.int64)
    start, stop, depth = 0, 1, 0
    while start < stop:
        level[order[start:stop]] = depth
        start, stop = stop, 1 + int(np.searchsorted(above, stop))
        depth += 1
    return level


def _levels(distance: AnyArray) -> IntArray:
    return np.where(np.isfinite(distance), distance, -1).astype(np.int64)
