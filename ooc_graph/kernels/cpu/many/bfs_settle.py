"""What a level found in a batch of BFS: written or counted, and made the frontier (CPU)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import LOW, ONE, WORD_BITS, count_bits, has, lowest_bit
from ooc_graph.kernels.common.compiled import subroutine
from ooc_graph.kernels.common.many.sources import BINS, DEEPEST, REACHED, SUM
from ooc_graph.types import AnyArray

WORDS = 4
"""Words of a vertex: a 256-bit vector, half a cache line."""
SLOTS = WORDS * WORD_BITS
"""Most sources of a batch."""
PLANES = 40
"""Bits of a count of vertices."""
VISITS, FOUND = range(2)
"""Indices in ``counts``: rows settled, and sources found there."""
NONE = np.uint64(0)


class Batch(NamedTuple):
    """State of one batch of sources over (rows,) vertices, one thread's own; all uint64.

    ``own`` (rows, 2 * WORDS): who has reached a row, then who reaches it in this level, in one
    cache line; ``frontier`` (rows, WORDS): who reached it in the last one. Bitmaps (words,):
    ``active`` rows of the frontier, ``touched`` ones of this level, ``open`` ones that somebody has
    not reached. ``full`` (WORDS,) has the bits of all sources; ``planes`` (PLANES, WORDS) counts.
    ``counts`` (2,): see `VISITS`, `FOUND`.
    """

    own: AnyArray
    frontier: AnyArray
    active: AnyArray
    touched: AnyArray
    open: AnyArray
    full: AnyArray
    planes: AnyArray
    counts: AnyArray


@subroutine
def _count(planes: Any, c0: Any, c1: Any, c2: Any, c3: Any) -> Any:
    """Add one to the counts of the sources whose bits are set; the planes that changed."""
    plane = np.int64(0)
    while c0 | c1 | c2 | c3 != NONE:
        p0, p1, p2, p3 = planes[plane, 0], planes[plane, 1], planes[plane, 2], planes[plane, 3]
        planes[plane, 0], planes[plane, 1] = p0 ^ c0, p1 ^ c1
        planes[plane, 2], planes[plane, 3] = p2 ^ c2, p3 ^ c3
        c0, c1, c2, c3 = p0 & c0, p1 & c1, p2 & c2, p3 & c3
        plane += 1
    return plane


@subroutine
def _write(answer: Any, row: Any, first: int, word: Any, depth: int) -> None:
    """Give a row its level in the answers of the sources of one word."""
    while word != 0:
        answer[first + lowest_bit(word), row] = depth
        word &= word - ONE


@subroutine
def settle(
    out: Any, into: Any, batch: Any, wanted: Any, depth: int, answer: Any, has_answer: bool
) -> Any:
    """Make what was touched the frontier; write or count it.

    Returns the arcs out of the frontier, those into rows that became full, and the planes in use.
    """
    own, frontier, full = batch.own, batch.frontier, batch.full
    arcs, filled, planes = np.int64(0), np.int64(0), np.int64(0)
    for index in range(len(batch.active)):
        word = batch.active[index]
        while word != 0:
            row = np.uint64(index * WORD_BITS + lowest_bit(word))
            word &= word - ONE
            for k in range(WORDS):
                frontier[row, k] = NONE
    for index in range(len(batch.touched)):
        word = batch.touched[index]
        batch.active[index] = word
        batch.touched[index] = NONE
        while word != 0:
            row = np.uint64(index * WORD_BITS + lowest_bit(word))
            word &= word - ONE
            missing = NONE
            for k in range(WORDS):
                new = own[row, WORDS + k]
                own[row, WORDS + k] = NONE
                own[row, k] |= new
                frontier[row, k] = new
                missing |= full[k] & ~own[row, k]
                batch.counts[FOUND] += np.uint64(count_bits(new))
            batch.counts[VISITS] += ONE
            arcs += out.offsets[row + ONE] - out.offsets[row]
            if missing == NONE:
                batch.open[index] &= ~(ONE << (row & LOW))
                filled += into.offsets[row + ONE] - into.offsets[row]
            if has_answer:
                for k in range(WORDS):
                    _write(answer, row, k * WORD_BITS, frontier[row, k], depth)
            elif has(wanted, row):
                f0, f1 = frontier[row, 0], frontier[row, 1]
                f2, f3 = frontier[row, 2], frontier[row, 3]
                planes = max(planes, _count(batch.planes, f0, f1, f2, f3))
    return arcs, filled, planes


@subroutine
def tally(batch: Any, planes: int, depth: int, width: int, tallies: Any) -> None:
    """Add a level's counts to the sources' tallies, and set them to zero."""
    bins = tallies.shape[1] - BINS
    for slot in range(len(tallies)):
        word, bit = slot >> 6, np.uint64(slot) & LOW
        count = np.int64(0)
        for plane in range(planes):
            count += np.int64((batch.planes[plane, word] >> bit) & ONE) << plane
        if count > 0:
            tallies[slot, REACHED] += count
            tallies[slot, SUM] += count * depth
            tallies[slot, DEEPEST] = depth
            if bins > 0:
                tallies[slot, BINS + min(depth // width, bins - 1)] += count
    batch.planes[:planes] = NONE
