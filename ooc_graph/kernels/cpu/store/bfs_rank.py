"""BFS steps on one shard of which only the heads of the rows are in memory (CPU).

A step goes along all heads first, with the steps of the ranks in memory, and then along the arcs
that are fetched for the rows that want more. A push lists a bounded number of entries at a time, so
a level that pushes may take several supersteps.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import Words, has, members
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.dealt import Dealt, internal_of
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.kernels.common.store.scans import scanner
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.bfs.pull import EXAMINED, FOUND, FOUND_ARCS, IntoRows, pull_part
from ooc_graph.kernels.cpu.bfs.push import OutRows
from ooc_graph.kernels.cpu.bfs.rank import CpuBfsRank, CpuBfsShared, push_rows
from ooc_graph.kernels.cpu.bfs.search import never_claimed
from ooc_graph.kernels.cpu.store.bfs import LOOKED, Level, count_found, pull_tails
from ooc_graph.types import AnyArray, Dealing, IntArray

LISTED = 1
"""Place in the counts of `Offers`: entries listed. `LOOKED` is the other."""


class Offers(NamedTuple):
    """Unvisited neighbours that a push lists, with their parents.

    ``counts`` int64 (2,): see `LOOKED`, `LISTED`.
    """

    dealt: Dealt
    visited: Words
    target: AnyArray
    parent: AnyArray
    counts: IntArray


@scanner
@subroutine
def list_unvisited(offers: Any, row: int, neighbors: Any, _weights: Any) -> bool:
    """List the unvisited neighbours of a row of the frontier."""
    u, listed = internal_of(row, offers.dealt), offers.counts[LISTED]
    for arc in range(len(neighbors)):
        v = np.int64(neighbors[arc])
        if not has(offers.visited, v):
            offers.target[listed], offers.parent[listed] = v, u
            listed += 1
    offers.counts[LOOKED] += len(neighbors)
    offers.counts[LISTED] = listed
    return True


@kernel
def _rows_that_fit(lengths: Any, rows: Any, most: int) -> tuple[int, int]:
    """How many of the first rows have at most ``most`` arcs together, at least one; their arcs."""
    count, arcs = 0, 0
    while count < len(rows):
        more = int(lengths[np.int64(rows[count])])
        if count > 0 and arcs + more > most:
            break
        arcs += more
        count += 1
    return count, arcs


class StoreBfsRank(CpuBfsRank):
    """BFS steps on the rows of one shard, which are hub-first, and whose tails are in the store.

    A push lists so many entries at a time, at least the arcs of the longest row. ``out`` and
    ``into`` are the same object if the graph is undirected.
    """

    most_at_once = 0
    """To push a frontier reads the store."""

    def __init__(
        self, dealing: Dealing, out: TierRows, into: TierRows, most_listed: int, team: Team
    ) -> None:
        heads, pulled = out.heads, into.heads
        super().__init__(
            dealing,
            OutRows(heads.starts, heads.neighbors),
            IntoRows(pulled.starts, pulled.neighbors, pulled.first),
            never_claimed(pulled.lengths == 0),
            team,
        )
        self.arcs = int(heads.lengths.sum(dtype=np.int64))
        self._out_rows, self._into_rows, self._most = out, into, most_listed
        self._pushing = self._queue[:0]

    @property
    def is_pushing(self) -> bool:
        """Whether rows of the frontier are left to push."""
        return len(self._pushing) > 0

    def _arcs_of(self, rows: AnyArray) -> int:
        return int(self._out_rows.heads.lengths[rows].sum(dtype=np.int64))

    def begin_push(self) -> None:
        """Have the own frontier pushed from its first row on."""
        self._pushing = self._queue[: members(self._tree.found, self._queue)]

    def push(self, shared: CpuBfsShared) -> tuple[AnyArray, AnyArray, int]:
        """Unvisited neighbours of the next rows of the frontier, their parents; arcs examined.

        A neighbour may stand there more than once.
        """
        out = self._out_rows
        count, arcs = _rows_that_fit(out.heads.lengths, self._pushing, self._most)
        rows, self._pushing = self._pushing[:count], self._pushing[count:]
        target, parent = np.empty((2, arcs), self._queue.dtype)
        lists = shared.visited, self._sent, target, parent
        listed, examined = push_rows(self._out, self._dealt, rows, *lists)
        counts = np.array([0, listed])
        offers = Offers(self._dealt, shared.visited, target, parent, counts)
        for waiting in out.tails_of(rows):
            out.scan(waiting, partial(list_unvisited, offers), out.most_look)
        listed = int(counts[LISTED])
        return target[:listed], parent[:listed], examined + int(counts[LOOKED])

    def pull(self, shared: CpuBfsShared) -> int:
        """Find the unvisited own rows next to the frontier; return arcs examined."""
        self._depth += 1
        tree, control, counts = self._tree, new_control(), np.zeros(2, np.int64)
        into, frontier = self._into, shared.frontier
        self._team.launch(pull_part, control, into, tree, into.offsets, frontier, self._depth)
        level = Level(tree, frontier, self._queue, counts, self._depth)
        self._into_rows.scan_tails(~tree.visited, partial(pull_tails, level))
        found = new_control()
        self._team.launch(count_found, found, tree, self._out_rows.heads.lengths)
        self._count, self._frontier_arcs = int(found[FOUND]), int(found[FOUND_ARCS])
        return int(control[EXAMINED]) + int(counts[LOOKED])
