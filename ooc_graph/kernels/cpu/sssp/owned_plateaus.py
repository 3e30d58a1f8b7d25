"""Parents on plateaus, where ranks have the distances of their own rows alone (CPU).

Rows that have a parent offer themselves to those behind them on their plateau, hop by hop. Who they
are is known by their distances: a plateau's are all equal. The rules are those of
`ooc_graph.kernels.cpu.sssp.parents`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, small_part, subroutine, varying
from ooc_graph.kernels.common.dealt import internal_of, is_own, local_of
from ooc_graph.kernels.common.sssp.sums import path_sum
from ooc_graph.kernels.cpu.sssp.owned_lists import list_best
from ooc_graph.kernels.cpu.sssp.tails import want_tail


@kernel
def list_entrances(out: Any, own: Any) -> tuple[int, int]:
    """Queue the rows with a parent that a plateau may begin behind; reached rows without a parent.

    The number queued comes first. Arcs are counted from the first again.
    """
    wave, top, count, lacking = own.wave, own.wave.top[0], 0, 0
    wave.taken[:] = 0
    for row in range(len(wave.distance)):
        at = wave.distance[row]
        if at == top:
            continue
        if own.near[row] == top:
            lacking += 1
        elif path_sum(at, out.lightest[row], top) == at:
            wave.queue[count] = row
            count += 1
    return count, lacking


@subroutine
def _accept(own: Any, row: int, at: Any, u: int, found: int) -> int:
    """Have a row of the plateau at this distance take the smaller parent, if it lacks one.

    It lacks one until the hop ends. The first ``found`` entries of ``pending`` are the rows that
    have found one; returns how many there are now.
    """
    wave, parent = own.wave, own.parent
    if wave.distance[row] != at or own.near[row] != wave.top[0]:
        return found
    if parent[row] == parent.dtype.type(-1):
        wave.pending[found] = row
        found += 1
    # All ones is the largest id.
    parent[row] = min(np.uint64(parent[row]), np.uint64(u))
    return found


@small_part
def offer_arcs(own: Any, row: int, arcs: Any, positions: Any, listed: Any, counts: Any) -> Any:
    """Offer a row along some neighbours and weights, as far as they lead along its plateau.

    ``counts`` are the rows that have found a parent, and the entries listed. Returns the position
    where it stopped, whether the list was full, and the counts.
    """
    (neighbors, weights), (position, end), (found, entries) = arcs, positions, counts
    u, at, top = internal_of(row, own.dealt), own.wave.distance[row], own.wave.top[0]
    is_full = False
    while position < end and path_sum(at, weights[position], top) <= at:
        v = np.int64(neighbors[position])
        if is_own(v, own.dealt):
            found = _accept(own, local_of(v, own.dealt), at, u, found)
        elif entries == len(listed.target):
            is_full = True
            break
        else:
            entries = list_best(listed, entries, v, at, at, u)
        position += 1
    return position, is_full, (found, entries)


@kernel
def offer_rows(
    out: Any, own: Any, tails: Any, begin: int, count: int, found: int, listed: Any
) -> tuple[int, int, int, int]:
    """Offer the rows ``queue[begin:count]`` along their plateaus, until the list is full.

    Returns how far it came, rows that have found a parent, entries listed, and arcs examined. Rows
    whose arcs here are exhausted go on along their ``tails``.
    """
    wave, counts, examined = own.wave, (varying(found), varying(0)), varying(0)
    while begin < count:
        row = np.int64(wave.queue[begin])
        first, end = np.int64(out.offsets[row]), np.int64(out.offsets[row + 1])
        position = first + np.int64(wave.taken[row])
        examined -= position
        position, is_full, counts = offer_arcs(
            own, row, (out.neighbors, out.weights), (position, end), listed, counts
        )
        examined += position
        if is_full:
            wave.taken[row] = position - first
            break
        if position == end:
            want_tail(tails, row, end - first)
        begin += 1
    return begin, counts[0], counts[1], examined


@kernel
def take_offers(own: Any, found: int, target: Any, at: Any, parent: Any) -> int:
    """Take what other ranks' rows offer; rows that have found a parent in this hop."""
    for index in range(len(target)):
        row = local_of(np.int64(target[index]), own.dealt)
        found = _accept(own, row, at[index], np.int64(parent[index]), found)
    return found


@kernel
def end_hop(own: Any, found: int) -> None:
    """Have the rows that found a parent lack none, and offer themselves in the next hop."""
    wave = own.wave
    for index in range(found):
        row = np.int64(wave.pending[index])
        own.near[row] = wave.distance[row]
        wave.queue[index], wave.taken[row] = row, 0
