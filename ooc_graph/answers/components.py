"""Components by internal id -> columns by original id, each named by its smallest original id.

Memory in addition to the labels: one position among all vertices for each row, 4 bytes (8 from
2**31 vertices), and the columns piece by piece.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Ids
from ooc_graph.kernels.cpu.components.ids import first_positions
from ooc_graph.layout.names import COMPONENT
from ooc_graph.types import AnyArray, IntArray


class ComponentColumns:
    """The answer of labels, unsigned (rows,): each row's component, named by one of its rows.

    See `ooc_graph.answers.scatter.Answer`.
    """

    dtypes: dict[str, np.dtype[Any]] = {COMPONENT: np.dtype(np.int64)}  # noqa: RUF012

    def __init__(self, label: AnyArray, ids: Ids) -> None:
        self._label, self._ids = label, ids
        self._first = np.full(len(label), -1, ids.internal_of.dtype)
        first_positions(ids.internal_of, label, self._first)

    def piece(self, ids: Ids, start: int, stop: int) -> tuple[IntArray]:
        """Smallest original id of each one's component; those without arcs are their own."""
        position = np.arange(start, stop)
        internal = ids.internal_of[start:stop]
        has_row = internal >= 0
        position[has_row] = self._first[self._label[internal[has_row]]]
        return (position + (ids.first or 0) if ids.originals is None else ids.originals[position],)

    def count(self) -> int:
        """Components."""
        isolated = np.count_nonzero(self._ids.internal_of < 0)
        return int(isolated + np.count_nonzero(self._first >= 0))
