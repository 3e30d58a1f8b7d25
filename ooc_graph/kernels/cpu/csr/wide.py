"""Rows of a wide level of a breadth-first search, looked at in the order of memory.

Rows lie apart in memory, and to come to a row takes longer than to scan a short one. So the unseen
vertices that the rows lead to are listed row by row, and the lists are then read as the rows stand
in the queue. In the order of memory most rows of a level follow each other: they are looked at
together, and so are short rows between them that the search has yet to reach. Nothing but what is
unseen now can be new to these later, so their lists do for later levels, up to the next wide one,
which needs their room.

Threads take words of the level's bitmap, and write for each what no other thread writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, SIX, WORD_BITS, has, lowest_bit, put
from ooc_graph.kernels.common.compiled import small_part, subroutine, varying
from ooc_graph.kernels.common.team import barrier, take_chunk
from ooc_graph.kernels.cpu.csr.arcs import arcs_between, side_of
from ooc_graph.kernels.cpu.csr.levels import ALIVE, IN_LEVEL, LISTED, ROW, UNSEEN
from ooc_graph.kernels.cpu.csr.lookout import BLOCK, LINE_ARCS, NEAR_ARCS, list_unseen
from ooc_graph.prefetch import prefetch

CHUNK_WORDS = 1 << 7
"""Words of a level's bitmap whose rows a thread takes at a time."""
WORD_LISTS = WORD_BITS + 1
"""Lists that a chunk has room for, for each of its words: a row's, and where the last one ends."""
GAP = 16
"""Rows with at most this many arcs between them are looked at together, with those between."""
_AHEAD = 4
"""Runs of rows ahead whose arcs are fetched."""


@subroutine
def _drop_rows(words: Any, begin: int, end: int) -> None:
    for word in range(begin // WORD_BITS, (end + WORD_BITS - 1) // WORD_BITS):
        first = max(begin - word * WORD_BITS, 0)
        after = max((word + 1) * WORD_BITS - end, 0)
        rows = (~np.uint64(0) << np.uint64(first)) & (~np.uint64(0) >> np.uint64(after))
        words[word] &= ~rows


@small_part
def _add_run(runs: Any, count: int, begin: int, end: int, alive: Any) -> int:
    """Append rows that are looked at together, if there are any; the new length."""
    if begin == end:
        return count
    runs[count, 0], runs[count, 1] = begin, end
    _drop_rows(alive, begin, end)
    return count + 1


@subroutine
def _list_runs(sides: Any, scratch: Any, runs: Any, begin: int, end: int) -> Any:
    """List rows of a chunk of words that are looked at together; how many.

    The rows are no longer alive, until they are found to be so.
    """
    count, offsets, alive = varying(0), sides[0].offsets, scratch.bitmaps[ALIVE]
    # Lists have the arcs of both sides, row by row.
    is_single = len(sides[1].targets) > 0
    gap = -1 if is_single else GAP
    start = stop = begin * WORD_BITS
    for word in range(begin, end):
        left, base = scratch.bitmaps[IN_LEVEL, word] & alive[word], word * WORD_BITS
        while left != 0:
            first = base + lowest_bit(left)
            rest = left + (left & (~left + ONE))
            if is_single:
                last, left = first + 1, left & (left - ONE)
            else:
                last = base + (lowest_bit(rest) if rest != 0 else WORD_BITS)
                left &= rest
            if offsets[first] > offsets[stop] + gap:
                count = _add_run(runs, count, start, stop, alive)
                start = first
            stop = last
    return _add_run(runs, count, start, stop, alive)


@small_part
def _look_at(
    arcs: Any, begin: int, end: int, scratch: Any, block: Any, listed: tuple[int, int]
) -> tuple[int, int]:
    """List the unseen vertices that the rows [begin, end) lead to.

    Returns the number of the next list, and where it begins.
    """
    unseen, alive = scratch.bitmaps[UNSEEN], scratch.bitmaps[ALIVE]
    has_list, row, (number, count) = scratch.bitmaps[LISTED], begin - 1, listed
    row_end = arcs.offsets[begin]
    for first in range(arcs.offsets[begin], arcs.offsets[end], BLOCK):
        last = min(first + BLOCK, arcs.offsets[end])
        for one in range(list_unseen(arcs.targets, first, last, unseen, block)):
            arc = block[one]
            if arc >= row_end:
                while arc >= row_end:
                    row += 1
                    row_end = arcs.offsets[row + 1]
                # On its other side the row may have one already.
                if not has(has_list, row):
                    word = np.uint64(row) >> SIX
                    if has_list[word] == 0:
                        scratch.first[word] = number
                    put(has_list, row)
                    put(alive, row)
                    scratch.starts[number] = count
                    number += 1
            scratch.targets[count] = arcs.targets[arc]
            count += 1
    return number, count


@subroutine
def look_ahead(thread: int, threads: int, control: Any, sides: Any, scratch: Any) -> bool:
    """List the unseen vertices that rows of a wide level lead to; False when cancelled."""
    runs, block = scratch.runs[thread], scratch.block[1, thread]
    rows, words = len(sides[0].offsets) - 1, scratch.bitmaps.shape[1]
    room = len(scratch.targets) // threads
    length, limit = thread * room, (thread + 1) * room
    while True:
        begin, end = take_chunk(control, CHUNK_WORDS, words, word=ROW)
        if begin >= end:
            break
        for word in range(begin, end):
            scratch.bitmaps[LISTED, word] = 0
        most = arcs_between(sides, begin * WORD_BITS, min(end * WORD_BITS, rows))
        if length + most > limit:
            continue
        listed = begin * WORD_LISTS, length
        count = _list_runs(sides, scratch, runs, begin, end)
        for index in range(count):
            ahead = runs[min(index + _AHEAD, count - 1)]
            for side in range(2 if len(sides[1].targets) else 1):
                arcs = side_of(sides, side)
                first, last = arcs.offsets[ahead[0]], arcs.offsets[ahead[1]]
                for arc in range(first, min(last, first + NEAR_ARCS), LINE_ARCS):
                    prefetch(arcs.targets, arc)
                listed = _look_at(arcs, runs[index, 0], runs[index, 1], scratch, block, listed)
        number, length = listed
        scratch.starts[number] = length
    return bool(barrier(control, threads))
