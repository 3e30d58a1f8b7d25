"""Pushes of ranks: they list what improves, and everyone takes it afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.dealt import internal_of, is_own, local_of
from ooc_graph.kernels.common.intrinsics import atomic_lower
from ooc_graph.kernels.common.sssp.sums import path_sum
from ooc_graph.kernels.cpu.sssp.push import (
    AHEAD,
    FLAG_BITS,
    QUEUED,
    WAITING,
    ask_for_arcs,
    queue_or_wait,
    smallest_pending,
)
from ooc_graph.prefetch import prefetch


@kernel
def push_once(
    out: Any, wave: Any, count: int, pending: int, bound: Any, target: Any, found: Any
) -> tuple[int, int, int, int, int, Any]:
    """List the improvements up to ``bound`` along the rows ``queue[:count]``, applying none.

    As `push_below` where distances are everyone's, so that nothing may follow from an improvement
    before all have it. Ends before a row whose arcs may not fit the list. Returns the rows done,
    how many improvements are listed, as that function pending, examined and again, and the smallest
    candidate of the pending rows: nobody asks for it if there are improvements, so ``top`` then.
    """
    distance, taken, top = wave.distance, wave.taken, wave.top[0]
    done, listed, examined, again = 0, 0, 0, 0
    for index in range(count):
        if index + 2 * AHEAD < count:
            later = np.int64(wave.queue[index + 2 * AHEAD])
            soon = np.int64(wave.queue[index + AHEAD])
            ask_for_arcs(out, later, soon, np.int64(taken[soon]) >> FLAG_BITS)
            prefetch(taken, later)
        u = np.int64(wave.queue[index])
        waiting: Any = np.int64(taken[u]) & WAITING
        at, begin, end = distance[internal_of(u, wave.dealt)], out.offsets[u], out.offsets[u + 1]
        position = begin + (np.int64(taken[u]) >> FLAG_BITS)
        if end - position > len(target) - listed:
            break
        done += 1
        examined -= position
        while position < end:
            candidate = path_sum(at, out.weights[position], top)
            if candidate > bound:
                break
            v = np.int64(out.neighbors[position])
            position += 1
            if candidate < distance[v]:
                again += distance[v] < top
                target[listed], found[listed] = v, candidate
                listed += 1
        examined += position
        if position < end and not waiting:
            waiting = WAITING
            wave.pending[pending] = u
            pending += 1
        taken[u] = ((position - begin) << FLAG_BITS) | waiting
    smallest = top if listed > 0 else smallest_pending(out, wave, pending)
    return done, listed, pending, examined, again, smallest


@kernel
def push_own(
    out: Any,
    wave: Any,
    count: int,
    pending: int,
    bound: Any,
    target: Any,
    found: Any,
    is_joined: bool,
) -> tuple[int, int, int, int, int, int, Any]:
    """As `push_once`, but own rows that improve take their distance, and are pushed in turn.

    ``queue[:count]`` is a ring. Everyone has yet to learn of these rows, so that they are listed
    with the others. If distances ``is_joined``, every improved row takes its distance, and those of
    other ranks are listed, which have to push them; ``found`` may be empty then. Ends, in the
    middle of a row maybe, when the list is full. Returns where the ring begins then and how many
    rows are in it, and what `push_once` does after the rows done.
    """
    distance, taken, queue = wave.distance, wave.taken, wave.queue
    top, capacity = wave.top[0], len(wave.queue)
    head, tail = 0, 0 if count == capacity else count
    listed, examined, again, is_full = 0, 0, 0, False
    while count > 0:
        if count > 2 * AHEAD:
            ahead = head + 2 * AHEAD
            later = np.int64(queue[ahead if ahead < capacity else ahead - capacity])
            ahead = head + AHEAD
            soon = np.int64(queue[ahead if ahead < capacity else ahead - capacity])
            ask_for_arcs(out, later, soon, np.int64(taken[soon]) >> FLAG_BITS)
            prefetch(taken, later)
        u = np.int64(queue[head])
        begin, end = out.offsets[u], out.offsets[u + 1]
        position = begin + (np.int64(taken[u]) >> FLAG_BITS)
        waiting: Any = np.int64(taken[u]) & WAITING
        at = distance[internal_of(u, wave.dealt)]
        examined -= position
        while position < end:
            candidate = path_sum(at, out.weights[position], top)
            if candidate > bound:
                break
            v = np.int64(out.neighbors[position])
            if candidate < distance[v]:
                owns = is_own(v, wave.dealt)
                is_full = listed == len(target) and not (owns and is_joined)
                if is_full:
                    break
                again += distance[v] < top
                if owns or is_joined:
                    atomic_lower(distance, v, candidate)
                if not (owns and is_joined):
                    target[listed] = v
                    if len(found) > 0:
                        found[listed] = candidate
                    listed += 1
                if owns:
                    tail, count, pending = queue_or_wait(
                        out, wave, local_of(v, wave.dealt), candidate, bound, tail, count, pending
                    )
            position += 1
        examined += position
        if is_full:
            taken[u] = ((position - begin) << FLAG_BITS) | QUEUED | waiting
            break
        head = 0 if head + 1 == capacity else head + 1
        count -= 1
        if position < end and not waiting:
            waiting = WAITING
            wave.pending[pending] = u
            pending += 1
        taken[u] = ((position - begin) << FLAG_BITS) | waiting
    smallest = top if listed > 0 else smallest_pending(out, wave, pending)
    return head, count, listed, pending, examined, again, smallest
