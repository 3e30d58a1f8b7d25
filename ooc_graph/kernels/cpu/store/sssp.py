"""SSSP steps along loaded arcs, of rows of which only the heads are in memory (CPU).

Rows ascend by weight, so that all that is looked at is the beginning of a row, and mostly its head.
Where a head ends, its last weight is a lower bound of those that follow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import WORD_BITS, Words, members_of, put
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.dealt import Dealt, internal_of
from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.kernels.common.sssp.sums import path_sum
from ooc_graph.kernels.common.store.rows import HeadRows
from ooc_graph.kernels.common.store.scans import scanner
from ooc_graph.kernels.common.team import FIRST_FREE, LINE, atomic_add, take_chunk
from ooc_graph.kernels.cpu.sssp.parents import CHUNK_ROWS, Scratch
from ooc_graph.types import AnyArray, IntArray

EXAMINED, REACHED = FIRST_FREE, FIRST_FREE + LINE
"""Words of the control array: arcs looked at, rows reached for the first time."""
LOOKED, NEW = range(2)
"""Places in the counts of a `Field`: the same along arcs that were fetched."""


class Field(NamedTuple):
    """State of a search over (rows,) vertices, and of the step that it is in.

    ``distance`` is by internal id, everything else by row; ``dealt`` says which vertices the rows
    are. ``best`` receives the distances that a pull finds: of a whole graph it is ``distance``
    itself, of a rank it has the distances of the own rows before. ``marks``, a bitmap, has the rows
    that the step notes: mostly those that are nearer now. ``bound`` is the distance from which on,
    or up to which, arcs are of no use, and ``top`` that of what is not reached. ``low`` (1,) is the
    smallest new distance. ``counts`` int64 (2,): see `LOOKED`, `NEW`.
    """

    distance: AnyArray
    best: AnyArray
    parent: AnyArray
    dealt: Dealt
    marks: Words
    bound: Any
    top: Any
    low: AnyArray
    counts: IntArray


@subroutine
def beyond_head(heads: Any, row: int, at: Any, top: Any) -> Any:
    """Lower bound of what a row at distance ``at`` offers beyond its head, ``top`` if nothing."""
    start, end = heads.starts[row], heads.starts[row + 1]
    if end - start == heads.lengths[row]:
        return top
    return path_sum(at, heads.weights[end - 1], top)


def light_heads(heads: HeadRows) -> LightRows:
    """The heads as rows of their own."""
    return LightRows(heads.starts, heads.neighbors, heads.weights, heads.first)


@kernel
def has_empty_head(heads: Any) -> bool:
    """Tell whether a row has arcs, and none of them in its head: `beyond_head` wants the last."""
    for row in range(len(heads.lengths)):
        if heads.lengths[row] > 0 and heads.starts[row] == heads.starts[row + 1]:
            return True
    return False


@kernel
def least_beyond(heads: Any, distance: Any, listed: Any, top: Any) -> tuple[Any, Any]:
    """Smallest distance that arcs beyond heads may offer: those of all rows, and of listed ones."""
    least, least_listed = top, top
    for row in range(len(distance)):
        if distance[row] < top:
            least = min(least, beyond_head(heads, row, distance[row], top))
    for index in range(len(listed)):
        at = distance[np.int64(listed[index])]
        least_listed = min(least_listed, beyond_head(heads, np.int64(listed[index]), at, top))
    return least, least_listed


@scanner
@subroutine
def relax_arcs(field: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """Offer a row's distance along its arcs, up to ``field.bound``."""
    distance, at, arc = field.distance, field.distance[row], 0
    while arc < len(neighbors):
        candidate = path_sum(at, weights[arc], field.top)
        if candidate > field.bound:
            break
        v = np.int64(neighbors[arc])
        if candidate < distance[v]:
            distance[v] = candidate
            put(field.marks, v)
        arc += 1
    field.counts[LOOKED] += arc
    return bool(arc == len(neighbors))


