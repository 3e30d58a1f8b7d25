"""BFS steps on rows of which only the heads are in memory (CPU).

A level goes along all heads first, with the steps of the search in memory, and then along the arcs
that are fetched for those rows that want more. So it finds what that search finds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.bfs_pull import CHUNK_WORDS, FOUND, FOUND_ARCS, pull_part
from ooc_graph.kernels.bitmap import LOW, ONE, SIX, WORD_BITS, count_bits, has, lowest_bit
from ooc_graph.kernels.compiled import kernel
from ooc_graph.kernels.team import CHUNK, atomic_add
from ooc_graph.kernels.tier_rows import keep


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
        elif window.cursor[index] + count < lengths[row]:
            kept = keep(window, kept, row, window.cursor[index] + count)
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
) -> tuple[int, int, int]:
    """Push arcs that are at hand; the rows kept, the end of the new vertices in ``queue``, arcs."""
    examined, none = 0, np.uint64(len(tree.parent))
    for index in range(begin, end):
        u, count, place = window.row[index], window.asked[index], window.place[0, index]
        me = np.uint64(u)
        for position in range(place, place + count):
            v = np.uint64(neighbors[position])
            if has(tree.visited, v):
                continue
            old = np.uint64(tree.parent[v])
            if me < old:
                tree.parent[v] = me
                if old >= none:
                    queue[tail] = v
                    tail += 1
        examined += count
        if window.cursor[index] + count < lengths[u]:
            kept = keep(window, kept, u, window.cursor[index] + count)
    return kept, tail, examined


@kernel
def settle_queue(tree: Any, queue: Any, begin: int, end: int, depth: int) -> None:
    """Make new vertices, ``queue[begin:end]``, visited at ``depth``, and the only ones found."""
    tree.found[:] = 0
    for index in range(begin, end):
        v = np.uint64(queue[index])
        bit = ONE << (v & LOW)
        tree.visited[v >> SIX] |= bit
        tree.found[v >> SIX] |= bit
        tree.level[v] = depth


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
