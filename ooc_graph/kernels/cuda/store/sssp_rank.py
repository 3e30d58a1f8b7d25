"""SSSP steps on one shard of which only the heads of the rows are on the device (CUDA).

A push goes along the heads with the steps of the ranks on the device, as if there were no other
arcs. A row whose head is exhausted goes on along its tail, where it has a cursor of its own. All
other steps go along the heads, and then along the tails of the rows that want more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.common.sssp.rows import Known
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.steps import EXAMINED, LISTED
from ooc_graph.kernels.cuda.sssp.rank import CudaSsspRank
from ooc_graph.kernels.cuda.sssp.row_queue import Queued
from ooc_graph.kernels.cuda.sssp.shared import CudaSsspShared
from ooc_graph.kernels.cuda.store.rank_rows import StoreRows, rank_rows
from ooc_graph.kernels.cuda.store.tails import Tails
from ooc_graph.types import Dealing


class CudaStoreSsspRank(CudaSsspRank):
    """SSSP steps on the rows of one shard, which are light-first, and whose tails are in a store.

    The head of every row has its first arc. ``out`` and ``into`` are the same object if the graph
    is undirected. Rows take 4 bytes, two distances and three bits more than of `CudaSsspRank`.
    Errors are as there, and those of reading the store.
    """

    def __init__(self, dealing: Dealing, out: StoreRows, into: StoreRows, known: Known) -> None:
        super().__init__(dealing, rank_rows(out, into), known)
        self._out_rows, self._into_rows = out, into
        cupy, rows = cuda(), dealing.rows
        self._words = 2 * words_for(rows)
        self._sizes = self._rows, np.uint32(self._words)
        self._tails = Tails(out, self._dealt, self._top)
        # Rows that want arcs, of either side.
        self._wanting = self._tails.wanting
        with within_memory("SSSP on these rows"):
            self._nearest = cupy.empty(rows, self._top.dtype)

    def drop_pending(self) -> None:
        """Forget the rows that wait above the bound."""
        super().drop_pending()
        self._tails.drop()

    def _step(self, name: str, threads: int, *arguments: Any) -> None:
        """Launch a step on these rows that is not along what was fetched."""
        self._out_rows.steps.launch(name, threads, *arguments)

    def _over_rows(self, name: str, *arguments: Any) -> None:
        self._step(name, 32 * self._words, *self._sizes, *self._dealt, *arguments)

    def _measure(self, shared: CudaSsspShared, bound: Any) -> Queued:
        """As of `CudaSsspRank`; the rows that want arcs of their tails are those ``wanting``."""
        self._tails.leave(shared.improved)
        self._tails.enter(bound)
        queued = super()._measure(shared, bound)
        self._tails.note_exhausted(self._queue.rows[: len(queued.arcs)], self._queue.taken)
        return queued._replace(most=self.vertices) if self._wanting.any() else queued

    def _offer(
        self, shared: CudaSsspShared, queued: Queued, bound: Any, best: Any, target: Any
    ) -> None:
        super()._offer(shared, queued, bound, best, target)
        given = *self._dealt, shared.distance, bound, self._top, best, target
        tails = self._tails
        moved = tails.cursor, tails.later, tails.waiting, self._steps.counts
        self._out_rows.scan(tails.wanting, "push_fetched", *given, *moved, cursor=tails.cursor)

    def _least_waiting(self, queued: Queued) -> Any:
        return min(queued.least, self._tails.smallest(self._steps))

    @property
    def _heads(self) -> tuple[Any, ...]:
        """Heads of the in-rows as kernels are given them."""
        return *self._in_rows, self._into_rows.longer

    def _find_nearer(
        self, shared: CudaSsspShared, final: Any, floor: Any, target: Any, found: Any
    ) -> None:
        into, counts, distance = self._into_rows, self._steps.counts, shared.distance
        bounds, best, more = (final, floor, self._top), self._nearest, self._wanting
        self._over_rows("pull_heads", *self._heads, distance, *bounds, best, more, counts)
        into.scan(more, "pull_fetched", distance, *bounds[1:], best, counts)
        known = self._out_offsets, best, distance
        given = self._rows, *self._dealt, *known, target, found, counts
        self._step("list_nearer", int(self._rows), *given)

    def _choose_parents(self, shared: CudaSsspShared, root: Any) -> int:
        into, steps, distance = self._into_rows, self._steps, shared.distance
        found, more = (self._nearest, self._parent), self._wanting
        given = distance, root, self._top, *found, more, steps.counts
        self._over_rows("parent_heads", *self._heads, *given)
        given = *self._dealt, distance, self._top, *found, steps.counts
        into.scan(more, "parent_fetched", *given)
        return steps.fetch()[EXAMINED]

    def _resolve(self, shared: CudaSsspShared, left: Any, kept: Any, solved: Any) -> None:
        into, more, plateau = self._into_rows, self._wanting, (shared.distance, self._top)
        more.fill(0)
        listed = np.uint64(self._left), left, *self._dealt
        found = shared.waiting, self._parent
        given = *listed, *self._heads, *plateau, *found, more
        self._step("plateau_heads", 32 * self._left, *given)
        into.scan(more, "plateau_fetched", *self._dealt, *plateau, *found)
        given = *listed, self._parent, kept, solved, self._steps.counts
        self._step("split_left", self._left, *given)

    def overflowed(self, shared: CudaSsspShared) -> bool:
        """As of `CudaSsspRank`."""
        if super().overflowed(shared):
            return True
        out, far, steps = self._out_rows, self._wanting, self._steps
        top = self._top
        self._over_rows("note_far", out.longer, shared.distance, self._heaviest, top, far)
        out.scan(far, "lose_fetched", shared.distance, top, steps.counts)
        return steps.fetch()[LISTED] > 0
