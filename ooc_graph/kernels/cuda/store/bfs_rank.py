"""BFS steps on one shard of which only the heads of the rows are on the device (CUDA).

A step goes along all heads first, with the steps of the ranks on the device, and then along the
arcs that are fetched for the rows that want more. As on the CPU, nothing is pushed before the
direction of a level is known: that would read the store in vain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ooc_graph.kernels.cuda.bfs.rank import CudaBfsRank, CudaBfsShared
from ooc_graph.kernels.cuda.runtime.steps import dealt
from ooc_graph.kernels.cuda.runtime.table import TargetTable
from ooc_graph.kernels.cuda.store.rank_rows import StoreRows, rank_rows
from ooc_graph.types import Dealing


class CudaStoreBfsRank(CudaBfsRank):
    """BFS steps on the rows of one shard, which are hub-first, and whose tails are in a store.

    The head of every row has its first arc. ``out`` and ``into`` are the same object if the graph
    is undirected. Errors are as of `CudaBfsRank`, and those of reading the store.
    """

    def __init__(self, dealing: Dealing, out: StoreRows, into: StoreRows) -> None:
        super().__init__(dealing, rank_rows(out, into))
        self._out_rows, self._into_rows = out, into
        self.most_at_once = 0

    def _put(self, shared: CudaBfsShared, table: TargetTable) -> Iterator[None]:
        yield from super()._put(shared, table)
        given = *dealt(self._dealing), shared.visited, *table.arguments, *table.columns
        scanned = self._out_rows.scanned(
            self._found,
            "push_fetched",
            *given,
            self._pushes.counts,
            room=table.make_room,
        )
        for _ in scanned:
            if table.has_moved:
                yield

    def _find(self, shared: CudaBfsShared) -> None:
        super()._find(shared)
        tree = self._visited, self._found, self._parent, self._level
        given = self._out_offsets, shared.frontier, np.int32(self._depth), *tree
        self._into_rows.scan(~self._visited, "pull_fetched", *given, self._steps.counts)
