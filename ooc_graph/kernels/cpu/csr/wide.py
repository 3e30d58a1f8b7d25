"""Wide levels of a breadth-first search, whose rows are scanned in the order of memory.

Rows lie apart in memory, and to come to a row takes longer than to scan a short one. What the rows
lead to and is new is listed row by row, and the lists are then read as the rows stand in the queue.
In the order of memory most rows of a level follow each other: their arcs are looked at together.

Threads take words of the level's bitmap, and write for each what no other thread writes beside it:
a bitmap of the rows with lists, and where the first of these begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.bits import count_bits
from ooc_graph.kernels.common.bitmap import LOW, ONE, SIX, WORD_BITS, drop, has, lowest_bit, put
from ooc_graph.kernels.common.compiled import small_part, subroutine
from ooc_graph.kernels.common.team import barrier, take_chunk
from ooc_graph.kernels.cpu.csr.arcs import arcs_between, fetch_rows
from ooc_graph.kernels.cpu.csr.levels import ROW, list_level
from ooc_graph.kernels.cpu.csr.lookout import BLOCK, list_unseen

CHUNK_WORDS = 1 << 7
"""Words of a level's bitmap whose rows a thread takes at a time."""
GAP = 16
"""Rows whose arcs are no more than so many apart are looked at together, with what lies between."""
_SCAN = -1
"""In place of where a word's lists begin: they have found no room."""


@small_part
def _end_of_run(sides: Any, rows: Any, begin: int, end: int) -> int:
    """How far arcs of ``rows[begin:end]`` almost follow each other, up to `BLOCK` of them."""
    offsets, stop = sides[0].offsets, begin + 1
    if len(sides[1].targets):
        return stop
    first, last = offsets[rows[begin]], offsets[rows[begin] + 1]
    while stop < end and offsets[rows[stop]] <= last + GAP:
        last = offsets[rows[stop] + 1]
        if last - first > BLOCK:
            break
        stop += 1
    return stop


@small_part
def _list_run(
    arcs: Any, index: int, stop: int, scratch: Any, thread: int, listed: tuple[int, int]
) -> tuple[int, int]:
    """Append every arc of a run of rows that leads to what is not in the bitmap.

    Returns how many rows with lists there are now, and how long these are together.
    """
    rows, block, (lists, count) = scratch.kept[thread], scratch.block[thread], listed
    row = np.int64(rows[index])
    begin, end = arcs.offsets[row], arcs.offsets[rows[stop - 1] + 1]
    for first in range(begin, end, BLOCK):
        last = min(first + BLOCK, end)
        for one in range(list_unseen(arcs.targets, first, last, scratch.unseen[0], block)):
            arc = block[one]
            while arc >= arcs.offsets[row + 1]:
                index += 1
                row = np.int64(rows[index])
            if arc < arcs.offsets[row]:
                continue
            if not has(scratch.level, row):
                put(scratch.level, row)
                scratch.above[thread, lists] = count
                lists += 1
            scratch.vertices[thread, count] = arcs.targets[arc]
            count += 1
    return lists, count


@small_part
def _list_word(
    sides: Any, scratch: Any, thread: int, word: int, span: Any, listed: tuple[int, int]
) -> tuple[int, int]:
    """Append what is new to each row of a word of the level; as `_list_run`.

    ``span``: where the word's rows begin and end among those that are kept, and how many these are.
    """
    (first, last, all_rows), kept, rows = span, scratch.kept[thread], len(sides[0].offsets) - 1
    begin, end = word * WORD_BITS, min((word + 1) * WORD_BITS, rows)
    if listed[1] + arcs_between(sides, begin, end) > scratch.vertices.shape[1]:
        scratch.first[word] = _SCAN
        return listed
    scratch.first[word], scratch.by[word], scratch.level[word] = listed[0], thread, 0
    while first < last:
        stop = _end_of_run(sides, kept, first, last)
        fetch_rows(sides, kept, stop - 1, all_rows)
        listed = _list_run(sides[0], first, stop, scratch, thread, listed)
        if len(sides[1].targets):
            listed = _list_run(sides[1], first, stop, scratch, thread, listed)
        first = stop
    return listed


@subroutine
def list_in_memory_order(thread: int, threads: int, control: Any, sides: Any, scratch: Any) -> bool:
    """List what is new to each row of a wide level; False when cancelled."""
    level, kept, listed = scratch.level, scratch.kept[thread], (np.int64(0), np.int64(0))
    while True:
        begin, end = take_chunk(control, CHUNK_WORDS, len(level), word=ROW)
        if begin >= end:
            break
        rows = 0
        for word in range(begin, end):
            left = level[word]
            while left != 0:
                kept[rows] = word * WORD_BITS + lowest_bit(left)
                left &= left - ONE
                rows += 1
        first = np.int64(0)
        for word in range(begin, end):
            last = first + count_bits(level[word])
            listed = _list_word(sides, scratch, thread, word, (first, last, rows), listed)
            first = last
    scratch.above[thread, listed[0]] = listed[1]
    return bool(barrier(control, threads))


@small_part
def _join_row(sides: Any, answers: Any, scratch: Any, index: int, found: int) -> Any:
    """Append what a row of the order has found; the new length."""
    row, unseen = np.uint64(answers.order[index]), scratch.unseen[0]
    word, bit = np.int64(row >> SIX), ONE << (row & LOW)
    at = scratch.first[word]
    if at == _SCAN:
        lists = answers.order, answers.above, scratch.block[0]
        return list_level(sides, answers.order, index, index + 1, unseen, lists, found)
    at += count_bits(scratch.level[word] & (bit - ONE))
    vertices, starts = scratch.vertices[scratch.by[word]], scratch.above[scratch.by[word]]
    for one in range(starts[at], starts[at + 1]):
        vertex = vertices[one]
        if has(unseen, vertex):
            drop(unseen, vertex)
            answers.order[found], answers.above[found] = vertex, row
            found += 1
    return found


@subroutine
def join_in_order(sides: Any, answers: Any, scratch: Any, begin: int, end: int) -> int:
    """Append what the rows of a wide level have found, row by row; the new length."""
    found, listed = end, scratch.block[len(scratch.counts)]
    for part in range(begin, end, BLOCK):
        count = 0
        for index in range(part, min(part + BLOCK, end)):
            listed[count] = index
            count += int(has(scratch.level, answers.order[index]))
        for one in range(count):
            found = _join_row(sides, answers, scratch, listed[one], found)
    return found
