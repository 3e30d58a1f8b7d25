"""A whole SSSP in one call per thread: push from the root, pull for the rest, parents."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import decisions
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.dealt import internal_of
from ooc_graph.kernels.common.decisions import PULL
from ooc_graph.kernels.common.team import CHUNK, FIRST_FREE, LINE, OPERATION, barrier
from ooc_graph.kernels.cpu.sssp import parents
from ooc_graph.kernels.cpu.sssp.pull import CHANGED, REACHED, pull_part
from ooc_graph.kernels.cpu.sssp.push import QUEUED, push_below
from ooc_graph.kernels.cpu.sssp.rising import arcs_of_listed, push_inner, push_rising
from ooc_graph.types import AnyArray

PARENTS = 2
PUSHED, PULLED, FINISHED, INNER = (FIRST_FREE + k * LINE for k in range(6, 10))
"""Words of the control array: arcs examined by phase, and the number of inner vertices
(`push_rising`)."""

finish_by_push = kernel(decisions.finish_by_push)
last_bound = kernel(decisions.last_bound)


class Answer(NamedTuple):
    """Parents, and scratch of the passes that all threads run.

    ``parent`` (rows,) is the wave's queue until parents are looked for. ``limits`` (4,): the
    distance up to which all is final, a lower bound of what may have changed, the largest
    distance reached, the distance beyond the inner vertices. ``ranges`` (threads, 2): what each
    thread found in a pull pass. ``scratches`` are those of all threads. ``may_overflow``: a path
    may be too long.
    """

    parent: AnyArray
    limits: AnyArray
    ranges: AnyArray
    scratches: parents.Scratch
    may_overflow: bool


FINAL, FLOOR, HIGH, BEYOND = range(4)


@subroutine
def _reset(thread: int, threads: int, wave: Any) -> None:
    rows = len(wave.distance)
    begin, end = rows * thread // threads, rows * (thread + 1) // threads
    wave.distance[begin:end] = wave.top[0]
    wave.taken[begin:end] = 0


@subroutine
def _forget_parents(thread: int, threads: int, parent: Any) -> None:
    rows = len(parent)
    parent[rows * thread // threads : rows * (thread + 1) // threads] = parent.dtype.type(-1)


@subroutine
def _push(control: Any, out: Any, wave: Any, answer: Any, root: int, may_pull: bool) -> None:
    bound, floor, inner, examined, settled = push_rising(
        out, out.offsets[:0], len(out.neighbors), wave, root, may_pull
    )
    if not settled:
        _, pushed = push_inner(out, wave, inner, wave.queue[:0], wave.distance[:0])
        examined += pushed
    control[PUSHED], control[INNER] = examined, inner
    control[OPERATION] = PARENTS if settled else PULL
    answer.limits[FINAL], answer.limits[FLOOR], answer.limits[BEYOND] = bound, floor, floor
    answer.ranges[:, 0] = wave.top[0]


@subroutine
def _finish(control: Any, out: Any, wave: Any, answer: Any) -> None:
    """Push from what the last pull pass changed, to the end."""
    count = control[CHANGED]
    wave.taken[:] = 0
    for index in range(count):
        wave.taken[np.int64(wave.queue[index])] = QUEUED
    high = answer.limits[HIGH]
    bound = last_bound(control[REACHED], answer.may_overflow, high, wave.top[0])
    _, _, examined, _ = push_below(out, wave, count, 0, bound, len(wave.first))
    control[FINISHED] = examined
    control[OPERATION] = PARENTS


@subroutine
def ends_of_threads(ranges: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The smallest and the largest distance that all threads found, or these."""
    for thread in range(len(ranges)):
        low, high = min(low, ranges[thread, 0]), max(high, ranges[thread, 1])
    return low, high


@subroutine
def _plan_after_pull(control: Any, out: Any, wave: Any, answer: Any) -> None:
    """Close a pull pass and say what comes next. Thread 0, while the others wait."""
    limits, ranges = answer.limits, answer.ranges
    pulled, changed = control[parents.EXAMINED], control[CHANGED]
    control[PULLED] += pulled
    low, limits[HIGH] = ends_of_threads(ranges, wave.top[0], limits[FINAL])
    first = control[PULLED] == pulled
    limits[FINAL] = max(limits[FINAL], low)
    limits[FLOOR] = low
    if changed == 0:
        control[OPERATION] = PARENTS
    elif not first:
        arcs = arcs_of_listed(out, out.offsets[:0], wave.queue, 0, changed)
        if finish_by_push(arcs, pulled, len(wave.distance)):
            _finish(control, out, wave, answer)
    control[CHUNK] = control[CHANGED] = control[parents.EXAMINED] = control[REACHED] = 0
    ranges[:, 0] = wave.top[0]


@kernel
def overflowed(out: Any, distance: Any, dealt: Any, heaviest: Any, top: Any) -> bool:
    """Tell whether some shortest distance, over an arc of these rows, exceeds their dtype."""
    for row in range(len(out.offsets) - 1):
        at = distance[internal_of(row, dealt)]
        if parents.lost_by_overflow(out, row, at, heaviest, distance, top):
            return True
    return False


@kernel
def search(
    thread: int,
    threads: int,
    control: Any,
    out: Any,
    into: Any,
    wave: Any,
    answer: Any,
    may_pull: bool,
    root: int,
) -> None:
    """Search from ``root``; the control array ends with the arcs examined by phase.

    Its word `UNRESOLVED` counts the rows on plateaus, which are in ``pending`` and have no parent.
    """
    _reset(thread, threads, wave)
    if not barrier(control, threads):
        return
    limits = answer.limits
    if thread == 0:
        _push(control, out, wave, answer, root, may_pull)
    while True:
        if not barrier(control, threads):
            return
        if control[OPERATION] == PARENTS:
            break
        given = limits[FINAL], limits[FLOOR], answer.ranges, answer.scratches
        pull_part(thread, threads, control, into, wave, wave.distance[:0], *given)
        if not barrier(control, threads):
            return
        if thread == 0:
            _plan_after_pull(control, out, wave, answer)
    parent = answer.parent
    _forget_parents(thread, threads, parent)
    if not barrier(control, threads):
        return
    if thread == 0:
        control[CHUNK] = 0
        _, examined = parents.inner_parents(
            out, wave, parent, control[INNER], parent[:0], parent[:0]
        )
        control[parents.EXAMINED] = examined
    if not barrier(control, threads):
        return
    beyond, scratches = limits[BEYOND], answer.scratches
    parents.parents_part(thread, threads, control, into, wave, parent, root, beyond, scratches)
