"""Shortest distances from one or several vertices of a sparse matrix, weights 0 or more.

Vertices wait in buckets of distance, nearest first, as in delta-stepping [1]. A bucket's rows are
scanned for arcs that shorten; what these lead to is improved, and put in the bucket of its new
distance, by one thread in the order of the scan. So neither distances nor predecessors depend on
the number of threads.

Rows lie apart in memory, and to come to a row takes longer than to scan a short one. In graphs with
hubs, whose short rows rarely improve anything, these wait until the buckets are empty, and are
scanned once in the order of memory. What they improve goes through the buckets.

A bucket is an eighth as wide as the weight below which a row has one arc on average.

[1] U. Meyer, P. Sanders, "Delta-stepping: a parallelizable shortest path algorithm", J. Algorithms
49 (2003).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, small_part, subroutine
from ooc_graph.kernels.common.team import FIRST_FREE, LINE, Team, barrier, new_control
from ooc_graph.kernels.cpu.csr.arcs import Arcs, fetch_rows, length_of, share_rows
from ooc_graph.kernels.cpu.csr.buckets import (
    COUNTS,
    FILLED,
    FRONT,
    LATE,
    LISTS,
    NOWHERE,
    State,
    improve,
    insert,
    take_front,
)
from ooc_graph.kernels.cpu.csr.lookout import BLOCK, list_nearer
from ooc_graph.prefetch import prefetch
from ooc_graph.types import AnyArray

SCANNED_ARCS = 1 << 16
"""Arcs that are scanned before improvements are made; a row is scanned as a whole."""
FEW_ARCS = 1 << 13
"""Fewer are scanned by one thread."""
HUB_ARCS = 16
"""Arcs of a row on average from which short rows wait."""
SHORT_ROWS = 4
"""A row is long if it has more than this many times the average number of arcs."""
AHEAD = 16
"""Improvements ahead whose vertices are fetched."""
_BEGIN, _END = FIRST_FREE, FIRST_FREE + LINE
"""Words of the control array: rows of the front that are scanned together."""


class Lists(NamedTuple):
    """Improvements that each thread has found, (threads, arcs), and ``counts`` (threads,).

    ``ends`` (threads,) bounds parts of the front; ``block`` (threads, `BLOCK` + 1) is scratch.
    """

    vertices: AnyArray
    above: AnyArray
    distances: AnyArray
    counts: AnyArray
    ends: AnyArray
    block: AnyArray


@subroutine
def _improve_all(state: Any, lists: Any, threads: int) -> None:
    for one in range(threads):
        vertices, above, found = lists.vertices[one], lists.above[one], lists.distances[one]
        for index in range(lists.counts[one]):
            # What is not in use yet are zeros, or was in use before.
            ahead = np.int64(vertices[index + AHEAD])
            prefetch(state.distance, ahead)
            prefetch(state.slot, ahead)
            improve(state, np.int64(vertices[index]), found[index], above[index])


@small_part
def _scan(arcs: Any, row: int, state: Any, lists: Any, count: int) -> int:
    """List the arcs of a row that shorten; the new length."""
    vertices, above, distances, block = lists
    end, at = arcs.offsets[row + 1], state.distance[row]
    for first in range(arcs.offsets[row], end, BLOCK):
        last = min(first + BLOCK, end)
        for index in range(list_nearer(arcs, first, last, at, state.distance, block)):
            arc = block[index]
            distance = at + arcs.weights[arc]
            if distance <= state.scale[1]:
                vertices[count], above[count] = arcs.targets[arc], row
                distances[count] = distance
                count += 1
    return count


@subroutine
def _scan_rows(sides: Any, state: Any, lists: Any, thread: int, begin: int, end: int) -> None:
    """List what shortens in rows of the front; those that wait again come later."""
    mine = lists.vertices[thread], lists.above[thread], lists.distances[thread], lists.block[thread]
    count = 0
    for index in range(begin, end):
        fetch_rows(sides, state.front, index, end)
        row = np.int64(state.front[index])
        if state.slot[row] == NOWHERE:
            count = _scan(sides[0], row, state, mine, count)
            if len(sides[1].targets):
                count = _scan(sides[1], row, state, mine, count)
    lists.counts[thread] = count


@subroutine
def _go_on(sides: Any, state: Any, lists: Any, threads: int, end: int) -> tuple[int, int]:
    """Search by one thread up to rows of many arcs; these rows of the front, none at the end."""
    while True:
        if end == state.counts[FRONT]:
            take_front(state)
            end = 0
            if state.counts[FRONT] == 0:
                return 0, 0
        begin, arcs = end, np.int64(0)
        while end < state.counts[FRONT] and arcs < SCANNED_ARCS:
            arcs += length_of(sides, np.int64(state.front[end]))
            end += 1
        if threads > 1 and arcs >= FEW_ARCS:
            return begin, end
        _scan_rows(sides, state, lists, 0, begin, end)
        _improve_all(state, lists, 1)


@kernel
def _search(
    thread: int, threads: int, control: Any, sides: Any, sources: Any, state: Any, lists: Any
) -> None:
    begin, end = 0, 0
    if thread == 0:
        for index in range(len(sources)):
            vertex = np.int64(sources[index])
            if state.distance[vertex] > 0.0:
                state.distance[vertex] = 0.0
                insert(state, vertex)
    while True:
        if thread == 0:
            begin, end = _go_on(sides, state, lists, threads, end)
            control[_BEGIN], control[_END] = begin, end
            share_rows(sides, state.front, begin, end, lists.ends)
        if not barrier(control, threads):
            return
        begin, end = control[_BEGIN], control[_END]
        if begin == end:
            return
        first = begin if thread == 0 else lists.ends[thread - 1]
        _scan_rows(sides, state, lists, thread, first, lists.ends[thread])
        if not barrier(control, threads):
            return
        if thread == 0:
            _improve_all(state, lists, threads)


class NearestSearch:
    """Searches on both ``sides`` of a matrix, one after another.

    ``pool_share``: entries of all buckets together that may be out of date, for each vertex.
    """

    pool_share = 2

    def __init__(self, sides: tuple[Arcs, Arcs], team: Team) -> None:
        self._sides, self._team = sides, team
        vertices = len(sides[0].offsets) - 1
        lengths = np.diff(sides[0].offsets)
        if len(sides[1].targets):
            lengths = lengths + np.diff(sides[1].offsets)
        arcs = int(lengths.sum())
        average = arcs / vertices
        most = max(int(lengths.max()), SCANNED_ARCS) + SCANNED_ARCS + AHEAD
        found, above = np.zeros((2, team.threads, most), np.int32)
        distances = np.empty((team.threads, most))
        counts, ends = np.zeros((2, team.threads), np.int64)
        block = np.empty((team.threads, BLOCK + 1), np.int64)
        self._lists = Lists(found, above, distances, counts, ends, block)
        some = sides[0].weights[:: len(sides[0].weights) // 4096 + 1]
        some = some[(some > 0) & (some < np.inf)]
        share = min(1 / max(average, 1.0), 0.5)
        light = np.quantile(some, share, method="lower") if len(some) else np.inf
        short = SHORT_ROWS * average if average >= HUB_ARCS else 0.0
        self._slots = np.where(lengths < short, LATE, NOWHERE).astype(np.int32)
        self._scale = min(8 / float(light), np.finfo(np.float64).max)
        self._slot, self._front = np.empty((2, vertices), np.int32)
        self._pool = np.empty(((1 + self.pool_share) * vertices + 1, 2), np.int32)

    def run(
        self,
        sources: AnyArray,
        distance: AnyArray,
        predecessor: AnyArray,
        limit: float = np.inf,
    ) -> None:
        """Search from all ``sources`` at once; ``distance`` float64 is infinite where it began.

        ``predecessor`` int32 (vertices,) receives those of what is reached; or has no length.
        """
        self._slot[:] = self._slots
        heads, counts = np.full(LISTS, -1, np.int32), np.zeros(COUNTS, np.int64)
        scale = np.array([self._scale, limit])
        lists = heads, np.zeros(FILLED, np.uint64), self._pool, self._front
        state = State(distance, predecessor, self._slot, *lists, counts, scale)
        given = self._sides, sources, state, self._lists
        self._team.launch(_search, new_control(), *given)
