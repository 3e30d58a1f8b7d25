"""Windows of rows that want arcs beyond their heads; see `ooc_graph.kernels.common.store.rows`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, lowest_bit
from ooc_graph.kernels.common.compiled import inlined, kernel, subroutine
from ooc_graph.types import AnyArray


class AtHand(NamedTuple):
    """How many of the first arcs of each row are at hand, and all of its arcs: ``lengths`` (rows,).

    By table: ``starts[r + 1] - starts[r]``. Or by rule, if ``starts`` is empty: ``least``, at most
    2**32, and one in ``2**shift`` of its arcs; a shift of 63 adds none.
    """

    lengths: AnyArray
    starts: AnyArray
    least: int
    shift: int


@inlined
def arcs_at_hand(at_hand: Any, row: int) -> Any:
    """How many of a row's arcs are at hand."""
    if len(at_hand.starts) > 0:
        return np.int64(at_hand.starts[row + 1]) - np.int64(at_hand.starts[row])
    length = np.int64(at_hand.lengths[row])
    return min(length, (length >> at_hand.shift) + at_hand.least)


@subroutine
def _list_row(at_hand: Any, window: Any, count: int, row: int) -> int:
    """List a row if it has more arcs than are at hand; how many are listed."""
    head = arcs_at_hand(at_hand, row)
    if head < at_hand.lengths[row]:
        window.row[count], window.cursor[count] = row, head
        count += 1
    return count


@kernel
def list_tails(bits: Any, at_hand: Any, window: Any, first: int) -> tuple[int, int]:
    """List the rows of a bitmap that go beyond what is at hand, from word ``first`` on.

    Returns how many there are, and the word to go on with; words are listed whole.
    """
    count, index, room = 0, first, len(window.row) - WORD_BITS
    while index < len(bits) and count <= room:
        word = bits[index]
        while word != 0:
            count = _list_row(at_hand, window, count, index * WORD_BITS + lowest_bit(word))
            word &= word - ONE
        index += 1
    return count, index


@kernel
def list_queue(queue: Any, first: int, at_hand: Any, window: Any) -> tuple[int, int]:
    """As `list_tails`, of the rows ``queue[first:]``; also the entry to go on with."""
    count = 0
    while first < len(queue) and count < len(window.row):
        count = _list_row(at_hand, window, count, np.int64(queue[first]))
        first += 1
    return count, first


@kernel
def point_at_heads(heads: Any, window: Any, waiting: int) -> None:
    """Ask for the heads of the window's rows, which are at hand."""
    for index in range(waiting):
        row = window.row[index]
        for column in range(len(window.place)):
            window.place[column, index] = heads.starts[row]
        window.asked[index] = heads.starts[row + 1] - heads.starts[row]


@kernel
def ask(heads: Any, limits: Any, window: Any, waiting: int, look: int) -> bool:
    """Ask for up to ``look`` more arcs of each row; tell whether positions ascend."""
    ascending, before = True, np.int64(-1)
    for index in range(waiting):
        row, cursor = window.row[index], window.cursor[index]
        position = heads.places[row >> 6] + cursor
        for other in range(row & ~63, row):
            position += heads.lengths[other]
        window.position[index] = position
        window.asked[index] = min(limits[row] - cursor, look)
        ascending &= before <= position
        before = position
    return ascending


@kernel
def locate(
    window: Any, begin: int, end: int, column: int, shift: int, units: Any
) -> tuple[int, int]:
    """Note the units that hold requests from ``begin`` on, as far as there is room.

    ``shift`` is log2 of a unit's elements. Returns the first request left out, and the units.
    """
    count, last, mask = 0, np.int64(-1), (1 << shift) - 1
    for index in range(begin, end):
        position = window.position[index]
        first, final = position >> shift, (position + window.asked[index] - 1) >> shift
        slot = count - 1 if first == last else count
        if slot + final - first >= len(units):
            return index, count
        for unit in range(max(first, last + 1), final + 1):
            units[count] = unit
            count += 1
        last = final
        window.place[column, index] = (slot << shift) + (position & mask)
    return end, count
