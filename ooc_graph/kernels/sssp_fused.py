"""A whole SSSP in one call per thread: push from the root, pull for the rest, parents."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels import interface
from ooc_graph.kernels.bitmap import Words, members
from ooc_graph.kernels.compiled import kernel
from ooc_graph.kernels.interface import PULL
from ooc_graph.kernels.sssp_parents import (
    EXAMINED,
    UNRESOLVED,
    inner_parents,
    lost_by_overflow,
    parents_part,
    resolve_plateaus,
)
from ooc_graph.kernels.sssp_pull import CHANGED, CHANGED_ARCS, REACHED, pull_part
from ooc_graph.kernels.sssp_push import QUEUED, push_below, push_inner, push_rising
from ooc_graph.kernels.team import CHUNK, FIRST_FREE, LINE, OPERATION, barrier
from ooc_graph.types import AnyArray

PARENTS = 2
PUSHED, PULLED, FINISHED, INNER = (FIRST_FREE + k * LINE for k in range(6, 10))
"""Words of the control array: arcs examined by phase, and the number of inner vertices
(`push_rising`)."""

finish_by_push = kernel(interface.finish_by_push)


class Answer(NamedTuple):
    """Parents, and scratch of the passes that all threads run.

    ``limits`` (4,): the distance up to which all is final, a lower bound of what may have
    changed, the largest distance reached, the distance beyond the inner vertices. ``ranges``
    (threads, 2): what each thread found in a pull pass.
    """

    parent: AnyArray
    changed: Words
    limits: AnyArray
    ranges: AnyArray


FINAL, FLOOR, HIGH, BEYOND = range(4)


@kernel
def _reset(thread: int, threads: int, wave: Any, parent: Any) -> None:
    rows = len(wave.distance)
    begin, end = rows * thread // threads, rows * (thread + 1) // threads
    wave.distance[begin:end] = wave.top[0]
    wave.marks[begin:end] = 0
    parent[begin:end] = parent.dtype.type(-1)


@kernel
def _push(control: Any, out: Any, wave: Any, answer: Any, root: int, may_pull: bool) -> None:
    bound, floor, inner, examined, settled = push_rising(out, wave, root, may_pull)
    if not settled:
        examined += push_inner(out, wave, inner)
    control[PUSHED], control[INNER] = examined, inner
    control[OPERATION] = PARENTS if settled else PULL
    answer.limits[FINAL], answer.limits[FLOOR], answer.limits[BEYOND] = bound, floor, floor
    answer.ranges[:, 0] = wave.top[0]


@kernel
def _finish(control: Any, out: Any, wave: Any, answer: Any) -> None:
    """Push from what the last pull pass changed, to the end."""
    wave.marks[:] = 0
    count = members(answer.changed, wave.queue)
    for index in range(count):
        u = np.int64(wave.queue[index])
        wave.marks[u] = QUEUED
        wave.taken[u] = 0
    # If the pass reached no new vertex, none will be: nothing beyond the farthest is of use.
    bound = answer.limits[HIGH] if control[REACHED] == 0 else wave.top[0]
    _, _, examined, _ = push_below(out, wave, count, 0, bound, len(wave.first))
    control[FINISHED] = examined
    control[OPERATION] = PARENTS


@kernel
def _plan_after_pull(control: Any, out: Any, wave: Any, answer: Any) -> None:
    """Close a pull pass and say what comes next. Thread 0, while the others wait."""
    limits, ranges = answer.limits, answer.ranges
    pulled, changed = control[EXAMINED], control[CHANGED]
    control[PULLED] += pulled
    low, high = wave.top[0], limits[FINAL]
    for thread in range(len(ranges)):
        low, high = min(low, ranges[thread, 0]), max(high, ranges[thread, 1])
    limits[HIGH] = high
    first = control[PULLED] == pulled
    limits[FINAL] = max(limits[FINAL], low)
    limits[FLOOR] = low
    if changed == 0:
        control[OPERATION] = PARENTS
    elif not first and finish_by_push(control[CHANGED_ARCS], pulled, len(wave.distance)):
        _finish(control, out, wave, answer)
    control[CHUNK] = control[CHANGED] = control[CHANGED_ARCS] = 0
    control[EXAMINED] = control[REACHED] = 0
    ranges[:, 0] = wave.top[0]


@kernel
def overflowed(out: Any, distance: Any, heaviest: Any, top: Any) -> bool:
    """Tell whether some shortest distance exceeds the distances' dtype."""
    for row in range(len(distance)):
        if lost_by_overflow(out, row, distance[row], heaviest, distance, top):
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

    Its word `UNRESOLVED` ends with the reached vertices that found no parent, which are none.
    """
    _reset(thread, threads, wave, answer.parent)
    if not barrier(control, threads):
        return
    top, limits = wave.top[0], answer.limits
    if thread == 0:
        _push(control, out, wave, answer, root, may_pull)
    while True:
        if not barrier(control, threads):
            return
        if control[OPERATION] == PARENTS:
            break
        pull_part(
            control,
            into,
            out.offsets,
            wave.distance,
            answer.changed,
            limits[FINAL],
            limits[FLOOR],
            answer.ranges[thread],
        )
        if not barrier(control, threads):
            return
        if thread == 0:
            _plan_after_pull(control, out, wave, answer)
    if thread == 0:
        control[CHUNK] = 0
        control[EXAMINED] = inner_parents(out, wave, answer.parent, control[INNER])
    if not barrier(control, threads):
        return
    parents_part(
        control,
        into,
        wave.distance,
        answer.parent,
        answer.changed,
        root,
        limits[BEYOND],
        top,
    )
    if not barrier(control, threads) or thread != 0:
        return
    if control[UNRESOLVED] > 0:
        control[UNRESOLVED] = resolve_plateaus(out, into, wave, answer.parent, answer.changed)
