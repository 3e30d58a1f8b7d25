"""BFS steps on rows of which only the heads are in memory (CPU).

A level goes along all heads first, with the steps of the search in memory, and then along the arcs
that are fetched for those rows that want more. So it finds what that search finds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import bitmap
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.decisions import PUSH
from ooc_graph.kernels.common.store.scans import scanner
from ooc_graph.kernels.common.team import atomic_add, take_chunk
from ooc_graph.kernels.cpu.bfs.pull import CHUNK_WORDS, FOUND, FOUND_ARCS, Tree
from ooc_graph.kernels.cpu.bfs.push import claim
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
        begin, end = take_chunk(control, CHUNK_WORDS, words)
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
