"""Wide levels of a breadth-first search, whose rows are scanned in the order of memory.

Rows lie apart in memory, and to come to a row takes longer than to scan a short one. What the rows
lead to and is new is listed row by row, and the lists are then read as the rows stand in the queue.
In the order of memory most rows of a level follow each other: their arcs are looked at together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, drop, has, lowest_bit
from ooc_graph.kernels.common.compiled import small_part, subroutine
from ooc_graph.kernels.common.team import barrier, take_chunk
from ooc_graph.kernels.cpu.csr.arcs import fetch_rows
from ooc_graph.kernels.cpu.csr.levels import BEGIN, END, ROW, list_level, part_of
from ooc_graph.kernels.cpu.csr.lookout import BLOCK, list_unseen

CHUNK_WORDS = 1 << 7
"""Words of a level's bitmap whose rows a thread takes at a time."""
GAP = 16
"""So many arcs of rows between are looked at rather than passed by."""
_SCAN = -1
"""In place of where a row's list begins: it has found no room."""


@small_part
def _end_of_run(sides: Any, rows: Any, begin: int, end: int) -> int:
    """How far arcs of ``rows[begin:end]`` almost follow each other, up to `BLOCK` of them."""
    offsets, stop = sides[0].offsets, begin + 1
    if len(sides[1].targets) > 0:
        return stop
    first, last = offsets[rows[begin]], offsets[rows[begin] + 1]
    while stop < end and offsets[rows[stop]] <= last + GAP:
        last = offsets[rows[stop] + 1]
        if last - first > BLOCK:
            break
        stop += 1
    return stop


@small_part
def _arcs_of_run(sides: Any, rows: Any, begin: int, end: int) -> Any:
    """How many arcs a run of rows has, with those between the rows."""
    first, last = rows[begin], rows[end - 1] + 1
    arcs = sides[0].offsets[last] - sides[0].offsets[first]
    if len(sides[1].targets):
        arcs += sides[1].offsets[last] - sides[1].offsets[first]
    return arcs


@small_part
def _list_run(arcs: Any, index: int, stop: int, scratch: Any, thread: int, count: int) -> int:
    """Append every arc of a run of rows that leads to what is not in the bitmap; the new length."""
    rows, block = scratch.kept[thread], scratch.block[thread]
    row = np.int64(rows[index])
    begin, end, listed = arcs.offsets[row], arcs.offsets[rows[stop - 1] + 1], np.int64(-1)
    for first in range(begin, end, BLOCK):
        last = min(first + BLOCK, end)
        for one in range(list_unseen(arcs.targets, first, last, scratch.unseen[0], block)):
            arc = block[one]
            while arc >= arcs.offsets[row + 1]:
                index += 1
                row = np.int64(rows[index])
            if arc < arcs.offsets[row]:
                continue
            if row != listed:
                listed, at = row, np.int64(scratch.position[row])
                if scratch.first[at] == 0:
                    scratch.first[at] = thread * len(scratch.first) + count + 1
            scratch.vertices[thread, count], scratch.above[thread, count] = arcs.targets[arc], row
            count += 1
    return count


@subroutine
def list_in_memory_order(
    thread: int, threads: int, control: Any, sides: Any, order: Any, scratch: Any
) -> bool:
    """List what is new to each row of a wide level; False when cancelled."""
    level, kept, count = scratch.level, scratch.kept[thread], 0
    begin, end = part_of(control[BEGIN], control[END], thread, threads)
    for index in range(begin, end):
        scratch.position[order[index]] = index
    if not barrier(control, threads):
        return False
    while True:
        word, end = take_chunk(control, CHUNK_WORDS, len(level), word=ROW)
        if word >= end:
            break
        last = 0
        for at in range(word, end):
            left = level[at]
            while left != 0:
                kept[last] = at * WORD_BITS + lowest_bit(left)
                left &= left - ONE
                last += 1
        first = 0
        while first < last:
            stop = _end_of_run(sides, kept, first, last)
            fetch_rows(sides, kept, stop - 1, last)
            if count + _arcs_of_run(sides, kept, first, stop) > len(scratch.vertices[thread]):
                for index in range(first, stop):
                    scratch.first[scratch.position[kept[index]]] = _SCAN
            else:
                count = _list_run(sides[0], first, stop, scratch, thread, count)
                if len(sides[1].targets):
                    count = _list_run(sides[1], first, stop, scratch, thread, count)
            first = stop
    scratch.counts[thread] = count
    return bool(barrier(control, threads))


@small_part
def _join_row(sides: Any, answers: Any, scratch: Any, index: int, found: int) -> int:
    """Append what a row of the order has found; the new length."""
    row, first, unseen = answers.order[index], scratch.first[index], scratch.unseen[0]
    if first == _SCAN:
        lists = answers.order, answers.above, scratch.block[0]
        return list_level(sides, answers.order, index, index + 1, unseen, lists, found)
    one, at = (first - 1) // len(scratch.first), (first - 1) % len(scratch.first)
    while at < scratch.counts[one] and scratch.above[one, at] == row:
        vertex = scratch.vertices[one, at]
        if has(unseen, vertex):
            drop(unseen, vertex)
            answers.order[found], answers.above[found] = vertex, row
            found += 1
        at += 1
    return found


@subroutine
def join_in_order(sides: Any, answers: Any, scratch: Any, begin: int, end: int) -> int:
    """Append what the rows of a wide level have found, row by row; the new length."""
    found, listed = end, scratch.kept[0]
    for part in range(begin, end, len(listed)):
        count = 0
        for index in range(part, min(part + len(listed), end)):
            listed[count] = index
            count += int(scratch.first[index] != 0)
        for one in range(count):
            found = _join_row(sides, answers, scratch, np.int64(listed[one]), found)
    return found
