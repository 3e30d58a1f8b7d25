"""BFS steps on one shard of many, and the state that the ranks of a process share (CUDA).

State stays on the device; what goes to other ranks and comes from them is in host memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ooc_graph.kernels.bfs_rank import deal_frontiers
from ooc_graph.kernels.bitmap import words_for
from ooc_graph.kernels.cuda_held import hold
from ooc_graph.kernels.cuda_modules import cuda, within_memory
from ooc_graph.kernels.cuda_steps import (
    ARCS,
    EMITTED,
    EXAMINED,
    LISTED,
    Steps,
    dealt,
    owned_row,
    require_few,
    starts_of,
    threads_for,
    uploaded,
    wait,
)
from ooc_graph.kernels.interface import BfsTree
from ooc_graph.types import DEAL_BLOCK, AnyArray, Dealing, Rows

_IDS = np.dtype(np.uint32)
_NONE = np.iinfo(_IDS).max
_STEP = "a step of BFS on these rows"


class CudaBfsShared:
    """Frontier and visited vertices of the whole graph, one bit each, on the device.

    Parameters
    ----------
    vertices, shards
        Rows of the whole graph, and the number of ranks.

    Raises
    ------
    DeviceError
        There is no usable device.
    UsageError
        Too many vertices for 32 bits.
    MemoryBudgetError
        The device's memory is too small; so in `merge`.
    """

    def __init__(self, vertices: int, shards: int) -> None:
        require_few(vertices)
        group = DEAL_BLOCK * shards
        self._dealt = np.zeros(words_for(-(-vertices // group) * group), np.uint64)
        self._shards = shards
        with within_memory("what is known of all vertices"):
            self.frontier, self.visited = (
                cuda().zeros(2 * len(self._dealt), np.uint32) for _ in range(2)
            )
            self._steps = Steps("bfs_rank.cu")

    @within_memory(_STEP)
    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Deal the ranks' bitmaps into the global one, block by block (decision 2)."""
        deal_frontiers(self._dealt, self._shards, payloads)
        self.frontier.set(self._dealt.view(np.uint32))
        words = len(self.frontier)
        self._steps.launch("add_visited", words, np.uint64(words), self.frontier, self.visited)
        wait()


class CudaBfsRank:
    """BFS steps on the rows of one shard; buffers for the own rows are allocated once.

    A step that tells other ranks of vertices takes 4 bytes a vertex of the whole graph while it
    lasts, and 8 for each of the vertices it tells of.

    Parameters
    ----------
    dealing
        Which rows these are.
    out, into
        Hub-first rows to push and to pull along (the same object when undirected), in host memory
        (copied) or on the device.

    Raises
    ------
    DeviceError
        There is no usable device.
    UsageError
        64-bit ids, or too many vertices for 32 bits.
    MemoryBudgetError
        The device's memory is too small; so in every step.
    """

    def __init__(self, dealing: Dealing, out: Rows, into: Rows) -> None:
        cupy, rows = cuda(), dealing.rows
        require_few(dealing.vertices)
        self.vertices, self.arcs = dealing.vertices, len(out.neighbors)
        self._dealing, self._depth, self._words = dealing, 0, 2 * words_for(rows)
        self._count = self._frontier_arcs = 0
        with within_memory("BFS on these rows"):
            self._out = hold(out, weighted=False)
            self._into = self._out if into is out else hold(into, weighted=False)
            self._steps = Steps("bfs_rank.cu")
            self._parent, self._queue = (cupy.empty(rows, _IDS) for _ in range(2))
            self._level = cupy.empty(rows, np.int32)
            self._never, self._visited, self._found = (
                cupy.empty(self._words, np.uint32) for _ in range(3)
            )
        sizes = np.uint32(rows), np.uint32(self._words)
        self._steps.launch(
            "never_claimed", self._words * 32, *sizes, self._into.offsets, self._never
        )

    @within_memory(_STEP)
    def start(self, root: int) -> None:
        """Forget everything, and claim the root if this rank owns it."""
        self._parent.fill(_NONE)
        self._level.fill(-1)
        self._visited[...] = self._never
        self._depth, row = -1, owned_row(root, self._dealing)
        self._steps.clear()
        if row is not None:
            at, listed = (np.uint32(row), np.uint32(root)), (self._queue, self._steps.counts)
            self._steps.launch("claim_root", 1, *at, self._parent, *listed)
        self._settle(int(row is not None))

    def _settle(self, most: int) -> None:
        """Make the rows just listed, ``most`` of them, the frontier."""
        self._depth += 1
        self._found.fill(0)
        self._steps.launch(
            "settle_rows",
            most,
            self._queue,
            self._out.offsets,
            np.int32(self._depth),
            self._visited,
            self._found,
            self._level,
            self._steps.counts,
        )
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
        """Neighbours of the own frontier not visited yet, their parents; arcs examined.

        In any order.
        """
        if not self._frontier_arcs:
            return np.empty(0, _IDS), np.empty(0, _IDS), 0
        cupy, steps = cuda(), self._steps
        steps.clear()
        arcs = cupy.empty(self._count, np.uint64)
        steps.launch(
            "list_found",
            self._words * 32,
            *(np.uint32(self._words), self._found, self._out.offsets),
            *(self._queue, arcs, steps.counts),
        )
        target = cupy.empty(min(self._frontier_arcs, self.vertices), _IDS)
        best = cupy.full(self.vertices, _NONE, _IDS)
        steps.launch(
            "push_rows",
            threads_for(self._frontier_arcs),
            *(np.uint32(self._count), starts_of(arcs), self._queue),
            *(self._out.offsets, self._out.neighbors, *dealt(self._dealing)),
            *(shared.visited, best, target, steps.counts),
        )
        target = target[: steps.fetch()[EMITTED]]
        return target.get(), best[target].get(), self._frontier_arcs

    @within_memory(_STEP)
    def claim(self, target: AnyArray, parent: AnyArray) -> None:
        """Make own rows among ``target`` the new frontier; the smallest parent counts."""
        self._steps.clear()
        if len(target):
            self._steps.launch(
                "claim_rows",
                len(target),
                *(np.uint64(len(target)), uploaded([target], _IDS), uploaded([parent], _IDS)),
                *(np.uint32(self._dealing.shards), self._visited, self._parent),
                *(self._queue, self._steps.counts),
            )
        self._settle(len(target))

    @within_memory(_STEP)
    def pull(self, shared: CudaBfsShared) -> int:
        """Find the unvisited own rows next to the frontier; return arcs examined."""
        self._depth += 1
        self._steps.clear()
        self._steps.launch(
            "pull_rows",
            self._words * 32,
            *(np.uint32(self._dealing.rows), np.uint32(self._words)),
            *(self._into.offsets, self._into.neighbors, self._out.offsets, shared.frontier),
            *(np.int32(self._depth), self._visited, self._found, self._parent, self._level),
            self._steps.counts,
        )
        return self._count_found()

    def tree(
        self, vertices: Sequence[int], arcs: Sequence[int], direction: Sequence[int]
    ) -> BfsTree:
        """Answer for the own rows, in local order; copied to host memory."""
        return BfsTree(
            self._parent.get(),
            self._level.get(),
            0.0,
            np.array(vertices, np.int64),
            np.array(arcs, np.int64),
            np.array(direction, np.int8),
        )
