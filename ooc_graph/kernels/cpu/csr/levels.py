"""Levels of a breadth-first search: what is new to each, in the order of a queue.

A level's vertices stand in the order in which a queue reaches them: by their predecessor's
position, then as its row has them. Threads take consecutive parts of a level and list what is new
to each; the lists are joined in the order of the parts, and what an earlier part has found is left
out. So the order is that of one thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.bits import count_bits
from ooc_graph.kernels.common.bitmap import LOW, ONE, SIX, drop, has
from ooc_graph.kernels.common.compiled import small_part, subroutine
from ooc_graph.kernels.common.team import FIRST_FREE, LINE, barrier
from ooc_graph.kernels.cpu.csr.arcs import fetch_rows, side_of
from ooc_graph.kernels.cpu.csr.lookout import BLOCK, list_unseen
from ooc_graph.types import AnyArray

BEGIN, END, IS_WIDE, LEVEL, ROW = (FIRST_FREE + index * LINE for index in range(5))
"""Words of the control array: rows to scan, as a slice of the order; whether the level is wide, its
number, and the next row of a wide one."""


class Answers(NamedTuple):
    """What is found: ``order`` and ``above``, the vertex that each was found from, int32.

    By vertex ``predecessor`` int32, and the number of ``steps`` float64; it may have no length.
    """

    order: AnyArray
    above: AnyArray
    predecessor: AnyArray
    steps: AnyArray


LAST, FOUND, KEPT = range(3)
"""Columns of a thread's counts; from `KEPT` on one for each thread."""
UNSEEN, ALIVE, LISTED, IN_LEVEL, OWN = range(5)
"""Bitmaps of scratch: vertices not found before the level, rows that may lead to these, those of
them that have lists, rows of the level; from `OWN` on, what each thread has not found either, and
when parts are joined, what no thread up to it has."""


class Scratch(NamedTuple):
    """What threads write in a level.

    ``bitmaps`` uint64 (`OWN` + threads, words). ``found`` int32 (2, threads - 1, vertices + 1)
    lists what a thread finds, as ``order`` and ``above`` do; the first one writes to these.
    ``counts`` int64 (threads, 2 + threads) are the end of a thread's part of the level, how many it
    has found, and how many are left of each piece of these. ``block`` int64 (2, threads,
    `BLOCK` + 1) are rows to look at, and arcs; ``runs`` int64 (threads, rows, 2) rows to look at
    together.

    Rows that were looked at ahead have lists, which stand in the order of the rows of a chunk:
    ``first`` int64 (words,) is the number of a word's first list, and ``starts`` int64 says where
    each begins in ``targets``, int32. Chunks have parts of ``starts``, threads of ``targets``.
    """

    bitmaps: AnyArray
    found: AnyArray
    counts: AnyArray
    block: AnyArray
    runs: AnyArray
    first: AnyArray
    starts: AnyArray
    targets: AnyArray


@small_part
def _append(vertex: int, row: int, unseen: Any, lists: tuple[Any, Any], count: int) -> int:
    """Append a vertex and the row that leads to it to the lists if it is unseen; the new length."""
    # Without a branch: the lists have room for one more than all.
    lists[0][count], lists[1][count] = vertex, row
    is_new = np.int64(has(unseen, vertex))
    drop(unseen, vertex)
    return count + is_new  # type: ignore[return-value]


