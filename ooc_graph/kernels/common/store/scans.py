"""What looks at the arcs loaded of a window's rows: on the CPU, or elsewhere by requests and flags.

See `Scan` and `TierRows.scan` of `ooc_graph.kernels.common.store.rows`, and there for windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import members_of
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.store.windows import loaded_arcs


@subroutine
def keep(window: Any, kept: int, row: Any, cursor: Any) -> int:
    """Have a row go on at ``cursor``; the place after it. The places before ``begin`` are free."""
    window.row[kept], window.cursor[kept] = row, cursor
    return kept + 1


@subroutine
def keep_rest(window: Any, kept: int, index: int, limits: Any) -> int:
    """As `keep`, for the row at a place: behind the arcs that it was given, if it has more."""
    row, cursor = window.row[index], window.cursor[index] + window.asked[index]
    return keep(window, kept, row, cursor) if cursor < limits[row] else kept


def scanner(step: Callable[..., bool]) -> Any:
    """Kernel that looks at the arcs loaded of a window's rows, one row after another.

    It takes a state, and then what `TierRows.scan` gives. ``step(state, row, neighbors, weights)``,
    compiled, looks at some arcs of a row and tells whether it wants more. Rows without weights have
    their neighbours again instead.
    """

    def scan(
        state: Any, limits: Any, window: Any, begin: int, end: int, kept: int, *columns: Any
    ) -> int:
        neighbors, weights, last = columns[0], columns[-1], len(window.offset) - 1
        for index in range(begin, end):
            row, count = window.row[index], window.asked[index]
            first, weighs = window.offset[0, index], window.offset[last, index]
            if step(state, row, neighbors[first : first + count], weights[weighs : weighs + count]):
                kept = keep_rest(window, kept, index, limits)
        return kept

    # Each has a name of its own, by which it is cached.
    scan.__name__ = scan.__qualname__ = f"scan_{step.__name__}"
    return kernel(scan)


@kernel
def copy_heads(
    heads: Any,
    heaviest: Any,
    limits: Any,
    window: Any,
    begin: int,
    end: int,
    kept: int,
    neighbors: Any,
    weights: Any,
) -> int:
    """Copy arcs that are loaded to the heads of their rows; the rows kept.

    ``heaviest`` (1,) becomes the largest of it and of the last weights of rows seen to their end.
    """
    weighted = len(heads.weights) > 0
    for index in range(begin, end):
        row, cursor, count = window.row[index], window.cursor[index], window.asked[index]
        target, offset = heads.starts[row] + cursor, window.offset[0, index]
        copied = min(count, heads.starts[row + 1] - target)
        for arc in range(copied):
            heads.neighbors[target + arc] = neighbors[offset + arc]
        if weighted:
            offset = window.offset[1, index]
            for arc in range(copied):
                heads.weights[target + arc] = weights[offset + arc]
            if cursor + count == heads.lengths[row]:
                heaviest[0] = max(heaviest[0], weights[offset + count - 1])
        kept = keep_rest(window, kept, index, limits)
    return kept


@kernel
def copy_firsts(starts: Any, column: Any, firsts: Any) -> None:
    """Copy the first element of each row's head; rows without keep what they have."""
    for row in range(len(firsts)):
        if starts[row] < starts[row + 1]:
            firsts[row] = column[starts[row]]


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
