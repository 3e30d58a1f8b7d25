"""Other libraries behind one interface: given a simple graph, searched from a vertex, timed.

What is timed is the library's own call and nothing else; reading its answer comes after. Each
library is asked for parents and levels or distances, as ours gives them, as far as one of its
calls finds them; its class says what it gives. Each gets the threads that it takes by itself.
"""

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
        self.library: Any = importlib.import_module(self.module)

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
        self.graph = self.library.GraphFromCoo(
            (np.asarray(edges.w, np.float64), ends) if weighted else ends,
            n=edges.vertices, weighted=weighted, directed=edges.directed,
        )  # fmt: skip

    def bfs(self, source: int) -> Search:
        return self._search(self.library.distance.BFS, source)

    def sssp(self, source: int) -> Search:
        return self._search(self.library.distance.Dijkstra, source)

    def _search(self, kind: Any, source: int) -> Search:
        search = kind(self.graph, source, storePaths=True)
        elapsed_s = timed(search.run).elapsed_s
        # Not before: it would bring into the cache what that one reads.
        without_s = timed(kind(self.graph, source, storePaths=False).run).elapsed_s

        return Search(
            elapsed_s,
            partial(self.distances, search),
            lambda some: [search.getPredecessors(v)[0] for v in some.tolist()],
            without_s,
        )

    @staticmethod
    def distances(search: Any) -> AnyArray:
        found = np.array(search.getDistances(), np.float64)
        return np.where(found < np.finfo(np.float64).max, found, np.inf)


class Igraph(Peer):
    """`Graph.bfs`: order, layers and parents. `Graph.distances`: Dijkstra's distances alone.

    Predecessors by weight are only to be had as whole paths. The library reads the Python list of
    weights anew at every call; there is no other way.
    """

    name, module, package = "igraph", "igraph", "igraph"

    def make(self, edges: Edges) -> None:
        ends = np.column_stack([edges.u, edges.v])
        self.graph = self.library.Graph(n=edges.vertices, edges=ends, directed=edges.directed)
        self.weights = None if edges.w is None else edges.w.tolist()

    def bfs(self, source: int) -> Search:
        elapsed_s, _, (order, layers, parents) = timed(partial(self.graph.bfs, source))

        def level() -> AnyArray:
            found = np.full(self.graph.vcount(), np.inf)
            found[order] = np.repeat(np.arange(len(layers) - 1), np.diff(layers))
            return found

        return Search(elapsed_s, level, lambda some: np.array(parents)[some])

    def sssp(self, source: int) -> Search:
        search = partial(self.graph.distances, source, weights=self.weights)
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
        self.matrix = sparse.coo_array((data, ends), shape=shape).tocsr()

    def bfs(self, source: int) -> Search:
        search = partial(self.library.breadth_first_order, self.matrix, source)
        elapsed_s, _, (order, above) = timed(search)
        return Search(elapsed_s, lambda: levels_of(order, above), above.__getitem__)

    def sssp(self, source: int) -> Search:
        search = partial(self.library.dijkstra, indices=source, return_predecessors=True)
        elapsed_s, _, (distance, above) = timed(partial(search, self.matrix))
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
        self.library.init("suitesparse", blocking=True)

    def make(self, edges: Edges) -> None:
        u, v, w = edges.both_ways()
        size = edges.vertices
        data = np.ones(len(u), np.bool_) if w is None else w.astype(np.result_type(w, np.float32))
        self.out = self.library.Matrix.from_coo(u, v, data, nrows=size, ncols=size)
        self.into = self.out.T.new() if edges.directed else self.out

    def bfs(self, source: int) -> Search:
        elapsed_s, _, (level, parent) = timed(lambda: self._tree(source))
        parents = partial(parent.to_dense, fill_value=-1)
        return Search(elapsed_s, partial(level.to_dense, np.inf, float), lambda v: parents()[v])

    def sssp(self, source: int) -> Search:
        start = self.library.Vector.from_coo([source], 0, self.out.dtype, size=self.out.nrows)
        elapsed_s, _, distance = timed(lambda: self.distances(start))
        return Search(elapsed_s, lambda: distance.to_dense(dtype=np.float64))

    def _tree(self, source: int) -> tuple[Any, Any]:
        frontier, parent = (self.library.Vector(np.int64, self.out.nrows) for _ in range(2))
        frontier[source] = source
        semiring = self.library.semiring.ss.any_secondi
        return self.levels(frontier, semiring, lambda found: parent(found.S) << found), parent

    def levels(self, frontier: Any, semiring: Any, note: Callable[[Any], Any] = id) -> Any:
        """Levels from the entries of a vector, or of a matrix with a row for each search."""
        level, depth = frontier.dup(np.int64, clear=True), 0
        while frontier.nvals:
            level(frontier.S) << depth
            note(frontier)
            frontier(~level.S, replace=True) << self._product(semiring, frontier)
            depth += 1
        return level

    def distances(self, less: Any) -> Any:
        library, distance = self.library, less.dup()
        distance(~distance.S) << np.inf
        while less.nvals:
            found = self._product(library.semiring.min_plus, less).new()
            less = found.dup(mask=library.binary.lt(found & distance).new().V)
            distance(less.S) << less
        return distance

    def _product(self, semiring: Any, frontier: Any) -> Any:
        pull = frontier.ndim == 1 and frontier.nvals * self._PULL_ABOVE > self.out.nrows
        return semiring(self.into @ frontier if pull else frontier @ self.out)


class Networkx(Peer):
    """`predecessor` and `dijkstra_predecessor_and_distance`: dictionaries of lists and of numbers.

    An edge takes hundreds of bytes, a search of more edges seconds.
    """

    name, module, package = "networkx", "networkx", "networkx"
    most_edges = 1 << 20

    def make(self, edges: Edges) -> None:
        self.graph = self.library.DiGraph() if edges.directed else self.library.Graph()
        self.graph.add_nodes_from(range(edges.vertices))
        w = np.ones(len(edges.u)) if edges.w is None else edges.w
        columns = (column.tolist() for column in (edges.u, edges.v, w))
        self.graph.add_weighted_edges_from(zip(*columns, strict=True))

    def bfs(self, source: int) -> Search:
        return self._search(partial(self.library.predecessor, return_seen=True), source)

    def sssp(self, source: int) -> Search:
        return self._search(self.library.dijkstra_predecessor_and_distance, source)

    def _search(self, call: Callable[..., Any], source: int) -> Search:
        elapsed_s, _, (parents, measure) = timed(lambda: call(self.graph, source))
        return Search(
            elapsed_s,
            lambda: np.array([measure.get(v, np.inf) for v in range(len(self.graph))]),
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
