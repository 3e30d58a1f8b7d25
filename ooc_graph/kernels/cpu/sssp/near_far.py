"""SSSP on graphs with positive weights where pulling does not pay, road networks above all.

Near-far [1]: rows up to a bound are relaxed whole from a queue, what lies beyond waits in a list
and becomes near when the bound has risen; there is nothing to gain from cursors or from pulling.
What is known of a vertex is one word of 64 bits, in the memory of the answer's distance:

    distance (32 bits), state (2 bits), parent (30 bits)

so one cache line serves all of them. The distance is an integer or the bits
of a float32, whose order is the same. As weights are positive, a parent is nearer than its child,
and of all arcs that attain a final distance the last time each is relaxed its start is final, too:
keeping the parent of smallest (distance, id) on the way gives the canonical one, and no pass over
the in-arcs is needed. The search gives up if a distance is so much longer than a weight that their
rounded sum is the distance itself, or if a distance needs more than 32 bits.

One thread searches. Two shared the work evenly, but were slower than one on road networks and
grids: the words of the front moved between their caches.

The state says whether a vertex is queued (`NEAR`) or beyond the bound (`FAR`). Queue and lists may
be of any size: a vertex that does not fit is `FAR` without being listed, and the next
round looks through all words.

[1] A. Davidson et al., "Work-efficient parallel GPU methods for single-source shortest paths",
IPDPS 2014.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import decisions, intrinsics
from ooc_graph.kernels.common.compiled import kernel, subroutine, varying
from ooc_graph.kernels.common.sssp.plateaus import is_better_parent
from ooc_graph.prefetch import prefetch
from ooc_graph.types import AnyArray

DISTANCE_BITS, PARENT_BITS = 32, 30
UNREACHED = (1 << DISTANCE_BITS) - 1
"""Distance of what is not reached; all distances are smaller."""
_U = np.uint64
_SHIFT, _LOW = _U(DISTANCE_BITS), _U(UNREACHED)
_PARENT, _NEAR, _FAR = _U((1 << PARENT_BITS) - 1), _U(1 << PARENT_BITS), _U(2 << PARENT_BITS)
_DISTANCE = _LOW << _SHIFT
_NOTHING = _U(0)
AHEAD = 16
"""Rows are asked for so many entries before their turn in the queue, their arcs half as many."""

AGAIN_WEIGHT = 4
"""Only vertices that had left the queue count as improved again: each says as much as so many do
in `decisions.adapt_step`."""

adapt_step = kernel(decisions.adapt_step)


class NearFar(NamedTuple):
    """State of a search.

    ``word`` uint64 (rows,): see above. ``near`` uint32 (any,): the queue, a ring. ``far`` uint32
    (2, any): the list of the vertices beyond the bound, and the next one. ``trace`` int64 (6,):
    what happened in a round, from `LISTED` to `ABSORBED`.
    """

    word: AnyArray
    near: AnyArray
    far: AnyArray
    trace: AnyArray


LISTED, LOWEST, ARCS, AGAIN, UNLISTED, ABSORBED = range(6)
GAVE_UP = -1


@subroutine
def _ask_for_rows(rows: Any, word: Any, near: Any, head: int, count: int) -> None:
    """Prefetch what the next vertices of the queue will need."""
    capacity = len(near)
    if count > AHEAD:
        ahead = head + AHEAD
        u = np.int64(near[ahead if ahead < capacity else ahead - capacity])
        prefetch(rows.offsets, u)
        prefetch(word, u)
        ahead = head + AHEAD // 2
        u = np.int64(near[ahead if ahead < capacity else ahead - capacity])
        prefetch(rows.arcs, np.int64(rows.offsets[u]))


@subroutine
def _relax_near(rows: Any, state: Any, turn: int, count: int, bound: Any, top: Any) -> None:
    """Relax the rows of the queue ``near[:count]`` and of what they bring into it.

    The trace counts on; ``bound`` is shifted to a distance's bits, ``top`` of the distances' type.
    """
    word, near, far, trace = state.word, state.near, state.far[turn], state.trace
    capacity, most = len(near), len(far)
    head, tail = varying(0), 0 if count == capacity else count
    listed, unlisted, examined, again = trace[LISTED], trace[UNLISTED], 0, 0
    lowest = _U(trace[LOWEST]) << _SHIFT
    while count > 0:
        _ask_for_rows(rows, word, near, head, count)
        u = _U(near[head])
        head = 0 if head + 1 == capacity else head + 1
        count -= 1
        at = word[u] & _DISTANCE
        word[u] &= ~_NEAR
        begin, end = np.int64(rows.offsets[u]), np.int64(rows.offsets[u + _U(1)])
        examined += int(end - begin)
        for position in range(begin, end):
            arc = rows.arcs[position]
            v, candidate = arc & _LOW, intrinsics.further(at, arc, top)
            if intrinsics.rarely(intrinsics.is_absorbed(candidate, at, top)):
                trace[ABSORBED] = 1
            seen = word[v]
            if candidate > seen & _DISTANCE:
                continue
            if candidate == seen & _DISTANCE:
                rival = seen & _PARENT
                if is_better_parent(at, u, word[rival] & _DISTANCE, rival):
                    word[v] = (seen & ~_PARENT) | u
                continue
            is_near = candidate <= bound and (count < capacity or seen & _NEAR != _NOTHING)
            goes_to = _NEAR if is_near else _FAR
            word[v] = candidate | goes_to | u
            if not is_near:
                lowest = min(lowest, candidate)
            if seen & goes_to != _NOTHING:
                continue
            if is_near:
                near[tail] = v
                tail = 0 if tail + 1 == capacity else tail + 1
                count += 1
                again += (seen & _FAR == _NOTHING) & (seen < _DISTANCE)
            elif candidate > bound and listed < most:
                far[listed] = v
                listed += 1
            else:
                unlisted += 1
    trace[LISTED], trace[LOWEST], trace[UNLISTED] = listed, np.int64(lowest >> _SHIFT), unlisted
    trace[ARCS], trace[AGAIN] = examined, again


@subroutine
def _consider(state: Any, v: Any, far: Any, count: int, bound: Any) -> int:
    """Queue a far vertex if it is not beyond the bound any more, or list it; how many queued."""
    word, near, trace = state.word, state.near, state.trace
    seen = word[v]
    if seen & _FAR == _NOTHING:
        return count
    if seen & _DISTANCE <= bound and count < len(near):
        word[v] = seen ^ (_NEAR | _FAR)
        near[count] = v
        return count + 1
    trace[LOWEST] = min(trace[LOWEST], np.int64(seen >> _SHIFT))
    if trace[LISTED] < len(far):
        far[trace[LISTED]] = v
        trace[LISTED] += 1
    else:
        trace[UNLISTED] += 1
    return count


@subroutine
def _begin_round(trace: Any) -> None:
    """Clear what a round counts on; the rest of its trace is written at its end."""
    trace[LISTED], trace[LOWEST], trace[UNLISTED], trace[ABSORBED] = 0, UNREACHED, 0, 0


@subroutine
def _take_near(state: Any, turn: int, bound: Any) -> Any:
    """Queue the far vertices up to the bound; how many.

    The list of ``turn`` is read, and that of the other turn written.
    """
    far, listed = state.far[1 - turn], state.trace[LISTED]
    is_whole, count = state.trace[UNLISTED] == 0, varying(0)
    _begin_round(state.trace)
    if is_whole:
        for index in range(listed):
            count = _consider(state, _U(state.far[turn, index]), far, count, bound)
    else:
        for row in range(len(state.word)):
            count = _consider(state, _U(row), far, count, bound)
    return count


@subroutine
def _publish(word: Any, distance: Any, parent: Any, top: Any) -> None:
    """Turn words into distances, in the same memory, and parents."""
    for row in range(len(word)):
        # A distance may lie where an earlier row's word was, which has been read.
        seen = word[row]
        reached = seen < _DISTANCE
        parent[row] = seen & _PARENT if reached else _LOW
        distance[row] = intrinsics.high_value(seen, top) if reached else top


@kernel
def search_near_far(
    rows: Any,
    state: Any,
    distance: Any,
    parent: Any,
    top: Any,
    farthest: int,
    step: float,
    root: int,
) -> int:
    """Search from ``root``; ``distance`` (int64 or float32) is the memory of the words.

    ``near`` may be the memory of ``parent`` (uint32). ``top`` is the distance of what is not
    reached, ``farthest`` the 32 bits of the longest distance to which any weight may be added.

    Returns the arcs examined; or `GAVE_UP`, and there is nothing to read, when a distance is
    longer, or when a weight was absorbed.
    """
    trace, count, turn, examined = state.trace, varying(1), varying(0), 0
    state.word[:] = _DISTANCE | _PARENT
    state.word[root] = _U(root) | _NEAR
    state.near[0] = root
    _begin_round(trace)
    bound, last = np.int64(0), intrinsics.high_value(_U(farthest) << _SHIFT, top)
    while True:
        _relax_near(rows, state, turn, count, _U(bound) << _SHIFT, top)
        examined += trace[ARCS]
        nearest = max(bound, trace[LOWEST])
        done = trace[LISTED] == 0 and trace[UNLISTED] == 0
        if trace[ABSORBED] > 0 or (nearest > farthest and not done):
            return GAVE_UP
        if done:
            break
        step = adapt_step(step, trace[ARCS], AGAIN_WEIGHT * trace[AGAIN])
        risen = min(intrinsics.high_value(_U(nearest) << _SHIFT, top) + step, np.float64(last))
        bound = np.int64(intrinsics.high_word(risen, top) >> _SHIFT)
        count = _take_near(state, turn, _U(bound) << _SHIFT)
        turn = 1 - turn
    _publish(state.word, distance, parent, top)
    return int(examined)
