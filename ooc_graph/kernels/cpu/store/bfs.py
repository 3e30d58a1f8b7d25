"""BFS on rows of which only the heads are in memory (CPU).

A level goes along all heads first, with the steps of the search in memory, and then along the arcs
that are fetched for those rows that want more. So it finds what that search finds.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import bitmap, decisions
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.decisions import PULL, PUSH, BfsTree
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.kernels.common.store.scans import scanner
from ooc_graph.kernels.common.team import Team, atomic_add, new_control, take_chunk
from ooc_graph.kernels.common.wanted import EVERYTHING, Wanted
from ooc_graph.kernels.cpu.bfs import pull
from ooc_graph.kernels.cpu.bfs.fused import Trace
from ooc_graph.kernels.cpu.bfs.pull import FOUND, FOUND_ARCS, IntoRows, Tree
from ooc_graph.kernels.cpu.bfs.push import claim
from ooc_graph.kernels.cpu.bfs.search import never_claimed, new_trace, new_tree
from ooc_graph.kernels.cpu.bfs.thin_levels import choose_direction
from ooc_graph.types import AnyArray, IntArray

LOOKED, TAIL = range(2)
"""Places in the counts of a `Level`: arcs looked at, and the end of the queue."""


class Level(NamedTuple):
    """A level on its way: a pull has the ``frontier``, and a push adds what it finds to ``queue``.

    ``counts`` int64 (2,): see `LOOKED`, `TAIL`; ``depth`` is that of what is found.
    """

    tree: Tree
    frontier: bitmap.Words
    queue: AnyArray
    counts: IntArray
    depth: int


@scanner
@subroutine
def pull_tails(level: Any, row: int, neighbors: Any, _weights: Any) -> bool:
    """Look for a parent in the frontier; a row that has one wants no more."""
    tree, hit, looked = level.tree, False, 0
    while looked < len(neighbors) and not hit:
        hit = bitmap.has(level.frontier, neighbors[looked])
        looked += 1
    level.counts[LOOKED] += looked
    if hit:
        tree.parent[row] = neighbors[looked - 1]
        tree.level[row] = level.depth
        bitmap.put(tree.found, row)
    return not hit


@scanner
@subroutine
def push_tails(level: Any, row: int, neighbors: Any, _weights: Any) -> bool:
    """Offer a row of the frontier as parent to all of its neighbours."""
    tree, u, tail = level.tree, np.uint64(row), level.counts[TAIL]
    level.counts[TAIL] = claim(tree, u, neighbors, 0, len(neighbors), level.queue, tail)
    return True


@kernel
def settle_queue(heads: Any, tree: Any, queue: Any, begin: int, end: int, depth: int) -> int:
    """Make new vertices, ``queue[begin:end]``, visited at ``depth``; their arcs."""
    arcs = 0
    for index in range(begin, end):
        v = np.int64(queue[index])
        bitmap.put(tree.visited, v)
        tree.level[v] = depth
        arcs += heads.lengths[v]
    return arcs


class Frontier(NamedTuple):
    """The vertices of a level, ``queue[begin:end]``, and where the search stands.

    ``arcs`` are their out-arcs, ``unvisited`` those of all that is not visited.
    """

    begin: int
    end: int
    arcs: int
    unvisited: int
    depth: int


@kernel
def push_levels(
    heads: Any, tree: Any, queue: Any, trace: Any, frontier: Any
) -> tuple[int, Frontier, int, int]:
    """Push level after level along heads; one thread.

    Ends before a level that should pull, when there is no frontier or ``trace`` is full, and in
    the middle of a level that has rows with arcs beyond their heads.

    Returns the levels begun, the frontier that is reached, ``tail`` and ``longer``: if so many rows
    of it go on beyond their heads, ``queue[frontier.end:tail]`` was found so far, not settled.
    """
    levels = 0
    while True:
        begin, end, arcs, left, depth = frontier
        trace.vertices[levels], trace.arcs[levels] = end - begin, arcs
        trace.direction[levels] = PUSH
        levels += 1
        tail, longer = end, 0
        for index in range(begin, end):
            u = np.uint64(queue[index])
            first, stop = np.int64(heads.starts[u]), np.int64(heads.starts[u + bitmap.ONE])
            longer += stop - first < heads.lengths[u]
            tail = claim(tree, u, heads.neighbors, first, stop, queue, tail)
        if longer > 0:
            return levels, frontier, tail, longer
        arcs = settle_queue(heads, tree, queue, end, tail, depth + 1)
        frontier = Frontier(end, tail, arcs, left - arcs, depth + 1)
        if end == tail or levels == len(trace.arcs):
            break
        if choose_direction(PUSH, tail - end, arcs, left - arcs, len(tree.level)) != PUSH:
            break
    return levels, frontier, tail, 0


@kernel
def count_found(_thread: int, _threads: int, control: Any, tree: Any, lengths: Any) -> None:
    """Count the vertices found and their arcs, and mark them visited; all threads.

    Words `FOUND` and `FOUND_ARCS` count up, word `CHUNK` must be 0 at the start.
    """
    words, count, arcs = len(tree.found), 0, 0
    while True:
        begin, end = take_chunk(control, pull.CHUNK_WORDS, words)
        if begin >= end:
            break
        for index in range(begin, end):
            found = tree.found[index]
            tree.visited[index] |= found
            count += bitmap.count_bits(found)
            while found != 0:
                arcs += lengths[index * bitmap.WORD_BITS + bitmap.lowest_bit(found)]
                found &= found - bitmap.ONE
    atomic_add(control, FOUND, count)
    atomic_add(control, FOUND_ARCS, arcs)


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

    ends_early = True  # given what is wanted

    def run(self, root: int, wanted: Wanted = EVERYTHING) -> BfsTree:
        """As `CpuBfsSearch.run`; CorruptStoreError if what is fetched is not what was written."""
        start = perf_counter()
        self._traces.clear()
        arcs = self._start(root)
        at, direction = Frontier(0, 1, arcs, self._arcs - arcs, 0), PUSH
        tree, rows = self._tree, len(self._queue)
        while (found := at.end - at.begin) > 0 and not wanted.is_found(tree.level, at.depth):
            # After a push the frontier is in the queue, after a pull in the bitmap of finds.
            chosen = decisions.choose_direction(direction, found, at.arcs, at.unvisited, rows)
            if chosen == PULL:
                if direction == PUSH:
                    bitmap.mark_only(tree.found, self._queue[at.begin : at.end])
                self._pull(at.depth + 1, found)
                control = new_control()
                self._team.launch(count_found, control, tree, self._out.heads.lengths)
                found, arcs = int(control[FOUND]), int(control[FOUND_ARCS])
                at = Frontier(0, found, arcs, at.unvisited - arcs, at.depth + 1)
            else:
                if direction == PULL:
                    bitmap.members(tree.found, self._queue)
                at = self._push(at, wanted.most - at.depth)
            direction = chosen
        elapsed_s = perf_counter() - start
        nothing = Trace(*(column[:0] for column in self._trace))
        trace = map(np.concatenate, zip(nothing, *self._traces, strict=True))
        return BfsTree(tree.parent, tree.level, elapsed_s, *trace)

    def _start(self, root: int) -> int:
        """Visit the root alone; its arcs."""
        tree = self._tree
        tree.parent[:] = np.iinfo(tree.parent.dtype).max
        tree.level[:] = -1
        tree.visited[:] = self._never
        tree.parent[root] = self._queue[0] = root
        return int(settle_queue(self._out.heads, tree, self._queue, 0, 1, 0))

    def _pull(self, depth: int, vertices: int) -> None:
        """Find the vertices of a level, from a frontier of so many that is in ``found``."""
        tree, frontier, control = self._tree, self._frontier, new_control()
        frontier[:] = tree.found
        into = self._pulled
        self._team.launch(pull.pull_part, control, into, tree, into.offsets, frontier, depth)
        level = self._level(depth)
        self._into.scan_tails(~tree.visited, partial(pull_tails, level))
        total = level.counts[LOOKED] + control[pull.EXAMINED]
        direction = np.array([PULL], np.int8)
        self._traces.append(Trace(np.array([vertices]), np.array([total]), direction))

    def _level(self, depth: int, tail: int = 0) -> Level:
        """A level's state, with the end of the queue."""
        counts = np.array([0, tail])
        return Level(self._tree, self._frontier, self._queue, counts, depth)

    def _push(self, frontier: Frontier, most: int) -> Frontier:
        """Push some levels from a frontier in the queue; see `push_levels`. The next one.

        A level of which all rows are in memory costs what its frontier has, and no more.
        """
        tree, queue, out = self._tree, self._queue, self._out
        trace = Trace(*(column[:most] for column in self._trace))
        levels, frontier, tail, longer = push_levels(out.heads, tree, queue, trace, frontier)
        self._traces.append(Trace(*(column[:levels].copy() for column in trace)))
        if not longer:
            return frontier
        begin, end, _, unvisited, depth = frontier
        level = self._level(depth + 1, tail)
        for waiting in out.tails_of(queue[begin:end]):
            out.scan(waiting, partial(push_tails, level), out.most_look)
        tail = int(level.counts[TAIL])
        arcs = int(settle_queue(out.heads, tree, queue, end, tail, depth + 1))
        return Frontier(end, tail, arcs, unvisited - arcs, depth + 1)
