"""Search trees by internal id -> columns by original id, chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.kernels.cpu.components.forest import first_positions
from ooc_graph.layout.chunks import FileEntry, write_array
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import COMPONENT, DISTANCE, LEVEL, PARENT, VERTEX
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray

_LEAST_PIECE, _MOST_PIECE = 1 << 10, 1 << 15


@dataclass(frozen=True)
class Tree:
    """A search tree of ``bfs`` or ``sssp`` by internal id, in host memory.

    ``root`` is an original id, ``root_position`` its position among all vertices. ``parent``,
    uint32 or uint64 (rows,), are internal ids, all ones if unreached; ``measure`` int32 levels or
    distances.
    """

    kernel: str
    root: int
    root_position: int
    parent: AnyArray
    measure: AnyArray


@dataclass(frozen=True)
class Ids:
    """Id tables of a graph, in host memory.

    ``internal_of``, int32 or int64 (vertices,), is -1 if a vertex has no arc; ``original_of`` is
    int64 (rows,). ``first`` is the first original id if ids are dense; else ``originals``, int64
    (vertices,), ascend.
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


class Columns(ABC):
    """Columns of an answer by original id, made piece by piece.

    ``dtypes`` are by the names of the columns, in their order; `VERTEX` is one. ``attributes`` are
    stored with them, besides the kernel and the graph.
    """

    def __init__(
        self, ids: Ids, dtypes: Mapping[str, np.dtype[Any]], attributes: Mapping[str, Any]
    ) -> None:
        self.ids, self._dtypes, self.attributes = ids, dtypes, attributes
        self.size = len(ids.internal_of)

    @abstractmethod
    def part(self, name: str, start: int, stop: int) -> AnyArray:
        """Values of a column, except `VERTEX`, at a range of positions."""

    def in_memory(self) -> dict[str, AnyArray]:
        """All columns in host memory."""
        columns: dict[str, AnyArray] = {}
        for name, dtype in self._dtypes.items():
            if name == VERTEX:
                columns[name] = self.ids.original_ids(0, self.size)
                continue
            columns[name] = np.empty(self.size, dtype)
            for piece in self._pieces(0, self.size):
                columns[name][slice(*piece)] = self.part(name, *piece)
        return columns

    def write(self, store: Path) -> tuple[list[ArraySpec], list[FileEntry]]:
        """Write all columns as chunks of a partial store."""
        specs, entries = [], []
        for name, dtype in self._dtypes.items():
            specs.append(ArraySpec(name, self.size, dtype))
            entries += write_array(store, specs[-1], partial(self._parts, name))
        return specs, entries

    def _parts(self, name: str, start: int, stop: int) -> Iterator[AnyArray]:
        read = self.ids.original_ids if name == VERTEX else partial(self.part, name)
        return (read(*piece) for piece in self._pieces(start, stop))

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        size = _piece_size(self.size)
        for begin in range(start, stop, size):
            yield begin, min(begin + size, stop)


class TreeColumns(Columns):
    """Columns of a tree: vertices, parents, and levels or distances."""

    def __init__(self, tree: Tree, ids: Ids) -> None:
        self._tree = tree
        self._unreached = unreached(tree.kernel, tree.measure.dtype)
        measure = LEVEL if tree.kernel == "bfs" else DISTANCE
        wide = np.dtype(np.int64)
        dtypes = {VERTEX: wide, PARENT: wide, measure: tree.measure.dtype}
        stored = "+inf" if self._unreached == np.inf else self._unreached
        super().__init__(ids, dtypes, {"root": tree.root, "unreached": stored})

    def part(self, name: str, start: int, stop: int) -> AnyArray:
        """Parents or measures of a range of positions."""
        internal = self.ids.internal_of[start:stop]
        has_row = internal >= 0
        rows = internal[has_row]
        values: AnyArray
        if name == PARENT:
            values, of_root = np.full(stop - start, -1, np.int64), self._tree.root
            by_internal = self._tree.parent[rows]
            reached = by_internal != np.iinfo(by_internal.dtype).max
            mine = np.full(len(rows), -1, np.int64)
            mine[reached] = self.ids.original_of[by_internal[reached]]
            values[has_row] = mine
        else:
            values, of_root = np.full(stop - start, self._unreached, self._tree.measure.dtype), 0
            values[has_row] = self._tree.measure[rows]
        if start <= self._tree.root_position < stop:
            # A root without any arc has no row, and yet it is reached.
            values[self._tree.root_position - start] = of_root
        return values


def _piece_size(size: int) -> int:
    """Vertices whose columns are made at a time: a small part of them, of small graphs, too."""
    return min(max(size >> 3, _LEAST_PIECE), _MOST_PIECE)


def unreached(kernel: str, dtype: np.dtype[Any]) -> Any:
    """Level or distance of a vertex that a search did not reach."""
    if kernel == "bfs":
        return -1
    return INT64_UNREACHED if dtype.kind == "i" else np.inf


class ComponentColumns(Columns):
    """Columns of components; the number of these is stored with them.

    ``label``, uint32 or uint64 (rows,), names each internal id's component by one of its rows.
    """

    def __init__(self, label: AnyArray, ids: Ids) -> None:
        self._label = label
        self._first = np.full(len(label), -1, ids.internal_of.dtype)
        first_positions(ids.internal_of, label, self._first)
        isolated = np.count_nonzero(ids.internal_of < 0)
        count = int(isolated + np.count_nonzero(self._first >= 0))
        dtypes = dict.fromkeys((VERTEX, COMPONENT), np.dtype(np.int64))
        super().__init__(ids, dtypes, {"components": count})

    def part(self, name: str, start: int, stop: int) -> AnyArray:  # noqa: ARG002
        """Smallest original id of each one's component; those without arcs are their own."""
        position = np.arange(start, stop)
        internal = self.ids.internal_of[start:stop]
        has_row = internal >= 0
        position[has_row] = self._first[self._label[internal[has_row]]]
        originals = self.ids.originals
        return position + (self.ids.first or 0) if originals is None else originals[position]
