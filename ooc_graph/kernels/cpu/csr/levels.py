"""Levels of a breadth-first search: what is new to each, in the order of a queue.

A level's vertices stand in the order in which a queue reaches them: by their predecessor's
position, then as its row has them. Threads take consecutive parts of a level and list what is new
to each; the lists are joined in the order of the parts, and what an earlier part has found is left
out. So the order is that of one thread.

Rows lie apart in memory, and to come to a row takes longer than to scan a short one. So the rows of
a level of many vertices are scanned in the order of memory. What they lead to and is new is listed
row by row, and the lists are then read as the rows stand in the queue.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.bits import lowest_bit
from ooc_graph.kernels.common.compiled import subroutine
from ooc_graph.kernels.common.team import FIRST_FREE, LINE, barrier, take_chunk
from ooc_graph.kernels.cpu.csr.arcs import fetch_rows, length_of
from ooc_graph.kernels.cpu.csr.vectors import UNSEEN_ARCS, unseen
from ooc_graph.types import AnyArray

BEGIN, END, IS_WIDE, LEVEL, ROW = (FIRST_FREE + index * LINE for index in range(5))
"""Words of the control array: rows to scan, as a slice of the order; whether the level is wide, its
number, and the next row of a wide one."""
CHUNK_ROWS = 1 << 12
"""Rows of a wide level that a thread takes at a time."""
_SCAN = -1
"""In place of where a row's list begins: it has found no room."""


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

    ``seen`` uint32 (1 + threads, words) are bitmaps of zeros: what was found before this level, and
    what each thread knows in it. ``vertices`` and ``above`` int32 (threads, vertices) list it, and
    ``counts`` int64 (threads,) says how many; ``ends`` int64 (threads,) bounds parts of the level.
    In a wide one ``kept`` int32 (vertices,) are its rows in the order of memory, ``position`` int32
    (vertices,) says where they stand in the order, and ``first`` int64 (vertices,), by position,
    is 1 more than where their lists begin; the last two are zeros.
    """

    seen: AnyArray
    vertices: AnyArray
    above: AnyArray
    counts: AnyArray
    ends: AnyArray
    kept: AnyArray
    position: AnyArray
    first: AnyArray


@subroutine
def _list_new(arcs: Any, row: int, seen: Any, vertices: Any, above: Any, count: int) -> int:
    """Append what a row leads to and is not in the bitmap yet; the new length."""
    begin, end = arcs.offsets[row], arcs.offsets[row + 1]
    for first in range(begin, end, UNSEEN_ARCS):
        left = unseen(seen, arcs.targets, first, end - first)
        while left != 0:
            vertex = np.uint32(arcs.targets[first + lowest_bit(left)])
            left &= left - np.uint64(1)
            word, bit = vertex >> np.uint32(5), np.uint32(1) << (vertex & np.uint32(31))
            if seen[word] & bit == 0:
                seen[word] |= bit
                vertices[count], above[count] = vertex, row
                count += 1
    return count


@subroutine
def list_level(
    sides: Any, order: Any, begin: int, end: int, seen: Any, lists: Any, count: int
) -> int:
    """Append what is new to ``order[begin:end]`` to both lists; the new length."""
    vertices, above = lists
    for index in range(begin, end):
        fetch_rows(sides, order, index, end)
        row = np.int64(order[index])
        count = _list_new(sides[0], row, seen, vertices, above, count)
        count = _list_new(sides[1], row, seen, vertices, above, count)
    return count


@subroutine
def list_part(
    thread: int, threads: int, control: Any, sides: Any, order: Any, scratch: Any
) -> bool:
    """List what is new to a thread's part of the level; False when cancelled."""
    first = control[BEGIN] if thread == 0 else scratch.ends[thread - 1]
    lists = scratch.vertices[thread], scratch.above[thread]
    mine = scratch.seen[1 + thread]
    for word in range(len(mine)):
        mine[word] = scratch.seen[0, word]
    last = scratch.ends[thread]
    scratch.counts[thread] = list_level(sides, order, first, last, mine, lists, 0)
    return bool(barrier(control, threads))


