"""Which of two parents is better, and the parents of plateaus (CPU).

The rules are those of `ooc_graph.kernels.cpu.sssp.parents`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import Words, drop, has, members_of, put
from ooc_graph.kernels.common.compiled import inlined, kernel, subroutine
from ooc_graph.kernels.common.dealt import Dealt, internal_of
from ooc_graph.kernels.common.sssp.sums import path_sum
from ooc_graph.types import AnyArray


@inlined
def is_better_parent(away: Any, u: Any, near: Any, rival: Any) -> Any:
    """Tell whether ``u``, at distance ``away``, is a better parent than ``rival`` at ``near``."""
    return (away < near) | ((away == near) & (u < rival))


@subroutine
def best_parent(
    distance: Any, at: Any, neighbors: Any, weights: Any, parent: Any, floor: Any, top: Any
) -> tuple[Any, int]:
    """Best parent of a row at distance ``at`` among ``parent``, if not -1, and neighbours.

    Only those count that are nearer than ``at``, and none is nearer than ``floor``. Also returns
    the arcs looked at, lightest first: all, unless no other may lead to a parent.
    """
    near = at if parent < 0 else distance[parent]
    looked = 0
    while looked < len(neighbors):
        weight = weights[looked]
        if path_sum(floor, weight, top) > at:
            break
        u = np.int64(neighbors[looked])
        away = distance[u]
        looked += 1
        if away > near or away >= at or path_sum(away, weight, top) != at:
            continue
        if is_better_parent(away, u, near, parent):
            parent, near = u, away
    return parent, looked


@subroutine
def offer_parent(distance: Any, parent: Any, v: int, u: int, weight: Any, top: Any) -> None:
    """Offer ``u`` as parent of ``v``, to which it has an arc of this weight."""
    at, away, rival = distance[u], distance[v], parent[v]
    if at >= away or away >= top or path_sum(at, weight, top) != away:
        return
    none = parent.dtype.type(-1)
    if rival == none or is_better_parent(at, u, distance[np.int64(rival)], np.int64(rival)):
        parent[v] = u


class Plateau(NamedTuple):
    """Rows that lack a parent, and what they are found with.

    ``lacking`` is the bitmap of their vertices, ``queue`` (rows,) lists those that have found one,
    and ``top`` is the distance of what is not reached. ``dealt`` says which vertices the rows are;
    only `find_beside` takes those of one shard.
    """

    distance: AnyArray
    parent: AnyArray
    lacking: Words
    queue: AnyArray
    top: Any
    dealt: Dealt


@kernel
def list_lacking(plateau: Any) -> int:
    """Note the reached rows without a parent, which lie on plateaus; return how many."""
    distance, parent, count = plateau.distance, plateau.parent, 0
    none = parent.dtype.type(-1)
    plateau.lacking[:] = 0
    for row in range(len(distance)):
        if distance[row] < plateau.top and parent[row] == none:
            put(plateau.lacking, row)
            count += 1
    return count


@subroutine
def find_beside(plateau: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """Give a row the smallest neighbour on its plateau that has a parent; as a step of `scanner`.

    Tells whether all of these arcs may lie on the plateau.
    """
    at, parent = plateau.distance[internal_of(row, plateau.dealt)], plateau.parent
    for arc in range(len(neighbors)):
        if path_sum(at, weights[arc], plateau.top) > at:
            return False
        u = np.int64(neighbors[arc])
        if plateau.distance[u] == at and not has(plateau.lacking, u):
            parent[row] = min(parent[row], neighbors[arc])
    return True


@kernel
def queue_found(plateau: Any) -> int:
    """Forget the rows that lack a parent no more; list them, and return how many."""
    count, none = 0, plateau.parent.dtype.type(-1)
    for row in members_of(plateau.lacking):
        if plateau.parent[row] != none:
            drop(plateau.lacking, row)
            plateau.queue[count] = row
            count += 1
    return count


@subroutine
def spread_row(plateau: Any, u: int, neighbors: Any, weights: Any, end: int) -> tuple[int, bool]:
    """Offer a row as parent to those behind it on its plateau.

    Returns the end of the rows in the queue, and whether all of these arcs may lie on the plateau.
    """
    at, parent = plateau.distance[u], plateau.parent
    none = parent.dtype.type(-1)
    for arc in range(len(neighbors)):
        if path_sum(at, weights[arc], plateau.top) > at:
            return end, False
        v = np.int64(neighbors[arc])
        if plateau.distance[v] != at or not has(plateau.lacking, v):
            continue
        if parent[v] == none:
            plateau.queue[end] = v
            end += 1
        # All ones is the largest id.
        parent[v] = min(np.uint64(parent[v]), np.uint64(u))
    return end, True


@kernel
def settle_hop(plateau: Any, begin: int, end: int) -> None:
    """Forget the rows ``queue[begin:end]``, which lack a parent no more."""
    for index in range(begin, end):
        drop(plateau.lacking, np.int64(plateau.queue[index]))


@kernel
def spread_hops(
    starts: Any, lengths: Any, columns: Any, plateau: Any, begin: int, end: int, wanting: Any
) -> tuple[int, int, bool]:
    """Continue from the rows ``queue[begin:end]`` hop by hop, as far as loaded arcs are enough.

    Whoever lacks a parent after a hop has no neighbour on the plateau but those found in it and
    later, so that each row offers itself once. The loaded arcs of a row begin at ``starts`` in the
    columns, neighbours and weights; ``lengths`` is empty if these are all. ``wanting`` becomes the
    bitmap of the rows that go on beyond.

    Returns where in ``queue`` the rows of the next hop begin and end, and whether rows are wanting.
    """
    neighbors, weights = columns
    while begin < end:
        last, more = end, False
        for index in range(begin, end):
            u = np.int64(plateau.queue[index])
            start, stop = np.int64(starts[u]), np.int64(starts[u + 1])
            last, on = spread_row(plateau, u, neighbors[start:stop], weights[start:stop], last)
            if on and len(lengths) > 0 and stop - start < lengths[u]:
                put(wanting, u)
                more = True
        begin, end = end, last
        if more:
            return begin, end, True
        settle_hop(plateau, begin, end)
    return begin, end, False


@kernel
def resolve_plateaus(out: Any, into: Any, plateau: Any, left: int) -> int:
    """Give the ``left`` rows that lack a parent theirs, hop by hop; all arcs are in memory.

    Returns how many found none: above zero only where out- and in-arcs contradict each other.
    """
    for row in members_of(plateau.lacking):
        start, stop = into.offsets[row], into.offsets[row + 1]
        find_beside(plateau, row, into.neighbors[start:stop], into.weights[start:stop])
    columns, no_lengths = (out.neighbors, out.weights), out.offsets[:0]
    found = queue_found(plateau)
    _, found, _ = spread_hops(out.offsets, no_lengths, columns, plateau, 0, found, plateau.lacking)
    return int(left - found)
