"""SSSP from many sources at once: one read of an arc serves a batch of sources (CPU).

Distances lie ``[vertex][lane]``, one lane a source, so an arc is relaxed for all lanes by a few
vector instructions. Rows are pulled along their in-arcs, lightest first, in place; distances fall
from +inf to the greatest fixed point, whose bits do not depend on the order, so that each lane has
the bits of a single search.

No vertex but the source itself is nearer to it than the source's lightest arc, the lane's *floor*.
The source's own arcs are relaxed first, so a row's arc of weight ``w`` matters to no lane as soon
as ``w >= best - floor`` in all of them: the largest of those differences is the row's *reach*.
Rows wait for a pull in the order of how far above the floor they may come, step by step, as in
delta-stepping.

A lane that can never reach a row is told apart from one that has not yet, and does not widen the
row's reach; which those are is found first, by one bit a lane.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.bitmap import LOW, ONE, SIX, WORD_BITS, lowest_bit
from ooc_graph.kernels.compiled import kernel, subroutine
from ooc_graph.kernels.lanes import relax_arcs, take_improved, widest
from ooc_graph.kernels.team import ABORT, CHUNK, atomic_add, atomic_load
from ooc_graph.types import AnyArray

LOOK = 8
"""Arcs between two looks at a row's reach."""
PUBLISHED = 16
"""Rows whose distances are written out together: what a cache line holds."""
SWEEPS, ROWS, PULLED, MARKED = range(4)
"""Places in ``counts``: sweeps, rows pulled, arcs pulled, arcs looked at to mark rows."""


class Batch(NamedTuple):
    """State of one batch of sources over (rows,) vertices, one thread's own.

    ``distance`` (rows, lanes); ``reach``, ``pending`` (rows,), the latter how far above the floor
    a waiting row may come; ``floor``, ``best`` (lanes,), the latter those of the row at hand; all
    of the distances' dtype, as are ``limits`` (3,): the distance of what is not reached yet, of
    what never will be, and by how much a difference may be rounded, relatively. ``changed`` is a
    bitmap of the waiting rows, ``fresh`` of those whose out-neighbours have to be marked at their
    next pull, whether it improves them or not; ``reached`` (rows,) uint64 holds one bit a lane;
    ``counts`` (4,) int64.
    """

    distance: AnyArray
    reach: AnyArray
    pending: AnyArray
    floor: AnyArray
    best: AnyArray
    limits: AnyArray
    changed: AnyArray
    fresh: AnyArray
    reached: AnyArray
    counts: AnyArray


@subroutine
def _wait(batch: Any, row: Any, away: Any) -> None:
    batch.changed[row >> SIX] |= ONE << (row & LOW)
    batch.pending[row] = min(batch.pending[row], away)


@subroutine
def _mark(out: Any, batch: Any, row: int, low: Any, ceiling: Any) -> tuple[Any, Any]:
    """Mark the rows that an improvement to ``low`` above the floor may improve.

    Returns arcs looked at, and the smallest distance above the floor of a marked row.
    """
    begin, end = out.offsets[row], out.offsets[row + 1]
    position, nearest = begin, batch.limits[0]
    while position < end:
        away = low + out.weights[position]
        if away >= ceiling:
            break
        v = np.uint64(out.neighbors[position])
        if away < batch.reach[v]:
            _wait(batch, v, away)
            nearest = min(nearest, away)
        position += 1
    return position - begin, nearest


@subroutine
def _pull(into: Any, batch: Any, row: int) -> Any:
    """Bring ``best`` of a row up to date with its in-neighbours; arcs looked at."""
    begin, end = into.offsets[row], into.offsets[row + 1]
    position, reach = begin, batch.reach[row]
    best = batch.best
    for lane in range(len(best)):
        best[lane] = batch.distance[row, lane]
    while position < end and into.weights[position] < reach:
        stop = min(position + LOOK, end)
        relax_arcs(best, batch.distance, into.neighbors, into.weights, position, stop)
        position = stop
        reach = widest(best, batch.floor, batch.limits[1])
        reach += reach * batch.limits[2]
    batch.reach[row] = reach
    return position - begin


@subroutine
def _sweep(into: Any, out: Any, batch: Any, bound: Any, ceiling: Any) -> Any:
    """Pull the rows that wait up to ``bound``; a lower bound of where the others wait."""
    top, slack, counts = batch.limits[0], batch.limits[2], batch.counts
    smallest = top
    for index in range(len(batch.changed)):
        word = batch.changed[index]
        while word != 0:
            row = index * WORD_BITS + lowest_bit(word)
            bit = word & ~(word - ONE)
            word ^= bit
            if batch.pending[row] > bound:
                smallest = min(smallest, batch.pending[row])
                continue
            batch.changed[index] ^= bit
            waited, batch.pending[row] = batch.pending[row], top
            counts[ROWS] += 1
            counts[PULLED] += _pull(into, batch, row)
            low = take_improved(batch.best, batch.distance, row, batch.floor, top)
            if batch.fresh[index] & bit:
                batch.fresh[index] ^= bit
                low = min(low, waited)
            if low < top:
                looked, nearest = _mark(out, batch, row, low - abs(low) * slack, ceiling)
                counts[MARKED] += looked
                smallest = min(smallest, nearest)
    counts[SWEEPS] += 1
    return smallest


