"""Parents from final distances, by decision 7, along arcs at hand (CPU).

The rules are those of `ooc_graph.kernels.cpu.sssp.parents`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, has, lowest_bit, put
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.sssp.distances import path_sum
from ooc_graph.kernels.common.store.rows import keep_rest
from ooc_graph.kernels.common.team import CHUNK, atomic_add
from ooc_graph.kernels.cpu.sssp.parents import CHUNK_ROWS
from ooc_graph.kernels.cpu.store.sssp import EXAMINED, beyond_head


@subroutine
def _offer_arcs(
    distance: Any,
    parent: Any,
    row: int,
    floor: Any,
    top: Any,
    neighbors: Any,
    weights: Any,
    there: int,
    weighs: int,
    count: int,
) -> int:
    """Offer a row's neighbours as its parent, light arcs first; arcs examined."""
    at, none = distance[row], parent.dtype.type(-1)
    near = at if parent[row] == none else distance[np.int64(parent[row])]
    arc = 0
    while arc < count:
        weight = weights[weighs + arc]
        if path_sum(floor, weight, top) > at:
            break
        u = np.int64(neighbors[there + arc])
        away = distance[u]
        arc += 1
        if away > near or away >= at or path_sum(away, weight, top) != at:
            continue
        if away < near or u < np.int64(parent[row]):
            parent[row], near = u, away
    return arc


@kernel
def parent_heads(
    _thread: int,
    _threads: int,
    control: Any,
    heads: Any,
    distance: Any,
    parent: Any,
    floor: Any,
    top: Any,
    wanting: Any,
) -> None:
    """Find parents along the heads of reached rows that have none; all threads call it.

    ``wanting`` becomes the bitmap of the rows whose arcs beyond their heads may hold a better one.
    ``floor`` is a lower bound of the distances of all that has not been offered as a parent.
    """
    rows, examined, none = len(distance), 0, parent.dtype.type(-1)
    while True:
        base = atomic_add(control, CHUNK, CHUNK_ROWS)
        if base >= rows:
            break
        end = min(base + CHUNK_ROWS, rows)
        for index in range(base >> 6, (end + WORD_BITS - 1) >> 6):
            wanting[index] = 0
        for row in range(base, end):
            at = distance[row]
            if at == top or parent[row] != none or path_sum(floor, heads.first[row], top) > at:
                continue
            start, stop = np.int64(heads.starts[row]), np.int64(heads.starts[row + 1])
            looked = _offer_arcs(
                distance,
                parent,
                row,
                floor,
                top,
                heads.neighbors,
                heads.weights,
                start,
                start,
                stop - start,
            )
            examined += looked
            more = looked == stop - start and looked < heads.lengths[row]
            if more and beyond_head(heads, row, floor, top) <= at:
                put(wanting, row)
    atomic_add(control, EXAMINED, examined)


@kernel
def parent_tails(
    distance: Any,
    parent: Any,
    floor: Any,
    top: Any,
    lengths: Any,
    window: Any,
    begin: int,
    end: int,
    kept: int,
    neighbors: Any,
    weights: Any,
) -> tuple[int, int]:
    """Go on along arcs at hand; the rows kept, and arcs examined."""
    examined = 0
    for index in range(begin, end):
        row, count = window.row[index], window.asked[index]
        there, weighs = window.place[0, index], window.place[1, index]
        looked = _offer_arcs(
            distance, parent, row, floor, top, neighbors, weights, there, weighs, count
        )
        examined += looked
        if looked == count:
            kept = keep_rest(window, kept, index, lengths)
    return kept, examined


@kernel
def offer_parts(
    distance: Any,
    parent: Any,
    top: Any,
    lengths: Any,
    window: Any,
    begin: int,
    end: int,
    kept: int,
    neighbors: Any,
    weights: Any,
) -> tuple[int, int]:
    """Offer rows as parents along all of their arcs; the rows kept, and arcs examined."""
    examined, none = 0, parent.dtype.type(-1)
    for index in range(begin, end):
        u, count = window.row[index], window.asked[index]
        there, weighs, at = window.place[0, index], window.place[1, index], distance[u]
        for arc in range(count):
            v = np.int64(neighbors[there + arc])
            away = distance[v]
            if at >= away or away == top or path_sum(at, weights[weighs + arc], top) != away:
                continue
            if parent[v] != none:
                rival = np.int64(parent[v])
                if distance[rival] < at or (distance[rival] == at and rival < u):
                    continue
            parent[v] = u
        examined += count
        kept = keep_rest(window, kept, index, lengths)
    return kept, examined


@kernel
def list_lacking(distance: Any, parent: Any, top: Any, lacking: Any) -> int:
    """Note the reached rows without a parent, which lie on plateaus; return how many."""
    count, none = 0, parent.dtype.type(-1)
    lacking[:] = 0
    for row in range(len(distance)):
        if distance[row] < top and parent[row] == none:
            put(lacking, row)
            count += 1
    return count


