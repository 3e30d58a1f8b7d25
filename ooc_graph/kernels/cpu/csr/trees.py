"""Predecessors that follow from final distances, source by source, each on one thread.

An arc is tight if its begin's distance and its weight are its end's distance, to the bit. The first
tight arc from a nearer vertex, in the order of the rows, makes the predecessor. Arcs of no length
join vertices of the same distance; if these are all that lead to a vertex, the predecessor is one
that has its own already, so that there are no cycles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.bits import lowest_bit
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.team import ABORT, Team, atomic_load, new_control, take_chunk
from ooc_graph.kernels.cpu.csr.arcs import Arcs
from ooc_graph.kernels.cpu.csr.order import NONE
from ooc_graph.kernels.cpu.csr.vectors import NEARER_ARCS, tight
from ooc_graph.types import AnyArray, IntArray


@subroutine
def _follow(
    arcs: Any, row: int, source: int, distance: Any, predecessor: Any, is_level: bool
) -> int:
    """Make a row the predecessor of what its tight arcs lead to and has none; of how many."""
    begin, end, at, found = arcs.offsets[row], arcs.offsets[row + 1], distance[row], 0
    columns = arcs.targets, arcs.weights
    for first in range(begin, end, NEARER_ARCS):
        left = tight(distance, columns, (first, end - first), at)
        while left != 0:
            vertex = np.int64(arcs.targets[first + lowest_bit(left)])
            left &= left - np.uint64(1)
            # Infinite sums make arcs to what is not reached tight.
            is_reached = distance[vertex] < np.inf
            is_new = is_reached and predecessor[vertex] == NONE and vertex != source
            if is_new and (at == distance[vertex]) == is_level:
                predecessor[vertex] = row
                found += 1
    return found


@subroutine
def _follow_all(sides: Any, source: int, distance: Any, predecessor: Any, is_level: bool) -> int:
    """As `_follow`, of all rows that are reached; on the level of those that have their own."""
    found = 0
    for row in range(len(distance)):
        has_own = not is_level or predecessor[row] != NONE or row == source
        if has_own and distance[row] < np.inf:
            found += _follow(sides[0], row, source, distance, predecessor, is_level)
            found += _follow(sides[1], row, source, distance, predecessor, is_level)
    return found


@kernel
def _find(
    _thread: int,
    _threads: int,
    control: Any,
    sides: Any,
    sources: Any,
    distances: Any,
    predecessors: Any,
) -> None:
    while atomic_load(control, ABORT) == 0:
        index, end = take_chunk(control, 1, len(sources))
        if index >= end:
            break
        source, distance, predecessor = sources[index], distances[index], predecessors[index]
        missing = -1
        for vertex in range(len(distance)):
            predecessor[vertex] = NONE
            missing += int(distance[vertex] < np.inf)
        found = _follow_all(sides, source, distance, predecessor, False)
        missing -= found
        while missing > 0:
            found = _follow_all(sides, source, distance, predecessor, True)
            missing -= found
            if found == 0:
                break


def find_predecessors(
    sides: tuple[Arcs, Arcs], sources: IntArray, distances: AnyArray, team: Team
) -> AnyArray:
    """Predecessors int32 (sources, vertices) of ``distances`` float64, weights being 0 or more."""
    predecessors: AnyArray = np.empty(distances.shape, np.int32)
    team.launch(_find, new_control(), sides, sources, distances, predecessors)
    return predecessors
