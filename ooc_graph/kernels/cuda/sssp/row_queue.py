"""Rows of a rank that are to be pushed below a bound, and those that wait for a higher one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows
from ooc_graph.kernels.cuda.runtime.steps import EXAMINED, KEPT, LISTED, Steps, least


class Queued(NamedTuple):
    """Arcs of the queued rows with candidates up to the bound.

    uint64 of each row, on the device: ``arcs`` from position ``first`` on. ``examined`` arcs in
    all, by which ``most`` vertices are listed. ``least`` is the smallest candidate above the bound.
    """

    first: Any
    arcs: Any
    examined: int
    most: int
    least: Any


class RowQueue:
    """Three lists of rows, an id a row, and a bit, on the device; ``steps`` have their kernels.

    ``dealt`` says by which ids vertices and their distances are found; ``top`` is the distance of
    what is not reached.
    """

    def __init__(
        self, steps: Steps, out: DeviceRows, dealt: tuple[Any, Any], ids: np.dtype[Any], top: Any
    ) -> None:
        cupy, count = cuda(), out.rows
        self._steps, self._out, self._dealt, self._top = steps, out, dealt, top
        self.taken = cupy.empty(count, ids)
        """Arcs of a row that were pushed with the distance that it has."""
        self.rows = cupy.empty(count, np.uint32)
        self.lists = [cupy.empty(count, np.uint32) for _ in range(2)]
        """Rows that wait, first; and a list that takes turns."""
        self._queued = cupy.empty(2 * words_for(count), np.uint32)
        self.pending = 0

    def drop(self) -> None:
        """Forget the rows that wait."""
        self._queued.fill(0)
        self.pending = 0

    def measure(self, improved: Any, distance: Any, bound: Any) -> Queued:
        """Queue own rows just improved, and waiting ones with a candidate up to the bound.

        And measure which of their arcs have candidates up to it.
        """
        most = min(len(improved) + self.pending, self._out.rows)
        first, arcs = (cuda().empty(most, np.uint64) for _ in range(2))
        if not most:
            return Queued(first, arcs, 0, 0, self._top)
        self._queue(improved, distance, bound)
        waiting, kept = self.lists
        rows = self.rows, *self._dealt, self._out.offsets, self._out.weights, distance
        state = bound, self._top, self.taken, self._queued, kept
        self._steps.launch("measure_queue", most, *rows, *state, first, arcs, self._steps.counts)
        counts = self._steps.fetch()
        self.lists, self.pending = [kept, waiting], counts[KEPT]
        examined, arcs = counts[EXAMINED], arcs[: counts[LISTED]]
        return Queued(first, arcs, examined, examined, least(counts, self._top))

    def _queue(self, improved: Any, distance: Any, bound: Any) -> None:
        steps = self._steps
        waiting, kept = self.lists
        steps.clear()
        state = self.taken, self._queued, self.rows
        listed = np.uint64(len(improved)), improved, *self._dealt
        steps.launch("queue_improved", len(improved), *listed, *state, steps.counts)
        listed = np.uint64(self.pending), waiting, *self._dealt
        rows = self._out.offsets, self._out.weights, distance, bound, self._top
        steps.launch("queue_waiting", self.pending, *listed, *rows, *state, kept, steps.counts)