@subroutine
def _highest(values: Any) -> Any:
    highest = values[0]
    for value in values:
        highest = max(highest, value)
    return highest


@kernel
def settle(into: Any, out: Any, batch: Any, step: Any) -> None:
    """Pull waiting rows until none is left; the bound rises by ``step`` at a time."""
    top = batch.limits[0]
    smallest = top
    for row in range(len(batch.pending)):
        smallest = min(smallest, batch.pending[row])
    while smallest < top:
        bound, ceiling = smallest + step, _highest(batch.reach)
        # What was marked and pulled in the same sweep makes `smallest` too small, never too large:
        # then a sweep finds nothing up to the bound.
        while smallest <= bound and smallest < top:
            smallest = _sweep(into, out, batch, bound, ceiling)


@subroutine
def _find_reached(out: Any, batch: Any, sources: Any) -> None:
    """Set each row's bits of the lanes whose sources reach it."""
    changed, reached = batch.changed, batch.reached
    changed[:] = 0
    reached[:] = 0
    for lane in range(len(sources)):
        source = np.uint64(sources[lane])
        reached[source] |= ONE << np.uint64(lane)
        changed[source >> SIX] |= ONE << (source & LOW)
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
                        changed[v >> SIX] |= ONE << (v & LOW)


@subroutine
def _forget(batch: Any, sources: int) -> None:
    """Give all lanes their distances before the search; lanes without a source reach nothing."""
    top, never = batch.limits[0], batch.limits[1]
    rows, lanes = batch.distance.shape
    everywhere = ~np.uint64(0) >> np.uint64(WORD_BITS - sources)
    for row in range(rows):
        bits = batch.reached[row]
        # What nobody reaches need not be looked at, nor raise the ceiling.
        batch.reach[row] = top if bits else 0
        batch.pending[row] = top
        if bits == everywhere:
            for lane in range(sources):
                batch.distance[row, lane] = top
        else:
            for lane in range(sources):
                batch.distance[row, lane] = top if (bits >> np.uint64(lane)) & ONE else never
        for lane in range(sources, lanes):
            batch.distance[row, lane] = never


@kernel
def begin(out: Any, batch: Any, leaves: Any, sources: Any) -> None:
    """Reset a batch, give every lane its source, and relax the sources' own arcs."""
    _find_reached(out, batch, sources)
    _forget(batch, len(sources))
    # No arc matters to a leaf before the end: it is never marked.
    for leaf in leaves:
        batch.reach[leaf] = 0
    batch.floor[:] = 0
    batch.fresh[:] = 0
    for lane in range(len(sources)):
        source = sources[lane]
        first, end = out.offsets[source], out.offsets[source + 1]
        batch.distance[source, lane] = 0
        if first < end:
            batch.floor[lane] = out.weights[first]
        for position in range(first, end):
            v = np.uint64(out.neighbors[position])
            if out.weights[position] < batch.distance[v, lane]:
                batch.distance[v, lane] = out.weights[position]
            _wait(batch, v, out.weights[position] - batch.floor[lane])
            batch.fresh[v >> SIX] |= ONE << (v & LOW)


@subroutine
def _finish(into: Any, batch: Any, leaves: Any) -> None:
    """Relax the arcs into the leaves, once, as all other distances are final."""
    best, distance = batch.best, batch.distance
    for leaf in leaves:
        first, end = into.offsets[leaf], into.offsets[leaf + 1]
        for lane in range(len(best)):
            best[lane] = distance[leaf, lane]
        relax_arcs(best, distance, into.neighbors, into.weights, first, end)
        for lane in range(len(best)):
            distance[leaf, lane] = best[lane]


@subroutine
def publish(batch: Any, answer: Any, far: Any) -> None:
    """Write a batch's distances as rows of ``answer`` (sources, rows); ``far``: not reached."""
    top = batch.limits[0]
    sources, rows = answer.shape
    for base in range(0, rows, PUBLISHED):
        end = min(base + PUBLISHED, rows)
        for lane in range(sources):
            for row in range(base, end):
                at = batch.distance[row, lane]
                answer[lane, row] = at if at < top else far


@kernel
def search_batches(
    thread: int,
    threads: int,  # noqa: ARG001
    control: Any,
    into: Any,
    out: Any,
    leaves: Any,
    states: Any,
    step: Any,
    far: Any,
    sources: Any,
    answer: Any,
) -> None:
    """Search batch after batch, each on one thread, until all sources have their row.

    ``leaves`` lists rows that no shortest path leads through. Every array of ``states`` is that of
    a `Batch` once for every thread, ``step`` and ``far`` are arrays (1,) of the distances' dtype,
    ``answer`` is (sources, rows).
    """
    batch = Batch(
        states.distance[thread],
        states.reach[thread],
        states.pending[thread],
        states.floor[thread],
        states.best[thread],
        states.limits[thread],
        states.changed[thread],
        states.fresh[thread],
        states.reached[thread],
        states.counts[thread],
    )
    lanes = batch.distance.shape[1]
    while atomic_load(control, ABORT) == 0:
        first = atomic_add(control, CHUNK, lanes)
        if first >= len(sources):
            break
        end = min(first + lanes, len(sources))
        begin(out, batch, leaves, sources[first:end])
        settle(into, out, batch, step[0])
        _finish(into, batch, leaves)
        publish(batch, answer[first:end], far[0])
