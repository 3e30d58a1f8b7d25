"""Compiled loops over edges for distances; as those of edge_loops.py for levels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernel_cache import compiled, subroutine
from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate.edge_loops import NONE, ONE, SPAN, Bits, arc_of, record


@subroutine
def _plus(distance: Any, weight: Any, unreached: Any) -> Any:
    """Sum in the distances' own dtype; integers end at ``unreached`` instead of wrapping."""
    return unreached if distance > unreached - weight else distance + weight


@subroutine
def _too_far(distance: AnyArray, u: int, v: int, weight: Any, unreached: Any) -> bool:
    """Whether v is farther than by way of u in any answer."""
    bad = False
    for j in range(distance.shape[1]):
        bad |= distance[v, j] > _plus(distance[u, j], weight, unreached)
    return bad


@subroutine
def _any_too_far(distance: AnyArray, u: int, v: int, weight: Any, unreached: Any) -> bool:
    """Whether the edge is a shorter way in either direction in any answer."""
    bad = False
    for j in range(distance.shape[1]):
        near, far = distance[u, j], distance[v, j]
        bad |= far > _plus(near, weight, unreached)
        bad |= near > _plus(far, weight, unreached)
    return bad


@subroutine
def _record_distances(
    distance: AnyArray, weight: Any, unreached: Any, both: Any, u: int, v: int, broken: IntArray
) -> None:
    for answer in range(distance.shape[1]):
        inside = both >> np.uint64(answer) & ONE != NONE
        if inside and distance[v, answer] > _plus(distance[u, answer], weight, unreached):
            record(broken, SPAN, answer, u, v)


@compiled
def sssp_spans(
    source: AnyArray,
    target: AnyArray,
    weight: AnyArray,
    directed: bool,
    distance: AnyArray,
    unreached: Any,
    reached: Bits,
    broken: IntArray,
) -> None:
    """Find arcs between reached vertices that are a shorter way than the answer's.

    ``weight`` (m,), finite and non-negative, and ``unreached`` have the dtype of ``distance``
    (V, k); ``broken[1]`` is written.
    """
    for e in range(len(source)):
        u, v, w = source[e], target[e], weight[e]
        if directed:
            if _too_far(distance, u, v, w, unreached):
                _record_distances(distance, w, unreached, reached[u] & reached[v], u, v, broken)
        elif _any_too_far(distance, u, v, w, unreached):
            _record_distances(distance, w, unreached, reached[u] & reached[v], u, v, broken)
            _record_distances(distance, w, unreached, reached[u] & reached[v], v, u, broken)


@subroutine
def _confirm_sum(
    pending: Bits, arc: int, distance: AnyArray, weight: Any, unreached: Any, u: int, v: int
) -> None:
    """Confirm a tree arc for the answers whose distance of v is exactly the sum."""
    bits, answer = pending[arc], 0
    while bits != NONE:
        total = _plus(distance[u, answer], weight, unreached)
        if bits & ONE != NONE and total == distance[v, answer]:
            pending[arc] &= ~(ONE << np.uint64(answer))
        bits >>= ONE
        answer += 1


@compiled
def sssp_tree(
    source: AnyArray,
    target: AnyArray,
    weight: AnyArray,
    directed: bool,
    distance: AnyArray,
    unreached: Any,
    offsets: IntArray,
    parents: AnyArray,
    pending: Bits,
) -> None:
    """Confirm the tree arcs that are tuples of the right weight: they lose an answer's bit."""
    for e in range(len(source)):
        u, v, w = source[e], target[e], weight[e]
        arc = arc_of(offsets, parents, u, v)
        if arc >= 0 and pending[arc] != NONE:
            _confirm_sum(pending, arc, distance, w, unreached, u, v)
        if not directed:
            arc = arc_of(offsets, parents, v, u)
            if arc >= 0 and pending[arc] != NONE:
                _confirm_sum(pending, arc, distance, w, unreached, v, u)
