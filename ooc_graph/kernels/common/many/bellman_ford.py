"""Bellman-Ford from an added vertex: passes over the rows, and new weights by what they find (CPU).

The added vertex has an arc of weight 0 to every vertex [1], so all potentials start at 0 and fall.
Only vertices whose potential fell push along their arcs, and a row, lightest first, is left at the
first arc that leads no lower than 0. A pass goes once over the rows, in their order, and each that
waits when its turn comes pushes; what falls after its turn waits for the next pass. So exact sums
without a negative cycle need no more passes than vertices. How long passes go on is said by
`ooc_graph.kernels.common.many.bellman_ford_search`.

[1] D. B. Johnson, "Efficient algorithms for shortest paths in sparse networks", J. ACM 24 (1977).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, Words, lowest_bit, put
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.types import AnyArray, IntArray


class Fall(NamedTuple):
    """Potentials on their way.

    ``potential`` and ``parent`` (rows,): distances from the added vertex, and int64 previous
    vertices, -1 for the added one. ``changed`` is the bitmap of the rows that have to push.
    ``depth`` (rows,): the lowest potential along the path by which each was found, as its rounding
    goes by it; 0 in the beginning; (0,) for integers. ``eps`` is the relative error of one
    addition, 0 for integers.
    """

    potential: AnyArray
    parent: IntArray
    changed: Words
    depth: AnyArray
    eps: float


@subroutine
def fall_along(state: Any, u: int, neighbors: Any, weights: Any) -> tuple[int, bool]:
    """Push from vertex ``u`` along some of its arcs.

    Returns the improvements made, and whether an arc was met that leads no lower than 0: then
    those that follow do not either.
    """
    potential, depth, eps = state.potential, state.depth, state.eps
    at, improved = potential[u], 0
    deepest = depth[u] if eps != 0 else at
    for arc in range(len(neighbors)):
        candidate = at + weights[arc]
        if candidate >= 0:
            return improved, True
        v = np.int64(neighbors[arc])
        fallen = potential[v] - candidate
        if fallen > 0 and (eps == 0 or fallen > eps * -min(deepest, candidate)):
            potential[v] = candidate
            if eps != 0:
                depth[v] = min(deepest, candidate)
            state.parent[v] = u
            put(state.changed, v)
            improved += 1
    return improved, False


@kernel
def fall(out: Any, state: Any, most: int, most_passes: int) -> tuple[int, int]:
    """Push from changed vertices, pass by pass, until none is left or ``most`` improvements made.

    Or so many passes as ``most_passes`` says; the last one is ended. Returns improvements made, and
    passes in which a row pushed; both fewer than allowed only if nothing is left to do.
    """
    changed, improved, passes, going = state.changed, 0, 0, True
    while going and improved < most and passes < most_passes:
        going = False
        for index in range(len(changed)):
            word = changed[index]
            while word != 0:
                going = True
                u = index * WORD_BITS + lowest_bit(word)
                bit = word & ~(word - ONE)
                changed[index] &= ~bit
                begin, end = out.offsets[u], out.offsets[u + 1]
                more, _ = fall_along(state, u, out.neighbors[begin:end], out.weights[begin:end])
                improved += more
                # Those whose turn is over wait, or it might be theirs 2^n times.
                word = changed[index] & ~(bit | (bit - ONE))
        passes += going
    return improved, passes


@kernel
def vertex_on_cycle(parent: Any, seen: Any) -> int:
    """A vertex on a cycle of parents, -1 if they form trees; ``seen`` (rows,) int64 is scratch."""
    seen[:] = -1
    for start in range(len(parent)):
        v = start
        while v >= 0 and seen[v] < 0:
            seen[v] = start
            v = parent[v]
        if v >= 0 and seen[v] == start:
            return v
    return -1


def reweighted(rows: LightRows, potential: AnyArray, *, into: bool) -> LightRows:
    """Rows with ``w + potential(u) - potential(v)``, at least 0, light first.

    Only rounding makes it negative. If rows are ``into``, an arc leads from the neighbour to them.
    """
    row = np.repeat(np.arange(len(rows.offsets) - 1), np.diff(rows.offsets))
    source, target = (rows.neighbors, row) if into else (row, rows.neighbors)
    # In this order in both directions, so that an arc has the same bits in both.
    weights = (rows.weights + potential[source]) - potential[target]
    weights = np.maximum(weights, weights.dtype.type(0))
    found = _sorted_integers(row, weights, rows.neighbors)
    if found is None:
        order = np.lexsort((rows.neighbors, weights, row))
        found = rows.neighbors[order], weights[order]
    return LightRows(rows.offsets, *found, weights[:0])


def _sorted_integers(
    row: IntArray, weights: AnyArray, neighbors: AnyArray
) -> tuple[AnyArray, AnyArray] | None:
    """Neighbours and weights by row, weight and neighbour, which one number holds; None: it cannot.

    One sort of numbers takes a small part of the time that one of positions by three keys takes.
    """
    if weights.dtype.kind == "f" or not len(weights):
        return None
    low, middle = (int(part.max()).bit_length() for part in (neighbors, weights))
    if low + middle + int(row[-1]).bit_length() > 63:
        return None
    keys = (row << (low + middle)) | (weights << low) | neighbors.astype(np.int64)
    keys.sort()
    near = (keys & ((1 << low) - 1)).astype(neighbors.dtype)
    return near, (keys >> low) & ((1 << middle) - 1)


@kernel
def restore(answer: Any, potential: Any, sources: Any, far: Any) -> None:
    """Turn reweighted distances (sources, rows) into distances, in place; ``far`` stays."""
    for index in range(len(sources)):
        mine = potential[sources[index]]
        for v in range(len(potential)):
            if answer[index, v] < far:
                answer[index, v] = answer[index, v] - mine + potential[v]
