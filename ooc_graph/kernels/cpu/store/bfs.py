"""BFS steps on rows of which only the heads are in memory (CPU).

A level goes along all heads first, with the steps of the search in memory, and then along the arcs
that are fetched for those rows that want more. So it finds what that search finds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import (
    LOW,
    ONE,
    SIX,
    WORD_BITS,
    count_bits,
    has,
    lowest_bit,
    members,
    put_all,
)
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.decisions import PUSH
from ooc_graph.kernels.common.store.rows import keep_rest
from ooc_graph.kernels.common.team import CHUNK, atomic_add
from ooc_graph.kernels.cpu.bfs.pull import CHUNK_WORDS, FOUND, FOUND_ARCS, pull_part
from ooc_graph.kernels.cpu.bfs.push import claim
from ooc_graph.kernels.cpu.bfs.thin_levels import choose_direction
from ooc_graph.types import IntArray


class Course(NamedTuple):
    """Levels that were pushed: int64 (levels,) vertices of their frontiers, and arcs."""

    vertices: IntArray
    arcs: IntArray


@kernel
def pull_heads(
    _thread: int, _threads: int, control: Any, into: Any, tree: Any, frontier: Any, depth: int
) -> None:
    """Pull along the heads; ``tree.found`` becomes the bitmap of rows found. All threads."""
    pull_part(control, into, tree, into.offsets, frontier, depth)


@kernel
def pull_tails(
    tree: Any,
    frontier: Any,
    depth: int,
    lengths: Any,
    window: Any,
    begin: int,
    end: int,
    kept: int,
    neighbors: Any,
) -> tuple[int, int]:
    """Pull along arcs that are at hand; the rows kept, and arcs looked at."""
    examined = 0
    for index in range(begin, end):
        row, count = window.row[index], window.asked[index]
        place, hit, looked = window.place[0, index], False, 0
        while looked < count and not hit:
            hit = has(frontier, neighbors[place + looked])
            looked += 1
        examined += looked
        if hit:
            tree.parent[row] = neighbors[place + looked - 1]
            tree.level[row] = depth
            tree.found[row >> 6] |= ONE << (np.uint64(row) & LOW)
        else:
            kept = keep_rest(window, kept, index, lengths)
    return kept, examined


@kernel
def push_parts(
    tree: Any,
    queue: Any,
    tail: int,
    lengths: Any,
    window: Any,
    begin: int,
    end: int,
    kept: int,
    neighbors: Any,
) -> tuple[int, int]:
    """Push arcs that are at hand; the rows kept, and the end of the new vertices in ``queue``."""
    for index in range(begin, end):
        u, first = np.uint64(window.row[index]), window.place[0, index]
        tail = claim(tree, u, neighbors, first, first + window.asked[index], queue, tail)
        kept = keep_rest(window, kept, index, lengths)
    return kept, tail


@subroutine
def _push_heads(heads: Any, tree: Any, queue: Any, begin: int, end: int) -> tuple[int, int]:
    """Push the heads of ``queue[begin:end]``; the end of the new vertices, and rows with more."""
    tail, longer = end, 0
    for index in range(begin, end):
        u = np.uint64(queue[index])
        first, stop = np.int64(heads.starts[u]), np.int64(heads.starts[u + ONE])
        longer += stop - first < heads.lengths[u]
        tail = claim(tree, u, heads.neighbors, first, stop, queue, tail)
    return tail, longer


@kernel
def settle_queue(heads: Any, tree: Any, queue: Any, begin: int, end: int, depth: int) -> int:
    """Make new vertices, ``queue[begin:end]``, visited at ``depth``; their arcs."""
    arcs = 0
    for index in range(begin, end):
        v = np.uint64(queue[index])
        tree.visited[v >> SIX] |= ONE << (v & LOW)
        tree.level[v] = depth
        arcs += heads.lengths[v]
    return arcs


@kernel
def push_levels(
    heads: Any,
    tree: Any,
    queue: Any,
    course: Any,
    begin: int,
    end: int,
    arcs: int,
    unvisited: int,
    depth: int,
) -> tuple[int, int, int, int, int, int, int]:
    """Push level after level along heads, from the frontier ``queue[begin:end]``; one thread.

    Ends before a level that should pull, when there is no frontier or no room in ``course``, and in
    the middle of a level that has rows with arcs beyond their heads.

    Parameters
    ----------
    course
        Receives vertices and arcs of each level.
    arcs, unvisited
        Out-arcs of the frontier, and of all that is not visited without it.
    depth
        Level of the frontier.

    Returns
    -------
    levels
        Levels begun.
    begin, end, tail
        Where the frontier is. If rows of it go on beyond their heads, ``queue[end:tail]`` was found
        so far and is not settled.
    arcs, longer
        Out-arcs of the frontier, and how many rows of it go on.
    left
        ``unvisited``, less the arcs of frontiers found.
    """
    levels, left = 0, unvisited
    while True:
        course.vertices[levels], course.arcs[levels] = end - begin, arcs
        levels += 1
        tail, longer = _push_heads(heads, tree, queue, begin, end)
        if longer > 0:
            return levels, begin, end, tail, arcs, longer, left
        arcs = settle_queue(heads, tree, queue, end, tail, depth + levels)
        begin, end = end, tail
        left -= arcs
        if begin == end or levels == len(course.arcs):
            break
        if choose_direction(PUSH, end - begin, arcs, left, len(tree.level)) != PUSH:
            break
    return levels, begin, end, end, arcs, 0, left


@kernel
def list_found(found: Any, queue: Any) -> int:
    """List the vertices of a bitmap in order; how many there are."""
    return int(members(found, queue))


@kernel
def mark_queue(bits: Any, queue: Any, begin: int, end: int) -> None:
    """Make a bitmap that of ``queue[begin:end]``."""
    bits[:] = 0
    put_all(bits, queue[begin:end], end - begin)


@kernel
def count_found(_thread: int, _threads: int, control: Any, tree: Any, lengths: Any) -> None:
    """Count the vertices found and their arcs, and mark them visited; all threads.

    Words `FOUND` and `FOUND_ARCS` count up, word `CHUNK` must be 0 at the start.
    """
    words, count, arcs = len(tree.found), 0, 0
    while True:
        begin = atomic_add(control, CHUNK, CHUNK_WORDS)
        if begin >= words:
            break
        for index in range(begin, min(begin + CHUNK_WORDS, words)):
            found = tree.found[index]
            tree.visited[index] |= found
            count += count_bits(found)
            while found != 0:
                arcs += lengths[index * WORD_BITS + lowest_bit(found)]
                found &= found - ONE
    atomic_add(control, FOUND, count)
    atomic_add(control, FOUND_ARCS, arcs)