@kernel
def plateau_parts(
    distance: Any,
    parent: Any,
    lacking: Any,
    top: Any,
    lengths: Any,
    window: Any,
    begin: int,
    end: int,
    kept: int,
    neighbors: Any,
    weights: Any,
) -> int:
    """Give rows the smallest neighbour at their distance that does not lack; the rows kept."""
    for index in range(begin, end):
        row, count = window.row[index], window.asked[index]
        there, weighs, arc = window.place[0, index], window.place[1, index], 0
        at = distance[row]
        while arc < count and path_sum(at, weights[weighs + arc], top) <= at:
            u = np.int64(neighbors[there + arc])
            if distance[u] == at and not has(lacking, u):
                parent[row] = min(parent[row], neighbors[there + arc])
            arc += 1
        if arc == count:
            kept = keep_rest(window, kept, index, lengths)
    return kept


@kernel
def drop_found(parent: Any, lacking: Any, queue: Any) -> int:
    """Forget rows that lack a parent no more; list them in ``queue``, and return how many."""
    count, none = 0, parent.dtype.type(-1)
    for index in range(len(lacking)):
        rest = lacking[index]
        while rest != 0:
            bit = lowest_bit(rest)
            rest &= rest - ONE
            row = index * WORD_BITS + bit
            if parent[row] != none:
                _forget(lacking, row)
                queue[count] = row
                count += 1
    return count


@subroutine
def _forget(bits: Any, row: int) -> None:
    bits[row >> 6] &= ~(ONE << np.uint64(row & 63))


@subroutine
def _spread_arcs(
    distance: Any,
    parent: Any,
    lacking: Any,
    top: Any,
    queue: Any,
    last: int,
    u: int,
    neighbors: Any,
    weights: Any,
    there: int,
    weighs: int,
    count: int,
) -> tuple[int, bool]:
    """Offer a row on a plateau as parent of those behind it.

    Returns the end of the rows in ``queue``, and whether all of these arcs may lie on the plateau.
    """
    at, none = distance[u], parent.dtype.type(-1)
    for arc in range(count):
        if path_sum(at, weights[weighs + arc], top) > at:
            return last, False
        v = np.int64(neighbors[there + arc])
        if distance[v] != at or not has(lacking, v):
            continue
        if parent[v] == none:
            queue[last] = v
            last += 1
        if parent[v] == none or u < np.int64(parent[v]):
            parent[v] = u
    return last, True


@kernel
def settle_hop(lacking: Any, queue: Any, begin: int, end: int) -> None:
    """Forget the rows ``queue[begin:end]``, which lack a parent no more."""
    for index in range(begin, end):
        _forget(lacking, np.int64(queue[index]))


@kernel
def spread_heads(
    heads: Any,
    distance: Any,
    parent: Any,
    lacking: Any,
    top: Any,
    queue: Any,
    begin: int,
    end: int,
    wanting: Any,
) -> tuple[int, int, bool]:
    """Go on from the rows ``queue[begin:end]`` along heads, hop by hop, as far as these are enough.

    Whoever lacks a parent after a hop has no neighbour on the plateau but those found in it and
    later, so that each row offers itself once. Returns where in ``queue`` those of the next hop
    begin and end, and whether rows of the last one, noted in ``wanting``, go on beyond their heads.
    """
    while begin < end:
        last, more = end, False
        for index in range(begin, end):
            u = np.int64(queue[index])
            start, stop = np.int64(heads.starts[u]), np.int64(heads.starts[u + 1])
            last, on = _spread_arcs(
                distance,
                parent,
                lacking,
                top,
                queue,
                last,
                u,
                heads.neighbors,
                heads.weights,
                start,
                start,
                stop - start,
            )
            if on and stop - start < heads.lengths[u]:
                put(wanting, u)
                more = True
        begin, end = end, last
        if more:
            return begin, end, True
        settle_hop(lacking, queue, begin, end)
    return begin, end, False


@kernel
def spread_tails(
    distance: Any,
    parent: Any,
    lacking: Any,
    top: Any,
    queue: Any,
    last: int,
    lengths: Any,
    window: Any,
    begin: int,
    end: int,
    kept: int,
    neighbors: Any,
    weights: Any,
) -> tuple[int, int]:
    """Offer rows on plateaus along arcs at hand; the rows kept, and the end of ``queue``."""
    for index in range(begin, end):
        u, count = window.row[index], window.asked[index]
        there, weighs = window.place[0, index], window.place[1, index]
        last, on = _spread_arcs(
            distance,
            parent,
            lacking,
            top,
            queue,
            last,
            u,
            neighbors,
            weights,
            there,
            weighs,
            count,
        )
        if on:
            kept = keep_rest(window, kept, index, lengths)
    return kept, last
