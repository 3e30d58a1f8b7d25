"""SSSP from many sources at once: one read of an arc serves a batch of sources (CPU).

Distances lie ``[vertex][slot]``, one slot a source, so an arc is relaxed for all slots by a few
vector instructions. Rows that improved push along their out-arcs, lightest first, in index;
distances fall from +inf to the greatest fixed point, whose bits do not depend on the order, so that
each slot has the bits of a single search.

Every slot has a *floor*, a number that none of its distances lies below, except the source's own.
The largest difference of a row's distances from the floors is the row's *reach*. If the smallest
improved distance of a row lies ``low`` above its floor, an arc of weight ``w`` can lower nothing in
a row whose reach is ``low + w`` or less. Rounding does not change that: where ``d + w`` is not
smaller than a number, the rounded sum is not either. Rows wait for their push in the order of how
far above the floor they improved, step by step, as in delta-stepping.

The less the slots of a row differ in that, the fewer arcs are relaxed, and the fewer times. Some
sources lie farther from everything than others, so the floor is lower by as much as a source's mean
distance to some landmarks is smaller than that of sources far away (`many.prune`). Where no
landmarks were searched from, it is the source's lightest arc, since nothing else is nearer.

A slot that can never reach a row is told apart from one that has not yet, and does not widen the
row's reach; which those are is found first, by one bit a slot.
"""

# ruff: noqa: FURB136 - min and max would take a tenth more of the first call, to be compiled

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, lowest_bit
from ooc_graph.kernels.common.compiled import inlined, kernel, subroutine
from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.kernels.common.team import ABORT, CHUNK, atomic_add, atomic_load
from ooc_graph.kernels.cpu.many import batch as batches
from ooc_graph.kernels.cpu.many.batch import Wanted, begin, publish, reset, wait
from ooc_graph.kernels.cpu.many.vectors import fetch_row, push_arc
from ooc_graph.prefetch import prefetch
from ooc_graph.types import AnyArray, IntArray

AHEAD = 4
"""Arcs between fetching a row's distances and using them."""


@subroutine
def _push(out: Any, batch: Any, row: int, low: Any, ceiling: Any) -> Any:
    """Relax the arcs of a row that improved to ``low`` above the floor.

    Returns the smallest distance above the floor of a row that improved.
    """
    top, slack, counts = batch.limits[0], batch.limits[2], batch.counts
    begin, end = out.offsets[row], out.offsets[row + 1]
    position, nearest = begin, top
    for ahead in range(begin, begin + AHEAD if begin + AHEAD < end else end):
        fetch_row(batch.distance, out.neighbors[ahead])
    while position < end:
        weight = out.weights[position]
        if low + weight >= ceiling:
            break
        if position + AHEAD < end:
            fetch_row(batch.distance, out.neighbors[position + AHEAD])
        v = np.uint64(out.neighbors[position])
        position += 1
        if low + weight >= batch.reach[v]:
            continue
        counts[batches.RELAXED] += 1
        away, reach = push_arc(batch.distance, row, v, weight, batch.floor, batch.limits)
        if away < top:
            batch.reach[v] = reach + reach * slack
            wait(batch, v, away)
            nearest = away if away < nearest else nearest
    counts[batches.LOOKED] += position - begin
    return nearest


@inlined
def _sweep(out: Any, batch: Any, bound: Any, ceiling: Any) -> Any:
    """Let the rows push that wait up to ``bound``; a lower bound of where the others wait."""
    top, slack = batch.limits[0], batch.limits[2]
    smallest = top
    for index in range(len(batch.changed)):
        word = batch.changed[index]
        while word != 0:
            row = index * WORD_BITS + lowest_bit(word)
            bit = word & ~(word - ONE)
            word ^= bit
            low = batch.pending[row]
            if low > bound:
                smallest = low if low < smallest else smallest
                continue
            batch.changed[index] ^= bit
            batch.pending[row] = top
            batch.counts[batches.ROWS] += 1
            if word != 0:
                # The next row's first arcs come into cache meanwhile.
                begin = out.offsets[index * WORD_BITS + lowest_bit(word)]
                prefetch(out.neighbors, begin)
                for line in range(2):
                    prefetch(out.weights, begin + line * batches.PUBLISHED // 2)
            nearest = _push(out, batch, row, low - low * slack, ceiling)
            smallest = nearest if nearest < smallest else smallest
    batch.counts[batches.SWEEPS] += 1
    return smallest


@inlined
def _finish(into: Any, batch: Any, leaves: Any) -> None:
    """Relax the arcs into the leaves, once, as all other distances are final."""
    for leaf in leaves:
        for position in range(into.offsets[leaf], into.offsets[leaf + 1]):
            u, weight = np.int64(into.neighbors[position]), into.weights[position]
            push_arc(batch.distance, u, np.int64(leaf), weight, batch.floor, batch.limits)


class Task(NamedTuple):
    """What batches search, and where their distances go.

    ``leaves`` lists rows that no shortest path leads through, ``floors`` is (rows,) or empty, and
    ``step`` an array (1,) of the distances' dtype. ``begins`` int64 (batches + 1,): position of
    each batch's first source, and how many there are.
    """

    out: LightRows
    into: LightRows
    leaves: IntArray
    floors: AnyArray
    step: AnyArray
    begins: IntArray
    wanted: Wanted


@kernel
def search_batch(control: Any, batch: Any, task: Any) -> Any:
    """Search the next batch of a `Task` on the calling thread: its sources have their rows then.

    Returns its number, -1 if no batch is left or the launch was cancelled.
    """
    if atomic_load(control, ABORT) != 0:
        return -1
    number = atomic_add(control, CHUNK, 1)
    if number + 1 >= len(task.begins):
        return -1
    first, end = task.begins[number], task.begins[number + 1]
    sources = task.wanted.sources[first:end]
    reset(task.out, batch, sources)
    begin(task.out, batch, task.leaves, task.floors, sources)
    # That of a source, which is 0: no row waits below.
    smallest, top = batch.distance[sources[0], 0], batch.limits[0]
    # Waiting rows push until none is left; the bound rises by a step at a time.
    while smallest < top:
        bound, ceiling = smallest + task.step[0], batch.reach[0]
        for reach in batch.reach:
            ceiling = reach if reach > ceiling else ceiling
        # What improved and pushed in the same sweep makes `smallest` too small, never too large:
        # then a sweep finds nothing up to the bound.
        while smallest <= bound and smallest < top:
            smallest = _sweep(task.out, batch, bound, ceiling)
    _finish(task.into, batch, task.leaves)
    publish(batch, task.wanted, first, end)
    return number
