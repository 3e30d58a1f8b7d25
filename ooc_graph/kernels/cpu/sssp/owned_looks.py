"""Looks at the neighbours of SSSP ranks that have their own rows' distances alone (CPU)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import has, put
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.sssp.sums import path_sum


@subroutine
def has_beside(neighbors: Any, position: int, end: int, settled: Any, wanted: bool) -> bool:
    """Tell whether one of some neighbours is settled, or is not."""
    while position < end and has(settled, np.int64(neighbors[position])) != wanted:
        position += 1
    return bool(position < end)


@kernel
def may_be_reached(out: Any, distance: Any, bound: Any, settled: Any) -> bool:
    """Tell whether a row beyond the bound has a neighbour that is settled."""
    for row in range(len(distance)):
        if distance[row] > bound:
            begin, end = np.int64(out.offsets[row]), np.int64(out.offsets[row + 1])
            if has_beside(out.neighbors, begin, end, settled, True):
                return True
    return False


@subroutine
def _may_lose(own: Any, row: int, heaviest: Any) -> bool:
    """Tell whether a path beyond a row that is reached may exceed the distances' dtype."""
    at, top = own.wave.distance[row], own.wave.top[0]
    return bool(at != top and path_sum(at, heaviest, top) >= top)


@kernel
def lost_by_overflow(out: Any, own: Any, settled: Any, heaviest: Any) -> bool:
    """Tell whether a reached row has an out-neighbour that is not, as `sssp.parents` has it."""
    for row in range(len(own.wave.distance)):
        if _may_lose(own, row, heaviest):
            begin, end = np.int64(out.offsets[row]), np.int64(out.offsets[row + 1])
            if has_beside(out.neighbors, begin, end, settled, False):
                return True
    return False


@kernel
def mark_losing(own: Any, heaviest: Any, words: Any) -> None:
    """Put the rows that `lost_by_overflow` looks at into an empty bitmap."""
    for row in range(len(own.wave.distance)):
        if _may_lose(own, row, heaviest):
            put(words, row)
