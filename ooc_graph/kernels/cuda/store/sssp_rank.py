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
from ooc_graph.kernels.cuda.runtime.steps import EXAMINED, LISTED, least
from ooc_graph.kernels.cuda.sssp.rank import CudaSsspRank
from ooc_graph.kernels.cuda.sssp.row_queue import Queued
from ooc_graph.kernels.cuda.sssp.shared import CudaSsspShared
from ooc_graph.kernels.cuda.store.rank_rows import StoreRows, rank_rows
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
        with within_memory("SSSP on these rows"):
            # Of rows whose heads are exhausted: the next arc, and its candidate if that is above
            # the bound. Then the rows wait; those that go on now want arcs.
            self._cursor = cupy.empty(rows, np.uint32)
            self._later, self._nearest = (cupy.empty(rows, self._top.dtype) for _ in range(2))
            self._in_tails, self._wanting = (cupy.empty(self._words, np.uint32) for _ in range(2))

    def drop_pending(self) -> None:
        """Forget the rows that wait above the bound."""
        super().drop_pending()
        self._in_tails.fill(0)

    def _step(self, name: str, threads: int, *arguments: Any) -> None:
        """Launch a step on these rows that is not along what was fetched."""
        self._out_rows.steps.launch(name, threads, *arguments)

    def _over_rows(self, name: str, *arguments: Any) -> None:
        self._step(name, 32 * self._words, *self._sizes, *self._dealt, *arguments)

    def _measure(self, shared: CudaSsspShared, bound: Any) -> Queued:
        """As of `CudaSsspRank`; the rows that want arcs of their tails are those ``wanting``."""
        count, waiting = len(shared.improved), self._in_tails
        self._step("leave_tails", count, np.uint64(count), shared.improved, *self._dealt, waiting)
        words = np.uint32(self._words)
        given = words, self._later, bound, waiting, self._wanting
        self._step("enter_tails", 32 * self._words, *given)
        queued = super()._measure(shared, bound)
        queue = self._queue
        heads = queue.rows, self._out.offsets, self._out_rows.longer, queue.taken
        tails = self._cursor, self._wanting, self._steps.counts
        self._step("note_exhausted", len(queued.arcs), *heads, *tails)
        return queued._replace(most=self.vertices) if self._wanting.any() else queued

    def _offer(
        self, shared: CudaSsspShared, queued: Queued, bound: Any, best: Any, target: Any
    ) -> None:
        super()._offer(shared, queued, bound, best, target)
        given = *self._dealt, shared.distance, bound, self._top, best, target
        tails = self._cursor, self._later, self._in_tails
        counts, cursor = self._steps.counts, self._cursor
        self._out_rows.scan(self._wanting, "push_fetched", *given, *tails, counts, cursor=cursor)

    def _least_waiting(self, queued: Queued) -> Any:
        steps = self._steps
        steps.clear()
        given = np.uint32(self._words), self._in_tails, self._later, self._top
        self._step("least_later", 32 * self._words, *given, steps.counts)
        return min(queued.least, least(steps.fetch(), self._top))

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
