"""BFS on a whole graph of which only the heads of the rows are in memory (CPU)."""

from __future__ import annotations

from functools import partial
from time import perf_counter

import numpy as np

from ooc_graph.kernels.common.bitmap import members
from ooc_graph.kernels.common.decisions import PULL, PUSH, BfsTree, choose_direction
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.bfs.fused import Course
from ooc_graph.kernels.cpu.bfs.pull import EXAMINED, FOUND, FOUND_ARCS, IntoRows
from ooc_graph.kernels.cpu.bfs.search import never_claimed, new_course, new_tree
from ooc_graph.kernels.cpu.store.bfs import (
    LOOKED,
    TAIL,
    Frontier,
    Level,
    count_found,
    mark_queue,
    pull_heads,
    pull_tails,
    push_levels,
    push_tails,
    settle_queue,
)

COURSE_LEVELS = 1 << 12
"""Levels that are pushed in one call: each takes 16 bytes meanwhile, and what it takes stays."""


class TierBfsSearch:
    """BFS searches of one whole graph, one at a time; buffers are allocated once.

    Beside what is in memory of the rows it holds 12 bytes a vertex (ids of 32 bits) and five
    bitmaps.

    Parameters
    ----------
    out, into
        Hub-first rows of out- and in-arcs (the same object when undirected).
    team
        Threads that search together.
    """

    def __init__(self, out: TierRows, into: TierRows, team: Team) -> None:
        heads, ids = into.heads, into.heads.neighbors.dtype
        rows = len(heads.lengths)
        self._out, self._into, self._team = out, into, team
        self._pulled = IntoRows(heads.starts, heads.neighbors, heads.first)
        self._never = never_claimed(heads.lengths == 0)
        self._tree = new_tree(self._never, rows, ids)
        self._queue, self._frontier = np.empty(rows, ids), np.empty_like(self._never)
        self._arcs = int(out.heads.lengths.sum(dtype=np.int64))
        self._course = new_course(COURSE_LEVELS)
        self._courses: list[Course] = []

    def run(self, root: int) -> BfsTree:
        """Search from internal id ``root``; the arrays stay this search's until the next run.

        Raises
        ------
        CorruptStoreError
            What is fetched is not what was written.
        """
        start = perf_counter()
        self._courses.clear()
        arcs = self._start(root)
        at, direction = Frontier(0, 1, arcs, self._arcs - arcs, 0), PUSH
        while (found := at.end - at.begin) > 0:
            # After a push the frontier is in the queue, after a pull in the bitmap of finds.
            rows = len(self._queue)
            wanted = choose_direction(direction, found, at.arcs, at.unvisited, rows)
            if wanted == PULL:
                if direction == PUSH:
                    mark_queue(self._tree.found, self._queue, at.begin, at.end)
                self._pull(at.depth + 1, found)
                found, arcs = self._count()
                at = Frontier(0, found, arcs, at.unvisited - arcs, at.depth + 1)
            else:
                if direction == PULL:
                    members(self._tree.found, self._queue)
                at = self._push(at)
            direction = wanted
        elapsed_s = perf_counter() - start
        course = map(np.concatenate, zip(*self._courses, strict=True))
        return BfsTree(self._tree.parent, self._tree.level, elapsed_s, *course)

    def _start(self, root: int) -> int:
        """Visit the root alone; its arcs."""
        tree = self._tree
        tree.parent[:] = np.iinfo(tree.parent.dtype).max
        tree.level[:] = -1
        tree.visited[:] = self._never
        tree.parent[root] = self._queue[0] = root
        return int(settle_queue(self._out.heads, tree, self._queue, 0, 1, 0))

    def _count(self) -> tuple[int, int]:
        """Vertices that a pull found, and their out-arcs."""
        control = new_control()
        self._team.launch(count_found, control, self._tree, self._out.heads.lengths)
        return int(control[FOUND]), int(control[FOUND_ARCS])

    def _pull(self, depth: int, vertices: int) -> None:
        """Find the vertices of a level, from a frontier of so many that is in ``found``."""
        tree, frontier, control = self._tree, self._frontier, new_control()
        frontier[:] = tree.found
        self._team.launch(pull_heads, control, self._pulled, tree, frontier, depth)
        level = self._level(depth)
        self._into.scan_tails(~tree.visited, partial(pull_tails, level))
        total = level.counts[LOOKED] + control[EXAMINED]
        direction = np.array([PULL], np.int8)
        self._courses.append(Course(np.array([vertices]), np.array([total]), direction))

    def _level(self, depth: int, tail: int = 0) -> Level:
        """A level's state, with the end of the queue."""
        counts = np.array([0, tail])
        return Level(self._tree, self._frontier, self._queue, counts, depth)

    def _push(self, frontier: Frontier) -> Frontier:
        """Push levels from a frontier in the queue; see `push_levels`. The next one.

        A level of which all rows are in memory costs what its frontier has, and no more.
        """
        tree, queue, out, course = self._tree, self._queue, self._out, self._course
        levels, frontier, tail, longer = push_levels(out.heads, tree, queue, course, frontier)
        self._courses.append(Course(*(column[:levels].copy() for column in course)))
        if not longer:
            return frontier
        begin, end, _, unvisited, depth = frontier
        level = self._level(depth + 1, tail)
        for waiting in out.tails_of(queue[begin:end]):
            out.scan(waiting, partial(push_tails, level), out.most_look)
        tail = int(level.counts[TAIL])
        arcs = int(settle_queue(out.heads, tree, queue, end, tail, depth + 1))
        return Frontier(end, tail, arcs, unvisited - arcs, depth + 1)
