"""Predecessors that follow from final distances, source by source, each on one thread.

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
from ooc_graph.kernels.cpu.csr.lookout import BLOCK, list_tight
from ooc_graph.kernels.cpu.csr.order import NONE
from ooc_graph.types import AnyArray, IntArray


@small_part
def _follow(arcs: Any, row: int, tree: Any, is_level: bool, block: Any) -> int:
    """Make a row the predecessor of what its tight arcs lead to and has none; of how many."""
    source, distance, predecessor = tree
    end, at, found = arcs.offsets[row + 1], distance[row], 0
    for first in range(arcs.offsets[row], end, BLOCK):
        last = min(first + BLOCK, end)
        for index in range(list_tight(arcs, first, last, at, distance, block)):
            vertex = np.int64(arcs.targets[block[index]])
            # Infinite sums make arcs to what is not reached tight.
            is_reached = distance[vertex] < np.inf
            is_new = is_reached and predecessor[vertex] == NONE and vertex != source
            if is_new and (at == distance[vertex]) == is_level:
                predecessor[vertex] = row
                found += 1
    return found


@subroutine
def _follow_all(sides: Any, tree: Any, is_level: bool, block: Any) -> int:
    """As `_follow`, of all rows that are reached; on the level of those that have their own."""
    source, distance, predecessor = tree
    found = 0
    for row in range(len(distance)):
        has_own = not is_level or predecessor[row] != NONE or row == source
        if has_own and distance[row] < np.inf:
            found += _follow(sides[0], row, tree, is_level, block)
            if len(sides[1].targets):
                found += _follow(sides[1], row, tree, is_level, block)
    return found


@kernel
def _find(
    thread: int,
    _threads: int,
    control: Any,
    sides: Any,
    sources: Any,
    distances: Any,
    predecessors: Any,
    blocks: Any,
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
        tree = source, distance, predecessor
        found = _follow_all(sides, tree, False, blocks[thread])
        missing -= found
        while missing > 0:
            found = _follow_all(sides, tree, True, blocks[thread])
            missing -= found
            if found == 0:
                break


def find_predecessors(
    sides: tuple[Arcs, Arcs], sources: IntArray, distances: AnyArray, team: Team
) -> AnyArray:
    """Predecessors int32 (sources, vertices) of ``distances`` float64, weights being 0 or more."""
    predecessors: AnyArray = np.empty(distances.shape, np.int32)
    blocks = np.empty((team.threads, BLOCK + 1), np.int64)
    team.launch(_find, new_control(), sides, sources, distances, predecessors, blocks)
    return predecessors
