"""Steps of SSSP ranks that have the distances of their own rows alone (CPU).

A push takes candidates to own rows at once. Of those to others it lists the best of each target:
the smallest distance, and of equal ones the best parent by the rule of docs/reference/storage.md. A
target that is settled needs none: it is nearer than every candidate under a later bound. So what is
sent are candidates to vertices that are found under the same bound, whose distances they may tie
with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import has, put
from ooc_graph.kernels.common.compiled import kernel, small_part, subroutine, varying
from ooc_graph.kernels.common.dealt import internal_of, is_own, local_of
from ooc_graph.kernels.common.sssp.plateaus import is_better_parent
from ooc_graph.kernels.common.sssp.sums import path_sum
from ooc_graph.kernels.cpu.sssp import push
from ooc_graph.kernels.cpu.sssp.owned_lists import list_best
from ooc_graph.kernels.cpu.sssp.push import AHEAD, FLAG_BITS, QUEUED, WAITING
from ooc_graph.kernels.cpu.sssp.tails import want_tail
from ooc_graph.prefetch import prefetch


@subroutine
def relax(
    out: Any, own: Any, row: int, candidate: Any, near: Any, u: int, bound: Any, ring: Any
) -> Any:
    """Offer an own row a distance, below ``bound``, and the parent that it comes from.

    ``ring`` is where the queue ends, the rows in it, those pending, improvements of rows that had
    been reached before, and the smallest candidate above the bound; what these are then is
    returned.
    """
    tail, count, pending, again, smallest = ring
    wave, top = own.wave, own.wave.top[0]
    before = wave.distance[row]
    if candidate > before:
        return ring
    if candidate < before:
        again += before < top
        wave.distance[row] = candidate
        own.parent[row], own.near[row] = own.parent.dtype.type(-1), top
        tail, count, pending = push.queue_or_wait(
            out, wave, row, candidate, bound, tail, count, pending
        )
        following = path_sum(candidate, out.lightest[row], top)
        smallest = min(smallest, following) if following > bound else smallest
    rival = np.int64(own.parent[row])
    if near < candidate and is_better_parent(near, u, own.near[row], rival):
        own.parent[row], own.near[row] = u, near
    return tail, count, pending, again, smallest


@kernel
def queue_reached(out: Any, own: Any, bound: Any) -> tuple[int, int, Any]:
    """Queue all that is reached, or have it wait.

    Returns how many are queued, how many wait, and the smallest candidate above the bound.
    """
    wave, top = own.wave, own.wave.top[0]
    tail, count, pending, smallest = varying(0), varying(0), varying(0), top
    for row in range(len(wave.distance)):
        at = wave.distance[row]
        if at < top:
            tail, count, pending = push.queue_or_wait(
                out, wave, row, at, bound, tail, count, pending
            )
            following = path_sum(at, out.lightest[row], top)
            smallest = min(smallest, following) if following > bound else smallest
    return count, pending, smallest


@kernel
def raise_bound(out: Any, wave: Any, pending: int, bound: Any) -> tuple[int, int, Any]:
    """As `take_pending`, and the smallest candidate of the rows that stay pending."""
    count, kept = push.take_pending(out, wave, pending, bound)
    return count, kept, push.smallest_pending(out, wave, kept)


@small_part
def push_arcs(
    out: Any,
    own: Any,
    row: int,
    arcs: Any,
    positions: Any,
    below: Any,
    entries: int,
    ring: Any,
) -> Any:
    """Push a row along some neighbours and weights, from the first of two positions to the second.

    Stops before a candidate above the bound, and where the list is full. ``below`` is the bound,
    what is settled, and the list. Returns the position, whether the list was full, its entries, and
    the ring.
    """
    (neighbors, weights), (position, end), (bound, settled, listed) = arcs, positions, below
    u, at, top = internal_of(row, own.dealt), own.wave.distance[row], own.wave.top[0]
    is_full = False
    while position < end:
        candidate = path_sum(at, weights[position], top)
        if candidate > bound or candidate == top:
            tail, count, pending, again, smallest = ring
            ring = tail, count, pending, again, min(smallest, candidate)
            break
        v = np.int64(neighbors[position])
        if has(settled, v):
            position += 1
            continue
        if is_own(v, own.dealt):
            ring = relax(out, own, local_of(v, own.dealt), candidate, at, u, bound, ring)
        elif entries == len(listed.target):
            is_full = True
            break
        else:
            entries = list_best(listed, entries, v, candidate, at, u)
        position += 1
    return position, is_full, entries, ring


@subroutine
def tail_of_ring(own: Any, head: int, count: int) -> int:
    """Where a ring of ``count`` rows ends that begins at ``head``."""
    capacity = len(own.wave.queue)
    return head + count if head + count < capacity else head + count - capacity


@kernel
def push_own(
    out: Any,
    own: Any,
    tails: Any,
    head: int,
    count: int,
    pending: int,
    smallest: Any,
    below: Any,
    entries: int,
) -> tuple[int, int, int, Any, int, int, int]:
    """Push the rows in the queue, a ring, and own rows that improve, until the list is full.

    ``smallest`` is a lower bound of the candidates beyond the bound, the largest distance if there
    are none; ``below`` is as of `push_arcs`, and ``entries`` are listed. Rows whose arcs here are
    exhausted go on along their ``tails``. Returns where the ring begins then, the rows in it, those
    pending, that lower bound; entries listed, arcs examined, and improvements of rows that had been
    reached.
    """
    wave = own.wave
    distance, taken, queue = wave.distance, wave.taken, wave.queue
    capacity, examined, again = len(queue), varying(0), varying(0)
    entries = varying(entries)
    is_full = False
    while count > 0 and not is_full:
        if count > 2 * AHEAD:
            ahead = head + 2 * AHEAD
            later = np.int64(queue[ahead if ahead < capacity else ahead - capacity])
            ahead = head + AHEAD
            soon = np.int64(queue[ahead if ahead < capacity else ahead - capacity])
            push.ask_for_arcs(out, later, soon, np.int64(taken[soon]) >> FLAG_BITS)
            prefetch(taken, later)
            prefetch(distance, later)
        row = np.int64(queue[head])
        begin, end = np.int64(out.offsets[row]), np.int64(out.offsets[row + 1])
        position = begin + (np.int64(taken[row]) >> FLAG_BITS)
        waiting: Any = np.int64(taken[row]) & WAITING
        examined -= position
        ring = tail_of_ring(own, head, count), count, pending, again, smallest
        position, is_full, entries, ring = push_arcs(
            out, own, row, (out.neighbors, out.weights), (position, end), below, entries, ring
        )
        _, count, pending, again, smallest = ring
        examined += position
        if is_full:
            # Goes on from this arc, as the first in the ring.
            taken[row] = ((position - begin) << FLAG_BITS) | waiting | QUEUED
            continue
        head = 0 if head + 1 == capacity else head + 1
        count -= 1
        if position == end:
            want_tail(tails, row, position - begin)
        elif not waiting:
            waiting = np.int64(WAITING)
            wave.pending[pending] = row
            pending += 1
        taken[row] = ((position - begin) << FLAG_BITS) | waiting
    return head, count, pending, smallest, entries, examined, again


@kernel
def take_candidates(
    out: Any, own: Any, ring: Any, bound: Any, target: Any, found: Any, near: Any, parent: Any
) -> tuple[int, int, Any, int]:
    """Take candidates that others have listed for own rows.

    ``ring`` is where the queue begins, the rows in it, those pending, and the lower bound of
    candidates beyond the bound. Returns the last three as they are then, and the improvements of
    rows that had been reached before.
    """
    head, count, pending, smallest = ring
    state = tail_of_ring(own, head, count), count, pending, varying(0), smallest
    for index in range(len(target)):
        row = local_of(np.int64(target[index]), own.dealt)
        u = np.int64(parent[index])
        state = relax(out, own, row, found[index], near[index], u, bound, state)
    return state[1], state[2], state[4], state[3]


@kernel
def mark_between(distance: Any, low: Any, high: Any, top: Any, words: Any) -> int:
    """Put the rows with a distance above ``low`` and up to ``high`` into an empty bitmap.

    Returns how many lie beyond.
    """
    beyond = 0
    for row in range(len(distance)):
        at = distance[row]
        if (at > low) & (at <= high) & (at < top):
            put(words, row)
        beyond += at > high
    return beyond
