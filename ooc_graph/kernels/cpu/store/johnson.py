"""Many sources at once over weights of any sign, with the tails of rows outside memory (CPU).

Passes over the rows that improved, in all sources of a batch: what is fetched of a row serves them
all, and where no row improved nothing is fetched.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import Words, mark_only, whole_set, words_for
from ooc_graph.kernels.common.completion import OnDone, batches_of, raise_if_cancelled
from ooc_graph.kernels.common.many.bellman_ford_search import Potentials, find_potentials
from ooc_graph.kernels.common.many.sources import ManySources
from ooc_graph.kernels.common.sssp.distances import INTEGER_TOP, longest_within, require_fit
from ooc_graph.kernels.common.store.rows import Scan, TierRows
from ooc_graph.kernels.common.tuning import BATCH_SIZE
from ooc_graph.kernels.cpu.many.batch import all_wanted
from ooc_graph.kernels.cpu.many.vectors import slots_for
from ooc_graph.kernels.cpu.store import batch as steps
from ooc_graph.kernels.cpu.store.batch import BatchState, ParentState
from ooc_graph.kernels.cpu.store.bellman_ford import TierFalling
from ooc_graph.types import AnyArray, IntArray

PARENT_BITS = 3 * 8
"""Bytes a row of bits while parents are found."""


class TierJohnson(ManySources):
    """Distances from any number of sources, one batch at a time.

    The bits are those of `ooc_graph.kernels.cpu.many.johnson.CpuJohnson`, and so are the errors;
    CorruptStoreError if what is fetched is not what was written. In addition to what is in memory
    of the rows it has `batch_row_bytes` a row. ``out`` are light-first, with weights of any sign.
    """

    def __init__(self, out: TierRows, heaviest: Any) -> None:
        self._out = out
        falling = TierFalling(out, heaviest)
        self.dtype, self.vertices = falling.dtype, falling.rows
        self.ids = out.heads.neighbors.dtype
        self.potentials: Potentials | None = None
        self._potential, longest = np.zeros(self.vertices, self.dtype), None
        if falling.ends[0] < 0:
            self.potentials = find_potentials(falling)
            self._potential = self.potentials.potential
            longest = longest_within(falling.ends, self._potential)
        # A weight may be larger by all the span of the potentials.
        heaviest_reweighted = falling.ends[1] - self._potential.min(initial=0).item()
        require_fit(heaviest_reweighted, self.vertices, self.dtype, longest)
        self.passes = 0

    def _find(
        self,
        sources: IntArray,
        answer: AnyArray,
        parents: AnyArray | None,
        batch_size: int | None,
        on_done: OnDone | None,
    ) -> None:
        if not len(sources):
            return
        most = batch_size or BATCH_SIZE
        state = self._state(min(most, len(sources)))
        wanted = all_wanted(sources, answer, self._potential)
        for part in batches_of(len(sources), most, on_done):
            # A batch may take long, and a chunk may have several.
            raise_if_cancelled()
            batch = sources[part]
            state = self._settle(state, batch)
            steps.publish_batch(state, wanted, part.start, part.stop)
            if parents is not None:
                parents[part] = self._parents(state, batch).T

    def _state(self, slots: int) -> BatchState:
        rows, dtype, slots = self.vertices, self.dtype, slots_for(self.dtype, slots)
        limits: list[Any] = [INTEGER_TOP, 2 * INTEGER_TOP]
        if dtype.kind == "f":
            limits = [np.inf, np.nan]
        return BatchState(
            np.empty((rows, slots), dtype),
            np.empty(rows, dtype),
            np.empty(rows, dtype),
            np.empty(rows, dtype),
            np.empty(words_for(rows), np.uint64),
            self._potential,
            np.zeros(slots, dtype),
            np.array(limits, dtype),
        )

    def _settle(self, state: BatchState, sources: IntArray) -> BatchState:
        """Distances of a batch, in the weights that are searched."""
        top, never = state.limits
        slots = np.arange(len(sources))
        state.distance[:, : len(sources)] = top
        state.distance[:, len(sources) :] = never
        state.distance[sources, slots] = 0
        state.reach[:] = state.pending[:] = top
        state.pending[sources] = 0
        mark_only(state.waiting, sources)
        pushing = np.empty_like(state.waiting)
        while state.waiting.any():
            pushing, waiting = state.waiting, pushing
            waiting[:] = 0
            state = state._replace(waiting=waiting, low=state.pending, pending=state.low)
            state.pending[:] = top
            self.passes += 1
            self._each(pushing, partial(steps.relax_batch, state))
        return state

    def _each(self, bits: Words, scan: Scan) -> None:
        """Scan all arcs of the rows of a bitmap."""
        self._out.scan_rows(bits, scan, self._out.most_look)

    def _parents(self, state: BatchState, sources: IntArray) -> AnyArray:
        """Parents of a batch: ids (rows, sources)."""
        rows, slots = self.vertices, np.arange(len(sources))
        parent = np.full((rows, len(sources)), np.iinfo(self.ids).max, self.ids)
        found, frontier = (np.empty(rows, np.uint64) for _ in range(2))
        parents = ParentState(parent, found, frontier, np.zeros(rows, np.uint64))
        bits = whole_set(rows)
        self._each(bits, partial(steps.offer_batch, (state, parents)))
        parent[sources, slots] = sources
        left = steps.find_lacking(state, parents)
        while left:
            self._each(bits, partial(steps.spread_batch, (state, parents)))
            found_now = steps.next_hop(parents, bits)
            left -= found_now
            if not found_now:
                raise AssertionError(f"{left} reached vertices have no parent")
        return parent


def batch_row_bytes(dtype: np.dtype[Any], slots: int, parents: int) -> int:
    """Bytes a row that a batch takes, bitmaps aside.

    ``parents`` are the bytes of an id if parents are found, else 0.
    """
    # With them the rows' reach, what they push now and next, and potentials.
    state = (slots_for(dtype, slots) + 4) * dtype.itemsize
    return state + (slots * parents + PARENT_BITS if parents else 0)
