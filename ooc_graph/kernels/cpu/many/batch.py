"""A batch of sources on its way, how it begins, and which distances are wanted of it (CPU)."""

# ruff: noqa: FURB136 - min would have to be compiled for the first call

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, lowest_bit, put
from ooc_graph.kernels.common.compiled import inlined, kernel, subroutine
from ooc_graph.kernels.common.sssp.distances import unreached
from ooc_graph.types import AnyArray, IntArray

SWEEPS, ROWS, LOOKED, RELAXED = range(4)
"""Indices in ``counts``: sweeps, rows that pushed, arcs looked at, arcs relaxed."""


class Batch(NamedTuple):
    """State of one batch of sources over (rows,) vertices, one thread's own.

    ``distance`` (rows, slots); ``reach``, ``pending`` (rows,), the latter how far above the floor
    a waiting row improved; ``floor`` (slots,); all of the distances' dtype, as are ``limits`` (3,):
    the distance of what is not reached yet, of what never will be, and by how much a difference may
    be rounded, relatively. ``changed`` is a bitmap of the waiting rows; ``reached`` (rows,) uint64
    holds one bit a slot; ``counts`` (4,) int64.
    """

    distance: AnyArray
    reach: AnyArray
    pending: AnyArray
    floor: AnyArray
    limits: AnyArray
    changed: AnyArray
    reached: AnyArray
    counts: AnyArray


@subroutine
def wait(batch: Any, row: Any, away: Any) -> None:
    """Have a row wait for its push, with its smallest improved distance above the floor."""
    put(batch.changed, row)
    if away < batch.pending[row]:
        batch.pending[row] = away


@inlined
def reset(out: Any, batch: Any, sources: Any) -> None:
    """Set each row's bits of the slots whose sources reach it, and all slots' first distances."""
    changed, reached = batch.changed, batch.reached
    for index in range(len(changed)):
        changed[index] = 0
    for row in range(len(reached)):
        reached[row] = 0
    for slot in range(len(sources)):
        source = np.uint64(sources[slot])
        reached[source] |= ONE << np.uint64(slot)
        put(changed, source)
    going = True
    while going:
        going = False
        for index in range(len(changed)):
            while changed[index] != 0:
                going = True
                row = index * WORD_BITS + lowest_bit(changed[index])
                changed[index] &= changed[index] - ONE
                bits = reached[row]
                for position in range(out.offsets[row], out.offsets[row + 1]):
                    v = np.uint64(out.neighbors[position])
                    if bits & ~reached[v]:
                        reached[v] |= bits
                        put(changed, v)
    top, never = batch.limits[0], batch.limits[1]
    rows, slots = batch.distance.shape
    everywhere = ~np.uint64(0) >> np.uint64(WORD_BITS - len(sources))
    for row in range(rows):
        bits = reached[row]
        # What nobody reaches need not be looked at, nor raise the ceiling.
        batch.reach[row] = top if bits else 0
        batch.pending[row] = top
        if bits == everywhere:
            for slot in range(len(sources)):
                batch.distance[row, slot] = top
        else:
            for slot in range(len(sources)):
                batch.distance[row, slot] = top if (bits >> np.uint64(slot)) & ONE else never
        for slot in range(len(sources), slots):
            batch.distance[row, slot] = never


@inlined
def begin(out: Any, batch: Any, leaves: Any, floors: Any, sources: Any) -> None:
    """Give every slot its source, and relax the sources' own arcs."""
    # No arc matters to a leaf before the end: it is never pushed to.
    for leaf in leaves:
        batch.reach[leaf] = 0
    for slot in range(len(batch.floor)):
        batch.floor[slot] = 0
    for slot in range(len(sources)):
        source = sources[slot]
        first, end = out.offsets[source], out.offsets[source + 1]
        batch.distance[source, slot] = 0
        if len(floors) > 0:
            batch.floor[slot] = floors[source]
        elif first < end:
            batch.floor[slot] = out.weights[first]
        for position in range(first, end):
            v = np.uint64(out.neighbors[position])
            if out.weights[position] < batch.distance[v, slot]:
                batch.distance[v, slot] = out.weights[position]
            wait(batch, v, out.weights[position] - batch.floor[slot])


PUBLISHED = 16
"""Rows whose distances are written out together: what a cache line holds."""


class Wanted(NamedTuple):
    """Sources, which distances are wanted of every one of them, and where these go.

    ``sources`` int64 (sources,), internal ids, and ``at`` int64 (sources,): each source's row of
    ``answer``. ``columns`` int64 (columns,) of it: internal ids, -1 for who has no row, whom nobody
    reaches. ``ends`` (2,) of the distances' dtype: what stands for not reached, and the largest
    distance that counts as reached. ``potential`` (rows,) is what the weights were shifted by,
    which is taken away, or empty.
    """

    sources: IntArray
    at: IntArray
    answer: AnyArray
    columns: IntArray
    ends: AnyArray
    potential: AnyArray

    def part(self, start: int, stop: int | None = None) -> Wanted:
        """The same of some of the sources."""
        return self._replace(sources=self.sources[start:stop], at=self.at[start:stop])


@inlined
def publish(batch: Any, wanted: Any, first: int, end: int) -> None:
    """Write a batch's distances, of the sources from ``first`` to ``end``, as `Wanted`."""
    columns, potential, answer = wanted.columns, wanted.potential, wanted.answer
    top, far, most = batch.limits[0], wanted.ends[0], wanted.ends[1]
    is_reweighted = len(potential) > 0
    width = len(columns)
    for base in range(0, width, PUBLISHED):
        stop = base + PUBLISHED if base + PUBLISHED < width else width
        for slot in range(end - first):
            mine = potential[wanted.sources[first + slot]] if is_reweighted else top
            at = wanted.at[first + slot]
            for column in range(base, stop):
                row, found = columns[column], far
                if row >= 0:
                    distance = batch.distance[row, slot]
                    if distance < top:
                        found = distance - mine + potential[row] if is_reweighted else distance
                answer[at, column] = found if found <= most else far


def all_wanted(sources: IntArray, answer: AnyArray, potential: AnyArray | None = None) -> Wanted:
    """All distances of every source, by internal id, in rows one after the other."""
    dtype, (count, rows) = answer.dtype, answer.shape
    by = np.empty(0, dtype) if potential is None else potential
    ends = np.repeat(unreached(dtype), 2)
    return Wanted(sources, np.arange(count), answer, np.arange(rows), ends, by)


@kernel
def put_row(distance: Any, position: int, wanted: Any) -> None:
    """Write the distances from the source at a position, by internal id, as `Wanted`."""
    columns, potential = wanted.columns, wanted.potential
    is_reweighted, far, most = len(potential) > 0, wanted.ends[0], wanted.ends[1]
    mine = potential[wanted.sources[position]] if is_reweighted else far
    row = wanted.answer[wanted.at[position]]
    for column in range(len(columns)):
        v, found = columns[column], far
        if v >= 0 and distance[v] < far:
            found = distance[v] - mine + potential[v] if is_reweighted else distance[v]
        row[column] = found if found <= most else far
