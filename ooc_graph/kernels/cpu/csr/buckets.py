"""Vertices that wait in buckets of distance, for searches of shortest distances.

Buckets are lists with entries in one pool, newest first. A vertex that moves on gets a new entry,
and its old one is left; when the pool is full, all lists are made anew. The last list is of all
that lies beyond the others; when these are empty, the first bucket becomes that of its nearest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import small_part, subroutine
from ooc_graph.types import AnyArray

NOWHERE, LATE = -1, -2
"""``slot`` of what is in no bucket, and of what waits to be scanned in the order of memory."""
_FAREST = 1e18
_FIRST, _CURRENT, _WAITING, FRONT, _POOLED, _IS_LATE = range(6)
"""Words of ``State.counts``: the bucket of the first list and the one that is scanned, vertices in
buckets, rows of the front, entries in the pool, and whether short rows no longer wait."""
COUNTS = 6


class State(NamedTuple):
    """Of a search over (vertices,).

    ``predecessor`` has no length if none are wanted. ``slot`` says in which bucket a vertex is.
    ``heads`` and ``pool``, int32 (entries, 2) of vertex and next entry, are the buckets: lists,
    with entries of vertices that have moved on. ``front`` are the rows that are scanned. ``scale``
    float64: buckets for a distance of 1, and the largest distance.
    """

    distance: AnyArray
    predecessor: AnyArray
    slot: AnyArray
    heads: AnyArray
    pool: AnyArray
    front: AnyArray
    counts: AnyArray
    scale: AnyArray


@subroutine
def _bucket(state: Any, distance: float) -> int:
    return np.int64(min(distance * state.scale[0], _FAREST))  # type: ignore[return-value]


@subroutine
def _enter(state: Any, vertex: int, slot: int) -> None:
    entry = state.counts[_POOLED]
    state.pool[entry, 0], state.pool[entry, 1] = vertex, state.heads[slot]
    state.heads[slot] = entry
    state.slot[vertex] = slot
    state.counts[_POOLED] = entry + 1


@subroutine
def insert(state: Any, vertex: int) -> None:
    """Put a vertex in the bucket of its distance, or in the last one; it may be in another."""
    buckets = len(state.heads)
    bucket = max(_bucket(state, state.distance[vertex]), state.counts[_CURRENT])
    slot = min(bucket - state.counts[_FIRST], buckets - 1)
    if state.slot[vertex] < 0:
        state.counts[_WAITING] += 1
    elif state.slot[vertex] == slot:
        return
    if state.counts[_POOLED] == len(state.pool):
        # At most as many entries as vertices are of any use.
        state.counts[_POOLED] = 0
        for other in range(buckets):
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
def take_front(state: Any) -> None:
    """Make the nearest bucket the front; else, once, what waits to be scanned as memory has it."""
    heads, counts, front = state.heads, state.counts, state.front
    counts[FRONT] = 0
    while counts[_WAITING] > 0 and counts[FRONT] == 0:
        slot = counts[_CURRENT] - counts[_FIRST]
        taken, entry, nearest = 0, np.int64(heads[slot]), np.int64(_FAREST)
        heads[slot] = -1
        while entry >= 0:
            vertex = np.int64(state.pool[entry, 0])
            if state.slot[vertex] == slot:
                front[taken] = vertex
                taken += 1
                state.slot[vertex] = NOWHERE
                nearest = min(nearest, _bucket(state, state.distance[vertex]))
            entry = np.int64(state.pool[entry, 1])
        counts[_WAITING] -= taken
        if slot == len(heads) - 1:
            counts[_FIRST] = counts[_CURRENT] = nearest
        for index in range(taken):
            vertex = np.int64(front[index])
            if _bucket(state, state.distance[vertex]) <= counts[_CURRENT]:
                front[counts[FRONT]] = vertex
                counts[FRONT] += 1
            else:
                insert(state, vertex)
        if counts[FRONT] == 0:
            counts[_CURRENT] += 1
    if counts[FRONT] == 0 and not counts[_IS_LATE]:
        counts[_IS_LATE], counts[_FIRST], counts[_CURRENT] = 1, 0, 0
        for row in range(len(state.slot)):
            front[counts[FRONT]] = row
            if state.slot[row] == LATE:
                state.slot[row] = NOWHERE
                counts[FRONT] += int(state.distance[row] < np.inf)
