"""What ranks list along heads and fetched arcs; parents, by the rules of `cpu.sssp.parents`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import WORD_BITS, drop, put
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.dealt import Dealt, internal_of, is_own, local_of
from ooc_graph.kernels.common.sssp import plateaus
from ooc_graph.kernels.common.sssp.sums import path_sum
from ooc_graph.kernels.common.store.scans import scanner
from ooc_graph.kernels.common.team import atomic_add, take_chunk
from ooc_graph.kernels.cpu.sssp.parents import CHUNK_ROWS
from ooc_graph.kernels.cpu.sssp.push import FLAG_BITS
from ooc_graph.kernels.cpu.sssp.tails import Tails, advance, wait_for, want_tail
from ooc_graph.kernels.cpu.store.sssp import EXAMINED, LOOKED, beyond_head
from ooc_graph.types import AnyArray, IntArray

LISTED, AGAIN = 1, 2
"""Places in the counts of a `Listing`: entries, and those of them that were reached before.
`LOOKED` is the third."""


class Listing(NamedTuple):
    """What a step lists: vertices and distances, or vertices and possible parents.

    ``counts`` int64 (3,): see `LISTED`.
    """

    distance: AnyArray
    dealt: Dealt
    tails: Tails
    bound: Any
    top: Any
    target: AnyArray
    found: AnyArray
    counts: IntArray


@kernel
def forget(improved: Any, dealt: Any, tails: Any) -> None:
    """Own rows that are nearer now begin with their heads again."""
    for index in range(len(improved)):
        v = np.int64(improved[index])
        if is_own(v, dealt):
            row = local_of(v, dealt)
            drop(tails.wanting, row)
            drop(tails.waiting, row)


@kernel
def note_exhausted(heads: Any, wave: Any, count: int, tails: Any) -> None:
    """Have the rows ``queue[:count]`` go on that took all of their head and have more arcs."""
    for index in range(count):
        row = np.int64(wave.queue[index])
        taken = np.int64(wave.taken[row]) >> FLAG_BITS
        head = heads.starts[row + 1] - heads.starts[row]
        if taken == head:
            want_tail(tails, row, head)


@scanner
@subroutine
def list_improvements(listing: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """List what gets nearer along a row's arcs, up to the bound and as many as fit."""
    distance, tails, counts = listing.distance, listing.tails, listing.counts
    at, listed, arc = distance[internal_of(row, listing.dealt)], counts[LISTED], 0
    while arc < len(neighbors):
        candidate = path_sum(at, weights[arc], listing.top)
        if candidate > listing.bound:
            wait_for(tails, row, candidate)
            break
        if listed == len(listing.target):
            break
        v = np.int64(neighbors[arc])
        if candidate < distance[v]:
            counts[AGAIN] += distance[v] < listing.top
            listing.target[listed], listing.found[listed] = v, candidate
            listed += 1
        arc += 1
    counts[LISTED] = listed
    counts[LOOKED] += arc
    advance(tails, row, arc)
    return bool(arc == len(neighbors))


@scanner
@subroutine
def list_offers(listing: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """List the vertices that a row may be the parent of."""
    distance, top, counts = listing.distance, listing.top, listing.counts
    u = internal_of(row, listing.dealt)
    at, listed = distance[u], counts[LISTED]
    for arc in range(len(neighbors)):
        v = np.int64(neighbors[arc])
        away = distance[v]
        if at < away and away < top and path_sum(at, weights[arc], top) == away:
            listing.target[listed], listing.found[listed] = v, u
            listed += 1
    counts[LISTED] = listed
    counts[LOOKED] += len(neighbors)
    return True


@kernel
def list_lacking(distance: Any, dealt: Any, parent: Any, top: Any, lacking: Any) -> int:
    """List the reached own rows without a parent; how many."""
    count, none = 0, parent.dtype.type(-1)
    for row in range(len(parent)):
        if parent[row] == none and distance[internal_of(row, dealt)] < top:
            lacking[count] = row
            count += 1
    return count


@subroutine
def _find_parent(field: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """Find a row's parent among its neighbours; whether arcs after these may hold a better one."""
    parent, none = field.parent, field.parent.dtype.type(-1)
    before = np.int64(-1) if parent[row] == none else np.int64(parent[row])
    at = field.distance[internal_of(row, field.dealt)]
    found, looked = plateaus.best_parent(
        field.distance, at, neighbors, weights, before, field.bound, field.top
    )
    if found >= 0:
        parent[row] = found
    field.counts[LOOKED] += looked
    return bool(looked == len(neighbors))


parent_tails = scanner(_find_parent)
find_beside_tails = scanner(plateaus.find_beside)


@kernel
def parent_heads(_thread: int, _threads: int, control: Any, heads: Any, field: Any) -> None:
    """Find parents along the heads of reached rows that have none; all threads call it.

    ``field.marks`` becomes the bitmap of the rows whose arcs beyond their heads may hold a better
    one. ``field.bound`` is a lower bound of the distances of all that no row was offered yet.
    """
    distance, parent, floor, top = field.distance, field.parent, field.bound, field.top
    rows, examined, none = len(parent), 0, parent.dtype.type(-1)
    while True:
        base, end = take_chunk(control, CHUNK_ROWS, rows)
        if base >= end:
            break
        for index in range(base >> 6, (end + WORD_BITS - 1) >> 6):
            field.marks[index] = 0
        shift = internal_of(base, field.dealt) - base
        for row in range(base, end):
            at = distance[row + shift]
            if at == top or parent[row] != none or path_sum(floor, heads.first[row], top) > at:
                continue
            start, stop = np.int64(heads.starts[row]), np.int64(heads.starts[row + 1])
            columns = heads.neighbors[start:stop], heads.weights[start:stop]
            found, looked = plateaus.best_parent(distance, at, *columns, np.int64(-1), floor, top)
            if found >= 0:
                parent[row] = found
            examined += looked
            more = looked == stop - start and looked < heads.lengths[row]
            if more and beyond_head(heads, row, floor, top) <= at:
                put(field.marks, row)
    atomic_add(control, EXAMINED, examined)


@scanner
@subroutine
def offer_arcs(field: Any, u: int, neighbors: Any, weights: Any) -> bool:
    """Offer a row as parent along all of its arcs."""
    for arc in range(len(neighbors)):
        v = np.int64(neighbors[arc])
        plateaus.offer_parent(field.distance, field.parent, v, u, weights[arc], field.top)
    field.counts[LOOKED] += len(neighbors)
    return True


@scanner
@subroutine
def spread_tails(state: Any, u: int, neighbors: Any, weights: Any) -> bool:
    """Offer a row on a plateau as parent; ``state`` is the plateau, and the end of its queue."""
    plateau, end = state
    end[0], on = plateaus.spread_row(plateau, u, neighbors, weights, end[0])
    return bool(on)
