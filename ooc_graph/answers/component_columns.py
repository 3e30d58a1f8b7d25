"""Components by internal id -> columns by original id, chunk by chunk."""

from __future__ import annotations

import numpy as np

from ooc_graph.answers.scatter import Columns, Ids
from ooc_graph.layout.names import COMPONENT, VERTEX
from ooc_graph.types import AnyArray


class ComponentColumns(Columns):
    """Columns of components; the number of these is stored with them.

    ``label``, uint32 or uint64 (rows,), names each internal id's component by one of its rows.
    """

    def __init__(self, label: AnyArray, ids: Ids) -> None:
        from ooc_graph.kernels.cpu.components.fused import first_positions  # noqa: PLC0415

        self._label = label
        self._first = np.full(len(label), -1, ids.internal_of.dtype)
        first_positions(ids.internal_of, label, self._first)
        isolated = np.count_nonzero(ids.internal_of < 0)
        count = int(isolated + np.count_nonzero(self._first >= 0))
        dtypes = dict.fromkeys((VERTEX, COMPONENT), np.dtype(np.int64))
        super().__init__(ids, dtypes, {"components": count})

    def fill(self, name: str, start: int, out: AnyArray) -> None:  # noqa: ARG002
        """Put the smallest original id of each vertex's component into ``out``."""
        position = np.arange(start, start + len(out))
        internal = self.ids.internal_of[start : start + len(out)]
        has_row = internal >= 0
        position[has_row] = self._first[self._label[internal[has_row]]]
        originals = self.ids.originals
        out[:] = position + (self.ids.first or 0) if originals is None else originals[position]
