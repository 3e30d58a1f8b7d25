"""BFS steps on one shard of many, and the state that the ranks of a process share (CUDA).

State stays on the device; what goes to other ranks and comes from them is in host memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import deal_frontiers, words_for
from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.shares import RankRows
from ooc_graph.kernels.cuda.runtime.steps import (
    ARCS,
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
    wait,
    width,
)
from ooc_graph.kernels.cuda.runtime.table import TargetTable
from ooc_graph.types import DEAL_BLOCK, AnyArray, Dealing

_STEP = "a step of BFS on these rows"
LEAST_LISTED = 1 << 12
"""Vertices that a push lists at a time, at least."""


def listed_at_once(dealing: Dealing) -> int:
    """How many vertices a push lists at a time: the same number on all ranks, a power of two."""
    half = dealing.vertices // dealing.shards // 2
    return max(LEAST_LISTED, 1 << max(half, 1).bit_length() - 1)


class CudaBfsShared:
    """Frontier and visited vertices of the whole graph, one bit each, on the device.

    If the device's memory is too small, that is a `MemoryBudgetError`, also in `merge`.
    """

    def __init__(self, vertices: int, shards: int) -> None:
        ids = ids_of(vertices)
        group = DEAL_BLOCK * shards
        self._dealt = np.zeros(words_for(-(-vertices // group) * group), np.uint64)
        self._shards = shards
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

    A push lists vertices in parts, as `BfsPartsRank` does: at a time no more than half as many as
    there are own rows. Ids are of 32 bits, from 2**32 vertices on of 64
    (`ooc_graph.layout.names.id_dtype`); others are refused (`UsageError`).

    Rows are hub-first (`ooc_graph.kernels.cuda.runtime.shares.rank_rows`). If the device's memory
    is too small, that is a `MemoryBudgetError`, also in every step.
    """

    def __init__(self, dealing: Dealing, rows: RankRows) -> None:
        cupy, count = cuda(), dealing.rows
        self._ids = ids = ids_of(dealing.vertices)
        self.vertices, self.arcs = dealing.vertices, rows.arcs
        self._dealing, self._depth, self._words = dealing, 0, 2 * words_for(count)
        self.most_at_once = self._entries = listed_at_once(dealing)
        self._claimed: int | None = None  # rows that wait to be made the frontier, at most
        self.is_pushing = False
        """As of `BfsPartsRank`."""
        self._parts: tuple[TargetTable, Iterator[None]] | None = None
        self._count = self._frontier_arcs = 0
        self._out: Any = rows.out
        self._into: Any = rows.into
        self._out_offsets = rows.offsets
        with within_memory("BFS on these rows"):
            types = {**width(ids), **rows.constants}
            # Rows are claimed while others are still pushed.
            self._steps, self._pushes = (Steps("bfs_rank.cu", types) for _ in range(2))
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
        self.begin_push()
        self._steps.clear()
        if row is not None:
            at, listed = (np.uint32(row), self._ids.type(root)), (self._queue, self._steps.counts)
            self._steps.launch("claim_root", 1, *at, self._parent, *listed)
        self._claimed = int(row is not None)

    def _settle(self, most: int) -> None:
        """Make the rows that were claimed, ``most`` of them, the frontier."""
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

    @within_memory(_STEP)
    def frontier(self) -> tuple[int, int, AnyArray]:
        """Vertices found last, their out-arcs, and their bitmap over the own rows (a copy)."""
        if self._claimed is not None:
            most, self._claimed = min(self._claimed, self._dealing.rows), None
            self._settle(most)
        return self._count, self._frontier_arcs, self._found.get().view(np.uint64)

    def begin_push(self) -> None:
        """As of `BfsPartsRank`."""
        self.is_pushing, self._parts = True, None

    @within_memory(_STEP)
    def push(self, shared: CudaBfsShared) -> tuple[AnyArray, AnyArray, int]:
        """Unvisited neighbours of the own frontier, in any order, their parents; arcs examined.

        One call returns those of the next part.
        """
        examined, parts, self._parts = 0, self._parts, None
        if parts is None:
            if not (self.is_pushing and self._frontier_arcs):
                self.is_pushing = False
                return np.empty(0, self._ids), np.empty(0, self._ids), 0
            examined = self._frontier_arcs
            most = self._ids.type(np.iinfo(self._ids).max)
            table = TargetTable(self._pushes, min(self._entries, examined), self._ids, [most])
            parts = table, self._put(shared, table)
        self.is_pushing = next(parts[1], self) is not self
        target, parent = parts[0].take()
        if self.is_pushing:  # a refusal ends it
            self._parts = parts
        return target, parent, examined

    def _put(self, shared: CudaBfsShared, table: TargetTable) -> Iterator[None]:
        """Put unvisited neighbours of the frontier into a table; stops to have it emptied."""
        cupy, steps = cuda(), self._pushes
        rows, arcs = cupy.empty(self._count, np.uint32), cupy.empty(self._count, np.uint64)
        found = np.uint32(self._words), self._found, self._out.offsets, rows, arcs
        steps.launch("list_found", self._words * 32, *found, steps.counts)
        steps.clear()  # what the table counts
        starts = starts_of(arcs)
        del arcs
        end, begin = int(starts[-1].get()), 0
        queue = np.uint32(self._count), starts, rows
        given = self._out.offsets, self._out.neighbors, *dealt(self._dealing), shared.visited
        listed = *table.arguments, *table.columns, steps.counts
        while begin < end:
            free = table.free
            if 2 * free < table.entries and free < end - begin:
                yield
                free = table.free
            part = min(free, end - begin)
            ends = np.uint64(begin), np.uint64(begin + part)
            steps.launch("push_rows", threads_for(part), *ends, *queue, *given, *listed)
            begin += part

    @within_memory(_STEP)
    def claim(self, target: AnyArray, parent: AnyArray) -> None:
        """Claim own rows among ``target``, for the next frontier; the smallest parent counts."""
        if self._claimed is None:
            self._claimed = 0
            self._steps.clear()
        # Pieces as long as the own rows: what the others tell of may be more by far.
        for piece in pieces(len(target), self._dealing.rows):
            given = [uploaded([column[piece]], self._ids) for column in (target, parent)]
            sizes = np.uint64(len(given[0])), np.uint32(self._dealing.shards)
            tree = self._visited, self._parent, self._queue, self._steps.counts
            self._steps.launch("claim_rows", len(given[0]), sizes[0], *given, sizes[1], *tree)
            del given  # before the next piece is uploaded
        self._claimed += len(target)

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
