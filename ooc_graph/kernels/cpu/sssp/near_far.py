"""SSSP on graphs with positive weights where pulling does not pay, road networks above all.

Near-far [1]_: rows up to a bound are relaxed whole from a queue, what lies beyond waits in a list
and becomes near when the bound has risen; there is nothing to gain from cursors or from pulling.
What is known of a vertex is one word of 64 bits, in the memory of the answer's distance:

    distance (32 bits), state (2 bits), parent (30 bits)

so one cache line and one compare-and-swap serve all of them. The distance is an integer or the bits
of a float32, whose order is the same. As weights are positive, a parent is nearer than its child,
and of all arcs that attain a final distance the last time each is relaxed its start is final, too:
keeping the parent of smallest (distance, id) on the way gives the canonical one, and no pass over
the in-arcs is needed. That fails where a distance is so much longer than a weight that their
rounded sum is the distance itself, or where a distance needs more than 32 bits: then the search
gives up.

The state says whether a vertex is queued (`NEAR`) or beyond the bound (`FAR`). Queue and lists may
be of any size: a vertex for which there is no room is `FAR` without being listed, and the next
round looks through all words.

References
----------
.. [1] A. Davidson et al., "Work-efficient parallel GPU methods for single-source shortest paths",
   IPDPS 2014.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import decisions as interface
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.intrinsics import further, high_value, high_word, is_absorbed, rarely
from ooc_graph.kernels.common.prefetch import prefetch
from ooc_graph.kernels.common.team import FIRST_FREE, LINE, barrier
from ooc_graph.kernels.cpu.edge_list.atomics import atomic_replace
from ooc_graph.types import AnyArray

EXAMINED, GIVEN_UP = (FIRST_FREE + k * LINE for k in range(2))
"""Words of the control array: arcs examined; 1 when the search gave up."""

DISTANCE_BITS, PARENT_BITS = 32, 30
UNREACHED = (1 << DISTANCE_BITS) - 1
"""Distance of what is not reached; all distances are smaller."""
_U = np.uint64
_SHIFT, _LOW = _U(DISTANCE_BITS), _U(UNREACHED)
_PARENT, _NEAR, _FAR = _U((1 << PARENT_BITS) - 1), _U(1 << PARENT_BITS), _U(2 << PARENT_BITS)
_DISTANCE = _LOW << _SHIFT
_NOTHING = _U(0)
AHEAD = 16
"""Rows are asked for so many places before their turn in the queue, their arcs half as many."""

adapt_step = kernel(interface.adapt_near_step)


class PairedRows(NamedTuple):
    """Rows with ``weight << 32 | neighbor`` as uint64 (arcs,); ``offsets`` (rows + 1,) integers.

    A weight is an integer or the bits of a float32.
    """

    offsets: AnyArray
    arcs: AnyArray


class NearFar(NamedTuple):
    """State of a search by T threads.

    Parameters
    ----------
    word
        uint64 (rows,): see above.
    near
        uint32 (T, any): each thread's queue, a ring.
    far
        uint32 (2, T, any): each thread's list of the vertices beyond the bound, and the next one.
    course
        int64 (2, T, `LINE`): what each thread did in a round, and in the next: words `LISTED`,
        `LOWEST`, `ARCS`, `AGAIN`, `UNLISTED`, `ABSORBED`.
    """

    word: AnyArray
    near: AnyArray
    far: AnyArray
    course: AnyArray


LISTED, LOWEST, ARCS, AGAIN, UNLISTED, ABSORBED = range(6)


@subroutine
def _replace(word: Any, v: Any, seen: Any, new: Any, alone: bool) -> Any:
    """Compare and swap; what was there. ``alone`` says that no other thread is at work."""
    if alone:
        word[v] = new
        return seen
    return atomic_replace(word, v, seen, new)


@subroutine
def _is_better_parent(word: Any, u: Any, at: Any, seen: Any) -> bool:
    """Tell whether ``u``, at distance ``at``, is a better parent than the one in ``seen``."""
    rival = seen & _PARENT
    away = word[rival] & _DISTANCE
    return bool((at < away) | ((at == away) & (u < rival)))


@subroutine
def _ask_for_rows(rows: Any, word: Any, near: Any, head: int, count: int) -> None:
    """Prefetch what the next vertices of the queue will need."""
    room = len(near)
    if count > AHEAD:
        place = head + AHEAD
        u = np.int64(near[place if place < room else place - room])
        prefetch(rows.offsets, u)
        prefetch(word, u)
        place = head + AHEAD // 2
        u = np.int64(near[place if place < room else place - room])
        prefetch(rows.arcs, np.int64(rows.offsets[u]))


@subroutine
def relax_near(
    rows: Any,
    word: Any,
    near: Any,
    far: Any,
    course: Any,
    count: int,
    bound: Any,
    alone: bool,
    top: Any,
) -> None:
    """Relax the rows of a thread's queue ``near[:count]`` and of what they bring into it.

    ``course`` (`LINE`,) counts on; ``bound`` is shifted to the place of a distance; ``top`` is of
    the distances' type.
    """
    room, most = len(near), len(far)
    head, tail = 0, 0 if count == room else count
    listed, unlisted, examined, again = course[LISTED], course[UNLISTED], 0, 0
    lowest = _U(course[LOWEST]) << _SHIFT
    while count > 0:
        _ask_for_rows(rows, word, near, head, count)
        u = _U(near[head])
        head = 0 if head + 1 == room else head + 1
        count -= 1
        seen = word[u]
        now = _replace(word, u, seen, seen & ~_NEAR, alone)
        while now != seen:
            seen = now
            now = _replace(word, u, seen, seen & ~_NEAR, alone)
        at = seen & _DISTANCE
        begin, end = np.int64(rows.offsets[u]), np.int64(rows.offsets[u + _U(1)])
        position: Any = begin
        examined += int(end - begin)
        while position < end:
            arc = rows.arcs[position]
            position += 1
            v, candidate = arc & _LOW, further(at, arc, top)
            if rarely(is_absorbed(candidate, at, top)):
                course[ABSORBED] = 1
            seen = word[v]
            while candidate <= seen & _DISTANCE:
                if candidate == seen & _DISTANCE:
                    if not _is_better_parent(word, u, at, seen):
                        break
                    now = _replace(word, v, seen, (seen & ~_PARENT) | u, alone)
                    if now == seen:
                        break
                    seen = now
                    continue
                state = _NEAR
                if candidate > bound or (count == room and seen & _NEAR == _NOTHING):
                    state = _FAR
                now = _replace(word, v, seen, candidate | state | u, alone)
                if now != seen:
                    seen = now
                    continue
                if seen & state != _NOTHING:
                    pass
                elif state == _NEAR:
                    near[tail] = v
                    tail = 0 if tail + 1 == room else tail + 1
                    count += 1
                    again += (seen & _FAR == _NOTHING) & (seen < _DISTANCE)
                elif candidate > bound and listed < most:
                    far[listed] = v
                    listed += 1
                else:
                    unlisted += 1
                if state == _FAR:
                    lowest = min(lowest, candidate)
                break
    course[LISTED], course[LOWEST], course[UNLISTED] = listed, np.int64(lowest >> _SHIFT), unlisted
    course[ARCS], course[AGAIN] = examined, again


@subroutine
def _consider(
    word: Any, v: Any, near: Any, far: Any, course: Any, count: int, bound: Any, alone: bool
) -> int:
    """Queue a far vertex if it is not beyond the bound any more, or list it; how many queued."""
    seen = word[v]
    while seen & _FAR != _NOTHING:
        if seen & _DISTANCE <= bound and count < len(near):
            now = _replace(word, v, seen, seen ^ (_NEAR | _FAR), alone)
            if now != seen:
                seen = now
                continue
            near[count] = v
            return count + 1
        course[LOWEST] = min(course[LOWEST], np.int64(seen >> _SHIFT))
        if course[LISTED] < len(far):
            far[course[LISTED]] = v
            course[LISTED] += 1
        else:
            course[UNLISTED] += 1
        break
    return count


@subroutine
def _begin_round(mine: Any) -> None:
    """Clear what a thread's round counts on; the rest of its course is written at its end."""
    mine[LISTED], mine[LOWEST], mine[UNLISTED], mine[ABSORBED] = 0, UNREACHED, 0, 0


