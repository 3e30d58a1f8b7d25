"""BFS steps on one shard of which only the heads of the rows are on the device (CUDA).

A step goes along all heads first, with the steps of the ranks on the device, and then along the
arcs that are fetched for the rows that want more. As on the CPU, nothing is pushed before the
direction of a level is known: that would read the store in vain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.cuda.bfs.rank import CudaBfsRank, CudaBfsShared
from ooc_graph.kernels.cuda.runtime.steps import dealt
from ooc_graph.kernels.cuda.store.rank_rows import StoreRows, rank_rows
from ooc_graph.types import AnyArray, Dealing


class CudaStoreBfsRank(CudaBfsRank):
    """BFS steps on the rows of one shard, which are hub-first, and whose tails are in a store.

    The head of every row has its first arc. ``out`` and ``into`` are the same object if the graph
    is undirected. Errors are as of `CudaBfsRank`, and those of reading the store.
    """

    is_pushing = False
    """The whole frontier is pushed at once."""

    def __init__(self, dealing: Dealing, out: StoreRows, into: StoreRows) -> None:
        super().__init__(dealing, rank_rows(out, into))
        self._out_rows, self._into_rows = out, into

    def begin_push(self) -> None:
        """Have the own frontier pushed."""
        self.is_pushing = True

    def push(self, shared: CudaBfsShared) -> tuple[AnyArray, AnyArray, int]:
        """As of `CudaBfsRank`."""
        self.is_pushing = False
        return super().push(shared)

    def _offer(self, shared: CudaBfsShared, best: Any, target: Any) -> None:
        super()._offer(shared, best, target)
        given = *dealt(self._dealing), shared.visited, best, target, self._steps.counts
        self._out_rows.scan(self._found, "push_fetched", *given)

    def _find(self, shared: CudaBfsShared) -> None:
        super()._find(shared)
        tree = self._visited, self._found, self._parent, self._level
        given = self._out_offsets, shared.frontier, np.int32(self._depth), *tree
        self._into_rows.scan(~self._visited, "pull_fetched", *given, self._steps.counts)
