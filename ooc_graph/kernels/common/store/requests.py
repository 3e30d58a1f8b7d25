"""Windows of rows whose arcs are scanned elsewhere than on the CPU: lists, requests, flags.

Heads follow a rule, so that where a row's tail begins needs no table in host memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, lowest_bit
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.store.rows import keep_rest

REQUEST_WORDS = 3
"""Words of a request beside the places of its arcs, one in each column: row, cursor, asked."""


@subroutine
def _head_of(length: Any, least: int, shift: int) -> Any:
    """Arcs in the head of a row: ``least``, and one in ``2**shift`` of its arcs."""
    arcs = np.int64(length)
    return min(arcs, (arcs >> shift) + least)


@kernel
def list_behind(
    bits: Any, lengths: Any, least: int, shift: int, window: Any, first: int
) -> tuple[int, int]:
    """List the rows of a bitmap that go beyond their heads, from word ``first`` on.

    Parameters
    ----------
    bits
        uint64 words.
    lengths
        (rows,): arcs of each row.
    least, shift
        What is in a row's head; at most 2**32, and 0 to 63.
    window
        See `ooc_graph.kernels.common.store.rows.Window`.

    Returns
    -------
    How many there are, and the word to go on with; words are listed whole.
    """
    count, index, room = 0, first, len(window.row) - WORD_BITS
    while index < len(bits) and count <= room:
        word = bits[index]
        while word != 0:
            row = index * WORD_BITS + lowest_bit(word)
            word &= word - ONE
            head = _head_of(lengths[row], least, shift)
            if head < lengths[row]:
                window.row[count], window.cursor[count] = row, head
                count += 1
        index += 1
    return count, index


@kernel
def arcs_beyond(bits: Any, lengths: Any, least: int, shift: int) -> int:
    """Arcs that the rows of a bitmap have beyond their heads; parameters as of `list_behind`."""
    arcs = 0
    for index in range(len(bits)):
        word = bits[index]
        while word != 0:
            row = index * WORD_BITS + lowest_bit(word)
            word &= word - ONE
            arcs += np.int64(lengths[row]) - _head_of(lengths[row], least, shift)
    return arcs


def request_words(columns: int) -> int:
    """Words of a request, of rows of so many columns."""
    return REQUEST_WORDS + columns


@kernel
def pack_requests(window: Any, begin: int, end: int, packed: Any) -> None:
    """Copy the requests ``begin … end - 1`` of a window to uint32 words.

    ``packed`` has each word of all requests behind each other: rows, cursors, arcs asked for, and
    the places in each column.
    """
    count = end - begin
    for index in range(count):
        at = begin + index
        packed[index] = window.row[at]
        packed[count + index] = window.cursor[at]
        packed[2 * count + index] = window.asked[at]
        for column in range(len(window.place)):
            packed[(REQUEST_WORDS + column) * count + index] = window.place[column, at]


@kernel
def keep_flagged(limits: Any, window: Any, begin: int, end: int, kept: int, flags: Any) -> int:
    """Have the rows go on whose flag is set, if they have more arcs; the rows kept."""
    for index in range(begin, end):
        if flags[index - begin]:
            kept = keep_rest(window, kept, index, limits)
    return kept


@kernel
def heaviest_ends(
    lengths: Any, window: Any, begin: int, end: int, weights: Any, heaviest: Any
) -> None:
    """Make ``heaviest`` (1,) the largest of it and of the last weights of rows at their ends."""
    for index in range(begin, end):
        count = window.asked[index]
        if count and window.cursor[index] + count == lengths[window.row[index]]:
            last = weights[window.place[1, index] + count - 1]
            heaviest[0] = max(heaviest[0], last)