@subroutine
def _take_near(
    thread: int, threads: int, state: Any, turn: int, total: int, unlisted: bool, bound: Any
) -> int:
    """Divide the far vertices among the threads, and queue those up to the bound; how many.

    The lists of ``turn`` are read, those of the other turn written.
    """
    near, far, course = state.near[thread], state.far[1 - turn, thread], state.course[1 - turn]
    mine, count, alone = course[thread], 0, threads == 1
    _begin_round(mine)
    if unlisted:
        rows = len(state.word)
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            count = _consider(state.word, _U(row), near, far, mine, count, bound, alone)
        return count
    begin, end, before = total * thread // threads, total * (thread + 1) // threads, 0
    for other in range(threads):
        listed = state.course[turn, other, LISTED]
        for index in range(max(begin - before, 0), min(end - before, listed)):
            v = _U(state.far[turn, other, index])
            count = _consider(state.word, v, near, far, mine, count, bound, alone)
        before += listed
    return count


@subroutine
def _forget(thread: int, threads: int, word: Any) -> None:
    rows = len(word)
    word[rows * thread // threads : rows * (thread + 1) // threads] = _DISTANCE | _PARENT


@subroutine
def _publish(thread: int, threads: int, word: Any, distance: Any, parent: Any, top: Any) -> None:
    """Turn words into distances, in the same memory, and parents."""
    if distance.itemsize < word.itemsize:
        # A distance lies where another row's word was, which must have been read before.
        if thread > 0:
            return
        threads = 1
    rows = len(word)
    for row in range(rows * thread // threads, rows * (thread + 1) // threads):
        seen = word[row]
        reached = seen < _DISTANCE
        parent[row] = seen & _PARENT if reached else _LOW
        distance[row] = high_value(seen, top) if reached else top


@subroutine
def _start(thread: int, state: Any, root: int) -> int:
    """Queue the root, which thread 0 takes; how many vertices the thread has queued."""
    _begin_round(state.course[0, thread])
    if thread > 0:
        return 0
    state.word[root] = _U(root) | _NEAR
    state.near[0, 0] = root
    return 1


@subroutine
def _sum_up(threads: int, course: Any) -> tuple[int, int, int, int, int, int]:
    """What all threads did in a round: vertices listed, the lowest of them, arcs, and so on."""
    total, arcs, again, unlisted, absorbed = 0, 0, 0, 0, 0
    lowest: Any = UNREACHED
    for thread in range(threads):
        total += course[thread, LISTED]
        lowest = min(lowest, course[thread, LOWEST])
        arcs += course[thread, ARCS]
        again += course[thread, AGAIN]
        unlisted += course[thread, UNLISTED]
        absorbed += course[thread, ABSORBED]
    return total, lowest, arcs, again, unlisted, absorbed


@kernel
def search_near_far(
    thread: int,
    threads: int,
    control: Any,
    rows: Any,
    state: Any,
    distance: Any,
    parent: Any,
    top: Any,
    farthest: int,
    step: float,
    root: int,
) -> None:
    """Search from ``root``; ``distance`` (int64 or float32) is the memory of the words.

    ``near`` may be the memory of ``parent`` (uint32). ``top`` is the distance of what is not
    reached, ``farthest`` the 32 bits of the longest distance to which any weight may be added.
    Ends with the word `GIVEN_UP` set, and nothing to read, when a distance is longer, or when a
    weight was absorbed.
    """
    _forget(thread, threads, state.word)
    if not barrier(control, threads):
        return
    count, turn, examined = _start(thread, state, root), 0, 0
    bound, last = np.int64(0), high_value(_U(farthest) << _SHIFT, top)
    while True:
        far, mine = state.far[turn, thread], state.course[turn, thread]
        shifted = _U(bound) << _SHIFT
        near, alone = state.near[thread], threads == 1
        relax_near(rows, state.word, near, far, mine, count, shifted, alone, top)
        if not barrier(control, threads):
            return
        total, lowest, arcs, again, unlisted, absorbed = _sum_up(threads, state.course[turn])
        examined += arcs
        nearest = max(bound, lowest)
        done = total == 0 and unlisted == 0
        if absorbed > 0 or (nearest > farthest and not done):
            # All threads come to the same end here: they decide by the same numbers.
            control[GIVEN_UP] = 1
            return
        if done:
            break
        step = adapt_step(step, arcs, again)
        risen = min(high_value(_U(nearest) << _SHIFT, top) + step, np.float64(last))
        bound = np.int64(high_word(risen, top) >> _SHIFT)
        count = _take_near(thread, threads, state, turn, total, unlisted > 0, _U(bound) << _SHIFT)
        turn = 1 - turn
    control[EXAMINED] = examined
    _publish(thread, threads, state.word, distance, parent, top)
