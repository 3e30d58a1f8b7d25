"""SSSP steps on one shard of many (CUDA).

As on the CPU, distances live in the process's shared replica, which only its `merge` changes.
State stays on the device; what goes to other ranks and comes from them is in host memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.sssp.distances import BaseSsspRank, Payload
from ooc_graph.kernels.common.sssp.rows import Known
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.shares import RankRows
from ooc_graph.kernels.cuda.runtime.steps import (
    AGAIN,
    ARCS,
    EMITTED,
    EXAMINED,
    KEPT,
    LISTED,
    Steps,
    dealt,
    ids_of,
    starts_of,
    threads_for,
    values_at,
)
from ooc_graph.kernels.cuda.sssp.row_queue import Queued, RowQueue
from ooc_graph.kernels.cuda.sssp.shared import STEP, CudaSsspShared, constants
from ooc_graph.types import AnyArray, Dealing


class CudaSsspRank(BaseSsspRank):
    """SSSP steps on the rows of one shard; buffers for the own rows are allocated once.

    They take 12 bytes and two ids a row beside the rows. A push takes as much as the distances of
    the whole graph while it lasts, and an id for each vertex that it tells of. Ids are of 32 bits,
    from 2**32 vertices on of 64 (`ooc_graph.layout.names.id_dtype`).

    Rows are light-first, with weights that `known_of` takes. Errors are as of `CudaBfsRank`.
    """

    def __init__(self, dealing: Dealing, rows: RankRows, known: Known) -> None:
        cupy, count = cuda(), dealing.rows
        assert rows.weights is not None
        ids = ids_of(dealing.vertices)
        super().__init__(dealing, rows.arcs, ids, rows.weights, known)
        dtype = self._top.dtype
        self._rows, self._dealt = np.uint32(count), dealt(dealing)
        self._heaviest = dtype.type(known.heaviest)
        self._out, self._into, self._out_offsets = rows.out, rows.into, rows.offsets
        with within_memory("SSSP on these rows"):
            types = constants(rows.weights, dtype, ids)
            self._steps = Steps("sssp_rank.cu", {**types, **rows.constants})
            self._parent = cupy.empty(count, ids)
            self._queue = RowQueue(self._steps, self._out, self._dealt, ids, self._top)

    def start(self) -> None:
        """Forget everything."""
        self.drop_pending()
        self._left = 0
        self._parent.fill(np.iinfo(self._ids).max)

    def drop_pending(self) -> None:
        """Forget the rows that wait above the bound."""
        self._queue.drop()

    @within_memory(STEP)
    def push(self, shared: CudaSsspShared, bound: float) -> tuple[Payload, int, int]:
        """Candidates up to ``bound`` from own rows just improved or pending.

        Each vertex once with its smallest candidate, in any order; ``again`` counts them all.
        """
        limit, steps = self._top.dtype.type(bound), self._steps
        queued = self._measure(shared, limit)
        if not queued.most:
            return self.nothing(self._least_waiting(queued)), 0, 0
        with shared.turn:
            target = cuda().empty(min(queued.most, self.vertices), self._ids)
            best = cuda().full(self.vertices, self._top, self._top.dtype)
            steps.clear()
            self._offer(shared, queued, limit, best, target)
            counts = steps.fetch()
            target = target[: counts[EMITTED]]
            listed = target.get(), values_at(best, target)
        smallest = self.nothing(self._least_waiting(queued))[2]
        return (*listed, smallest), queued.examined + counts[EXAMINED], counts[AGAIN]

    def _measure(self, shared: CudaSsspShared, bound: Any) -> Queued:
        """Queue rows, and measure which of their arcs have candidates up to the bound."""
        return self._queue.measure(shared.improved, shared.distance, bound)

    def _least_waiting(self, queued: Queued) -> Any:
        """Smallest candidate of all rows that wait for a higher bound."""
        return queued.least

    def _offer(
        self, shared: CudaSsspShared, queued: Queued, bound: Any, best: Any, target: Any
    ) -> None:
        """List vertices that the queue improves; ``best`` has the smallest candidate of each."""
        del bound  # all arcs that were measured are within it
        queue = np.uint32(len(queued.arcs)), starts_of(queued.arcs), self._queue.rows, queued.first
        rows = self._out.neighbors, self._out.weights, *self._dealt, shared.distance, self._top
        listed = best, target, self._steps.counts
        self._steps.launch("push_arcs", threads_for(queued.examined), *queue, *rows, *listed)

    @within_memory(STEP)
    def pull(self, shared: CudaSsspShared, final: float, floor: float) -> tuple[Payload, int, int]:
        """Own rows beyond ``final`` that improve; their out-arcs; arcs examined."""
        cupy, steps, kind = cuda(), self._steps, self._top.dtype.type
        target = cupy.empty(int(self._rows), self._ids)
        found = cupy.empty(int(self._rows), self._top.dtype)
        steps.clear()
        self._find_nearer(shared, kind(final), kind(floor), target, found)
        counts = steps.fetch()
        count = counts[EMITTED]
        payload = target[:count].get(), found[:count].get(), np.array([self._top])
        return payload, counts[ARCS], counts[EXAMINED]

    def _find_nearer(
        self, shared: CudaSsspShared, final: Any, floor: Any, target: Any, found: Any
    ) -> None:
        """List the rows that improve and their distances."""
        rows = self._rows, *self._dealt, self._out_offsets, *self._in_rows, shared.distance
        given = final, floor, self._top, target, found, self._steps.counts
        self._steps.launch("pull_rows", int(self._rows), *rows, *given)

    @within_memory(STEP)
    def find_parents(self, shared: CudaSsspShared, root: int) -> tuple[AnyArray, int]:
        """Find the parents; vertices left on plateaus, in any order, and arcs examined."""
        cupy, steps, rows = cuda(), self._steps, int(self._rows)
        steps.clear()
        examined = self._choose_parents(shared, self._ids.type(root))
        left, ids = self._queue.lists[0], cupy.empty(rows, self._ids)
        found = shared.distance, self._top, self._parent
        given = self._rows, *self._dealt, *found, left, ids, steps.counts
        steps.clear()
        steps.launch("list_left", rows, *given)
        self._left = steps.fetch()[LISTED]
        return ids[: self._left].get(), examined

    def _choose_parents(self, shared: CudaSsspShared, root: Any) -> int:
        """Find the parents that are nearer to the root than their rows; arcs examined."""
        cupy, steps, rows, into = cuda(), self._steps, int(self._rows), self._into
        arcs, nearest = cupy.empty(rows, np.uint64), cupy.empty(rows, self._top.dtype)
        given = self._rows, *self._dealt, into.offsets, into.weights, shared.distance, root
        measured = self._top, arcs, nearest, self._parent, steps.counts
        steps.launch("measure_rows", rows, *given, *measured)
        examined, starts = steps.fetch()[EXAMINED], starts_of(arcs)
        del arcs, measured
        offered = self._rows, starts, *self._dealt, *self._in_rows, shared.distance, self._top
        for choose in range(2):
            found = np.uint32(choose), nearest, self._parent
            steps.launch("offer_parents", threads_for(examined), *offered, *found)
        return examined

    @within_memory(STEP)
    def resolve(self, shared: CudaSsspShared) -> AnyArray:
        """Vertices on plateaus that are next to one that has a parent, and take it; any order."""
        steps, (left, kept) = self._steps, self._queue.lists
        solved = cuda().empty(self._left, self._ids)
        steps.clear()
        self._resolve(shared, left, kept, solved)
        counts = steps.fetch()
        self._queue.lists, self._left = [kept, left], counts[KEPT]
        found: AnyArray = solved[: counts[EMITTED]].get()
        return found

    def _resolve(self, shared: CudaSsspShared, left: Any, kept: Any, solved: Any) -> None:
        """Part the rows that are left into those that find a parent, by id, and the others."""
        listed = np.uint64(self._left), left, *self._dealt
        plateau = *self._in_rows, shared.distance, self._top, shared.waiting, self._parent
        counts = self._steps.counts
        self._steps.launch("resolve_rows", self._left * 32, *listed, *plateau, kept, solved, counts)

    @property
    def _in_rows(self) -> tuple[Any, Any, Any]:
        """The in-rows as kernels are given them."""
        return self._into.offsets, self._into.neighbors, self._into.weights

    def overflowed(self, shared: CudaSsspShared) -> bool:
        """Tell whether a shortest distance from here exceeds the distances' dtype."""
        self._steps.clear()
        rows = self._rows, *self._dealt, self._out.offsets, self._out.neighbors
        given = shared.distance, self._heaviest, self._top, self._steps.counts
        self._steps.launch("find_overflow", int(self._rows) * 32, *rows, *given)
        return self._steps.fetch()[LISTED] > 0

    def distances(self, shared: CudaSsspShared) -> AnyArray:
        """Distances of the own rows in host memory; CuPy's error if the device's is too small."""
        own = cuda().empty(int(self._rows), self._top.dtype)
        self._steps.launch("take_own", len(own), self._rows, *self._dealt, shared.distance, own)
        distances: AnyArray = own.get()
        return distances

    @within_memory(STEP)
    def tree(self, shared: CudaSsspShared, phase_arcs: dict[str, int]) -> SsspTree:
        """Answer for the own rows, in local order; copied to host memory."""
        return SsspTree(self._parent.get(), self.distances(shared), 0.0, phase_arcs)