@subroutine
def _look_at_heads(
    heads: Any, field: Any, base: int, count: int, scratch: Any, wanting: Any
) -> int:
    """Best candidates along the heads of the rows ``base + scratch.left[:count]``; arcs examined.

    First arcs of all rows, then second arcs of those that go on, and so on. Rows that go on beyond
    their heads are put into ``wanting``.
    """
    distance, floor, top = field.distance, field.bound, field.top
    examined, column = 0, 0
    while count > 0:
        kept = 0
        for index in range(count):
            offset = np.int64(scratch.left[index])
            row = base + offset
            position = np.int64(heads.starts[row]) + column
            weight = heads.weights[position]
            candidate = path_sum(distance[np.int64(heads.neighbors[position])], weight, top)
            best = min(scratch.best[offset], candidate)
            scratch.best[offset] = best
            if position + 1 < heads.starts[row + 1]:
                scratch.left[kept] = offset
                kept += path_sum(floor, heads.weights[position + 1], top) < best
            elif column + 1 < heads.lengths[row] and path_sum(floor, weight, top) < best:
                put(wanting, row)
        examined += count
        count = kept
        column += 1
    return examined


@kernel
def pull_heads(
    thread: int,
    _threads: int,
    control: Any,
    heads: Any,
    field: Any,
    final: Any,
    lows: Any,
    scratches: Any,
    wanting: Any,
) -> None:
    """Pull along the heads of all rows beyond ``final``; all threads call it.

    ``field.bound`` is a lower bound of the distances that changed since the last pass.
    ``field.marks`` and ``wanting`` become the bitmaps of rows that are nearer now, and of those
    that go on beyond their heads; ``lows`` (threads,) the smallest new distances. Threads read
    distances that others improve meanwhile: the fixed point does not depend on it.
    """
    distance, floor, top = field.distance, field.bound, field.top
    rows, low, examined, reached = len(field.best), top, 0, 0
    scratch = Scratch(scratches.left[thread], scratches.best[thread])
    while True:
        base, end = take_chunk(control, CHUNK_ROWS, rows)
        if base >= end:
            break
        count, shift = 0, internal_of(base, field.dealt) - base
        for index in range(base >> 6, (end + WORD_BITS - 1) >> 6):
            field.marks[index] = wanting[index] = 0
        for row in range(base, end):
            at = distance[row + shift]
            scratch.best[row - base] = at
            scratch.left[count] = row - base
            may = (at > final) & (heads.lengths[row] > 0)
            count += may & (path_sum(floor, heads.first[row], top) < at)
        if count == 0:
            continue
        examined += _look_at_heads(heads, field, base, count, scratch, wanting)
        for row in range(base, end):
            before, at = distance[row + shift], scratch.best[row - base]
            if at < before:
                field.best[row] = at
                put(field.marks, row)
                low = min(low, at)
                reached += before == top
    lows[thread] = low
    atomic_add(control, EXAMINED, examined)
    atomic_add(control, REACHED, reached)


@scanner
@subroutine
def pull_tails(field: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """Pull along loaded arcs, as `pull_heads` does along heads."""
    before, arc = field.best[row], 0
    best = before
    while arc < len(neighbors):
        weight = weights[arc]
        if path_sum(field.bound, weight, field.top) >= best:
            break
        best = min(best, path_sum(field.distance[np.int64(neighbors[arc])], weight, field.top))
        arc += 1
    if best < before:
        field.best[row] = best
        put(field.marks, row)
        field.low[0] = min(field.low[0], best)
        field.counts[NEW] += before == field.top
    field.counts[LOOKED] += arc
    return bool(arc == len(neighbors))


@kernel
def count_arcs(bits: Any, heads: Any) -> tuple[int, int, int]:
    """Rows of a bitmap, their arcs, and how many of them go beyond their heads."""
    count, arcs, longer = 0, 0, 0
    for row in members_of(bits):
        count += 1
        arcs += heads.lengths[row]
        longer += heads.starts[row + 1] - heads.starts[row] < heads.lengths[row]
    return count, arcs, longer


@kernel
def farthest(distance: Any, top: Any, least: Any) -> Any:
    """Largest distance that is not ``top``; ``least`` where there is none."""
    high = least
    for row in range(len(distance)):
        high = max(high, distance[row] if distance[row] < top else least)
    return high


@kernel
def near_overflow(field: Any, heaviest: Any) -> None:
    """Note the rows from which a path may be longer than the distances' type holds."""
    top = field.top
    for row in range(len(field.best)):
        at = field.distance[internal_of(row, field.dealt)]
        if at < top and path_sum(at, heaviest, top) == top:
            put(field.marks, row)


@scanner
@subroutine
def count_lost(field: Any, _row: int, neighbors: Any, _weights: Any) -> bool:
    """Count neighbours that are not reached."""
    for arc in range(len(neighbors)):
        field.counts[NEW] += field.distance[np.int64(neighbors[arc])] == field.top
    return True
