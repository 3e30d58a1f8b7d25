"""How far SSSP ranks are along tails: the arcs of rows that are not on the device (CUDA)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.steps import Steps, least
from ooc_graph.kernels.cuda.store.rank_rows import StoreRows


class Tails:
    """Rows whose head is exhausted, and how far along their tails they are; all on the device.

    ``cursor`` is the next arc of each row, uint32. ``wanting``, a bitmap, has the rows that go on
    now, and ``waiting`` those whose next candidate, ``later``, is above the bound. ``dealt`` and
    ``top`` are as of `RowQueue`.
    """

    def __init__(self, rows: StoreRows, dealt: tuple[Any, Any], top: Any) -> None:
        cupy, count = cuda(), rows.heads.rows
        self._rows, self._dealt, self._top = rows, dealt, top
        self._words = 2 * words_for(count)
        with within_memory("SSSP on these rows"):
            self.cursor, self.later = cupy.empty(count, np.uint32), cupy.empty(count, top.dtype)
            self.waiting, self.wanting = (cupy.zeros(self._words, np.uint32) for _ in range(2))

    def drop(self) -> None:
        """Forget the rows that go on or wait."""
        for rows in (self.waiting, self.wanting):
            rows.fill(0)

    def leave(self, improved: Any) -> None:
        """Have the own rows among those that improved begin with their heads again."""
        given = np.uint64(len(improved)), improved, *self._dealt, self.waiting, self.wanting
        self._rows.steps.launch("leave_tails", len(improved), *given)

    def enter(self, bound: Any) -> None:
        """Have those go on whose next candidate is not above the bound, and no others."""
        given = np.uint32(self._words), self.later, bound, self.waiting, self.wanting
        self._rows.steps.launch("enter_tails", 32 * self._words, *given)

    def note_exhausted(self, queue: Any, taken: Any) -> None:
        """Have the rows of a list go on, too, that have ``taken`` all of their heads."""
        rows = np.uint32(len(queue)), queue, self._rows.heads.offsets, self._rows.longer
        given = *rows, taken, self.cursor, self.wanting
        self._rows.steps.launch("note_exhausted", len(queue), *given)

    def smallest(self, steps: Steps) -> Any:
        """Smallest candidate of the rows that wait; ``steps`` count it."""
        steps.clear()
        given = np.uint32(self._words), self.waiting, self.later, self._top, steps.counts
        self._rows.steps.launch("least_later", 32 * self._words, *given)
        return least(steps.fetch(), self._top)
