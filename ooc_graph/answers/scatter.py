"""Answers by internal id -> columns by original id, piece by piece.

Components are named by their smallest original id. Memory in addition to their labels: one position
among all vertices for each row, 4 bytes (8 from 2**31 vertices).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ooc_graph.kernels.cpu.components.ids import first_positions
from ooc_graph.layout.chunks import FileEntry, write_array
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import COMPONENT, DISTANCE, LEVEL, PARENT, VERTEX
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray

_LEAST_PIECE, _MOST_PIECE = 1 << 10, 1 << 15


@dataclass(frozen=True)
class Tree:
    """A search tree by internal id, in host memory.

    Parameters
    ----------
    kernel
        ``bfs`` or ``sssp``.
    root
        Original id of the root; ``root_position`` is its position among all vertices.
    parent
        uint32 or uint64 (rows,): internal ids, all ones if unreached.
    measure
        int32 levels or distances (rows,).
    """

    kernel: str
    root: int
    root_position: int
    parent: AnyArray
    measure: AnyArray

    @property
    def unreached(self) -> Any:
        """Value of the measure if the search did not come."""
        if self.kernel == "bfs":
            return -1
        return INT64_UNREACHED if self.measure.dtype.kind == "i" else np.inf

    @property
    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """Types of parents, and of levels or distances."""
        name = LEVEL if self.kernel == "bfs" else DISTANCE
        return {PARENT: np.dtype(np.int64), name: self.measure.dtype}

    def piece(self, ids: Ids, start: int, stop: int) -> tuple[IntArray, AnyArray]:
        """Parents and measures of a range of positions."""
        internal = ids.internal_of[start:stop]
        has_row = internal >= 0
        parent = np.full(stop - start, -1, np.int64)
        measure = np.full(stop - start, self.unreached, self.measure.dtype)
        rows = internal[has_row]
        measure[has_row] = self.measure[rows]
        by_internal = self.parent[rows]
        reached = by_internal != np.iinfo(by_internal.dtype).max
        mine = np.full(len(rows), -1, np.int64)
        mine[reached] = ids.original_of[by_internal[reached]]
        parent[has_row] = mine
        if start <= self.root_position < stop:
            # A root without any arc has no row, and yet it is reached.
            parent[self.root_position - start] = self.root
            measure[self.root_position - start] = 0
        return parent, measure


@dataclass(frozen=True)
class Ids:
    """Id tables of a graph, in host memory.

    Parameters
    ----------
    internal_of
        int32 or int64 (vertices,): -1 if a vertex has no arc.
    original_of
        int64 (rows,).
    first
        First original id if ids are dense.
    originals
        int64 (vertices,) ascending if ids have gaps.
    """

    internal_of: AnyArray
    original_of: IntArray
    first: int | None
    originals: IntArray | None

    def original_ids(self, start: int, stop: int) -> IntArray:
        """Original ids of a range of positions."""
        if self.originals is not None:
            return self.originals[start:stop]
        return np.arange(start, stop) + (self.first or 0)

    def original_at(self, position: int) -> int:
        """Original id of one position."""
        return int(self.original_ids(position, position + 1)[0])


class Answer(Protocol):
    """What a search found, as columns by original id beside that of the vertices."""

    @property
    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """Their types by name, in order."""

    def piece(self, ids: Ids, start: int, stop: int) -> tuple[AnyArray, ...]:
        """All of them for a range of positions."""


def columns_of(answer: Answer, ids: Ids) -> dict[str, AnyArray]:
    """All columns of the answer in host memory."""
    size = len(ids.internal_of)
    columns = {name: np.empty(size, dtype) for name, dtype in answer.dtypes.items()}
    for start, stop in _pieces(0, size, size):
        for column, part in zip(columns.values(), answer.piece(ids, start, stop), strict=True):
            column[start:stop] = part
    return {VERTEX: ids.original_ids(0, size), **columns}


def write_columns(answer: Answer, ids: Ids, store: Path) -> tuple[list[ArraySpec], list[FileEntry]]:
    """Write all columns of the answer as chunks of a partial store."""
    specs, entries = [], []
    for name, dtype in {VERTEX: np.dtype(np.int64), **answer.dtypes}.items():
        specs.append(ArraySpec(name, len(ids.internal_of), dtype))
        entries += write_array(store, specs[-1], partial(_parts, name, answer, ids))
    return specs, entries


def _parts(name: str, answer: Answer, ids: Ids, start: int, stop: int) -> Iterator[AnyArray]:
    for begin, end in _pieces(start, stop, len(ids.internal_of)):
        if name == VERTEX:
            yield ids.original_ids(begin, end)
        else:
            yield answer.piece(ids, begin, end)[list(answer.dtypes).index(name)]


def _pieces(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    piece = _piece_size(size)
    for begin in range(start, stop, piece):
        yield begin, min(begin + piece, stop)


def _piece_size(size: int) -> int:
    """Vertices whose columns are made at a time: a small part of them, of small graphs, too."""
    return min(max(size >> 3, _LEAST_PIECE), _MOST_PIECE)


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
