"""BFS on edges in any order, and on rows from the top down: peers of the package in edge_list.py.

Both go level by level on all threads, and reach vertices as the package's edge lists do.
"""

from time import perf_counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.team import (
    CHUNK,
    FIRST_FREE,
    LINE,
    Team,
    atomic_add,
    barrier,
    new_control,
    take_chunk,
)
from ooc_graph.kernels.cpu.edge_list.bfs import _visit, publish_part
from ooc_graph.kernels.cpu.edge_list.search import CpuEdgesBfs
from ooc_graph.types import AnyArray


class Edges(NamedTuple):
    """Edges in any order, uint32 (edges,) from ``tail`` to ``head``, or both ways."""

    tail: AnyArray
    head: AnyArray
    undirected: bool


@subroutine
def _scan(edges: Any, first: int, last: int, level: Any, parent: Any, depth: Any) -> int:
    """Visit along some edges; vertices found."""
    count = 0
    for index in range(first, last):
        tail, head = edges.tail[index], edges.head[index]
        of_tail, of_head = level[tail], level[head]
        if (min(of_tail, of_head) != depth) | (max(of_tail, of_head) == depth):
            continue
        if of_tail == depth:
            count += _visit(level, parent, head, tail, depth)
        elif edges.undirected:
            count += _visit(level, parent, tail, head, depth)
    return count


@subroutine
def _push(rows: Any, first: int, last: int, level: Any, parent: Any, depth: Any) -> int:
    """Visit the neighbors of those of some vertices that are in the frontier; vertices found."""
    count = 0
    for vertex in range(first, min(last, len(level))):
        if level[vertex] == depth:
            for other in rows.neighbors[rows.offsets[vertex] : rows.offsets[vertex + 1]]:
                if level[other] > depth:
                    count += _visit(level, parent, other, vertex, depth)
    return count


def by_levels(visit: Any, size: int) -> Any:
    """A search that goes through all of a graph, ``size`` at a time, until a level is empty."""

    @kernel
    def search(
        thread: int, threads: int, control: Any, graph: Any, level: Any, parent: Any, root: int
    ) -> None:
        depth, count = 0, 1
        while count > 0:
            word, at, count = FIRST_FREE + (depth & 1) * LINE, level.dtype.type(depth), 0
            if thread == 0:
                if depth == 0:
                    level[:], parent[:] = level.dtype.type(-1), parent.dtype.type(-1)
                    level[root], parent[root] = 0, root
                control[word], control[CHUNK] = 0, 0
            if not barrier(control, threads):
                return
            while True:
                first, last = take_chunk(control, size, len(graph[0]))
                if first >= last:
                    break
                count += visit(graph, first, last, level, parent, at)
            atomic_add(control, word, count)
            if not barrier(control, threads):
                return
            depth, count = depth + 1, control[word]

    return search


scan, top_down = by_levels(_scan, 1 << 12), by_levels(_push, 1 << 6)


class Search:
    """Searches by one of these, with levels of one byte, or four if ``wide``."""

    def __init__(self, search: Any, graph: Any, rows: int, team: Team, *, wide: bool = False):
        self._search, self._graph, self._team = search, graph, team
        self._parent, self._level = np.empty(rows, np.uint32), np.empty(rows, np.int32)
        self._reached = self._level.view(np.uint32) if wide else np.empty(rows, np.uint8)

    def run(self, root: int) -> Any:
        control, begun = new_control(), perf_counter()
        self._team.launch(self._search, control, self._graph, self._reached, self._parent, root)
        if self._reached.dtype == np.uint8:
            self._team.launch(publish_part, control, self._reached, self._level)
        return tree(self._parent, self._level, begun)


class WideGroups(CpuEdgesBfs):
    """The package's search of sorted edges, with levels of four bytes from the beginning."""

    def run(self, root: int) -> Any:
        control, begun = new_control(), perf_counter()
        self._launch(control, self._level.view(np.uint32), root, 0)
        return tree(self._parent, self._level, begun)


def tree(parent: AnyArray, level: AnyArray, begun: float) -> Any:
    return SimpleNamespace(parent=parent, level=level, elapsed_s=perf_counter() - begun)
