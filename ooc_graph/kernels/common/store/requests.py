"""Windows of rows whose arcs are scanned elsewhere than on the CPU: requests and flags.

See `ooc_graph.kernels.common.store.rows` for windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import members_of
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.store.scans import keep_rest
from ooc_graph.kernels.common.store.windows import loaded_arcs

REQUEST_WORDS = 3
"""Words of a request beside the places of its arcs, one in each column: row, cursor, asked."""


@kernel
def arcs_beyond(bits: Any, loaded: Any) -> int:
    """Arcs that the rows of a bitmap have beyond what is loaded."""
    arcs = 0
    for row in members_of(bits):
        arcs += np.int64(loaded.lengths[row]) - loaded_arcs(loaded, row)
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
        for column in range(len(window.offset)):
            packed[(REQUEST_WORDS + column) * count + index] = window.offset[column, at]


@kernel
def keep_flagged(limits: Any, window: Any, begin: int, end: int, kept: int, flags: Any) -> int:
    """Have the rows go on whose flag (uint8) is set, if they have more arcs; the rows kept.

    Row ``begin`` has the first flag. See `ooc_graph.kernels.common.store.rows.TierRows.scan`.
    """
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
            last = weights[window.offset[1, index] + count - 1]
            heaviest[0] = max(heaviest[0], last)
