"""BFS steps on one shard of many, and the state that the ranks of a process share (CUDA).

State stays on the device; what goes to other ranks and comes from them is in host memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import deal_frontiers, words_for
from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.shares import RankRows
from ooc_graph.kernels.cuda.runtime.steps import (
    ARCS,
    EMITTED,
    EXAMINED,
    LISTED,
    Steps,
    dealt,
    ids_of,
    owned_row,
    pieces,
    starts_of,
    threads_for,
    uploaded,
    values_at,
    wait,
    width,
)
from ooc_graph.types import DEAL_BLOCK, AnyArray, Dealing

_STEP = "a step of BFS on these rows"


class CudaBfsShared:
    """Frontier and visited vertices of the whole graph, one bit each, on the device.

    Ranks take what a push needs for all vertices in turn, one at a time. If the device's memory is
    too small, that is a `MemoryBudgetError`, also in `merge`.
    """

    def __init__(self, vertices: int, shards: int) -> None:
        ids = ids_of(vertices)
        group = DEAL_BLOCK * shards
        self._dealt = np.zeros(words_for(-(-vertices // group) * group), np.uint64)
        self._shards, self.turn = shards, Lock()
        with within_memory("what is known of all vertices"):
            self.frontier, self.visited = (
                cuda().zeros(2 * len(self._dealt), np.uint32) for _ in range(2)
            )
            self._steps = Steps("bfs_rank.cu", width(ids))

    @within_memory(_STEP)
    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Deal the ranks' bitmaps into the global one, block by block."""
        deal_frontiers(self._dealt, self._shards, payloads)
        self.frontier.set(self._dealt.view(np.uint32))
        words = len(self.frontier)
        self._steps.launch("add_visited", words, np.uint64(words), self.frontier, self.visited)
        wait()


