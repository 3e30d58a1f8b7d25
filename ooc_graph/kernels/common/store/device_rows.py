"""Rows that a CUDA device asks for beyond what is at hand: listed, and kept, on the host.

The same number of arcs of every row is at hand, so that a row goes on at a place that is known: no
cursors stand beside the rows. See `ooc_graph.kernels.common.store.rows` for windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, Words, lowest_bit
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.store.rows import TierRows, keep_rest
from ooc_graph.types import AnyArray


@kernel
def list_beyond(bits: Any, lengths: Any, cursor: int, window: Any, first: int) -> tuple[int, int]:
    """List the rows of a bitmap with more than ``cursor`` arcs, from word ``first`` on.

    Each goes on at its ``cursor``-th arc. Returns how many there are, and the word to go on with;
    words are listed whole.
    """
    count, index, room = 0, first, len(window.row) - WORD_BITS
    while index < len(bits) and count <= room:
        word = bits[index]
        while word != 0:
            row = index * WORD_BITS + lowest_bit(word)
            word &= word - ONE
            if lengths[row] > cursor:
                window.row[count], window.cursor[count] = row, cursor
                count += 1
        index += 1
    return count, index


@kernel
def keep_missed(hit: Any, lengths: Any, window: Any, begin: int, end: int, kept: int) -> int:
    """Keep the rows of requests ``begin … end - 1`` that go on where nothing was ``hit``.

    Parameters
    ----------
    hit
        uint8, of each of these requests whether its row is done.
    kept
        Places of the window that are taken; see
        `ooc_graph.kernels.common.store.rows.TierRows.scan`.
    """
    for index in range(begin, end):
        if hit[index - begin] == 0:
            kept = keep_rest(window, kept, index, lengths)
    return kept


@kernel
def keep_all(lengths: Any, window: Any, begin: int, end: int, kept: int) -> int:
    """As `keep_missed`, of rows that want all of their arcs."""
    for index in range(begin, end):
        kept = keep_rest(window, kept, index, lengths)
    return kept


def beyond(rows: TierRows, bits: Words, cursor: int) -> Iterator[int]:
    """Window after window of a bitmap's rows with more than ``cursor`` arcs: how many they are."""
    word = 0
    while word < len(bits):
        waiting, word = list_beyond(bits, rows.heads.lengths, cursor, rows.window, word)
        if waiting:
            yield waiting


def compile_lists(rows: TierRows) -> None:
    """Have the kernels compiled for these rows, so that no search waits for that."""
    none: AnyArray = np.empty(0, np.uint8)
    lengths = rows.heads.lengths
    list_beyond(np.empty(0, np.uint64), lengths, 0, rows.window, 0)
    keep_missed(none, lengths, rows.window, 0, 0, 0)
    keep_all(lengths, rows.window, 0, 0, 0)
