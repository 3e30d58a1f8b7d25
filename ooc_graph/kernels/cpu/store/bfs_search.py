"""BFS on a whole graph of which only the heads of the rows are in memory (CPU)."""

from __future__ import annotations

from functools import partial
from time import perf_counter

import numpy as np

from ooc_graph.kernels.common.bitmap import mark_only, members
from ooc_graph.kernels.common.decisions import PULL, PUSH, BfsTree, choose_direction
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.bfs.fused import Trace
from ooc_graph.kernels.cpu.bfs.pull import EXAMINED, FOUND, FOUND_ARCS, IntoRows, pull_part
from ooc_graph.kernels.cpu.bfs.search import never_claimed, new_trace, new_tree
from ooc_graph.kernels.cpu.store import bfs as steps
from ooc_graph.kernels.cpu.store.bfs import Frontier, Level

TRACE_LEVELS = 1 << 12
"""Levels that are pushed in one call: each takes 16 bytes meanwhile, and what it takes stays."""


class TierBfsSearch:
    """BFS searches of one whole graph, one at a time; buffers are allocated once.

    In addition to what is in memory of the rows it has 12 bytes a vertex (ids of 32 bits) and five
    bitmaps. ``out`` and ``into`` are hub-first rows (the same object when undirected).
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
        self._trace = new_trace(TRACE_LEVELS)
        self._traces: list[Trace] = []

    def run(self, root: int) -> BfsTree:
        """As `CpuBfsSearch.run`; CorruptStoreError if what is fetched is not what was written."""
        start = perf_counter()
        self._traces.clear()
        arcs = self._start(root)
        at, direction = Frontier(0, 1, arcs, self._arcs - arcs, 0), PUSH
        while (found := at.end - at.begin) > 0:
            # After a push the frontier is in the queue, after a pull in the bitmap of finds.
            rows = len(self._queue)
            wanted = choose_direction(direction, found, at.arcs, at.unvisited, rows)
            if wanted == PULL:
                if direction == PUSH:
                    mark_only(self._tree.found, self._queue[at.begin : at.end])
                self._pull(at.depth + 1, found)
                control = new_control()
                self._team.launch(steps.count_found, control, self._tree, self._out.heads.lengths)
                found, arcs = int(control[FOUND]), int(control[FOUND_ARCS])
                at = Frontier(0, found, arcs, at.unvisited - arcs, at.depth + 1)
            else:
                if direction == PULL:
                    members(self._tree.found, self._queue)
                at = self._push(at)
            direction = wanted
        elapsed_s = perf_counter() - start
        trace = map(np.concatenate, zip(*self._traces, strict=True))
        return BfsTree(self._tree.parent, self._tree.level, elapsed_s, *trace)

    def _start(self, root: int) -> int:
        """Visit the root alone; its arcs."""
        tree = self._tree
        tree.parent[:] = np.iinfo(tree.parent.dtype).max
        tree.level[:] = -1
        tree.visited[:] = self._never
        tree.parent[root] = self._queue[0] = root
        return int(steps.settle_queue(self._out.heads, tree, self._queue, 0, 1, 0))

    def _pull(self, depth: int, vertices: int) -> None:
        """Find the vertices of a level, from a frontier of so many that is in ``found``."""
        tree, frontier, control = self._tree, self._frontier, new_control()
        frontier[:] = tree.found
        into = self._pulled
        self._team.launch(pull_part, control, into, tree, into.offsets, frontier, depth)
        level = self._level(depth)
        self._into.scan_tails(~tree.visited, partial(steps.pull_tails, level))
        total = level.counts[steps.LOOKED] + control[EXAMINED]
        direction = np.array([PULL], np.int8)
        self._traces.append(Trace(np.array([vertices]), np.array([total]), direction))

    def _level(self, depth: int, tail: int = 0) -> Level:
        """A level's state, with the end of the queue."""
        counts = np.array([0, tail])
        return Level(self._tree, self._frontier, self._queue, counts, depth)

    def _push(self, frontier: Frontier) -> Frontier:
        """Push levels from a frontier in the queue; see `push_levels`. The next one.

        A level of which all rows are in memory costs what its frontier has, and no more.
        """
        tree, queue, out, trace = self._tree, self._queue, self._out, self._trace
        levels, frontier, tail, longer = steps.push_levels(out.heads, tree, queue, trace, frontier)
        self._traces.append(Trace(*(column[:levels].copy() for column in trace)))
        if not longer:
            return frontier
        begin, end, _, unvisited, depth = frontier
        level = self._level(depth + 1, tail)
        for waiting in out.tails_of(queue[begin:end]):
            out.scan(waiting, partial(steps.push_tails, level), out.most_look)
        tail = int(level.counts[steps.TAIL])
        arcs = int(steps.settle_queue(out.heads, tree, queue, end, tail, depth + 1))
        return Frontier(end, tail, arcs, unvisited - arcs, depth + 1)
