"""Other libraries behind one interface: given a simple graph, searched from a vertex, timed.

What is timed is the library's own call and nothing else; reading its answer comes after. Each
library is asked for parents and levels or distances, as ours gives them, as far as one of its
calls finds them; its class says what it gives. Each gets the threads that it takes by itself.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np
from harness.timing import timed
from peers_graphs import Edges

from ooc_graph.types import AnyArray, IntArray


@dataclass(frozen=True)
class Search:
    """One timed search; its answer is valid until the next one."""

    elapsed_s: float
    # Gives levels or distances as float64 (vertices,), +inf where unreached.
    measure: Callable[[], AnyArray]
    # Gives the parents of some reached vertices, not the root; None if the library finds none.
    parents: Callable[[IntArray], Any] | None = None
    # A search that gives less: ours by internal id, networkit's without predecessors.
    search_s: float | None = None


class Peer:
    """Base of the other libraries; `build_s`: seconds from edges in memory to a graph to search."""

    name = module = package = ""
    most_edges = math.inf  # of a graph that it is given

    def __init__(self) -> None:
        self.version = metadata.version(self.package)
        self.build_s: float | None = None
        self._library: Any = importlib.import_module(self.module)

    @classmethod
    def installed(cls) -> bool:
        return importlib.util.find_spec(cls.module) is not None

    def build(self, edges: Edges) -> None:
        """Take the graph in place of what was there."""
        self.build_s = timed(partial(self.make, edges)).elapsed_s


class Networkit(Peer):
    """BFS and Dijkstra with paths: distances and lists of all predecessors.

    A parent is the first of the list. `Search.search_s` is the same search without paths.
    """

    name, module, package = "networkit", "networkit", "networkit"

    def make(self, edges: Edges) -> None:
        ends, weighted = (edges.u, edges.v), edges.w is not None
        self._graph = self._library.GraphFromCoo(
            (np.asarray(edges.w, np.float64), ends) if weighted else ends,
            n=edges.vertices, weighted=weighted, directed=edges.directed,
        )  # fmt: skip

    def bfs(self, source: int) -> Search:
        return self._search(self._library.distance.BFS, source)

    def sssp(self, source: int) -> Search:
        return self._search(self._library.distance.Dijkstra, source)

    def _search(self, kind: Any, source: int) -> Search:
        search = kind(self._graph, source, storePaths=True)
        elapsed_s = timed(search.run).elapsed_s
        # Not before: it would bring into the cache what that one reads.
        without_s = timed(kind(self._graph, source, storePaths=False).run).elapsed_s

        def distance() -> AnyArray:
            found = np.array(search.getDistances(), np.float64)
            return np.where(found < np.finfo(np.float64).max, found, np.inf)

        def parents(some: IntArray) -> list[int]:
            return [search.getPredecessors(v)[0] for v in some.tolist()]

        return Search(elapsed_s, distance, parents, without_s)


class Igraph(Peer):
    """`Graph.bfs`: order, layers and parents. `Graph.distances`: Dijkstra's distances alone.

    Predecessors by weight are only to be had as whole paths. The library reads the Python list of
    weights anew at every call; there is no other way.
    """

    name, module, package = "igraph", "igraph", "igraph"

    def make(self, edges: Edges) -> None:
        ends = np.column_stack([edges.u, edges.v])
        self._graph = self._library.Graph(n=edges.vertices, edges=ends, directed=edges.directed)
        self._weights = None if edges.w is None else edges.w.tolist()

    def bfs(self, source: int) -> Search:
        elapsed_s, _, (order, layers, parents) = timed(partial(self._graph.bfs, source))

        def level() -> AnyArray:
            found = np.full(self._graph.vcount(), np.inf)
            found[order] = np.repeat(np.arange(len(layers) - 1), np.diff(layers))
            return found

        return Search(elapsed_s, level, lambda some: np.array(parents)[some])

    def sssp(self, source: int) -> Search:
        search = partial(self._graph.distances, source, weights=self._weights)
        elapsed_s, _, rows = timed(partial(search, algorithm="dijkstra"))
        return Search(elapsed_s, lambda: np.array(rows[0], np.float64))


class Scipy(Peer):
    """`breadth_first_order` and `dijkstra`, both with predecessors, on a CSR matrix, one thread.

    The first gives the order and no levels; they are counted after the time.
    """

    name, module, package = "SciPy", "scipy.sparse.csgraph", "scipy"

    def make(self, edges: Edges) -> None:
        u, v, w = edges.both_ways()
        data = np.ones(len(u)) if w is None else w.astype(np.float64)
        ends, shape = (u.astype(np.int32), v.astype(np.int32)), (edges.vertices, edges.vertices)
        sparse = importlib.import_module("scipy.sparse")
        self._matrix = sparse.coo_array((data, ends), shape=shape).tocsr()

    def bfs(self, source: int) -> Search:
        search = partial(self._library.breadth_first_order, self._matrix, source)
        elapsed_s, _, (order, above) = timed(search)
        return Search(elapsed_s, lambda: levels_of(order, above), above.__getitem__)

    def sssp(self, source: int) -> Search:
        search = partial(self._library.dijkstra, indices=source, return_predecessors=True)
        elapsed_s, _, (distance, above) = timed(partial(search, self._matrix))
        return Search(elapsed_s, lambda: distance, above.__getitem__)


class Graphblas(Peer):
    """BFS by masked products over (any, secondi), which give levels and parents, as LAGraph does.

    SSSP by products over (min, plus) with what became less (Bellman and Ford): distances alone.
    Both push from a small frontier and pull into the rest from a large one.
    """

    name, module, package = "GraphBLAS", "graphblas", "python-graphblas"
    _PULL_ABOVE = 16

    def __init__(self) -> None:
        super().__init__()
        self._library.init("suitesparse", blocking=True)

    def make(self, edges: Edges) -> None:
        u, v, w = edges.both_ways()
        size = edges.vertices
        data = np.ones(len(u), np.bool_) if w is None else w.astype(np.result_type(w, np.float32))
        self._out = self._library.Matrix.from_coo(u, v, data, nrows=size, ncols=size)
        self._into = self._out.T.new() if edges.directed else self._out

    def bfs(self, source: int) -> Search:
        elapsed_s, _, (level, parent) = timed(lambda: self._tree(source))
        measure = partial(level.to_dense, np.inf, np.float64)
        return Search(elapsed_s, measure, lambda some: parent.to_dense(fill_value=-1)[some])

    def sssp(self, source: int) -> Search:
        elapsed_s, _, distance = timed(lambda: self._distances(source))
        return Search(elapsed_s, lambda: distance.to_dense(dtype=np.float64))

    def _tree(self, source: int) -> tuple[Any, Any]:
        size = self._out.nrows
        level, parent, frontier = (self._library.Vector(np.int64, size) for _ in range(3))
        frontier[source] = source
        for depth in range(size):
            level(frontier.S)[:] << depth
            parent(frontier.S) << frontier
            found = self._product(self._library.semiring.ss.any_secondi, frontier)
            frontier(~level.S, replace=True) << found
            if not frontier.nvals:
                break
        return level, parent

    def _distances(self, source: int) -> Any:
        size, library = self._out.nrows, self._library
        distance, less = (library.Vector(self._out.dtype, size) for _ in range(2))
        distance[:] = np.inf
        distance[source] = less[source] = 0
        while less.nvals:
            found = self._product(library.semiring.min_plus, less).new()
            less = found.dup(mask=library.binary.lt(found & distance).new().V)
            distance(less.S) << less
        return distance

    def _product(self, semiring: Any, frontier: Any) -> Any:
        pull = frontier.nvals * self._PULL_ABOVE > self._out.nrows
        return semiring(self._into @ frontier if pull else frontier @ self._out)


class Networkx(Peer):
    """`predecessor` and `dijkstra_predecessor_and_distance`: dictionaries of lists and of numbers.

    An edge takes hundreds of bytes, a search of more edges seconds.
    """

    name, module, package = "networkx", "networkx", "networkx"
    most_edges = 1 << 20

    def make(self, edges: Edges) -> None:
        self._graph = self._library.DiGraph() if edges.directed else self._library.Graph()
        self._graph.add_nodes_from(range(edges.vertices))
        w = np.ones(len(edges.u)) if edges.w is None else edges.w
        columns = (column.tolist() for column in (edges.u, edges.v, w))
        self._graph.add_weighted_edges_from(zip(*columns, strict=True))

    def bfs(self, source: int) -> Search:
        return self._search(partial(self._library.predecessor, return_seen=True), source)

    def sssp(self, source: int) -> Search:
        return self._search(self._library.dijkstra_predecessor_and_distance, source)

    def _search(self, call: Callable[..., Any], source: int) -> Search:
        elapsed_s, _, (parents, measure) = timed(lambda: call(self._graph, source))
        return Search(
            elapsed_s,
            lambda: np.array([measure.get(v, np.inf) for v in range(len(self._graph))]),
            lambda some: [parents[v][0] for v in some.tolist()],
        )


PEERS: tuple[type[Peer], ...] = (Networkit, Igraph, Scipy, Graphblas, Networkx)


def levels_of(order: IntArray, predecessor: IntArray) -> AnyArray:
    """Levels from the order of visits and the predecessors; float64 (vertices,)."""
    level = np.full(len(predecessor), np.inf)
    level[order[0]] = 0
    for vertex in order[1:]:
        level[vertex] = level[predecessor[vertex]] + 1
    return level