@subroutine
def join_parts(order: Any, above: Any, found: int, scratch: Any) -> int:
    """Append the threads' lists, less what an earlier one has; the new length."""
    seen = scratch.seen[0]
    for one in range(len(scratch.counts)):
        for index in range(scratch.counts[one]):
            vertex = np.uint32(scratch.vertices[one, index])
            word, bit = vertex >> np.uint32(5), np.uint32(1) << (vertex & np.uint32(31))
            if seen[word] & bit == 0:
                seen[word] |= bit
                order[found], above[found] = vertex, scratch.above[one, index]
                found += 1
    return found


@subroutine
def part_of(begin: int, end: int, thread: int, threads: int) -> tuple[int, int]:
    """A thread's even part of a slice."""
    size = end - begin
    return begin + size * thread // threads, begin + size * (thread + 1) // threads


@subroutine
def _list_all(arcs: Any, row: int, seen: Any, lists: Any, count: int) -> int:
    """Append every arc of a row that leads to what is not in the bitmap; the new length."""
    vertices, above = lists
    begin, end = arcs.offsets[row], arcs.offsets[row + 1]
    for first in range(begin, end, UNSEEN_ARCS):
        left = unseen(seen, arcs.targets, first, end - first)
        while left != 0:
            vertices[count] = arcs.targets[first + lowest_bit(left)]
            above[count] = row
            left &= left - np.uint64(1)
            count += 1
    return count


@subroutine
def list_in_memory_order(
    thread: int, threads: int, control: Any, sides: Any, order: Any, scratch: Any
) -> bool:
    """List what is new to each row of a wide level; False when cancelled."""
    begin, end, seen = control[BEGIN], control[END], scratch.seen[0]
    first, last = part_of(begin, end, thread, threads)
    for index in range(first, last):
        scratch.position[order[index]] = index
    if not barrier(control, threads):
        return False
    rows, count = len(scratch.position), 0
    lists = scratch.vertices[thread], scratch.above[thread]
    while True:
        first, stop = take_chunk(control, CHUNK_ROWS, rows, word=ROW)
        if first >= stop:
            break
        # Without a branch: whether a row is of the level is hard to foresee.
        last = first
        for one in range(first, stop):
            scratch.kept[last] = one
            last += int((scratch.position[one] >= begin) & (scratch.position[one] < end))
        for index in range(first, last):
            row = np.int64(scratch.kept[index])
            at = scratch.position[row]
            if count + length_of(sides, row) > len(lists[0]):
                scratch.first[at] = _SCAN
                continue
            before = count
            count = _list_all(sides[0], row, seen, lists, count)
            count = _list_all(sides[1], row, seen, lists, count)
            if count > before:
                scratch.first[at] = thread * rows + before + 1
    scratch.counts[thread] = count
    return bool(barrier(control, threads))


@subroutine
def join_in_order(sides: Any, answers: Any, scratch: Any, begin: int, end: int) -> int:
    """Append what the rows of a wide level have found, row by row; the new length."""
    seen, rows, found = scratch.seen[0], len(scratch.position), end
    for index in range(begin, end):
        first = scratch.first[index]
        if first == 0:
            continue
        row = answers.order[index]
        if first == _SCAN:
            lists = answers.order, answers.above
            found = list_level(sides, answers.order, index, index + 1, seen, lists, found)
            continue
        one, at = (first - 1) // rows, (first - 1) % rows
        while at < scratch.counts[one] and scratch.above[one, at] == row:
            vertex = np.uint32(scratch.vertices[one, at])
            word, bit = vertex >> np.uint32(5), np.uint32(1) << (vertex & np.uint32(31))
            if seen[word] & bit == 0:
                seen[word] |= bit
                answers.order[found], answers.above[found] = vertex, row
                found += 1
            at += 1
    return found