@subroutine
def list_level(
    sides: Any, scratch: Any, thread: int, part: Any, unseen: Any, lists: Any, count: int
) -> int:
    """Append what is new to a ``part`` of the order, a slice, to both lists; the new length."""
    (order, begin, end), rows, block = part, scratch.block[0, thread], scratch.block[1, thread]
    for start in range(begin, end, BLOCK):
        alive = np.int64(0)
        for index in range(start, min(start + BLOCK, end)):
            rows[alive] = order[index]
            alive += np.int64(has(scratch.bitmaps[ALIVE], rows[alive]))
        for index in range(alive):
            row = rows[index]
            word, bit = np.uint64(row) >> SIX, ONE << (np.uint64(row) & LOW)
            listed = scratch.bitmaps[LISTED, word]
            if listed & bit:
                at = scratch.first[word] + count_bits(listed & (bit - ONE))
                for arc in range(scratch.starts[at], scratch.starts[at + 1]):
                    target = np.int64(scratch.targets[arc])
                    count = _append(target, row, unseen, lists, count)
                continue
            fetch_rows(sides, rows, index, alive)
            for side in range(2 if len(sides[1].targets) else 1):
                arcs = side_of(sides, side)
                for first in range(arcs.offsets[row], arcs.offsets[row + 1], BLOCK):
                    last = min(first + BLOCK, arcs.offsets[row + 1])
                    for one in range(list_unseen(arcs.targets, first, last, unseen, block)):
                        target = np.int64(arcs.targets[block[one]])
                        count = _append(target, row, unseen, lists, count)
    return count


@subroutine
def list_part(
    thread: int, threads: int, control: Any, sides: Any, answers: Any, scratch: Any
) -> bool:
    """List what is new to a thread's part of the level, the first one's at the end of the order.

    False when cancelled.
    """
    own, last = scratch.bitmaps[OWN + thread], scratch.counts[thread, LAST]
    for word in range(len(own)):
        own[word] = scratch.bitmaps[UNSEEN, word]
    if thread == 0:
        first, begin, lists = control[BEGIN], control[END], (answers.order, answers.above)
    else:
        first, begin = scratch.counts[thread - 1, LAST], np.int64(0)
        lists = scratch.found[0, thread - 1], scratch.found[1, thread - 1]
    part = answers.order, first, last
    scratch.counts[thread, FOUND] = list_level(sides, scratch, thread, part, own, lists, begin)
    return bool(barrier(control, threads))


@subroutine
def join_parts(thread: int, threads: int, control: Any, answers: Any, scratch: Any) -> Any:
    """Append the other threads' lists, less what an earlier one has; the new length.

    Makes the next level's bitmaps. Each thread does a part of these and of each list. -1 when
    cancelled.
    """
    bitmaps, counts, nothing = scratch.bitmaps, scratch.counts, np.int64(0)
    first, last = part_of(nothing, bitmaps.shape[1], thread, threads)
    for word in range(first, last):
        left = bitmaps[OWN, word]
        for one in range(OWN + 1, OWN + threads):
            left &= bitmaps[one, word]
            bitmaps[one, word] = left
        bitmaps[IN_LEVEL, word] = bitmaps[UNSEEN, word] & ~left
        bitmaps[UNSEEN, word] = left
    if not barrier(control, threads):
        return -1
    for one in range(1, threads):
        vertices, above = scratch.found[0, one - 1], scratch.found[1, one - 1]
        first, last = part_of(nothing, counts[one, FOUND], thread, threads)
        end = first
        for index in range(first, last):
            vertex = np.int64(vertices[index])
            vertices[end], above[end] = vertex, above[index]
            end += np.int64(has(bitmaps[OWN + one - 1], vertex))
        counts[one, KEPT + thread] = end - first
    if not barrier(control, threads):
        return -1
    length = counts[0, FOUND]
    for one in range(1, threads):
        for piece in range(threads):
            kept = counts[one, KEPT + piece]
            if piece == thread:
                first, _ = part_of(nothing, counts[one, FOUND], thread, threads)
                for index in range(kept):
                    answers.order[length + index] = scratch.found[0, one - 1, first + index]
                    answers.above[length + index] = scratch.found[1, one - 1, first + index]
            length += kept
    return length if barrier(control, threads) else -1


@subroutine
def part_of(begin: int, end: int, thread: int, threads: int) -> tuple[int, int]:
    """A thread's even part of a slice."""
    size = end - begin
    return begin + size * thread // threads, begin + size * (thread + 1) // threads
