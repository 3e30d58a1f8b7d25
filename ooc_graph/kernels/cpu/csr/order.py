"""Breadth-first order of a sparse matrix, with the predecessors that a queue would give.

A level's vertices stand in the order in which a queue reaches them: by their predecessor's
position, then as its row has them. Threads take consecutive parts of a level and list what is new
to each; the lists are joined in the order of the parts, and what an earlier part has found is left
out. So the order is that of one thread.

Rows lie apart in memory, and to come to a row takes longer than to scan a short one. So the rows of
a level of many vertices are looked through in the order of memory first; most have nothing new, and
only the others are scanned as they stand in the queue.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.bits import lowest_bit
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.team import FIRST_FREE, LINE, Team, barrier, new_control
from ooc_graph.kernels.cpu.csr.arcs import Arcs, even_rows, fetch_rows, share_rows
from ooc_graph.kernels.cpu.csr.vectors import UNSEEN_ARCS, unseen
from ooc_graph.types import AnyArray

NONE = -9999
"""Predecessor of what has none."""
_BEGIN, _END, _IS_WIDE = (FIRST_FREE + index * LINE for index in range(3))
"""Words of the control array: rows to scan, as a slice of a list, and whether the level is wide."""
FEW_ROWS = 512
"""Levels of fewer vertices are searched by one thread."""
WIDE_SHARE = 16
"""A level of one in so many vertices is looked through in the order of memory."""


class Scratch(NamedTuple):
    """What threads write in a level.

    ``seen`` uint32 (1 + threads, words) are bitmaps of zeros: what was found before this level, and
    what each thread knows in it. ``vertices`` and ``above`` int32 (threads, vertices) list it, and
    ``counts`` int64 (threads,) says how many; ``ends`` int64 (threads,) bounds parts of the level.
    ``marks`` uint8 (vertices,) of zeros and ``kept`` int32 (vertices,) are the rows to scan.
    """

    seen: AnyArray
    vertices: AnyArray
    above: AnyArray
    counts: AnyArray
    ends: AnyArray
    marks: AnyArray
    kept: AnyArray


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
def _list_level(
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
def _join(order: Any, above: Any, found: int, scratch: Any) -> int:
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
def _has_new(arcs: Any, row: int, seen: Any) -> bool:
    """Whether a row leads to what is not in the bitmap."""
    begin, end = arcs.offsets[row], arcs.offsets[row + 1]
    for first in range(begin, end, UNSEEN_ARCS):
        if unseen(seen, arcs.targets, first, end - first) != 0:
            return True
    return False


@subroutine
def _mark_rows(
    thread: int, threads: int, control: Any, sides: Any, order: Any, scratch: Any
) -> bool:
    """Mark the rows of the level that have anything new; False when cancelled."""
    begin, end, marks = control[_BEGIN], control[_END], scratch.marks
    size = end - begin
    for index in range(begin + size * thread // threads, begin + size * (thread + 1) // threads):
        marks[order[index]] = 1
    if not barrier(control, threads):
        return False
    first = even_rows(sides[0].offsets, thread, threads)
    for row in range(first, even_rows(sides[0].offsets, thread + 1, threads)):
        if marks[row]:
            seen = scratch.seen[0]
            marks[row] = _has_new(sides[0], row, seen) or _has_new(sides[1], row, seen)
    if not barrier(control, threads):
        return False
    if thread == 0:
        count = 0
        for index in range(begin, end):
            row = order[index]
            if marks[row]:
                marks[row] = 0
                scratch.kept[count] = row
                count += 1
        share_rows(sides, scratch.kept, 0, count, scratch.ends)
        control[_BEGIN] = 0
    return bool(barrier(control, threads))


@subroutine
def _list_part(
    thread: int, threads: int, control: Any, sides: Any, order: Any, scratch: Any
) -> bool:
    """List what is new to a thread's part of the level; False when cancelled."""
    if control[_IS_WIDE] and not _mark_rows(thread, threads, control, sides, order, scratch):
        return False
    rows = scratch.kept if control[_IS_WIDE] else order
    first = control[_BEGIN] if thread == 0 else scratch.ends[thread - 1]
    lists = scratch.vertices[thread], scratch.above[thread]
    mine = scratch.seen[1 + thread]
    for word in range(len(mine)):
        mine[word] = scratch.seen[0, word]
    last = scratch.ends[thread]
    scratch.counts[thread] = _list_level(sides, rows, first, last, mine, lists, 0)
    return bool(barrier(control, threads))


@kernel
def _search(
    thread: int, threads: int, control: Any, sides: Any, order: Any, above: Any, scratch: Any
) -> None:
    """Search from ``order[0]``; when all return, ``control[_END]`` says how many were found.

    ``order`` int32 (vertices,) receives them, and ``above`` the vertex that each was found from.
    """
    seen, begin, end = scratch.seen[0], 0, 1
    if thread == 0:
        start = np.uint32(order[0])
        seen[start >> np.uint32(5)] |= np.uint32(1) << (start & np.uint32(31))
    while True:
        if thread == 0:
            while begin < end and end - begin < FEW_ROWS:
                found = _list_level(sides, order, begin, end, seen, (order, above), end)
                begin, end = end, found
            control[_BEGIN], control[_END] = begin, end
            control[_IS_WIDE] = (end - begin) * WIDE_SHARE >= len(order)
            share_rows(sides, order, begin, end, scratch.ends)
        if not barrier(control, threads):
            return
        if control[_BEGIN] == control[_END]:
            return
        if not _list_part(thread, threads, control, sides, order, scratch):
            return
        if thread == 0:
            begin, end = end, _join(order, above, end, scratch)


@kernel
def _by_vertex(order: Any, above: Any, predecessor: Any, steps: Any) -> None:
    """Write predecessors, and if ``steps`` (vertices,) has a length, numbers of arcs, by vertex."""
    counted = len(steps) > 0
    if counted:
        steps[order[0]] = 0
    for index in range(1, len(order)):
        predecessor[order[index]] = above[index]
        if counted:
            steps[order[index]] = steps[above[index]] + 1


def breadth_first(
    sides: tuple[Arcs, Arcs], start: int, team: Team, steps: AnyArray | None = None
) -> tuple[AnyArray, AnyArray]:
    """Order and predecessors, int32, of a search along arcs of both ``sides``.

    ``steps`` float64 (vertices,) receives the number of arcs from ``start`` to what is reached.
    """
    vertices, threads = len(sides[0].offsets) - 1, team.threads
    lists = np.empty((2, threads, vertices), np.int32)
    bounds = np.zeros((2, threads), np.int64)
    seen = np.zeros((1 + threads, vertices // 32 + 1), np.uint32)
    order, above = np.empty((2, vertices), np.int32)
    order[0] = start
    control = new_control()
    marks, kept = np.zeros(vertices, np.uint8), np.empty(vertices, np.int32)
    scratch = Scratch(seen, lists[0], lists[1], bounds[0], bounds[1], marks, kept)
    team.launch(_search, control, sides, order, above, scratch)
    found = int(control[_END])
    predecessor = np.full(vertices, NONE, np.int32)
    _by_vertex(order[:found], above, predecessor, np.empty(0) if steps is None else steps)
    return order[:found], predecessor
