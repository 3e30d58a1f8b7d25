"""Components by internal id -> columns by original id, each named by its smallest original id.

Memory in addition to the labels: one position among all vertices for each row, 4 bytes (8 from
2**31 vertices), and the columns piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from ooc_graph.answers.scatter import Ids
from ooc_graph.kernels.cpu.components.ids import first_positions
from ooc_graph.layout.chunks import FileEntry, write_array
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import COMPONENT, VERTEX
from ooc_graph.types import AnyArray, IntArray

_PIECE = 1 << 18


class ComponentColumns:
    """The columns of an answer, range by range.

    Parameters
    ----------
    label
        uint32 or uint64 (rows,): component of each internal id, named by one of its rows.
    """

    def __init__(self, label: AnyArray, ids: Ids) -> None:
        self._label, self._ids = label, ids
        self._first = np.full(len(label), -1, ids.internal_of.dtype)
        first_positions(ids.internal_of, label, self._first)

    @property
    def size(self) -> int:
        """Vertices."""
        return len(self._ids.internal_of)

    def vertex(self, start: int, stop: int) -> IntArray:
        """Original ids of a range of positions."""
        return self._ids.original_ids(start, stop)

    def component(self, start: int, stop: int) -> IntArray:
        """Smallest original id of each one's component; those without arcs are their own."""
        position = np.arange(start, stop)
        internal = self._ids.internal_of[start:stop]
        has_row = internal >= 0
        position[has_row] = self._first[self._label[internal[has_row]]]
        originals = self._ids.originals
        return position + (self._ids.first or 0) if originals is None else originals[position]

    def count(self) -> int:
        """Components."""
        isolated = np.count_nonzero(self._ids.internal_of < 0)
        return int(isolated + np.count_nonzero(self._first >= 0))


def _pieces(start: int, stop: int) -> Iterator[tuple[int, int]]:
    for begin in range(start, stop, _PIECE):
        yield begin, min(begin + _PIECE, stop)


def columns_of_components(columns: ComponentColumns) -> dict[str, AnyArray]:
    """All columns of the answer in host memory."""
    component = np.empty(columns.size, np.int64)
    for start, stop in _pieces(0, columns.size):
        component[start:stop] = columns.component(start, stop)
    return {VERTEX: columns.vertex(0, columns.size), COMPONENT: component}


def write_components(
    columns: ComponentColumns, store: Path
) -> tuple[list[ArraySpec], list[FileEntry]]:
    """Write all columns of the answer as chunks of a partial store."""
    specs, entries = [], []
    for name, read in ((VERTEX, columns.vertex), (COMPONENT, columns.component)):
        specs.append(ArraySpec(name, columns.size, np.dtype(np.int64)))
        entries += write_array(store, specs[-1], partial(_read, read))
    return specs, entries


def _read(column: Callable[[int, int], IntArray], start: int, stop: int) -> Iterator[IntArray]:
    return (column(*piece) for piece in _pieces(start, stop))
