"""SSSP steps along arcs at hand, of rows of which only the heads are in memory (CPU).

Rows ascend by weight, so that all that is looked at is the beginning of a row, and mostly its head.
Where a head ends, its last weight is a lower bound of those that follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, count_bits, lowest_bit, put
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.sssp.distances import path_sum
from ooc_graph.kernels.common.store.rows import keep_rest
from ooc_graph.kernels.common.team import CHUNK, FIRST_FREE, LINE, atomic_add
from ooc_graph.kernels.cpu.sssp.parents import CHUNK_ROWS, Lane

EXAMINED, REACHED = FIRST_FREE, FIRST_FREE + LINE
"""Words of the control array: arcs looked at, rows reached for the first time."""


@subroutine
def beyond_head(heads: Any, row: int, at: Any, top: Any) -> Any:
    """Lower bound of what a row at distance ``at`` offers beyond its head, ``top`` if nothing."""
    start, end = heads.starts[row], heads.starts[row + 1]
    if end - start == heads.lengths[row]:
        return top
    return path_sum(at, heads.weights[end - 1], top)


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


@kernel
def relax_parts(
    distance: Any,
    improved: Any,
    bound: Any,
    top: Any,
    lengths: Any,
    window: Any,
    begin: int,
    end: int,
    kept: int,
    neighbors: Any,
    weights: Any,
) -> tuple[int, int]:
    """Offer rows' distances along their arcs up to ``bound``; the rows kept, and arcs examined.

    ``improved`` becomes the bitmap of the vertices that are nearer now.
    """
    examined = 0
    for index in range(begin, end):
        row, count = window.row[index], window.asked[index]
        there, weighs, arc = window.place[0, index], window.place[1, index], 0
        at = distance[row]
        while arc < count:
            candidate = path_sum(at, weights[weighs + arc], top)
            if candidate > bound:
                break
            v = np.int64(neighbors[there + arc])
            if candidate < distance[v]:
                distance[v] = candidate
                put(improved, v)
            arc += 1
        examined += arc
        if arc == count:
            kept = keep_rest(window, kept, index, lengths)
    return kept, examined


@subroutine
def _look_at_heads(
    heads: Any, distance: Any, base: int, count: int, floor: Any, top: Any, lane: Any, wanting: Any
) -> int:
    """Best candidates along the heads of the rows ``base + lane.left[:count]``; arcs examined.

    First arcs of all rows, then second arcs of those that go on, and so on. Rows that go on beyond
    their heads are put into ``wanting``.
    """
    examined, column = 0, 0
    while count > 0:
        kept = 0
        for index in range(count):
            place = np.int64(lane.left[index])
            row = base + place
            position = np.int64(heads.starts[row]) + column
            weight = heads.weights[position]
            candidate = path_sum(distance[np.int64(heads.neighbors[position])], weight, top)
            best = min(lane.best[place], candidate)
            lane.best[place] = best
            if position + 1 < heads.starts[row + 1]:
                lane.left[kept] = place
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
    distance: Any,
    final: Any,
    floor: Any,
    lows: Any,
    left: Any,
    best: Any,
    changed: Any,
    wanting: Any,
) -> None:
    """Pull along the heads of all rows beyond ``final``; all threads call it.

    ``changed`` and ``wanting`` become the bitmaps of rows that are nearer now, and of those that go
    on beyond their heads; ``lows`` (threads,), which begins as ``top``, the smallest new distance.
    Threads read distances that others improve meanwhile: the fixed point does not depend on it.
    """
    rows, top = len(distance), lows[thread]
    lane = Lane(left[thread], best[thread])
    examined, reached = 0, 0
    while True:
        base = atomic_add(control, CHUNK, CHUNK_ROWS)
        if base >= rows:
            break
        end, count = min(base + CHUNK_ROWS, rows), 0
        for index in range(base >> 6, (end + WORD_BITS - 1) >> 6):
            changed[index] = wanting[index] = 0
        for row in range(base, end):
            at = distance[row]
            lane.best[row - base] = at
            lane.left[count] = row - base
            may = (at > final) & (heads.lengths[row] > 0)
            count += may & (path_sum(floor, heads.first[row], top) < at)
        if count == 0:
            continue
        examined += _look_at_heads(heads, distance, base, count, floor, top, lane, wanting)
        for row in range(base, end):
            before, at = distance[row], lane.best[row - base]
            if at < before:
                distance[row] = at
                put(changed, row)
                lows[thread] = min(lows[thread], at)
                reached += before == top
    atomic_add(control, EXAMINED, examined)
    atomic_add(control, REACHED, reached)


@kernel
def pull_tails(
    distance: Any,
    changed: Any,
    floor: Any,
    low: Any,
    top: Any,
    lengths: Any,
    window: Any,
    begin: int,
    end: int,
    kept: int,
    neighbors: Any,
    weights: Any,
) -> tuple[int, int, int, Any]:
    """Pull along arcs at hand; rows kept, arcs examined, rows newly reached, smallest distance."""
    examined, reached = 0, 0
    for index in range(begin, end):
        row, count = window.row[index], window.asked[index]
        there, weighs, arc = window.place[0, index], window.place[1, index], 0
        before = distance[row]
        best = before
        while arc < count:
            weight = weights[weighs + arc]
            if path_sum(floor, weight, top) >= best:
                break
            best = min(best, path_sum(distance[np.int64(neighbors[there + arc])], weight, top))
            arc += 1
        examined += arc
        if best < before:
            distance[row] = best
            put(changed, row)
            low = min(low, best)
            reached += before == top
        if arc == count:
            kept = keep_rest(window, kept, index, lengths)
    return kept, examined, reached, low


@kernel
def count_arcs(bits: Any, heads: Any) -> tuple[int, int, int]:
    """Rows of a bitmap, their arcs, and how many of them go beyond their heads."""
    count, arcs, longer = 0, 0, 0
    for index in range(len(bits)):
        word = bits[index]
        count += count_bits(word)
        while word != 0:
            row = index * WORD_BITS + lowest_bit(word)
            word &= word - ONE
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
def near_overflow(distance: Any, heaviest: Any, top: Any, bits: Any) -> None:
    """Note the rows from which a path may be longer than the distances' type holds."""
    for row in range(len(distance)):
        at = distance[row]
        if at < top and path_sum(at, heaviest, top) == top:
            put(bits, row)


@kernel
def overflow_parts(
    distance: Any,
    top: Any,
    lengths: Any,
    window: Any,
    begin: int,
    end: int,
    kept: int,
    neighbors: Any,
    _weights: Any,
) -> tuple[int, bool]:
    """Tell whether a neighbour of these rows is unreached; the rows kept, and that."""
    lost = False
    for index in range(begin, end):
        there = window.place[0, index]
        for arc in range(window.asked[index]):
            lost |= distance[np.int64(neighbors[there + arc])] == top
        kept = keep_rest(window, kept, index, lengths)
    return kept, lost
