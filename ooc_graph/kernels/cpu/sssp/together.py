"""The distances of an SSSP by ranks whose processes share them: all supersteps run inside (CPU).

The first thread of each rank pushes and meets the others; all its threads pull. Ranks push as in
supersteps (`ooc_graph.traverse.sssp`), and choose which vertices are inner ones as there; pulls and
the end are those of `ooc_graph.kernels.cpu.sssp.fused`, with what all ranks count.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common import meeting
from ooc_graph.kernels.common.compiled import kernel, subroutine, varying
from ooc_graph.kernels.common.dealt import arcs_of, internal_of, is_own, local_of
from ooc_graph.kernels.common.decisions import PULL
from ooc_graph.kernels.common.sssp.sums import raised
from ooc_graph.kernels.common.team import CHUNK, OPERATION, barrier
from ooc_graph.kernels.cpu.sssp import parents, push
from ooc_graph.kernels.cpu.sssp.common import (
    BEGUN_S,
    DONE,
    STAGES,
    TURN,
    WITHIN,
    ends_of,
    tell,
    total_of,
)
from ooc_graph.kernels.cpu.sssp.fused import (
    BEYOND,
    FINAL,
    FINISHED,
    FLOOR,
    HIGH,
    INNER,
    PULLED,
    PUSHED,
    ends_of_threads,
    finish_by_push,
    last_bound,
)
from ooc_graph.kernels.cpu.sssp.listing import push_own
from ooc_graph.kernels.cpu.sssp.pull import CHANGED, REACHED, pull_part
from ooc_graph.kernels.cpu.sssp.rising import adapt_step, push_inner, push_is_enough
from ooc_graph.kernels.cpu.sssp.shared import list_within


@subroutine
def _begin_at(queue: Any, head: int, count: int) -> None:
    """Have the ``count`` elements of a ring from ``head`` on stand at its beginning."""
    if head + count <= len(queue):
        for index in range(count):
            queue[index] = queue[head + index]
        return
    # They wrap: turn the whole ring.
    for begin, end in ((0, head), (head, len(queue)), (0, len(queue))):
        for index in range((end - begin) // 2):
            other = end - 1 - index
            kept = queue[begin + index]
            queue[begin + index] = queue[other]
            queue[other] = kept


@subroutine
def _settle(
    control: Any, common: Any, own: Any, start: Any, count: int, pending: int, bound: Any
) -> tuple[int, int, int, bool]:
    """Push from ``queue[:count]`` until no rank finds more up to ``bound``.

    Returns rows pending here, arcs examined by all and improvements again by all, and whether
    nobody gave up.
    """
    out, wave, dealt, top = own.out, own.wave, start.dealt, own.wave.top[0]
    examined, again = varying(0), varying(0)
    while True:
        turn = control[TURN] & 1
        target, found = common.target[turn, dealt.shard], wave.distance[:0]
        head, count, listed, pending, looked, more, smallest = push_own(
            out, wave, count, pending, bound, target, found, True
        )
        _begin_at(wave.queue, head, count)
        if not tell(control, common, start, listed, looked, more, 0, smallest, top):
            return pending, examined, again, False
        examined += total_of(control, common, 1)
        again += total_of(control, common, 2)
        if total_of(control, common, 0) == 0:
            return pending, examined, again, True
        for rank in range(common.counts.shape[1]):
            if rank != dealt.shard:
                theirs = common.target[turn, rank, : common.counts[turn, rank, 0]]
                count, pending = push.queue_improved(out, wave, theirs, count, pending, bound)


@subroutine
def _push(control: Any, common: Any, own: Any, start: Any) -> int:
    """Push from the root under a rising bound; how many of its stages are kept.

    Word `OPERATION` says what comes next, and the limit `FINAL` up to which distance all is final.
    """
    out, wave, dealt, limits = own.out, own.wave, start.dealt, own.limits
    control[OPERATION] = PULL
    bound, step, stages = limits[FINAL], start.outset.step, varying(0)
    count, pending = varying(0), varying(0)
    if is_own(start.root, dealt):
        row = local_of(start.root, dealt)
        wave.distance[start.root], wave.taken[row], wave.queue[0] = bound, push.QUEUED, row
        count += 1
    while True:
        pending, examined, again, goes_on = _settle(
            control, common, own, start, count, pending, bound
        )
        if not goes_on:
            return int(stages)
        control[PUSHED] += examined
        following, _ = ends_of(control, common)
        limits[FINAL] = bound
        if stages < STAGES:
            own.bounds[stages], own.following[stages] = bound, following
            stages += 1
        if following == wave.top[0]:
            control[OPERATION] = DONE
            return int(stages)
        if start.outset.may_pull and push_is_enough(control[PUSHED], start.outset.arcs):
            return int(stages)
        step = adapt_step(step, examined, again)
        bound = raised(wave.bound, following, step, wave.top[0])
        count, pending = push.take_pending(out, wave, pending, bound)


@subroutine
def _arcs_within(common: Any, own: Any, dealt: Any, rows: int, stages: int) -> None:
    """Count the arcs of the rows ``queue[:rows]`` up to the bound of each stage."""
    arcs, out = common.arcs[dealt.shard], own.out
    arcs[:stages] = 0
    for index in range(rows):
        row = np.int64(own.wave.queue[index])
        at, stage = own.wave.distance[internal_of(row, dealt)], 0
        while own.bounds[stage] < at:
            stage += 1
        arcs[stage] += np.int64(out.offsets[row + 1] - out.offsets[row])


@subroutine
def _choose_inner(common: Any, start: Any, stages: int) -> int:
    """The last stage within whose bound all rows together have few arcs; -1 if none has."""
    chosen, arcs = -1, 0
    for stage in range(stages):
        for rank in range(common.arcs.shape[0]):
            arcs += common.arcs[rank, stage]
        if push_is_enough(arcs, start.outset.arcs):
            return chosen
        chosen = stage
    return chosen


@subroutine
def _push_inner(control: Any, common: Any, own: Any, start: Any, stages: int) -> None:
    """Push the vertices nearest to the root along all of their arcs, if these are few."""
    wave, top = own.wave, own.wave.top[0]
    rows = list_within(wave, own.bounds[stages - 1], wave.queue)
    _arcs_within(common, own, start.dealt, rows, stages)
    if not tell(control, common, start, 0, 0, 0, 0, top, top):
        return
    inner = _choose_inner(common, start, stages)
    if inner < 0:
        return
    rows = list_within(wave, own.bounds[inner], wave.queue)
    _, examined = push_inner(own.out, own.inner, rows, wave.queue[:0], wave.distance[:0])
    if not tell(control, common, start, examined, 0, 0, 0, top, top):
        return
    control[PUSHED] += total_of(control, common, 0)
    control[INNER] = 1
    own.limits[FLOOR] = own.limits[BEYOND] = own.following[inner]
    own.limits[WITHIN] = own.bounds[inner]


@subroutine
def _finish(control: Any, common: Any, own: Any, start: Any, changed: int) -> None:
    """Push from what the last pull pass changed, to the end."""
    wave, limits = own.wave, own.limits
    reached = total_of(control, common, 3)
    bound = last_bound(reached, start.outset.may_overflow, limits[HIGH], wave.top[0])
    wave.taken[:] = 0
    count, pending = push.queue_improved(own.out, wave, wave.queue[:changed], 0, 0, bound)
    _, examined, _, goes_on = _settle(control, common, own, start, count, pending, bound)
    if goes_on:
        control[FINISHED], control[OPERATION] = examined, DONE


@subroutine
def _plan_after_pull(control: Any, common: Any, own: Any, start: Any) -> None:
    """Close a pull pass and say what comes next. Thread 0, while the others wait."""
    wave, limits, ranges, changed = own.wave, own.limits, own.ranges, control[CHANGED]
    arcs = arcs_of(own.out.offsets, start.dealt, wave.queue[:changed])
    low, high = ends_of_threads(ranges, wave.top[0], limits[FINAL])
    looked, reached = control[parents.EXAMINED], control[REACHED]
    if not tell(control, common, start, changed, arcs, looked, reached, low, high):
        return
    low, limits[HIGH] = ends_of(control, common)
    pulled, is_first = total_of(control, common, 2), control[PULLED] == 0
    control[PULLED] += pulled
    limits[FINAL], limits[FLOOR] = max(limits[FINAL], low), low
    if total_of(control, common, 0) == 0:
        control[OPERATION] = DONE
    elif not is_first and finish_by_push(total_of(control, common, 1), pulled, start.vertices):
        _finish(control, common, own, start, changed)
    control[CHUNK] = control[CHANGED] = control[parents.EXAMINED] = control[REACHED] = 0
    ranges[:, 0] = wave.top[0]


@kernel
def search_together(
    thread: int, threads: int, control: Any, common: Any, own: Any, start: Any
) -> None:
    """Find all distances from the root; all threads of all ranks call it.

    Word `OPERATION` of the control array becomes `DONE`, or `LOST` if somebody gave up. `INNER`
    becomes 1 if vertices nearest to the root were pushed along all of their arcs: up to the limit
    `WITHIN`, and the next one lies at `BEYOND`.
    """
    if thread == 0:
        control[BEGUN_S] = meeting.seconds()
        top = own.wave.top[0]
        # All have cleared their distances.
        if tell(control, common, start, 0, 0, 0, 0, top, top):
            stages = _push(control, common, own, start)
            if control[OPERATION] == PULL:
                _push_inner(control, common, own, start, stages)
        own.ranges[:, 0] = top
    while barrier(control, threads) and control[OPERATION] == PULL:
        limits, wave = own.limits, own.wave
        given = limits[FINAL], limits[FLOOR], own.ranges, own.scratches
        pull_part(thread, threads, control, own.into, wave, wave.distance[:0], *given)
        if not barrier(control, threads):
            return
        if thread == 0:
            _plan_after_pull(control, common, own, start)
