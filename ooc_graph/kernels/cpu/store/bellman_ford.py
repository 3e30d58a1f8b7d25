"""Bellman-Ford on rows of which only the heads are in memory: potentials with the same bits (CPU).

Rounded potentials depend on the order in which rows push, and that is the order of the rows. So a
*block* of rows is gathered, each as far as it may have to push, and they push in turn, up to the
first that falls too far meanwhile, or was not meant to push. There the next block begins; after
one that did not get far it brings all of its rows whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import Words, drop, has, pack_bits
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.many.bellman_ford import Fall, fall_along
from ooc_graph.kernels.common.sssp.distances import distance_dtype
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.kernels.common.store.scans import keep
from ooc_graph.types import AnyArray, IntArray

MOST_GATHERED = 1 << 18
"""Arcs, and rows, of a block, unless a row has more arcs or the graph fewer rows."""
FEW_ROWS = 1024
"""A block that ends early after fewer rows did not get far."""


class Gathered(NamedTuple):
    """Arcs of the rows from ``base`` on: those of row r begin at ``starts[r - base]``."""

    starts: IntArray
    neighbors: AnyArray
    weights: AnyArray


@kernel
def first_changed(changed: Any, row: int, rows: int) -> int:
    """The first row from ``row`` on that has to push; ``rows`` if there is none."""
    while row < rows:
        if changed[row >> 6] >> np.uint64(row & 63) == 0:
            row = ((row >> 6) + 1) << 6
        elif has(changed, row):
            return row
        else:
            row += 1
    return rows


@kernel
def list_gathered(
    heads: Any,
    potential: Any,
    changed: Any,
    window: Any,
    starts: Any,
    capacity: int,
    base: int,
    whole: bool,
) -> tuple[int, int]:
    """List the rows from ``base`` on that may push, as many as ``capacity`` arcs allow, or one.

    Unless they are wanted ``whole``, rows that have not changed are left out, and of the others
    what follows the head if the arcs there lead no lower than 0 by now. Returns the row after the
    block, and how many are listed in ``window``.
    """
    count, total, row = 0, 0, base
    rows, most = len(heads.lengths), base + len(starts) - 1
    while row < min(rows, most) and count < len(window.row):
        head = np.int64(heads.starts[row + 1]) - np.int64(heads.starts[row])
        wanted: Any = np.int64(heads.lengths[row])
        if not whole:
            if not has(changed, row):
                wanted = 0
            elif wanted > head and potential[row] + heads.weights[heads.starts[row + 1] - 1] >= 0:
                wanted = head
        if total + wanted > capacity and row > base:
            break
        if wanted > 0:
            window.row[count], window.cursor[count] = row, 0
            count += 1
        total += wanted
        row += 1
        starts[row - base] = total
    return row, count


@kernel
def gather_parts(
    gathered: Any,
    base: int,
    lengths: Any,  # noqa: ARG001
    window: Any,
    begin: int,
    end: int,
    kept: int,
    neighbors: Any,
    weights: Any,
) -> int:
    """Copy loaded arcs to the block; the rows kept."""
    for index in range(begin, end):
        row, cursor = window.row[index], window.cursor[index]
        there, weighs = window.offset[0, index], window.offset[1, index]
        target, stop = gathered.starts[row - base] + cursor, gathered.starts[row - base + 1]
        count = min(window.asked[index], stop - target)
        for arc in range(count):
            gathered.neighbors[target + arc] = neighbors[there + arc]
            gathered.weights[target + arc] = weights[weighs + arc]
        if target + count < stop:
            kept = keep(window, kept, row, cursor + count)
    return kept


@kernel
def fall_part(gathered: Any, base: int, end: int, lengths: Any, state: Any) -> tuple[int, int]:
    """Let the rows of a block push that have changed when it is their turn.

    Returns the improvements made, and the row to go on with.
    """
    improved = 0
    for u in range(base, end):
        if not has(state.changed, u):
            continue
        first, stop = gathered.starts[u - base], gathered.starts[u - base + 1]
        # One that has too few arcs here continues in the next block; what it did stays done.
        columns = gathered.neighbors[first:stop], gathered.weights[first:stop]
        more, all_seen = fall_along(state, u, *columns)
        improved += more
        if not all_seen and stop - first < lengths[u]:
            return improved, u
        drop(state.changed, u)
    return improved, end


class TierFalling:
    """`ooc_graph.kernels.common.many.bellman_ford_search.Falling` of rows on a tier.

    It has arrays for a block: at most an arc and an offset for each row of the graph. ``out``
    are light-first rows of out-arcs.
    """

    def __init__(self, out: TierRows, heaviest: Any) -> None:
        heads = out.heads
        self._out, self.rows = out, len(heads.lengths)
        self.dtype = distance_dtype(heads.weights)
        lightest = heads.first.min() if self.rows else heads.weights.dtype.type(0)
        self.ends = min(lightest.item(), 0), max(heaviest.item(), 0)
        capacity = min(self.rows, MOST_GATHERED)
        longest = int(heads.lengths.max(initial=0))
        self._gathered = Gathered(
            np.zeros(capacity + 1, np.int64),
            np.empty(max(longest, capacity), heads.neighbors.dtype),
            np.empty(max(longest, capacity), heads.weights.dtype),
        )

    def negative(self) -> Words:
        """Bitmap of the rows whose first arc is negative."""
        return pack_bits(self._out.heads.first < 0)

    def arcs_of(self, row: int) -> tuple[AnyArray, AnyArray]:
        """Neighbours of one row, and weights."""
        # This row alone: a cycle is told of row by row, and each would bring all that follow it.
        self._gather(row, np.zeros(0, self.dtype), np.zeros(0, np.uint64), True, most=1)
        count = int(self._out.heads.lengths[row])
        return self._gathered.neighbors[:count].copy(), self._gathered.weights[:count].copy()

    def fall(self, state: Fall, most: int, most_passes: int) -> tuple[int, int]:
        """As the kernel `ooc_graph.kernels.common.many.bellman_ford.fall`."""
        improved, passes = 0, 0
        while improved < most and passes < most_passes:
            row = first_changed(state.changed, 0, self.rows)
            if row == self.rows:
                break
            passes += 1
            whole = False
            while row < self.rows:
                base = row
                end = self._gather(row, state.potential, state.changed, whole)
                more, row = fall_part(self._gathered, row, end, self._out.heads.lengths, state)
                improved += int(more)
                whole = row < end and row - base < FEW_ROWS
                row = first_changed(state.changed, row, self.rows)
        return improved, passes

    def _gather(
        self, base: int, potential: AnyArray, changed: Words, whole: bool, most: int = MOST_GATHERED
    ) -> int:
        """Bring a block of so many rows at most together; the row after it."""
        out, gathered = self._out, self._gathered
        sizes = gathered.starts[: most + 1], len(gathered.neighbors)
        end, waiting = list_gathered(out.heads, potential, changed, out.window, *sizes, base, whole)

        def scan(*part: Any) -> int:
            return int(gather_parts(gathered, base, *part))

        out.scan(out.scan_heads(waiting, scan), scan, out.most_look)
        return int(end)
