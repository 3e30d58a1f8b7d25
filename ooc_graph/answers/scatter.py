"""Search trees by internal id -> columns by original id, chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.kernels.cpu.components.forest import first_positions
from ooc_graph.kernels.cpu.original_order import count_from, order_measures, order_parents
from ooc_graph.layout.chunks import FileEntry, write_array
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import COMPONENT, DISTANCE, LEVEL, PARENT, VERTEX
from ooc_graph.threads import Threads
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

    def fill_original(self, start: int, out: AnyArray) -> None:
        """Put original ids from a position on into ``out``; allocates nothing."""
        if self.originals is not None:
            out[:] = self.originals[start : start + len(out)]
        else:
            count_from(start + (self.first or 0), out)

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
        self.ids, self.dtypes, self.attributes = ids, dtypes, attributes
        self.size = len(ids.internal_of)

    @abstractmethod
    def fill(self, name: str, start: int, out: AnyArray) -> None:
        """Put values of a column, except `VERTEX`, into ``out``: those from ``start`` on."""

    def in_memory(self, threads: int = 1) -> dict[str, AnyArray]:
        """All columns in host memory, by threads if they are long."""
        columns = {name: np.empty(self.size, dtype) for name, dtype in self.dtypes.items()}
        threads = threads if self.size > _MOST_PIECE else 1

        def fill(low: int, end: int) -> None:
            for name, column in columns.items():
                self._fill_any(name, low, column[low:end])

        in_ranges(threads, self.size, fill)
        return columns

    def _fill_any(self, name: str, start: int, out: AnyArray) -> None:
        if name == VERTEX:
            self.ids.fill_original(start, out)
        else:
            self.fill(name, start, out)

    def write(self, store: Path) -> tuple[list[ArraySpec], list[FileEntry]]:
        """Write all columns as chunks of a partial store."""
        specs, entries = [], []
        for name, dtype in self.dtypes.items():
            specs.append(ArraySpec(name, self.size, dtype))
            entries += write_array(store, specs[-1], partial(self._parts, name))
        return specs, entries

    def _parts(self, name: str, start: int, stop: int) -> Iterator[AnyArray]:
        size = _piece_size(self.size)
        for begin in range(start, stop, size):
            part = np.empty(min(size, stop - begin), self.dtypes[name])
            self._fill_any(name, begin, part)
            yield part


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

    def fill(self, name: str, start: int, out: AnyArray) -> None:
        """Put parents or measures of some vertices into ``out``."""
        tree, internal_of = self._tree, self.ids.internal_of[start : start + len(out)]
        is_parent = name == PARENT
        if not len(tree.parent):
            out.fill(-1 if is_parent else self._unreached)
        elif is_parent:
            order_parents(internal_of, tree.parent, self.ids.original_of, out)
        else:
            order_measures(internal_of, tree.measure, out.dtype.type(self._unreached), out)
        if start <= tree.root_position < start + len(out):
            # A root without any arc has no row, and yet it is reached.
            out[tree.root_position - start] = tree.root if is_parent else 0


def in_ranges(threads: int, count: int, do: Callable[[int, int], None]) -> None:
    """Call ``do(first, end)`` for equal ranges of numbers, on a thread each if there are more."""
    share = -(-count // threads)
    if share >= count:
        do(0, count)
        return
    with Threads(threads) as executor:
        list(executor.map(lambda low: do(low, min(low + share, count)), range(0, count, share)))


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

    def fill(self, name: str, start: int, out: AnyArray) -> None:  # noqa: ARG002
        """Put the smallest original id of each one's component into ``out``.

        Vertices without arcs are components of their own.
        """
        for low in range(0, len(out), _MOST_PIECE):
            piece = out[low : low + _MOST_PIECE]
            first = start + low
            position = np.arange(first, first + len(piece))
            internal = self.ids.internal_of[first : first + len(piece)]
            has_row = internal >= 0
            position[has_row] = self._first[self._label[internal[has_row]]]
            originals = self.ids.originals
            piece[:] = (
                position + (self.ids.first or 0) if originals is None else originals[position]
            )
