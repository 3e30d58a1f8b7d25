"""This package behind the interface of the comparison: a graph that is kept in this process."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np
from harness.timing import measure_of, timed
from peers_adapters import Search
from peers_graphs import Edges

import ooc_graph as og
from ooc_graph.answers.scatter import TreeColumns
from ooc_graph.layout.names import DISTANCE, LEVEL, ORDER_OF
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.kernel import EDGES, ROWS
from ooc_graph.runtime import process
from ooc_graph.runtime.warmup import warm
from ooc_graph.search.trees import run_search
from ooc_graph.shards.edge_list import edge_list_bytes
from ooc_graph.strategies.cpu.in_memory import variant_of
from ooc_graph.strategies.edge_list import load_search
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray

OUR_NAMES = {ROWS: "ooc-graph", EDGES: "ooc-graph edges"}


class Ours:
    """Searches of a built graph, bound once for each kernel.

    The time of a search is that which the package reports: the search alone, parents and levels
    or distances by internal id. `Search.published_s` has the scatter to original order in it.

    Parameters
    ----------
    path
        Store of the graph.
    method
        ``rows`` or ``edges``.
    publish
        Whether answers are brought to original order, so that they can be read.
    """

    version = og.__version__

    def __init__(self, path: Path, method: str = ROWS, *, publish: bool = True) -> None:
        self.name = OUR_NAMES[method]
        self.build_s: float | None = None
        self._method, self._publish = method, publish
        self._graph = og.open(path)
        self._held: dict[str, Engine] = {}
        self._ids = self._graph.original_ids()
        self.kernels: tuple[str, ...] = ("bfs", "sssp") if self._graph.weighted else ("bfs",)

    @property
    def arcs(self) -> int:
        return self._graph.arcs

    def build(self, edges: Edges) -> None:
        """Time what the others do, edges in memory to rows in memory; the store is searched.

        The rows for shortest paths are made as well, where there are weights. The graph is not
        kept: its vertices are ranked by edges without duplicates, the store's by tuples.
        """
        if self._method == EDGES:
            return
        _warm_build(edges)
        self.build_s = timed(lambda: _build(edges)).elapsed_s

    def load(self, kernel: str) -> None:
        """Bring the graph into memory for a kernel and bind a search to it, compiled."""
        device = process.device()
        if self._method == EDGES:
            search, tuples = load_search(self._graph, kernel, device), self._graph.tuples()
        else:
            shard = self._graph.load(ORDER_OF[kernel])
            search, tuples = getattr(device, kernel)(shard), shard.tuples
            warm(kernel, self._graph, device, variant=variant_of(search))
        ids = load_ids(self._graph)
        self._held[kernel] = Engine(kernel, search, self._graph, ids, tuples)

    def drop(self) -> None:
        self._held.clear()

    def graph_bytes(self, kernel: str) -> int:
        """Bytes of the rows or edges of a kernel and of the id tables, as they lie in memory."""
        graph = self._graph
        tables = (graph.internal_of(), graph.original_of(), graph.tuples())
        if self._method == EDGES:
            lists = edge_list_bytes(graph, weighted=kernel == "sssp")
        else:
            lists = graph.resident_bytes(ORDER_OF[kernel])
        return lists + sum(table.nbytes for table in tables)

    def layout_bytes(self, kernel: str) -> int:
        """Bytes of rows that a bound search copied, to have them in another order."""
        search = self._held[kernel].search
        return 0 if self._method == EDGES else int(search.layout_bytes)

    def answer_bytes(self, kernel: str) -> int:
        """Bytes of parents and levels or distances, by internal id."""
        held = self._held[kernel]
        tree = held.search.run(0)
        return int(tree.parent.nbytes + measure_of(tree).nbytes)

    def bfs(self, source: int) -> Search:
        """Breadth-first search from a vertex, by its place among the original ids."""
        return self._search("bfs", source)

    def sssp(self, source: int) -> Search:
        """Shortest paths from a vertex, by its place among the original ids."""
        return self._search("sssp", source)

    def _search(self, kernel: str, source: int) -> Search:
        held = self._held[kernel]
        root = int(self._ids[source])
        begun = perf_counter()
        tree, trace = run_search(held, root)
        if not self._publish:
            return Search(trace.elapsed_s, lambda: tree.measure)
        columns = TreeColumns(tree, held.ids).in_memory(process.thread_count())
        published_s = perf_counter() - begun
        measure = columns[LEVEL if kernel == "bfs" else DISTANCE]
        arcs = sum(examined for _, examined, _ in trace.levels)
        return Search(trace.elapsed_s, lambda: _plain(kernel, measure), published_s, arcs)

    def vertices(self) -> IntArray:
        """Original ids in the order of the answers."""
        return self._ids


def _build(edges: Edges) -> None:
    og.from_edges(edges.u, edges.v, edges.w, vertices=edges.vertices, directed=edges.directed)


def _warm_build(edges: Edges) -> None:
    """Compile, on the first edges of the same types."""
    some = slice(0, 1000)
    weight = None if edges.w is None else edges.w[some]
    _build(Edges(edges.vertices, edges.directed, edges.u[some], edges.v[some], weight))


def _plain(kernel: str, measure: AnyArray) -> AnyArray:
    if kernel == "bfs":
        return measure.astype(np.int64)
    distance = measure.astype(np.float64)
    if measure.dtype.kind == "i":
        distance[measure == INT64_UNREACHED] = np.inf
    return distance
