"""Looks at the neighbours of SSSP ranks that have their own rows' distances alone (CPU)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import has, members_of, put
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.sssp.sums import path_sum


@subroutine
def has_beside(neighbors: Any, position: int, end: int, settled: Any, wanted: bool) -> bool:
    """Tell whether one of some neighbours is settled, or is not."""
    while position < end and has(settled, np.int64(neighbors[position])) != wanted:
        position += 1
    return bool(position < end)


@kernel
def look_along(out: Any, rows: Any, settled: Any, wanted: bool) -> bool:
    """Tell whether a neighbour of the rows in a bitmap is settled, or is not."""
    for row in members_of(rows):
        begin, end = np.int64(out.offsets[row]), np.int64(out.offsets[row + 1])
        if has_beside(out.neighbors, begin, end, settled, wanted):
            return True
    return False


@kernel
def mark_losing(own: Any, heaviest: Any, words: Any) -> None:
    """Put the reached rows into an empty bitmap whose distance and one arc may exceed the dtype."""
    top = own.wave.top[0]
    for row in range(len(own.wave.distance)):
        at = own.wave.distance[row]
        if at != top and path_sum(at, heaviest, top) >= top:
            put(words, row)
