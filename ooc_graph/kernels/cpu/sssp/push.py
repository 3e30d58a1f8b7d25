"""Label-correcting push below a bound, and how the bound rises.

Rows ascend by weight, so a row's arcs below the bound are its first ones. A row that is left with
arcs above the bound waits with a cursor on the first of them: no candidate above the bound is ever
applied, every distance up to the bound is final, and nothing is kept for later but the cursors.
Raising the bound by `step` makes this near-far / delta-stepping [1] without far lists.

[1] U. Meyer, P. Sanders, "Delta-stepping: a parallelizable shortest path algorithm", J. Algorithms
49 (2003).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import inlined, subroutine
from ooc_graph.kernels.common.dealt import internal_of, is_own, local_of
from ooc_graph.kernels.common.sssp.sums import path_sum
from ooc_graph.prefetch import prefetch
from ooc_graph.types import AnyArray


class HeadedRows(NamedTuple):
    """Rows to pull along: the first `HEADS` arcs of each also stand in arrays (HEADS, rows).

    A pull looks at little else, and reads these one after the other, the first arcs of many rows
    before any second. Where a row has no such arc stands an arc to itself with the largest
    weight: nobody gets nearer along it.
    """

    offsets: AnyArray
    neighbors: AnyArray
    weights: AnyArray
    head_neighbors: AnyArray
    head_weights: AnyArray


HEADS = 4
AHEAD = 8
"""Rows that memory is asked for before they are looked at."""


QUEUED, WAITING, FLAG_BITS = 1, 2, 2


@inlined
def ask_for_arcs(rows: Any, later: Any, soon: Any, taken: Any) -> None:
    """Prefetch where one row begins, and arc number ``taken`` of one that was asked for before."""
    prefetch(rows.offsets, later)
    position = rows.offsets[soon] + taken
    prefetch(rows.weights, position)
    prefetch(rows.neighbors, position)


@inlined
def queue_or_wait(
    out: Any, wave: Any, v: Any, candidate: Any, bound: Any, tail: Any, count: Any, pending: Any
) -> Any:
    """Queue a row that was improved, or have it wait; where the queue ends, queued, pending."""
    flags = np.int64(wave.taken[v]) & (QUEUED | WAITING)
    if path_sum(candidate, out.lightest[v], wave.top[0]) <= bound:
        if not flags & QUEUED:
            flags |= QUEUED
            wave.queue[tail] = v
            tail = 0 if tail + 1 == len(wave.queue) else tail + 1
            count += 1
    elif flags == 0:
        # Its row stays untouched, which would cost more than all of the caller's loop.
        flags = np.int64(WAITING)
        wave.pending[pending] = v
        pending += 1
    wave.taken[v] = flags
    return tail, count, pending


@subroutine
def push_below(
    out: Any, wave: Any, count: int, pending: int, bound: Any, reached: int
) -> tuple[int, int, int, int]:
    """Relax from ``queue[:count]`` to the fixed point of all candidates <= ``bound``; one thread.

    The vertices after the ``reached`` ones are noted in ``first[reached:]``. Returns rows pending
    now, vertices reached now, arcs examined, and improvements of vertices that had been reached
    before (work done again).
    """
    distance, taken, queue = wave.distance, wave.taken, wave.queue
    top, capacity, notes = wave.top[0], len(wave.queue), len(wave.first)
    head, tail = 0, 0 if count == capacity else count
    examined, again = 0, 0
    while count > 0:
        if count > 2 * AHEAD:
            ahead = head + 2 * AHEAD
            later = np.int64(queue[ahead if ahead < capacity else ahead - capacity])
            ahead = head + AHEAD
            soon = np.int64(queue[ahead if ahead < capacity else ahead - capacity])
            ask_for_arcs(out, later, soon, np.int64(taken[soon]) >> FLAG_BITS)
            prefetch(taken, later)
            prefetch(distance, later)
        u = np.int64(queue[head])
        head = 0 if head + 1 == capacity else head + 1
        count -= 1
        waiting: Any = np.int64(taken[u]) & WAITING
        at, begin, end = distance[u], out.offsets[u], out.offsets[u + 1]
        position = begin + (np.int64(taken[u]) >> FLAG_BITS)
        examined -= position
        while position < end:
            candidate = path_sum(at, out.weights[position], top)
            if candidate > bound:
                break
            v = np.int64(out.neighbors[position])
            position += 1
            before = distance[v]
            if candidate < before:
                if before == top:
                    if reached < notes:
                        wave.first[reached] = v
                    reached += 1
                else:
                    again += 1
                distance[v] = candidate
                tail, count, pending = queue_or_wait(
                    out, wave, v, candidate, bound, tail, count, pending
                )
        examined += position
        if position < end and not waiting:
            waiting = WAITING
            wave.pending[pending] = u
            pending += 1
        taken[u] = ((position - begin) << FLAG_BITS) | waiting
    return pending, reached, examined, again


@subroutine
def queue_improved(
    out: Any, wave: Any, improved: Any, count: int, pending: int, bound: Any
) -> tuple[int, int]:
    """Queue own rows among the vertices that others improved, or have them wait.

    ``queue[:count]`` holds rows already. Returns how many are queued and how many pending.
    """
    tail = count
    for index in range(len(improved)):
        v = np.int64(improved[index])
        if is_own(v, wave.dealt):
            row = local_of(v, wave.dealt)
            tail, count, pending = queue_or_wait(
                out, wave, row, wave.distance[v], bound, tail, count, pending
            )
    return count, pending


@subroutine
def _next_candidate(out: Any, wave: Any, u: int) -> tuple[Any, bool]:
    """Candidate along the first arc of a row that was not taken yet, and whether there is one."""
    taken, top = np.int64(wave.taken[u]) >> FLAG_BITS, wave.top[0]
    at = wave.distance[internal_of(u, wave.dealt)]
    if taken == 0:
        candidate = path_sum(at, out.lightest[u], top)
        if candidate < top:
            return candidate, out.offsets[u] < out.offsets[u + 1]
    position = out.offsets[u] + taken
    if position == out.offsets[u + 1]:
        return top, False
    return path_sum(at, out.weights[position], top), True


@subroutine
def smallest_pending(out: Any, wave: Any, pending: int) -> Any:
    """Smallest candidate not yet taken, ``top`` if there is none."""
    smallest = wave.top[0]
    for index in range(pending):
        candidate, left = _next_candidate(out, wave, np.int64(wave.pending[index]))
        if left:
            smallest = min(smallest, candidate)
    return smallest


@subroutine
def take_pending(out: Any, wave: Any, pending: int, bound: Any) -> tuple[int, int]:
    """Move rows with a candidate <= ``bound`` to the queue, which is empty.

    Returns how many are queued and how many rows stay pending; exhausted rows are dropped.
    """
    count, kept = 0, 0
    for index in range(pending):
        u = np.int64(wave.pending[index])
        candidate, left = _next_candidate(out, wave, u)
        word = np.int64(wave.taken[u])
        if not left:
            wave.taken[u] = word - WAITING
        elif candidate <= bound:
            wave.taken[u] = word - WAITING + QUEUED
            wave.queue[count] = u
            count += 1
        else:
            wave.pending[kept] = u
            kept += 1
    return count, kept
