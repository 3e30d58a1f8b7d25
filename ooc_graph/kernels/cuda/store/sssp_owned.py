"""SSSP steps of a rank that has the distances of its own rows alone, and their heads (CUDA).

A push goes along the heads with the steps of the ranks that have all arcs, until nothing changes.
Rows whose heads are exhausted then go on along their tails, which are fetched from the store: the
same kernels push along these. What improves is pushed along the heads again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ooc_graph.kernels.common.sssp.owned import SharedSettled
from ooc_graph.kernels.common.sssp.rows import Known
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.steps import LISTED, starts_of
from ooc_graph.kernels.cuda.sssp.owned import CudaOwnedSsspRank
from ooc_graph.kernels.cuda.sssp.owned_push import WHOLE, Round
from ooc_graph.kernels.cuda.sssp.shared import STEP
from ooc_graph.kernels.cuda.store.rank_rows import StoreRows, rank_rows
from ooc_graph.kernels.cuda.store.tails import Tails
from ooc_graph.types import AnyArray, Dealing, IntArray


class CudaStoreOwnedSsspRank(CudaOwnedSsspRank):
    """SSSP steps on the rows of one shard, which are light-first, and whose tails are in a store.

    The head of every row has its first arc. Rows take 4 bytes, a distance and two bits more than of
    `CudaOwnedSsspRank`. Errors are as there, and those of reading the store.
    """

    def __init__(self, dealing: Dealing, out: StoreRows, known: Known, *, directed: bool) -> None:
        rows = rank_rows(out, out)
        super().__init__(dealing, rows, known, directed=directed)
        self._store, self._offsets = out, rows.offsets
        self._tails = Tails(out, WHOLE, self._top)

    def begin(self, root: int, bound: float, distance: AnyArray | None, most_listed: int) -> None:
        """As of `CudaOwnedSsspRank`."""
        self._tails.drop()
        super().begin(root, bound, distance, most_listed)

    def _raise_bound(self, bound: Any) -> None:
        super()._raise_bound(bound)
        self._tails.enter(bound)

    def _measure(self, improved: int) -> None:
        self._tails.leave(self._improved[:improved])
        super()._measure(improved)
        self._note_exhausted()

    def _note_exhausted(self) -> None:
        """Have the rows of this round go on along their tails that take all of their heads."""
        self._tails.note_exhausted(self._round.queue[2], self._queue.taken)

    def _push_rows(self, settled: Any) -> tuple[int, list[int]]:
        """Push along heads and tails; as of `CudaOwnedSsspRank`."""
        examined, counts = super()._push_rows(settled)
        while self._at == self._round.end and self._goes_on():
            examined += self._scan(self._bound, partial(self._push_along, settled=settled))
            more, counts = super()._push_rows(settled)
            examined += more
        return examined, counts

    def _goes_on(self) -> bool:
        """Whether rows want arcs of their tails, and the table has room."""
        return self._wants() and not self._is_full()

    def _wants(self) -> bool:
        return bool(self._tails.wanting.any())

    def _is_full(self) -> bool:
        """Whether the table is to be emptied before what is fetched next."""
        return 2 * self._entries().free < self._entries().entries

    def _still_to_go(self, improved: int) -> int:
        return super()._still_to_go(improved) + int(self._wants())

    def _smallest_beyond(self) -> Any:
        return min(super()._smallest_beyond(), self._tails.smallest(self._steps))

    def _scan(self, bound: Any, go_along: Callable[[Round, int], int]) -> int:
        """Go along the tails that are wanted, until the table is full; arcs examined."""
        tails, examined, is_full = self._tails, 0, False

        def launch(asked: IntArray, fetched: tuple[Any, ...]) -> None:
            nonlocal examined, is_full
            going = self._measured(len(asked), fetched, bound)
            end = go_along(going, 0)
            passed = np.uint64(end), going.queue[1], *going.pushed, self._top, self._offsets
            moved = tails.cursor, tails.later, tails.waiting, tails.wanting
            self._store.steps.launch("pass_fetched", len(asked), *fetched, *passed, *moved)
            examined, is_full = examined + end, end < going.end or self._is_full()

        for _ in self._store.fetched(
            tails.wanting, launch, cursor=tails.cursor, is_done=lambda: is_full
        ):
            pass
        return examined

    def _measured(self, count: int, fetched: tuple[Any, ...], bound: Any) -> Round:
        """The arcs, of those that were fetched, that lead to candidates up to the bound."""
        cupy = cuda()
        first, weighs, arcs = (cupy.empty(count, np.uint64) for _ in range(3))
        at = cupy.empty(count, self._top.dtype)
        given = self._distance, bound, self._top, first, weighs, at, arcs
        self._store.steps.launch("measure_fetched", count, *fetched, *given)
        number, requests, neighbors, weights, _ = fetched
        starts = starts_of(arcs)
        # A request's first word is its row.
        queue = number, starts, requests[:count], first
        return Round(queue, (weighs, at), (neighbors, weights), int(starts[-1].get()))

    def _begin_hop(self, count: int) -> None:
        super()._begin_hop(count)
        self._note_exhausted()

    def _offer_rows(self) -> int:
        """Have rows offer themselves along heads and tails; as of `CudaOwnedSsspRank`."""
        examined = super()._offer_rows()
        if self._at == self._round.end and self._goes_on():
            # Those that wait then are done: no bound rises any more.
            examined += self._scan(self._kind(0), self._offer_along)
        return examined

    def _still_to_offer(self) -> int:
        return super()._still_to_offer() + int(self._wants())

    @within_memory(STEP)
    def may_reach_more(self, shared: SharedSettled) -> bool:
        """Whether own rows that are left may have a neighbour that is settled."""
        if super().may_reach_more(shared):
            return True
        return self._looks("note_beyond", (self._low,), shared.settled, wanted=True)

    @within_memory(STEP)
    def overflowed(self, shared: SharedSettled) -> bool:
        """Tell whether a shortest distance from here exceeds the distances' dtype."""
        if super().overflowed(shared):
            return True
        farthest = self._kind(self._known.heaviest), self._top
        return self._looks("note_far", farthest, shared.settled, wanted=False)

    def _looks(self, name: str, bounds: tuple[Any, ...], settled: Any, *, wanted: bool) -> bool:
        """Whether a neighbour along the tails of some rows, which a kernel notes, is settled."""
        store, counts = self._store, self._steps.counts
        some = cuda().empty(self._words, np.uint32)
        given = store.longer, self._distance, *bounds, some
        sizes = self._rows, np.uint32(self._words), *WHOLE
        store.steps.launch(name, self._words * 32, *sizes, *given)
        self._steps.clear()

        def launch(asked: IntArray, fetched: tuple[Any, ...]) -> None:
            given = *fetched, settled, np.uint32(wanted), counts
            store.steps.launch("look_fetched", 32 * len(asked), *given)

        def is_found() -> bool:
            return self._steps.fetch()[LISTED] > 0

        for _ in store.fetched(some, launch, is_done=is_found):
            pass
        return is_found()
