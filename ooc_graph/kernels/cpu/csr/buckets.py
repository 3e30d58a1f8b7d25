"""Vertices that wait in buckets of distance, for searches of shortest distances.

Buckets are lists with entries in one pool, newest first. A vertex that moves on gets a new entry,
and its old one is left; when the pool is full, all lists are made anew.

Buckets whose numbers differ from the current one's only in the low bits have a list each. Others
share lists by the highest bit in which they differ, as in a radix heap [1]. If all before it are
empty, such a list is divided: its nearest bucket becomes the current one, from which the others
differ in lower bits, and so in earlier lists. So a vertex is moved at most once for each bit,
however far apart the vertices are.

[1] R. K. Ahuja, K. Mehlhorn, J. B. Orlin, R. E. Tarjan, "Faster algorithms for the shortest path
problem", J. ACM 37 (1990).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.bits import lowest_bit, zeros_above
from ooc_graph.kernels.common.bitmap import WORD_BITS, drop, put, words_for
from ooc_graph.kernels.common.compiled import small_part, subroutine
from ooc_graph.types import AnyArray

NOWHERE, LATE = -1, -2
"""``slot`` of what is in no bucket, and of what waits to be scanned in the order of memory."""
_NEAR_BITS = 12
_NEAR = 1 << _NEAR_BITS
LISTS = _NEAR + WORD_BITS - _NEAR_BITS
"""Lists of near buckets, and one for each bit in which far ones may differ from these."""
FILLED = words_for(LISTS)
"""Words of ``State.filled``."""
_WHOLE = 2.0**52
"""From here on float64 has no fractions, and ascends by 1 if its bits do."""
_CURRENT, FRONT, _POOLED, _IS_LATE = range(4)
"""Words of ``State.counts``: the bucket that is scanned, rows of the front, entries in the pool,
and whether short rows no longer wait."""
COUNTS = 4


class State(NamedTuple):
    """Of a search over (vertices,).

    ``predecessor`` has no length if none are wanted. ``slot`` says in which list a vertex is.
    ``heads`` int32 (`LISTS`,) and ``pool`` int32 (entries, 2) of vertex and next entry are the
    lists, with entries of vertices that have moved on; ``filled``, a bitmap, those that may have
    any. ``front`` are the rows that are scanned. ``scale`` float64: buckets for a distance of 1,
    and the largest distance.
    """

    distance: AnyArray
    predecessor: AnyArray
    slot: AnyArray
    heads: AnyArray
    filled: AnyArray
    pool: AnyArray
    front: AnyArray
    counts: AnyArray
    scale: AnyArray


@subroutine
def _bucket(state: Any, vertex: int) -> int:
    """Number of a vertex' bucket; beyond `_WHOLE` buckets are as wide as float64 is exact."""
    bits = np.float64(state.distance[vertex] * state.scale[0] + _WHOLE).view(np.int64)
    return bits - np.float64(_WHOLE).view(np.int64)  # type: ignore[return-value]


@subroutine
def _list_of(bucket: int, current: int) -> int:
    differs = np.uint64(bucket ^ current)
    if differs < np.uint64(_NEAR):
        return bucket & (_NEAR - 1)
    return LISTS - 1 - zeros_above(differs)  # type: ignore[no-any-return]


@subroutine
def _enter(state: Any, vertex: int, slot: int) -> None:
    entry = state.counts[_POOLED]
    state.pool[entry, 0], state.pool[entry, 1] = vertex, state.heads[slot]
    state.heads[slot] = entry
    put(state.filled, slot)
    state.slot[vertex] = slot
    state.counts[_POOLED] = entry + 1


@subroutine
def insert(state: Any, vertex: int) -> None:
    """Put a vertex in the list of its distance; it may be in another."""
    slot = _list_of(_bucket(state, vertex), state.counts[_CURRENT])
    if state.slot[vertex] == slot:
        return
    if state.counts[_POOLED] == len(state.pool):
        # At most as many entries as vertices are of any use.
        state.counts[_POOLED] = 0
        for other in range(len(state.heads)):
            state.heads[other] = -1
        for other in range(len(state.slot)):
            if state.slot[other] >= 0 and other != vertex:
                _enter(state, other, state.slot[other])
    _enter(state, vertex, slot)


@small_part
def improve(state: Any, vertex: int, distance: float, above: int) -> None:
    """Give a vertex its distance if it is shorter than what is known, and have it wait."""
    if distance >= state.distance[vertex]:
        return
    state.distance[vertex] = distance
    if len(state.predecessor):
        state.predecessor[vertex] = above
    if state.slot[vertex] != LATE:
        insert(state, vertex)


@subroutine
def _take_list(state: Any, slot: int) -> int:
    """Write who is in a list to the front, and empty it; how many."""
    taken, entry = 0, np.int64(state.heads[slot])
    state.heads[slot] = -1
    drop(state.filled, slot)
    while entry >= 0:
        vertex = np.int64(state.pool[entry, 0])
        if state.slot[vertex] == slot:
            state.front[taken] = vertex
            taken += 1
            state.slot[vertex] = NOWHERE
        entry = np.int64(state.pool[entry, 1])
    return taken


@subroutine
def take_front(state: Any) -> None:
    """Make the nearest bucket the front; else, once, what waits to be scanned as memory has it."""
    counts, front, word = state.counts, state.front, 0
    counts[FRONT] = 0
    while word < len(state.filled):
        if state.filled[word] == 0:
            word += 1
            continue
        slot = word * WORD_BITS + lowest_bit(state.filled[word])
        taken = _take_list(state, slot)
        if slot < _NEAR:
            counts[_CURRENT] = (counts[_CURRENT] & ~(_NEAR - 1)) | slot
            counts[FRONT] = taken
            if taken:
                return
        elif taken:
            nearest = _bucket(state, np.int64(front[0]))
            for index in range(1, taken):
                nearest = min(nearest, _bucket(state, np.int64(front[index])))
            counts[_CURRENT], word = nearest, 0
            for index in range(taken):
                insert(state, np.int64(front[index]))
    if not counts[_IS_LATE]:
        counts[_IS_LATE], counts[_CURRENT] = 1, 0
        for row in range(len(state.slot)):
            front[counts[FRONT]] = row
            if state.slot[row] == LATE:
                state.slot[row] = NOWHERE
                counts[FRONT] += int(state.distance[row] < np.inf)
