"""Rows to search from a list of vertices, short ones in fixed slots (CPU)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import decisions
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.types import AnyArray, Rows

COUNT_SHIFT = np.uint64(32 + decisions.FIXED_ID_BITS)
MOST_FIXED, LONG = np.uint64(decisions.FIXED_ARCS), np.uint64(7)


class ListRows(NamedTuple):
    """Rows to search from a list: int64 offsets, and ids that ascend in each row.

    ``fixed`` is uint64 (2 * rows,), or empty: words 2r and 2r + 1 hold row r's four ids of 32 bits,
    r itself if it has fewer, and in the first word's highest 3 bits its number of arcs, or `LONG`
    of a row that has more than `FIXED_ARCS`.
    """

    offsets: AnyArray
    neighbors: AnyArray
    fixed: AnyArray


class Sides(NamedTuple):
    """Out- and in-rows, whether they are the ``same``, and the most out-arcs of a row."""

    out: ListRows
    into: ListRows
    same: bool
    widest: int


@kernel
def survey_rows(offsets: Any) -> tuple[Any, int]:
    """Most arcs of a row, and how many rows have more than `FIXED_ARCS`."""
    widest, longer = np.int64(0), 0
    for row in range(len(offsets) - 1):
        arcs = offsets[row + 1] - offsets[row]
        widest = max(widest, arcs)
        longer += arcs > decisions.FIXED_ARCS
    return widest, longer


@kernel
def fix_rows(offsets: Any, neighbors: Any, fixed: Any) -> None:
    """Fill ``fixed`` of `ListRows`."""
    for row in range(len(offsets) - 1):
        first, arcs = offsets[row], offsets[row + 1] - offsets[row]
        for half in range(2):
            word = np.uint64(0)
            for arc in range(2 * half, 2 * half + 2):
                v = np.uint64(neighbors[first + arc]) if arc < arcs else np.uint64(row)
                word |= v << np.uint64(32 * (arc & 1))
            fixed[2 * row + half] = word
        fixed[2 * row] |= (np.uint64(arcs) if arcs <= decisions.FIXED_ARCS else LONG) << COUNT_SHIFT


def list_rows(rows: Rows, longer: int, copies: bool) -> ListRows:
    """Rows to search from a list, in fixed slots if that pays; ``longer`` rows do not fit."""
    offsets, neighbors = rows.offsets.view(np.int64), rows.neighbors
    count = len(offsets) - 1
    pays = copies and decisions.fixed_rows_pay(count, len(neighbors), longer)
    if neighbors.dtype != np.uint32 or not pays:
        return ListRows(offsets, neighbors, np.empty(0, np.uint64))
    fixed = np.empty(decisions.FIXED_ROW_BYTES // 8 * count, np.uint64)
    fix_rows(offsets, neighbors, fixed)
    return ListRows(offsets, neighbors, fixed)
