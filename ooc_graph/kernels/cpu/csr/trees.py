"""Predecessors that follow from final distances, for some sources at a time, on one thread each.

An arc is tight if its begin's distance and its weight are its end's distance, to the bit. The first
tight arc from a nearer vertex, in the order of the rows, makes the predecessor. Arcs of no length
join vertices of the same distance; if these are all that lead to a vertex, the predecessor is one
that has its own already, so that there are no cycles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, small_part, subroutine
from ooc_graph.kernels.common.team import ABORT, Team, atomic_load, new_control, take_chunk
from ooc_graph.kernels.cpu.csr.arcs import Arcs
from ooc_graph.kernels.cpu.csr.lookout import BLOCK
from ooc_graph.kernels.cpu.csr.order import NONE
from ooc_graph.prefetch import prefetch
from ooc_graph.types import AnyArray, IntArray

LANES = 8
"""Sources whose distances from a vertex fill a cache line: an arc is read once for all of them."""
_FETCHED = 16
"""Arcs ahead whose ends' distances are fetched."""


@small_part
def _list_tight(arcs: Any, begin: int, end: int, row: int, near: Any, found: Any) -> int:
    """List which arcs of a row are tight for any source; how many."""
    count, last = np.uint64(0), np.uint64(len(arcs.targets) - 1)
    for arc in range(np.uint64(begin), np.uint64(end)):
        found[count] = arc
        ahead = arcs.targets[min(arc + np.uint64(_FETCHED), last)]
        prefetch(near[np.uint64(ahead)], 0)
        weight, target, is_tight = arcs.weights[arc], np.uint64(arcs.targets[arc]), np.uint64(0)
        for lane in range(LANES):
            is_tight |= np.uint64(near[row, lane] + weight == near[target, lane])
        count += is_tight
    return np.int64(count)  # type: ignore[return-value]


@small_part
def _follow(arcs: Any, row: int, near: Any, predecessors: Any, missing: Any, block: Any) -> None:
    """Make a row the predecessor of what its tight arcs lead to, is farther and has none."""
    end = arcs.offsets[row + 1]
    for first in range(arcs.offsets[row], end, BLOCK):
        last = min(first + BLOCK, end)
        for index in range(_list_tight(arcs, first, last, row, near, block)):
            arc = block[index]
            vertex, weight = np.int64(arcs.targets[arc]), arcs.weights[arc]
            for lane in range(len(predecessors)):
                at, to = near[row, lane], near[vertex, lane]
                if at + weight == to and at != to and predecessors[lane, vertex] == NONE:
                    predecessors[lane, vertex] = row
                    missing[lane] -= 1


@subroutine
def _follow_all(sides: Any, distances: Any, predecessors: Any, missing: Any, scratch: Any) -> None:
    """As `_follow`, of all rows; ``missing`` counts what is left without, by source."""
    near, block = scratch
    for lane in range(LANES):
        missing[lane] = -1
    for vertex in range(len(near)):
        for lane in range(LANES):
            # Infinite sums would make arcs to what is not reached tight.
            near[vertex, lane] = np.nan
        for lane in range(len(distances)):
            predecessors[lane, vertex] = NONE
            if distances[lane, vertex] < np.inf:
                near[vertex, lane] = distances[lane, vertex]
                missing[lane] += 1
    for row in range(len(near)):
        _follow(sides[0], row, near, predecessors, missing, block)
        if len(sides[1].targets):
            _follow(sides[1], row, near, predecessors, missing, block)


@small_part
def _follow_level(arcs: Any, row: int, source: int, distance: Any, predecessor: Any) -> int:
    """Make a row the predecessor of what arcs of no length lead to and has none; of how many."""
    found = 0
    for arc in range(arcs.offsets[row], arcs.offsets[row + 1]):
        vertex, at = np.int64(arcs.targets[arc]), distance[row]
        is_level = at + arcs.weights[arc] == at and distance[vertex] == at
        if is_level and predecessor[vertex] == NONE and vertex != source:
            predecessor[vertex] = row
            found += 1
    return found


@subroutine
def _follow_levels(sides: Any, source: int, distance: Any, predecessor: Any, missing: int) -> None:
    """Follow arcs of no length from rows that have predecessors, until none is missing."""
    while missing > 0:
        found = 0
        for row in range(len(distance)):
            has_own = predecessor[row] != NONE or row == source
            if has_own and distance[row] < np.inf:
                found += _follow_level(sides[0], row, source, distance, predecessor)
                if len(sides[1].targets):
                    found += _follow_level(sides[1], row, source, distance, predecessor)
        missing -= found
        if found == 0:
            break


@kernel
def _find(
    thread: int,
    threads: int,  # noqa: ARG001
    control: Any,
    sides: Any,
    sources: Any,
    distances: Any,
    predecessors: Any,
    scratch: Any,
) -> None:
    nears, blocks, lacking = scratch
    missing, mine = lacking[thread], (nears[thread], blocks[thread])
    while atomic_load(control, ABORT) == 0:
        begin, end = take_chunk(control, LANES, len(sources))
        if begin >= end:
            break
        _follow_all(sides, distances[begin:end], predecessors[begin:end], missing, mine)
        for index in range(begin, end):
            left = missing[index - begin]
            _follow_levels(sides, sources[index], distances[index], predecessors[index], left)


def find_predecessors(
    sides: tuple[Arcs, Arcs], sources: IntArray, distances: AnyArray, team: Team
) -> AnyArray:
    """Predecessors int32 (sources, vertices) of ``distances`` float64, weights being 0 or more."""
    predecessors: AnyArray = np.empty(distances.shape, np.int32)
    scratch = (
        np.empty((team.threads, distances.shape[1], LANES)),
        np.empty((team.threads, BLOCK + 1), np.int64),
        np.empty((team.threads, LANES), np.int64),
    )
    team.launch(_find, new_control(), sides, sources, distances, predecessors, scratch)
    return predecessors
