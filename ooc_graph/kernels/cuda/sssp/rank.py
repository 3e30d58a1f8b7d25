"""SSSP steps on one shard of many (CUDA).

As on the CPU, distances live in the process's shared replica, which only its `merge` changes.
State stays on the device; what goes to other ranks and comes from them is in host memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.sssp.distances import distance_dtype, overflow_error, unreached
from ooc_graph.kernels.common.sssp.survey import survey
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.rows import require_rows
from ooc_graph.kernels.cuda.runtime.shares import ON_DEVICE, OnDevice, Pinned
from ooc_graph.kernels.cuda.runtime.steps import (
    AGAIN,
    ARCS,
    EMITTED,
    EXAMINED,
    KEPT,
    LISTED,
    dealt,
    ids_of,
    least,
    owned_row,
    starts_of,
    threads_for,
    values_at,
)
from ooc_graph.kernels.cuda.sssp.shared import C_TYPES, STEP, CudaSsspShared, steps_for
from ooc_graph.types import AnyArray, Dealing, Rows

Payload = tuple[AnyArray, AnyArray, AnyArray]


class CudaSsspRank:
    """SSSP steps on the rows of one shard; buffers for the own rows are allocated once.

    They take 12 bytes and two ids a row beside the rows. A push takes as much as the distances of
    the whole graph while it lasts, and an id for each vertex that it tells of. Ids are of 32 bits,
    from 2**32 vertices on of 64 (`ooc_graph.layout.names.id_dtype`).

    Rows are light-first, to push and to pull along (the same object when undirected), with the
    input tuples at each row, in host memory; weights are float32, float64, int32 or int64, not
    negative. Others are refused (`UsageError`). ``tier`` and errors are as of `CudaBfsRank`.
    """

    def __init__(
        self,
        dealing: Dealing,
        out: Rows,
        into: Rows,
        tuples: AnyArray,
        tier: OnDevice | Pinned = ON_DEVICE,
    ) -> None:
        cupy, rows = cuda(), dealing.rows
        self._ids = ids = ids_of(dealing.vertices)
        require_rows(rows)
        weights = _require_weights(out)
        dtype = distance_dtype(weights)
        self.vertices, self.arcs = dealing.vertices, len(out.neighbors)
        self._dealing, self._rows, self._dealt = dealing, np.uint32(rows), dealt(dealing)
        self._survey, self._top = survey(out, tuples), unreached(dtype)[0]
        self._heaviest = dtype.type(weights.max(initial=0))
        self._pending = self._left = 0
        with within_memory("SSSP on these rows"):
            self._out = tier.hold(out, weighted=True, ids=ids)
            self._into = self._out
            if into is not out:
                self._into = tier.hold(into, weighted=True, ids=ids)
            self._steps = steps_for(weights.dtype, dtype, ids, tier)
            # Arcs relaxed with the distance that a row has, at most as many as there are vertices;
            # rows in the queue, as list and set; rows that wait for a higher bound, or for a
            # parent, and a list that takes turns.
            self._taken, self._parent = (cupy.empty(rows, ids) for _ in range(2))
            self._queue = cupy.empty(rows, np.uint32)
            self._waiting = [cupy.empty(rows, np.uint32) for _ in range(2)]
            self._queued = cupy.empty(2 * words_for(rows), np.uint32)

    def start(self) -> None:
        """Forget everything."""
        self.drop_pending()
        self._left = 0
        self._parent.fill(np.iinfo(self._ids).max)

    def survey(self) -> tuple[tuple[int, int, int, int], float]:
        """Tuples at the first rows and at all, first rows with spread weights and all; a step."""
        s = self._survey
        return (s.head_tuples, s.tuples, s.spread_rows, s.sampled_rows), s.step

    def nothing(self, smallest: float) -> Payload:
        """Payload that relaxes nothing."""
        dtype = self._top.dtype
        # The first step is a float64; beyond the largest float32 it is as good as infinite.
        with np.errstate(over="ignore"):
            near = np.array([min(self._top, smallest)], dtype)
        return np.empty(0, self._ids), np.empty(0, dtype), near

    def seed(self, root: int) -> Payload:
        """Payload that puts the root at distance 0, if this rank owns it."""
        if owned_row(root, self._dealing) is None:
            return self.nothing(self._top)
        dtype = self._top.dtype
        return np.array([root], self._ids), np.zeros(1, dtype), np.array([self._top], dtype)

    def drop_pending(self) -> None:
        """Forget the rows that wait above the bound."""
        self._queued.fill(0)
        self._pending = 0

    @within_memory(STEP)
    def push(self, shared: CudaSsspShared, bound: float) -> tuple[Payload, int, int]:
        """Candidates up to ``bound`` from own rows just improved or pending.

        Each vertex once with its smallest candidate, in any order; ``again`` counts them all.
        """
        most = min(len(shared.improved) + self._pending, int(self._rows))
        if not most:
            return self.nothing(self._top), 0, 0
        self._queue_rows(shared, self._top.dtype.type(bound))
        first, arcs = (cuda().empty(most, np.uint64) for _ in range(2))
        waiting, kept = self._waiting
        self._steps.launch(
            "measure_queue",
            most,
            *(self._queue, *self._dealt, self._out.offsets, self._out.weights, shared.distance),
            *(self._top.dtype.type(bound), self._top, self._taken, self._queued, kept),
            *(first, arcs, self._steps.counts),
        )
        counts = self._steps.fetch()
        self._waiting, self._pending = [kept, waiting], counts[KEPT]
        nothing = self.nothing(least(counts, self._top))
        if not counts[EXAMINED]:
            return nothing, 0, 0
        listed, examined = counts[LISTED], counts[EXAMINED]
        with shared.turn:
            target, found, again = self._emit(shared, first, arcs[:listed], examined)
        return (target, found, nothing[2]), examined, again

    def _queue_rows(self, shared: CudaSsspShared, bound: Any) -> None:
        """Queue own rows just improved, and pending ones with a candidate up to the bound."""
        steps, improved = self._steps, shared.improved
        waiting, kept = self._waiting
        steps.clear()
        steps.launch(
            "queue_improved",
            len(improved),
            *(np.uint64(len(improved)), improved, *self._dealt),
            *(self._taken, self._queued, self._queue, steps.counts),
        )
        steps.launch(
            "queue_waiting",
            self._pending,
            *(np.uint64(self._pending), waiting, *self._dealt),
            *(self._out.offsets, self._out.weights, shared.distance, bound, self._top),
            *(self._taken, self._queued, self._queue, kept, steps.counts),
        )

    def _emit(
        self, shared: CudaSsspShared, first: Any, arcs: Any, examined: int
    ) -> tuple[AnyArray, AnyArray, int]:
        """Vertices that the queue's arcs improve, their smallest candidates; improved again."""
        cupy, steps = cuda(), self._steps
        target = cupy.empty(min(examined, self.vertices), self._ids)
        best = cupy.full(self.vertices, self._top, self._top.dtype)
        steps.clear()
        steps.launch(
            "push_arcs",
            threads_for(examined),
            *(np.uint32(len(arcs)), starts_of(arcs), self._queue, first),
            *(self._out.neighbors, self._out.weights, *self._dealt, shared.distance, self._top),
            *(best, target, steps.counts),
        )
        counts = steps.fetch()
        target = target[: counts[EMITTED]]
        return target.get(), values_at(best, target), counts[AGAIN]

    @within_memory(STEP)
    def pull(self, shared: CudaSsspShared, final: float, floor: float) -> tuple[Payload, int, int]:
        """Own rows beyond ``final`` that improve; their out-arcs; arcs examined."""
        cupy, steps, kind = cuda(), self._steps, self._top.dtype.type
        target = cupy.empty(int(self._rows), self._ids)
        found = cupy.empty(int(self._rows), self._top.dtype)
        steps.clear()
        steps.launch(
            "pull_rows",
            int(self._rows),
            *(self._rows, *self._dealt, self._out.offsets, self._into.offsets),
            *(self._into.neighbors, self._into.weights, shared.distance),
            *(kind(final), kind(floor), self._top, target, found, steps.counts),
        )
        counts = steps.fetch()
        count = counts[EMITTED]
        payload = target[:count].get(), found[:count].get(), np.array([self._top])
        return payload, counts[ARCS], counts[EXAMINED]

    @within_memory(STEP)
    def find_parents(self, shared: CudaSsspShared, root: int) -> tuple[AnyArray, int]:
        """Find the parents; vertices left on plateaus, in any order, and arcs examined."""
        cupy, steps, rows = cuda(), self._steps, int(self._rows)
        arcs, nearest = cupy.empty(rows, np.uint64), cupy.empty(rows, self._top.dtype)
        place, into = (self._rows, *self._dealt), self._into
        steps.clear()
        steps.launch(
            "measure_rows",
            rows,
            *(*place, into.offsets, into.weights, shared.distance, self._ids.type(root), self._top),
            *(arcs, nearest, self._parent, steps.counts),
        )
        examined, starts = steps.fetch()[EXAMINED], starts_of(arcs)
        del arcs
        for choose in range(2):
            steps.launch(
                "offer_parents",
                threads_for(examined),
                *(self._rows, starts, *self._dealt, into.offsets, into.neighbors, into.weights),
                *(shared.distance, self._top, np.uint32(choose), nearest, self._parent),
            )
        del starts, nearest
        left, ids = self._waiting[0], cupy.empty(rows, self._ids)
        found = shared.distance, self._top, self._parent
        steps.launch("list_left", rows, *place, *found, left, ids, steps.counts)
        self._left = steps.fetch()[LISTED]
        return ids[: self._left].get(), examined

    @within_memory(STEP)
    def resolve(self, shared: CudaSsspShared) -> AnyArray:
        """Vertices on plateaus that are next to one that has a parent, and take it; any order."""
        steps, into = self._steps, self._into
        (left, kept), solved = self._waiting, cuda().empty(self._left, self._ids)
        steps.clear()
        steps.launch(
            "resolve_rows",
            self._left * 32,
            *(np.uint64(self._left), left, *self._dealt),
            *(into.offsets, into.neighbors, into.weights, shared.distance, self._top),
            *(shared.waiting, self._parent, kept, solved, steps.counts),
        )
        counts = steps.fetch()
        self._waiting, self._left = [kept, left], counts[KEPT]
        found: AnyArray = solved[: counts[EMITTED]].get()
        return found

    def overflowed(self, shared: CudaSsspShared) -> bool:
        """Tell whether a shortest distance from here exceeds the distances' dtype."""
        self._steps.clear()
        self._steps.launch(
            "find_overflow",
            int(self._rows) * 32,
            *(self._rows, *self._dealt, self._out.offsets, self._out.neighbors),
            *(shared.distance, self._heaviest, self._top, self._steps.counts),
        )
        return self._steps.fetch()[LISTED] > 0

    def refuse_overflow(self) -> None:
        """Raise the error that says so."""
        raise overflow_error(self._top.dtype)

    @within_memory(STEP)
    def tree(self, shared: CudaSsspShared, phase_arcs: dict[str, int]) -> SsspTree:
        """Answer for the own rows, in local order; copied to host memory."""
        rows = int(self._rows)
        own = cuda().empty(rows, self._top.dtype)
        self._steps.launch("take_own", rows, self._rows, *self._dealt, shared.distance, own)
        return SsspTree(self._parent.get(), own.get(), 0.0, phase_arcs)


def _require_weights(rows: Rows) -> AnyArray:
    """Weights that searches on a CUDA device take."""
    if rows.weights is None or rows.weights.dtype.name not in C_TYPES:
        found = "none" if rows.weights is None else str(rows.weights.dtype)
        raise UsageError(
            f"SSSP on a CUDA device takes weights of type {', '.join(C_TYPES)}, not {found}"
        )
    return rows.weights
