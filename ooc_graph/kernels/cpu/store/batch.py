"""Many sources at once along loaded arcs, of rows of which only the heads are in memory (CPU).

Distances lie ``[vertex][slot]`` as in `ooc_graph.kernels.cpu.many.sssp`. Weights are made >= 0 by
potentials arc by arc, as `ooc_graph.kernels.common.many.bellman_ford.reweighted` makes those of
whole rows, so that no copy is needed; distances fall to the same greatest fixed point. Parents are
offered along out-arcs, by the rule of `ooc_graph.kernels.common.many.parents`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, lowest_bit, put
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.sssp.plateaus import offer_parent
from ooc_graph.kernels.common.store.scans import scanner
from ooc_graph.kernels.cpu.many.batch import publish
from ooc_graph.kernels.cpu.many.sssp import AHEAD
from ooc_graph.kernels.cpu.many.vectors import fetch_row, push_arc
from ooc_graph.types import AnyArray


class BatchState(NamedTuple):
    """State of one batch of sources over (rows,) vertices.

    ``distance`` (rows, slots); ``reach`` (rows,): the largest distance of a row in any slot;
    ``low`` (rows,): the smallest of those that a row is to push; ``pending`` (rows,): those of the
    next pass, whose rows the bitmap ``waiting`` has; ``potential`` (rows,); ``floor`` (slots,)
    zeros; all of the distances' dtype, as are ``limits`` (2,): the distance of what is not reached
    yet, and of slots without a source.
    """

    distance: AnyArray
    reach: AnyArray
    low: AnyArray
    pending: AnyArray
    waiting: AnyArray
    potential: AnyArray
    floor: AnyArray
    limits: AnyArray


class ParentState(NamedTuple):
    """Parents of a batch, ids (rows, slots), all ones where there is none.

    ``found``, ``frontier`` and ``following`` (rows,) uint64 have one bit a slot: who has a parent,
    who found one in the last hop, and who in this one.
    """

    parent: AnyArray
    found: AnyArray
    frontier: AnyArray
    following: AnyArray


@subroutine
def _reweighted(state: Any, u: int, v: int, weight: Any) -> Any:
    """Weight of an arc as it is searched: rounded twice, and at least 0."""
    by = state.potential
    zero = state.floor[0]
    return max((weight + by[u]) - by[v], zero)


@scanner
@subroutine
def relax_batch(state: Any, u: int, neighbors: Any, weights: Any) -> bool:
    """Lower the distances along loaded arcs in all slots."""
    count, low, top = len(neighbors), state.low[u], state.limits[0]
    for arc in range(min(AHEAD, count)):
        fetch_row(state.distance, neighbors[arc])
    for arc in range(count):
        if arc + AHEAD < count:
            fetch_row(state.distance, neighbors[arc + AHEAD])
        v = np.int64(neighbors[arc])
        weight = _reweighted(state, u, v, weights[arc])
        if low + weight >= state.reach[v]:
            continue
        nearest, reach = push_arc(state.distance, u, v, weight, state.floor, state.limits)
        if nearest < top:
            state.reach[v] = reach
            state.pending[v] = min(state.pending[v], nearest)
            put(state.waiting, v)
    return True


@kernel
def publish_batch(state: Any, wanted: Any, first: int, end: int) -> None:
    """Write distances without the potentials, as `many.batch.Wanted` has it."""
    publish(state, wanted, first, end)


@scanner
@subroutine
def offer_batch(states: Any, u: int, neighbors: Any, weights: Any) -> bool:
    """Offer a row as parent to those farther away; ``states`` are `BatchState`, `ParentState`."""
    state, parents = states
    distance, parent = state.distance, parents.parent
    for arc in range(len(neighbors)):
        v = np.int64(neighbors[arc])
        weight = _reweighted(state, u, v, weights[arc])
        for slot in range(parent.shape[1]):
            offer_parent(distance[:, slot], parent[:, slot], v, u, weight, state.limits[0])
    return True


@kernel
def find_lacking(state: Any, parents: Any) -> int:
    """Note who has a parent, as found and as the first frontier; how many reached have none."""
    top, lacking = state.limits[0], 0
    none = parents.parent.dtype.type(-1)
    for row in range(len(parents.found)):
        bits = np.uint64(0)
        for slot in range(parents.parent.shape[1]):
            if parents.parent[row, slot] != none:
                bits |= ONE << np.uint64(slot)
            elif state.distance[row, slot] < top:
                lacking += 1
        parents.found[row] = parents.frontier[row] = bits
    return lacking


@scanner
@subroutine
def spread_batch(states: Any, u: int, neighbors: Any, weights: Any) -> bool:
    """Offer the frontier as parents to those on its plateaus that lack one."""
    state, parents = states
    distance, parent, bits = state.distance, parents.parent, parents.frontier[u]
    for arc in range(len(neighbors)):
        v = np.int64(neighbors[arc])
        wanted = bits & ~parents.found[v]
        if wanted == 0:
            continue
        weight = _reweighted(state, u, v, weights[arc])
        while wanted != 0:
            slot = lowest_bit(wanted)
            wanted &= wanted - ONE
            at = distance[u, slot]
            if distance[v, slot] == at and at + weight == at:
                # All ones is the largest id.
                parent[v, slot] = min(np.uint64(parent[v, slot]), np.uint64(u))
                parents.following[v] |= ONE << np.uint64(slot)
    return True


@kernel
def next_hop(parents: Any, rows: Any) -> int:
    """Make those that found a parent in this hop the frontier, its rows ``rows``; how many."""
    count = 0
    rows[:] = 0
    for row in range(len(parents.found)):
        bits = parents.following[row]
        parents.frontier[row], parents.following[row] = bits, 0
        parents.found[row] |= bits
        if bits != 0:
            put(rows, row)
        while bits != 0:
            bits &= bits - ONE
            count += 1
    return count