class CudaBfsRank:
    """BFS steps on the rows of one shard; buffers for the own rows are allocated once.

    A step that tells other ranks of vertices takes an id for each vertex of the whole graph while
    it lasts, and one for each of the vertices it tells of. Ids are of 32 bits, from 2**32 vertices
    on of 64 (`ooc_graph.layout.names.id_dtype`); others are refused (`UsageError`).

    Rows are hub-first (`ooc_graph.kernels.cuda.runtime.shares.rank_rows`). If the device's memory
    is too small, that is a `MemoryBudgetError`, also in every step.
    """

    def __init__(self, dealing: Dealing, rows: RankRows) -> None:
        cupy, count = cuda(), dealing.rows
        self._ids = ids = ids_of(dealing.vertices)
        self.vertices, self.arcs = dealing.vertices, rows.arcs
        self._dealing, self._depth, self._words = dealing, 0, 2 * words_for(count)
        self._count = self._frontier_arcs = 0
        self._out: Any = rows.out
        self._into: Any = rows.into
        self._out_offsets = rows.offsets
        with within_memory("BFS on these rows"):
            self._steps = Steps("bfs_rank.cu", {**width(ids), **rows.constants})
            self._parent, self._queue = cupy.empty(count, ids), cupy.empty(count, np.uint32)
            self._level = cupy.empty(count, np.int32)
            self._never, self._visited, self._found = (
                cupy.empty(self._words, np.uint32) for _ in range(3)
            )
        given = np.uint32(count), np.uint32(self._words), self._into.offsets, self._never
        self._steps.launch("never_claimed", self._words * 32, *given)

    @within_memory(_STEP)
    def start(self, root: int) -> None:
        """Forget everything, and claim the root if this rank owns it."""
        self._parent.fill(np.iinfo(self._ids).max)
        self._level.fill(-1)
        self._visited[...] = self._never
        self._depth, row = -1, owned_row(root, self._dealing)
        self._steps.clear()
        if row is not None:
            at, listed = (np.uint32(row), self._ids.type(root)), (self._queue, self._steps.counts)
            self._steps.launch("claim_root", 1, *at, self._parent, *listed)
        self._settle(int(row is not None))

    def _settle(self, most: int) -> None:
        """Make the rows just listed, ``most`` of them, the frontier."""
        self._depth += 1
        self._found.fill(0)
        listed = self._queue, self._out_offsets, np.int32(self._depth)
        tree = self._visited, self._found, self._level
        self._steps.launch("settle_rows", most, *listed, *tree, self._steps.counts)
        self._count_found()

    def _count_found(self) -> int:
        """Take note of the new frontier's size; return arcs examined for it."""
        counts = self._steps.fetch()
        self._count, self._frontier_arcs = counts[LISTED], counts[ARCS]
        return counts[EXAMINED]

    def frontier(self) -> tuple[int, int, AnyArray]:
        """Vertices found last, their out-arcs, and their bitmap over the own rows (a copy)."""
        return self._count, self._frontier_arcs, self._found.get().view(np.uint64)

    @within_memory(_STEP)
    def push(self, shared: CudaBfsShared) -> tuple[AnyArray, AnyArray, int]:
        """Unvisited neighbours of the own frontier, in any order, their parents; arcs examined."""
        if not self._frontier_arcs:
            return np.empty(0, self._ids), np.empty(0, self._ids), 0
        with shared.turn:
            return self._push(shared)

    def _push(self, shared: CudaBfsShared) -> tuple[AnyArray, AnyArray, int]:
        cupy = cuda()
        # The largest first: what the pool kept of it after the last push is whole then.
        best = cupy.full(self.vertices, np.iinfo(self._ids).max, self._ids)
        target = cupy.empty(min(self._frontier_arcs, self.vertices), self._ids)
        self._steps.clear()
        self._offer(shared, best, target)
        target = target[: self._steps.fetch()[EMITTED]]
        return target.get(), values_at(best, target), self._frontier_arcs

    def _offer(self, shared: CudaBfsShared, best: Any, target: Any) -> None:
        """List unvisited neighbours of the frontier; ``best`` has the smallest parent of each."""
        steps, arcs = self._steps, cuda().empty(self._count, np.uint64)
        found = np.uint32(self._words), self._found, self._out.offsets, self._queue, arcs
        steps.launch("list_found", self._words * 32, *found, steps.counts)
        queue = np.uint32(self._count), starts_of(arcs), self._queue
        rows = self._out.offsets, self._out.neighbors, *dealt(self._dealing)
        listed = shared.visited, best, target, steps.counts
        steps.launch("push_rows", threads_for(self._frontier_arcs), *queue, *rows, *listed)

    @within_memory(_STEP)
    def claim(self, target: AnyArray, parent: AnyArray) -> None:
        """Make own rows among ``target`` the new frontier; the smallest parent counts."""
        self._steps.clear()
        # Pieces as long as the own rows: what the others tell of may be more by far.
        for piece in pieces(len(target), self._dealing.rows):
            given = [uploaded([column[piece]], self._ids) for column in (target, parent)]
            sizes = np.uint64(len(given[0])), np.uint32(self._dealing.shards)
            tree = self._visited, self._parent, self._queue, self._steps.counts
            self._steps.launch("claim_rows", len(given[0]), sizes[0], *given, sizes[1], *tree)
            del given  # before the next piece is uploaded
        self._settle(min(len(target), self._dealing.rows))

    @within_memory(_STEP)
    def pull(self, shared: CudaBfsShared) -> int:
        """Find the unvisited own rows next to the frontier; return arcs examined."""
        self._depth += 1
        self._steps.clear()
        self._find(shared)
        return self._count_found()

    def _find(self, shared: CudaBfsShared) -> None:
        """Make the unvisited own rows next to the frontier those found."""
        sizes, rows = (np.uint32(self._dealing.rows), np.uint32(self._words)), self._into
        given = rows.offsets, rows.neighbors, self._out_offsets, shared.frontier
        tree = np.int32(self._depth), self._visited, self._found, self._parent, self._level
        counts = self._steps.counts
        self._steps.launch("pull_rows", self._words * 32, *sizes, *given, *tree, counts)

    def tree(
        self, vertices: Sequence[int], arcs: Sequence[int], direction: Sequence[int]
    ) -> BfsTree:
        """Answer for the own rows, in local order; copied to host memory."""
        levels = np.array(vertices, np.int64), np.array(arcs, np.int64)
        tree = self._parent.get(), self._level.get(), 0.0
        return BfsTree(*tree, *levels, np.array(direction, np.int8))
