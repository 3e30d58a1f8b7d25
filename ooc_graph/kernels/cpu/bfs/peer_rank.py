"""BFS on rows in memory, by supersteps, or together with ranks of other processes of the host."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from ooc_graph.kernels.common import meeting
from ooc_graph.kernels.common.bitmap import WORD_BITS, Words
from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.common.peers import each_of, for_all
from ooc_graph.kernels.common.team import GENERATION, OPERATION, Team, new_control
from ooc_graph.kernels.cpu.bfs.common import Common, Own, Start, common_bytes, common_in
from ooc_graph.kernels.cpu.bfs.fused import DONE
from ooc_graph.kernels.cpu.bfs.pull import DEPTH, IntoRows
from ooc_graph.kernels.cpu.bfs.push import OutRows
from ooc_graph.kernels.cpu.bfs.rank import CpuBfsRank, CpuBfsShared
from ooc_graph.kernels.cpu.bfs.search import new_trace, new_tree
from ooc_graph.kernels.cpu.bfs.together import search_together
from ooc_graph.kernels.cpu.peers import LaunchesTogether, waits_of
from ooc_graph.types import AnyArray, Dealing, Gathering

MOST_LEVELS = 1 << 20
"""Graphs that may have more are searched by supersteps from the first time on that they do."""


class CpuPeerBfsRank(LaunchesTogether, CpuBfsRank):
    """A rank with all its rows in memory: also a `BfsPeerRank`.

    It searches with others if each is the only one of its process, whose threads nobody else uses,
    and all processes map common memory; see `LaunchesTogether`. The memory is kept for later
    searches.
    """

    agrees = joins = True

    def __init__(
        self, dealing: Dealing, out: OutRows, into: IntoRows, never: Words, team: Team
    ) -> None:
        super().__init__(dealing, out, into, never, team)
        self._common: Common | None = None
        self._introduced = self._members = 0
        self._search: CpuBfsShared | None = None
        self._levels = self._root = 0
        self._has_launched = False

    def start(self, root: int) -> None:
        """Forget everything, and claim the root if this rank owns it."""
        self._root, self._has_launched = root, False
        super().start(root)

    def introduce(self, search: CpuBfsShared) -> tuple[int, ...]:
        """As of `BfsPeerRank`."""
        self._search = search
        return for_all(self._dealing, (os.getpid(), self._team.threads))

    def can_meet(self, introduced: Sequence[int]) -> bool:
        """As of `BfsPeerRank`."""
        processes, threads = zip(*each_of(self._dealing, introduced), strict=True)
        self._introduced = sum(threads)
        return len(set(processes)) == len(processes)

    def join(self, offers: Sequence[int]) -> bool:
        """As of `BfsPeerRank`."""
        assert self._search is not None
        if self._search.memory is None:
            return False
        self._share_state(self._search.memory)
        self._members, (self._name,) = self._introduced, offers
        return True

    def _share_state(self, memory: AnyArray) -> None:
        """Have the state of the own rows in memory that all map."""
        dealing, tree = self._dealing, self._tree
        common = common_in(memory, dealing.vertices, dealing.shards, tree.parent.dtype)
        row = common.stride * dealing.shard
        parent = common.parent[row : row + dealing.rows]
        visited = common.visited[row // WORD_BITS :][: len(tree.visited)]
        parent[:], visited[:] = tree.parent, tree.visited
        self._tree, self._common = tree._replace(parent=parent, visited=visited), common
        self._trace = new_trace(min(dealing.vertices, MOST_LEVELS))

    def launch(self, root: int, arcs: int) -> None:
        """As of `BfsPeerRank`; `finish` does all of it."""
        assert root == self._root
        self._all_arcs = arcs

    def finish(self) -> bool:
        """As of `BfsPeerRank`."""
        assert self._common is not None
        self._has_launched = True
        control = self._launched(search_together, DONE, self._common.control, *self._given())
        if control is None:
            return False
        self._levels = int(control[DEPTH])
        return True

    def again(self, search: CpuBfsShared) -> BfsTree | None:
        """As of `ReturningBfsRank`."""
        common = self._common
        if self._name == 0 or common is None:
            return None
        if not self._gathered(common.gathering, search.gathering):
            return None
        has_answer = False
        try:
            self.frontier()
            has_answer = self.finish()
            return self.peer_tree() if has_answer else None
        finally:
            self.part(may_keep=has_answer)

    def _given(self) -> tuple[Common | None, Own, Start]:
        own = Own(self._out, self._into, self._tree, self._trace)
        found, waits = (self._count, self._frontier_arcs), waits_of(self._members)
        start = Start(self._dealt, self._members, waits, *found, self.vertices, self._all_arcs)
        return self._common, own, start

    def peer_tree(self) -> BfsTree:
        """As of `BfsPeerRank`."""
        trace = [column[: self._levels].copy() for column in self._trace]
        return BfsTree(self._tree.parent, self._tree.level, 0.0, *trace)

    def part(self, *, may_keep: bool) -> None:
        """As of `BfsPeerRank`; a rank that is late may still write to memory that is not kept."""
        self._search = None
        if may_keep:
            return
        self._failures += not self._has_launched
        self._name = 0
        if self._common is not None:
            if not self._has_launched:
                self._common.control[GENERATION] = meeting.GIVEN_UP
            self._tree = new_tree(self._never, self._dealing.rows, self._tree.parent.dtype)
            self._common = None
            self.start(self._root)
            self.frontier()

    def rehearse(self) -> None:
        """Search from row 0 alone, as the only rank, so that the kernel is compiled."""
        ids = self._tree.parent.dtype
        memory = np.zeros(common_bytes(self.vertices, 1, ids.itemsize), np.uint8)
        self.start(0)
        self.frontier()
        self._share_state(memory)
        self._members = self._team.threads
        self.launch(0, self.arcs)
        control = new_control()
        # Another search may have the threads meanwhile.
        self._team.launch(search_together, control, *self._given())
        assert control[OPERATION] == DONE
        assert self._common is not None
        self._gathered(self._common.gathering, Gathering(1, lambda: False))
        meeting.leave(self._common.gathering, 0, 1, 2)
