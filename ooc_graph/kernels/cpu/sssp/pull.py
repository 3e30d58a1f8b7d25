"""Pull: a row looks for a shorter way along its lightest arcs, and stops early.

With ``floor`` a lower bound of the distances that may have changed since the row looked last, an
arc of weight w can only help while ``floor + w < best``: rows ascend by weight, so the first arc
that fails ends the row [1].

[1] V. T. Chakaravarthy et al., "Scalable single source shortest path algorithms for massively
parallel systems", IPDPS 2014 (the pull of long edges is a relative).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, subroutine, varying
from ooc_graph.kernels.common.dealt import internal_of
from ooc_graph.kernels.common.sssp.sums import path_sum
from ooc_graph.kernels.common.team import FIRST_FREE, LINE, atomic_add, take_chunk
from ooc_graph.kernels.cpu.sssp import parents
from ooc_graph.kernels.cpu.sssp.push import HEADS

CHANGED, REACHED = (FIRST_FREE + k * LINE for k in range(2))
"""Words of the control array: improved rows, and those of them reached for the first time."""


@subroutine
def _look_at_heads(
    into: Any, distance: Any, base: int, first: int, count: int, floor: Any, top: Any, scratch: Any
) -> tuple[int, int]:
    """Best candidates along the heads of the rows ``base + scratch.left[:count]``.

    First arcs of all rows, then second arcs of those that go on, and so on: no look-up waits for
    another, and no branch depends on one. Returns how many rows go on beyond the heads (first in
    ``scratch.left``) and the arcs examined.
    """
    examined = 0
    for column in range(HEADS):
        neighbors, weights = into.head_neighbors[column], into.head_weights[column]
        following = into.head_weights[min(column + 1, HEADS - 1)]
        kept = 0
        for index in range(count):
            parents.ask_for_neighbor(distance, neighbors, base, scratch, index, count)
            offset = np.int64(scratch.left[index])
            row = base + offset
            neighbor = np.int64(neighbors[row])
            candidate = path_sum(distance[neighbor], weights[row], top)
            best = min(scratch.best[offset], candidate)
            scratch.best[offset] = best
            examined += neighbor != first + offset
            scratch.left[kept] = offset
            kept += path_sum(floor, following[row], top) < best
        count = kept
    return count, examined


@subroutine
def _look_beyond(
    into: Any, distance: Any, base: int, count: int, floor: Any, top: Any, scratch: Any
) -> int:
    """Go on along the tails of rows; arcs examined."""
    examined = 0
    for index in range(count):
        parents.ask_for_tails(into, base, scratch, index, count)
        offset = np.int64(scratch.left[index])
        row = base + offset
        best = scratch.best[offset]
        position, end = into.offsets[row] + HEADS, into.offsets[row + 1]
        while position < end:
            weight = into.weights[position]
            if path_sum(floor, weight, top) >= best:
                break
            best = min(best, path_sum(distance[np.int64(into.neighbors[position])], weight, top))
            position += 1
            examined += 1
        scratch.best[offset] = best
    return examined


@subroutine
def _keep(
    control: Any, wave: Any, found: Any, first: int, rows: int, scratch: Any, top: Any
) -> tuple[Any, int]:
    """List what improved, and write it back unless ``found`` takes it.

    Returns the smallest of it, and how many were unreached.
    """
    distance, low, count, reached = wave.distance, top, 0, 0
    for position in range(rows):
        before, best = distance[first + position], scratch.best[position]
        scratch.left[count] = position
        if best < before:
            if len(found) == 0:
                distance[first + position] = best
            low = min(low, best)
            count += 1
            reached += before == top
    start = atomic_add(control, CHANGED, count)
    for index in range(count):
        offset = np.int64(scratch.left[index])
        wave.queue[start + index] = first + offset
        if len(found) > 0:
            found[start + index] = scratch.best[offset]
    return low, reached


@kernel
def pull_part(
    thread: int,
    _threads: int,
    control: Any,
    into: Any,
    wave: Any,
    found: Any,
    final: Any,
    floor: Any,
    ranges: Any,
    scratches: Any,
) -> None:
    """Pull chunk after chunk of the rows with a distance above ``final``; all threads call it.

    ``wave.queue`` lists those that improved, in any order; their distances are written back, or
    only to ``found``, in the order of the queue, unless that is empty. A thread's row of ``ranges``
    becomes the smallest improved distance and the largest of all reached. Threads read distances
    that others improve meanwhile: the fixed point does not depend on it. Word `CHUNK` begins as 0.
    """
    scratch = parents.Scratch(scratches.left[thread], scratches.best[thread])
    distance, rows, range_ = wave.distance, len(into.offsets) - 1, ranges[thread]
    low, high, top = range_[0], final, range_[0]
    examined, reached = 0, 0
    lightest = into.head_weights[0]
    while True:
        base, end = take_chunk(control, parents.CHUNK_ROWS, rows)
        if base >= end:
            break
        first, count = internal_of(base, wave.dealt), varying(0)
        for row in range(base, end):
            at = distance[first + row - base]
            scratch.best[row - base] = at
            scratch.left[count] = row - base
            count += (at > final) & (path_sum(floor, lightest[row], top) < at)
        if count > 0:
            count, looked = _look_at_heads(into, distance, base, first, count, floor, top, scratch)
            examined += looked
            examined += _look_beyond(into, distance, base, count, floor, top, scratch)
            least, new = _keep(control, wave, found, first, end - base, scratch, top)
            low = min(low, least)
            reached += new
        for offset in range(end - base):
            high = max(high, scratch.best[offset] if scratch.best[offset] < top else final)
    range_[0], range_[1] = low, high
    atomic_add(control, parents.EXAMINED, examined)
    atomic_add(control, REACHED, reached)
