"""Compiled loops of PageRank: sums along in-arcs, and what comes of them.

All sums are of integers, so that they are exact and may be added in any order, by any number of
threads, and in any number of parts. What floats there are follow from one row, or one arc, alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common import team
from ooc_graph.kernels.common.compiled import kernel, subroutine

CHANGED, DANGLING = team.FIRST_FREE, team.FIRST_FREE + team.LINE
"""Words of the control array that count what `settle` finds."""
CHUNK_ARCS, CHUNK_ROWS = 1 << 14, 1 << 12
"""Arcs and rows that a thread takes at once."""


@subroutine
def _row_of(offsets: Any, position: int) -> Any:
    """The row that an arc is in."""
    low, high = np.int64(0), np.int64(len(offsets) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        if offsets[middle] <= position:
            low = middle
        else:
            high = middle
    return low


@kernel
def gather(
    _thread: int,
    _threads: int,
    control: Any,
    offsets: Any,
    neighbors: Any,
    first: int,
    sent: Any,
    sums: Any,
) -> None:
    """Add to the sum of each row what arrives along some of its arcs; all threads.

    ``neighbors`` are those of the arcs from ``first`` on, as ``offsets`` counts them. Word `CHUNK`
    must be 0 at the start.
    """
    while True:
        position, end = team.take_chunk(control, CHUNK_ARCS, len(neighbors))
        if position >= end:
            break
        row = _row_of(offsets, first + position)
        while position < end:
            stop, total = min(end, offsets[row + 1] - first), np.int64(0)
            for arc in range(position, stop):
                total += sent[neighbors[arc]]
            # The ends of a row may be other threads'.
            team.atomic_add(sums, row, total)
            position, row = stop, row + 1


@kernel
def gather_weighted(
    _thread: int,
    _threads: int,
    control: Any,
    offsets: Any,
    neighbors: Any,
    weights: Any,
    first: int,
    sent: Any,
    sums: Any,
) -> None:
    """As `gather`, if what is sent along an arc is multiplied by its weight, and then rounded."""
    while True:
        position, end = team.take_chunk(control, CHUNK_ARCS, len(neighbors))
        if position >= end:
            break
        row = _row_of(offsets, first + position)
        while position < end:
            stop, total = min(end, offsets[row + 1] - first), np.int64(0)
            for arc in range(position, stop):
                total += np.int64(sent[neighbors[arc]] * np.float64(weights[arc]) + 0.5)
            team.atomic_add(sums, row, total)
            position, row = stop, row + 1


@kernel
def settle(
    _thread: int,
    _threads: int,
    control: Any,
    sums: Any,
    score: Any,
    every: int,
    alpha: float,
    out: Any,
    sent: Any,
    half: float,
) -> None:
    """Make scores of the sums, which become 0, and what each row sends; all threads.

    ``out`` float64 (rows,) is what a score is divided by: the number of a row's out-arcs, or the
    sum of their weights; a row with 0 sends nothing. ``half`` is 0.5 if ``sent`` has integers, so
    that they are rounded, and else 0. Words `CHANGED` and `DANGLING` count up, `CHUNK` must be 0 at
    the start.
    """
    changed, dangling = np.int64(0), np.int64(0)
    while True:
        begin, end = team.take_chunk(control, CHUNK_ROWS, len(score))
        if begin >= end:
            break
        for row in range(begin, end):
            found = sums[row] + every
            changed += abs(found - score[row])
            score[row], sums[row] = found, 0
            if out[row] == 0.0:
                dangling += found
                sent[row] = 0
            else:
                # The product and the quotient are rounded each, on any machine alike.
                sent[row] = alpha * np.float64(found) / out[row] + half
    team.atomic_add(control, CHANGED, changed)
    team.atomic_add(control, DANGLING, dangling)


@kernel
def add_weights(offsets: Any, weights: Any, first: int, out: Any) -> None:
    """Add the weights of some arcs, from ``first`` on as ``offsets`` counts them, to their rows.

    One after the other in the order of the rows, which ascends by weight: the sums of floats
    depend on the weights alone. One thread; arcs that follow come in later calls.
    """
    position, end = np.int64(0), np.int64(len(weights))
    if end == 0:
        return
    row = _row_of(offsets, first)
    while position < end:
        stop = min(end, offsets[row + 1] - first)
        total = out[row]
        for arc in range(position, stop):
            total += np.float64(weights[arc])
        out[row] = total
        position, row = stop, row + 1
