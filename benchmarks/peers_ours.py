"""This package behind the interface of the comparison: its public functions on a built graph."""

from pathlib import Path

import numpy as np
from harness.timing import timed
from peers_adapters import Search
from peers_graphs import Edges

import ooc_graph as og
from ooc_graph.answers.result import TreeResult
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.model.request import EDGES, ROWS
from ooc_graph.shards.edge_list import edge_list_bytes
from ooc_graph.types import INT64_UNREACHED, AnyArray

OUR_NAMES = {ROWS: "ooc-graph", EDGES: "ooc-graph edges"}


class Ours:
    """Searches of a built graph by `ooc_graph.bfs` and `ooc_graph.sssp`, on the CPU.

    The time of a search is that of the call and of reading both columns, which are made then.
    `Search.search_s` is the search alone, by internal id. ``method`` is ``rows`` or ``edges``.
    """

    version = og.__version__

    def __init__(self, path: Path, method: str = ROWS) -> None:
        self.name = OUR_NAMES[method]
        self.build_s: float | None = None
        self.method, self.graph = method, og.open(path)
        self.ids = self.graph.original_ids()  # in the order of the answers
        self.kernels: tuple[str, ...] = ("bfs", "sssp") if self.graph.weighted else ("bfs",)

    def build(self, edges: Edges) -> None:
        """Time what the others do, edges in memory to rows in memory; the store is searched.

        The rows for shortest paths are made as well, if there are weights. The graph is not
        kept: its vertices are ranked by edges without duplicates, the store's by tuples.
        """
        if self.method == EDGES:
            return
        some = slice(0, 1000)  # compiles, for the same types
        weight = None if edges.w is None else edges.w[some]
        _build(Edges(edges.vertices, edges.directed, edges.u[some], edges.v[some], weight))
        self.build_s = timed(lambda: _build(edges)).elapsed_s

    def graph_bytes(self, kernel: str) -> int:
        """Bytes of the rows or edges of a kernel and of the id tables, as they lie in memory."""
        graph = self.graph
        tables = (graph.internal_of(), graph.original_of(), graph.tuples())
        if self.method == EDGES:
            lists = edge_list_bytes(graph, weighted=kernel == "sssp")
        else:
            lists = graph.resident_bytes(ORDER_OF[kernel])
        return lists + sum(table.nbytes for table in tables)

    def bfs(self, source: int) -> Search:
        return self._search("bfs", source)

    def sssp(self, source: int) -> Search:
        return self._search("sssp", source)

    def _search(self, kernel: str, source: int) -> Search:
        """Search from a vertex, given by its position among the original ids."""
        root = int(self.ids[source])
        elapsed_s, _, result = timed(lambda: self._answer(kernel, root))
        return Search(
            elapsed_s,
            lambda: plain(result.read(result.measure)),
            lambda some: np.searchsorted(self.ids, result.parent[some]),
            result.elapsed_s,
        )

    def _answer(self, kernel: str, root: int) -> TreeResult:
        search = og.bfs if kernel == "bfs" else og.sssp
        result = search(self.graph, root, method=self.method, device="cpu")
        for name in ("parent", result.measure):
            result.read(name)
        return result


def _build(edges: Edges) -> None:
    og.from_edges(edges.u, edges.v, edges.w, vertices=edges.vertices, directed=edges.directed)


def plain(measure: AnyArray) -> AnyArray:
    """Levels or distances, +inf where unreached."""
    plain = measure.astype(np.float64)
    return np.where((measure < 0) | (measure == INT64_UNREACHED), np.inf, plain)
