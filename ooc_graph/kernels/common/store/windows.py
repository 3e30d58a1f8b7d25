"""Windows of rows that want arcs beyond their heads; see `ooc_graph.kernels.common.store.rows`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, lowest_bit
from ooc_graph.kernels.common.compiled import inlined, kernel, subroutine
from ooc_graph.types import AnyArray


class LoadedArcs(NamedTuple):
    """How many of the first arcs of each row are loaded, and all of its arcs: ``lengths`` (rows,).

    By table: ``starts[r + 1] - starts[r]``. Or by rule, if ``starts`` is empty: ``least``, at most
    2**32, and one in ``2**shift`` of its arcs; a shift of 63 adds none.
    """

    lengths: AnyArray
    starts: AnyArray
    least: int
    shift: int


@inlined
def loaded_arcs(loaded: Any, row: int) -> Any:
    """How many of a row's arcs are loaded."""
    if len(loaded.starts) > 0:
        return np.int64(loaded.starts[row + 1]) - np.int64(loaded.starts[row])
    length = np.int64(loaded.lengths[row])
    return min(length, (length >> loaded.shift) + loaded.least)


@subroutine
def _list_row(loaded: Any, window: Any, count: int, row: int) -> int:
    """List a row if it has more arcs than are loaded; how many are listed."""
    head = loaded_arcs(loaded, row)
    if head < loaded.lengths[row]:
        window.row[count], window.cursor[count] = row, head
        count += 1
    return count


@kernel
def list_tails(bits: Any, loaded: Any, window: Any, first: int) -> tuple[int, int]:
    """List the rows of a bitmap that go beyond what is loaded, from word ``first`` on.

    Returns how many there are, and the word to go on with; words are listed whole.
    """
    count, index, most = 0, first, len(window.row) - WORD_BITS
    while index < len(bits) and count <= most:
        word = bits[index]
        while word != 0:
            count = _list_row(loaded, window, count, index * WORD_BITS + lowest_bit(word))
            word &= word - ONE
        index += 1
    return count, index


@kernel
def list_queue(queue: Any, first: int, loaded: Any, window: Any) -> tuple[int, int]:
    """As `list_tails`, of the rows ``queue[first:]``; also the entry to go on with."""
    count = 0
    while first < len(queue) and count < len(window.row):
        count = _list_row(loaded, window, count, np.int64(queue[first]))
        first += 1
    return count, first


@kernel
def point_at_heads(heads: Any, window: Any, waiting: int) -> None:
    """Ask for the heads of the window's rows, which are loaded."""
    for index in range(waiting):
        row = window.row[index]
        for column in range(len(window.offset)):
            window.offset[column, index] = heads.starts[row]
        window.asked[index] = heads.starts[row + 1] - heads.starts[row]


@kernel
def ask(heads: Any, limits: Any, window: Any, waiting: int, look: int) -> bool:
    """Ask for up to ``look`` more arcs of each row; tell whether positions ascend."""
    ascending, before = True, np.int64(-1)
    for index in range(waiting):
        row, cursor = window.row[index], window.cursor[index]
        position = heads.positions[row >> 6] + cursor
        for other in range(row & ~63, row):
            position += heads.lengths[other]
        window.position[index] = position
        window.asked[index] = min(limits[row] - cursor, look)
        ascending &= before <= position
        before = position
    return ascending


@kernel
def locate(
    window: Any, begin: int, end: int, column: int, shift: int, blocks: Any
) -> tuple[int, int]:
    """Note the blocks that hold requests from ``begin`` on, as far as they fit.

    ``shift`` is log2 of a block's elements. Returns the first request left out, and the blocks.
    """
    count, last, mask = 0, np.int64(-1), (1 << shift) - 1
    for index in range(begin, end):
        position = window.position[index]
        first, final = position >> shift, (position + window.asked[index] - 1) >> shift
        slot = count - 1 if first == last else count
        if slot + final - first >= len(blocks):
            return index, count
        for block in range(max(first, last + 1), final + 1):
            blocks[count] = block
            count += 1
        last = final
        window.offset[column, index] = (slot << shift) + (position & mask)
    return end, count
