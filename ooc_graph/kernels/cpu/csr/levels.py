"""Levels of a breadth-first search: what is new to each, in the order of a queue.

A level's vertices stand in the order in which a queue reaches them: by their predecessor's
position, then as its row has them. Threads take consecutive parts of a level and list what is new
to each; the lists are joined in the order of the parts, and what an earlier part has found is left
out. So the order is that of one thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import drop, has
from ooc_graph.kernels.common.compiled import small_part, subroutine
from ooc_graph.kernels.common.team import FIRST_FREE, LINE, barrier
from ooc_graph.kernels.cpu.csr.arcs import fetch_rows
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


class Scratch(NamedTuple):
    """What threads write in a level.

    ``unseen`` uint64 (1 + threads, words) are bitmaps: what was not found before this level, and by
    each thread in it. ``vertices`` and ``above`` int32 (threads, room) list what it finds, and
    ``counts`` int64 (threads,) says how many; ``ends`` int64 (threads,) bounds parts of the level.
    ``block`` int64 (1 + threads, `BLOCK` + 1) are arcs that lead there, and what is to be joined.

    Of a wide level ``level`` uint64 (words,) is the bitmap, and then that of rows that have found
    anything; ``kept`` int32 (threads, rows) are rows of a part of it. ``first`` and ``by`` int64
    (words,) say which thread has the lists of a word's rows, and the number of the first one.
    ``above`` then says where each list begins.
    """

    unseen: AnyArray
    vertices: AnyArray
    above: AnyArray
    counts: AnyArray
    ends: AnyArray
    block: AnyArray
    level: AnyArray
    kept: AnyArray
    first: AnyArray
    by: AnyArray


@small_part
def _list_new(arcs: Any, row: int, unseen: Any, lists: Any, count: int) -> int:
    """Append what a row leads to and is not in the bitmap yet; the new length."""
    vertices, above, block = lists
    end = arcs.offsets[row + 1]
    for first in range(arcs.offsets[row], end, BLOCK):
        for index in range(
            list_unseen(arcs.targets, first, min(first + BLOCK, end), unseen, block)
        ):
            vertex = arcs.targets[block[index]]
            if has(unseen, vertex):
                drop(unseen, vertex)
                vertices[count], above[count] = vertex, row
                count += 1
    return count


@subroutine
def list_level(
    sides: Any, order: Any, begin: int, end: int, unseen: Any, lists: Any, count: int
) -> int:
    """Append what is new to ``order[begin:end]`` to both lists; the new length."""
    for index in range(begin, end):
        fetch_rows(sides, order, index, end)
        row = np.int64(order[index])
        count = _list_new(sides[0], row, unseen, lists, count)
        if len(sides[1].targets):
            count = _list_new(sides[1], row, unseen, lists, count)
    return count


@subroutine
def list_part(
    thread: int, threads: int, control: Any, sides: Any, answers: Any, scratch: Any
) -> bool:
    """List what is new to a thread's part of the level, the first one's at the end of the order.

    False when cancelled.
    """
    order, block, mine = answers.order, scratch.block[thread], scratch.unseen[1 + thread]
    for word in range(len(mine)):
        mine[word] = scratch.unseen[0, word]
    if thread == 0:
        first, begin, lists = control[BEGIN], control[END], (order, answers.above, block)
    else:
        first, begin = scratch.ends[thread - 1], np.int64(0)
        lists = scratch.vertices[thread], scratch.above[thread], block
    last = scratch.ends[thread]
    scratch.counts[thread] = list_level(sides, order, first, last, mine, lists, begin)
    return bool(barrier(control, threads))


@subroutine
def join_parts(answers: Any, scratch: Any) -> Any:
    """Append the other threads' lists, less what an earlier one has; the new length."""
    unseen, found = scratch.unseen[0], scratch.counts[0]
    for word in range(len(unseen)):
        unseen[word] = scratch.unseen[1, word]
    for one in range(1, len(scratch.counts)):
        for index in range(scratch.counts[one]):
            vertex = scratch.vertices[one, index]
            if has(unseen, vertex):
                drop(unseen, vertex)
                answers.order[found], answers.above[found] = vertex, scratch.above[one, index]
                found += 1
    return found


@subroutine
def part_of(begin: int, end: int, thread: int, threads: int) -> tuple[int, int]:
    """A thread's even part of a slice."""
    size = end - begin
    return begin + size * thread // threads, begin + size * (thread + 1) // threads
