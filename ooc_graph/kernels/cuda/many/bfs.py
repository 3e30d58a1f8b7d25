"""BFS from many sources on a CUDA device that holds a graph whole: twin of `CpuManyBfs`.

Batches are given up for single searches where these take less time, which is tried once a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.bitmap import pack_bits
from ooc_graph.kernels.common.completion import OnDone, batches_of, raise_if_cancelled
from ooc_graph.kernels.common.many.sources import empty_tallies, tally_levels, write_levels
from ooc_graph.kernels.common.tuning import WORTH
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.many.bfs_batch import BfsBatches, Counting
from ooc_graph.kernels.cuda.many.host import HostAnswers
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.rows import rows_on_device
from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray, Rows

TIMED = 3
"""Single searches that are timed where few sources meet; one more comes before."""
TRIED_FROM = 2
"""Batches that a trial is worth."""
_WHAT = "BFS from many sources"


class CudaManyBfs:
    """Levels from any number of sources, with the bytes of the CPU.

    Rows are hub-first, of out- and in-arcs, in host memory (copied) or on the device (the same
    object when undirected); ``threads`` of the CPU copy answers.
    """

    dtype: np.dtype[Any] = np.dtype(np.int32)

    def __init__(self, out: Rows, into: Rows, *, threads: int = 1) -> None:
        cuda()
        with within_memory(_WHAT):
            self._out = rows_on_device(out, weighted=False)
            self._into = self._out if into is out else rows_on_device(into, weighted=False)
            batches = BfsBatches(self._out, self._into)
        # None where batches were given up.
        self._answers: HostAnswers | None = HostAnswers(batches, threads)
        self.batches: BfsBatches | None = batches
        self._singly: CudaBfsSearch | None = None
        self._is_tried = False

    @property
    def vertices(self) -> int:
        """Rows of the graph."""
        return self._into.rows

    @property
    def is_one_by_one(self) -> bool:
        """Whether batches were given up for single searches."""
        return self.batches is None

    def run(
        self,
        sources: IntArray,
        answer: AnyArray | None = None,
        *,
        batch_size: int | None = None,  # noqa: ARG002 (the device has its own)
        most: int | None = None,
        on_done: OnDone | None = None,
    ) -> AnyArray:
        """Levels of all rows, int32 (sources, rows), by internal id as of `CpuManyBfs.run`."""
        if answer is None:
            answer = np.empty((len(sources), self.vertices), self.dtype)
        self._levels(sources, None, most, INT32_UNREACHED, answer, None, on_done)
        return answer

    def run_columns(
        self,
        sources: IntArray,
        targets: IntArray,
        own: IntArray,  # noqa: ARG002 (a source's own level is 0 by itself)
        most: int | None = None,
        *,
        answer: AnyArray | None = None,
        at: IntArray | None = None,
        on_done: OnDone | None = None,
    ) -> AnyArray:
        """Levels to some vertices as `CudaJohnson.run_columns` gives distances: int32, -1 for none.

        If ``most`` is less than 0, nobody is reached.
        """
        if answer is None:
            answer = np.empty((len(sources), len(targets)), self.dtype)
        self._levels(sources, targets, most, -1, answer, at, on_done)
        return answer

    def tally(
        self,
        sources: IntArray,
        *,
        batch_size: int | None = None,  # noqa: ARG002
        most: int | None = None,
        wanted: AnyArray | None = None,
        bins: int = 0,
        width: int = 1,
        tallies: IntArray | None = None,
        on_done: OnDone | None = None,
    ) -> IntArray:
        """Count what each source reaches; parameters and answer as of `CpuManyBfs.tally`."""
        if tallies is None:
            tallies = empty_tallies(len(sources), bins)
        chosen = np.ones(self.vertices, np.bool_) if wanted is None else wanted
        last, rows = INT32_UNREACHED - 1 if most is None else most, tallies
        with within_memory(_WHAT):
            batches = self._batches_for(sources)
            if batches is not None:
                self._count(batches, sources, chosen, last, width, tallies, on_done)
                return tallies

        def take(position: int, level: AnyArray) -> None:
            tally_levels(level, last, chosen, width, rows[position])

        self._each(sources, take, on_done)
        return tallies

    def _levels(
        self,
        sources: IntArray,
        targets: IntArray | None,
        most: int | None,
        far: int,
        answer: AnyArray,
        at: IntArray | None,
        on_done: OnDone | None,
    ) -> None:
        with within_memory(_WHAT):
            batches = self._batches_for(sources)
            if batches is not None and self._answers is not None:
                columns = batches.columns(targets, most, far)
                self._answers.run(sources, answer, columns, None, on_done, at)
                return
        last = INT32_UNREACHED - 1 if most is None else most
        rows = None if targets is None else np.maximum(targets, 0)
        found = np.empty(self.vertices, np.int32)

        def take(position: int, level: AnyArray) -> None:
            write_levels(level, last, found)
            row = found if rows is None else found[rows]
            missed = row == INT32_UNREACHED
            row[missed if targets is None else missed | (targets < 0)] = far
            answer[position if at is None else at[position]] = row

        self._each(sources, take, on_done)

    def _count(
        self,
        batches: BfsBatches,
        sources: IntArray,
        chosen: AnyArray,
        last: int,
        width: int,
        tallies: IntArray,
        on_done: OnDone | None,
    ) -> None:
        """Tally batch after batch, and bring what was counted to host memory."""
        cupy, bins = cuda(), tallies.shape[1] - 3
        wanted = cupy.asarray(pack_bits(chosen).view(np.uint32))
        for part in batches_of(len(sources), batches.slots, on_done):
            raise_if_cancelled()
            counted = cupy.zeros((part.stop - part.start, tallies.shape[1]), np.int64)
            batches.count(sources[part], last, Counting(wanted, bins, width, counted))
            tallies[part] = counted.get()
            del counted  # before the next batch's is allocated

    def _batches_for(self, sources: IntArray) -> BfsBatches | None:
        """Batches; None where single searches take less time, as is tried if it may pay."""
        batches = self.batches
        if batches is None or self._is_tried or len(sources) < TRIED_FROM * batches.slots:
            return batches
        self._is_tried = True
        elapsed_s, found = batches.try_out(sources[: batches.slots])
        if found["found"] >= WORTH * found["visits"]:
            return batches
        if self._single_s(sources[: 1 + TIMED]) * batches.slots >= elapsed_s:
            self._singly = None
            return batches
        # What they hold goes back.
        self._answers = self.batches = None
        return None

    def _single_s(self, sources: IntArray) -> float:
        """Seconds of a single search on the device; infinite where it has no room beside."""
        try:
            with within_memory(_WHAT):
                search = self._single()
                trees = [search.run_on_device(int(source)) for source in sources]
        except MemoryBudgetError:
            return np.inf
        return float(np.mean([tree.elapsed_s for tree in trees[1:]]))

    def _single(self) -> CudaBfsSearch:
        if self._singly is None:
            out = Rows(self._out.offsets, self._out.neighbors)
            into = Rows(self._into.offsets, self._into.neighbors)
            is_same = self._into is self._out
            self._singly = CudaBfsSearch(out, out if is_same else into, count_arcs=False)
        return self._singly

    def _each(
        self, sources: IntArray, take: Callable[[int, AnyArray], None], on_done: OnDone | None
    ) -> None:
        """Search one by one, and have levels taken: int32 (rows,), -1 unreached."""
        search = self._single()
        for part in batches_of(len(sources), 1, on_done):
            raise_if_cancelled()
            take(part.start, search.run(int(sources[part.start])).level)
