"""BFS and SSSP on a graph that one rank holds as grouped edges: buffers and calls (CPU)."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.decisions import BfsTree, SsspTree
from ooc_graph.kernels.common.sssp import distances
from ooc_graph.kernels.common.team import OPERATION, Team, new_control
from ooc_graph.kernels.cpu.bfs.search import new_trace
from ooc_graph.kernels.cpu.edge_list import bfs as edges_bfs
from ooc_graph.kernels.cpu.edge_list import parents as edges_parents
from ooc_graph.kernels.cpu.edge_list import sssp as edges_sssp
from ooc_graph.kernels.cpu.edge_list.grouped import HALF, LOW_END, GroupedEdges
from ooc_graph.types import AnyArray, IntArray


class CpuEdgesBfs:
    """BFS searches over grouped edges, one at a time; buffers are allocated once.

    In addition to edges and answer, a search has 1 byte a vertex. Levels of one byte end at 254; a
    graph with more continues in the answer's own 32 bits. ``ids`` is the type of the parents.
    """

    def __init__(self, edges: GroupedEdges, ids: np.dtype[Any], team: Team) -> None:
        rows = edges.vertices
        self._edges, self._team = edges, team
        self._parent, self._level = np.empty(rows, ids), np.empty(rows, np.int32)
        self._narrow = np.empty(rows, np.uint8)
        self._front = np.empty((2, edges.segments), np.int64)
        self._left = np.empty(edges.segments, np.int64)
        self._trace = new_trace(rows + 1)

    def run(self, root: int) -> BfsTree:
        """Search from internal id ``root``; the arrays stay this search's until the next run.

        ``level_arcs`` counts edges read; one that leads both ways counts once.
        """
        control = new_control()
        start = perf_counter()
        self._launch(control, self._narrow, root, 0)
        self._team.launch(edges_bfs.publish_part, control, self._narrow, self._level)
        if control[OPERATION] == edges_bfs.WIDEN:
            # -1, which says unreached, is the unsigned levels' all ones.
            wide = self._level.view(np.uint32)
            self._launch(control, wide, root, int(control[edges_bfs.DEPTH]))
        elapsed_s = perf_counter() - start
        levels = int(control[edges_bfs.DEPTH])
        trace: list[AnyArray] = [column[:levels] for column in self._trace]
        return BfsTree(self._parent, self._level, elapsed_s, *trace)

    def _launch(self, control: IntArray, level: AnyArray, root: int, depth: int) -> None:
        reach = edges_bfs.Reach(level, self._parent, self._front, self._left)
        self._team.launch(edges_bfs.search, control, self._edges, reach, self._trace, root, depth)


class CpuEdgesSssp:
    """SSSP searches over grouped edges, one at a time; buffers are allocated once.

    In addition to edges and answer, a search has 1 bit a vertex. ``ids`` is the parents' type.
    """

    passes = 0
    """Passes of the last search."""

    def __init__(self, edges: GroupedEdges, ids: np.dtype[Any], team: Team) -> None:
        rows, segments = edges.vertices, edges.segments
        self._edges, self._team = edges, team
        dtype = distances.distance_dtype(edges.weights)
        self._distance = np.empty(rows, dtype)
        unsigned = dtype if dtype.kind == "f" else np.dtype(np.uint64)
        self._field = edges_sssp.Field(
            self._distance.view(unsigned),
            np.empty(rows, ids),
            np.empty(words_for(rows), np.uint64),
            np.empty((2, segments), unsigned),
            np.empty(segments, unsigned),
            np.empty(segments, unsigned),
            np.empty(segments, unsigned),
            np.empty(segments, np.int64),
            np.empty(segments, unsigned),
            _light_cap(edges).astype(dtype).view(unsigned),
            distances.unreached(dtype).view(unsigned),
        )
        heaviest = edges.weights.max(initial=0)
        self._may_overflow = distances.sums_may_overflow(heaviest, rows, dtype)

    def run(self, root: int) -> SsspTree:
        """Search from internal id ``root``; the arrays stay this search's until the next run.

        ``phase_arcs`` counts the edges read; one that leads both ways counts once. InputError: a
        shortest distance exceeds the distances' dtype.
        """
        control = new_control()
        start = perf_counter()
        self._team.launch(edges_sssp.search, control, self._edges, self._field, root)
        self._require_whole(control)
        elapsed_s = perf_counter() - start
        self.passes = int(control[edges_sssp.PASSES])
        phase_arcs = {
            "relax": int(control[edges_sssp.EXAMINED]),
            "parents": int(control[edges_parents.PARENTS_EXAMINED]),
        }
        return SsspTree(self._field.parent, self._distance, elapsed_s, phase_arcs)

    def _require_whole(self, control: IntArray) -> None:
        """Refuse an answer in which reached vertices lack a distance or a parent."""
        field = self._field
        if self._may_overflow and _lost_by_overflow(self._edges, field.distance, field.top[0]):
            raise distances.overflow_error(self._distance.dtype)
        if control[edges_parents.UNRESOLVED]:
            raise AssertionError(
                f"{control[edges_parents.UNRESOLVED]} reached vertices have no parent"
            )


@kernel
def _lost_by_overflow(edges: Any, distance: Any, top: Any) -> bool:
    """Tell whether a shortest distance exceeds the dtype: an edge leaves what was reached."""
    for piece in range(len(edges.tail)):
        heads = distance[edges.base[edges.head[piece]] :]
        tails = distance[edges.base[edges.tail[piece]] :]
        for index in range(edges.begin[piece], edges.begin[piece + 1]):
            of_tail = tails[edges.ends[index] & LOW_END]
            of_head = heads[edges.ends[index] >> HALF]
            if of_head == top and of_tail < top:
                return True
            if edges.undirected and of_tail == top and of_head < top:
                return True
    return False


def _light_cap(edges: GroupedEdges) -> AnyArray:
    """Lightest weight of the pieces that are not light: (1,)."""
    if not len(edges.ends):
        return np.zeros(1)
    order = np.argsort(edges.lightest, kind="stable")
    below = np.cumsum(np.diff(edges.begin)[order])
    first = np.searchsorted(below, edges_sssp.LIGHT_SHARE * len(edges.ends))
    return edges.lightest[order[first : first + 1]]
