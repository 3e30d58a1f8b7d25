"""Trees by internal id -> columns by original id, chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.within import Within
from ooc_graph.layout.chunks import FileEntry, write_array
from ooc_graph.layout.linked import link_array
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import DISTANCE, LEVEL, PARENT, VERTEX
from ooc_graph.layout.stored import Stored
from ooc_graph.ranges import in_ranges
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray

_LEAST_PIECE, _MOST_PIECE = 1 << 10, 1 << 15
# Vertices of a column that are worth a thread.
_THREAD_VERTICES = 1 << 18


@dataclass(frozen=True)
class Tree:
    """A search tree of ``bfs`` or ``sssp`` by internal id, in host memory.

    ``root`` is an original id, at ``root_position`` among all vertices. ``parent``, uint32 or
    uint64 (rows,), are internal ids, all ones if unreached; ``measure`` int32 levels or distances.
    """

    kernel: str
    root: int
    root_position: int
    parent: AnyArray
    measure: AnyArray


@dataclass(frozen=True)
class Ids:
    """Id tables of a graph, in host memory.

    ``internal_of``, int32 or int64 (vertices,), is -1 without an arc; ``original_of`` is int64
    (rows,). ``first`` is the first id if ids are dense; else ``originals``, int64 (vertices,).
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

    ``dtypes`` are by name, in their order; `VERTEX` is one. ``attributes`` are stored with them,
    and so are ``others``, arrays of any length, by the subclass that sets them.
    """

    def __init__(
        self, ids: Ids, dtypes: Mapping[str, np.dtype[Any]], attributes: Mapping[str, Any]
    ) -> None:
        self.ids, self.dtypes, self.attributes = ids, dtypes, attributes
        self.others: Mapping[str, AnyArray] = {}
        self.size = len(ids.internal_of)

    @abstractmethod
    def fill(self, name: str, start: int, out: AnyArray) -> None:
        """Put up to 32,768 values of a column from ``start`` on, not of `VERTEX`, into ``out``."""

    def in_memory(self, threads: int = 1, names: Sequence[str] = ()) -> dict[str, AnyArray]:
        """All columns in host memory, or some."""
        columns = self.empty(names)
        for name, column in columns.items():
            self.fill_all(name, column, threads)
        return columns

    def empty(self, names: Sequence[str] = ()) -> dict[str, AnyArray]:
        """Memory for all columns, or some; nothing is written to it yet."""
        return {name: np.empty(self.size, self.dtypes[name]) for name in names or self.dtypes}

    def fill_all(self, name: str, out: AnyArray, threads: int) -> None:
        """Fill ``out``, an array that `empty` gave, with its column; by threads if it is long."""

        def fill(first: int, end: int) -> None:
            for start, part in self._pieces(first, end):
                self._fill_any(name, start, out[start : start + part])

        _by_threads(threads, self.size, fill)

    def _pieces(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Where pieces of a range begin, and how long they are."""
        size = _piece_size(self.size)
        for start in range(first, end, size):
            yield start, min(size, end - start)

    def _fill_any(self, name: str, start: int, out: AnyArray) -> None:
        if name != VERTEX:
            self.fill(name, start, out)
        elif self.ids.originals is None:
            _loops().count_from(start + (self.ids.first or 0), out)
        else:
            out[:] = self.ids.originals[start : start + len(out)]

    def write(
        self, store: Path, like: Stored | None = None
    ) -> tuple[list[ArraySpec], list[FileEntry]]:
        """Write all columns to a partial store, which shares vertices with an answer ``like``."""
        specs, entries = [], []
        for name, dtype in self.dtypes.items():
            specs.append(ArraySpec(name, self.size, dtype))
            linked = link_array(like, specs[-1], store) if like and name == VERTEX else []
            entries += linked or write_array(store, specs[-1], partial(self.parts, name))
        return specs, entries

    def parts(self, name: str, start: int, stop: int) -> Iterator[AnyArray]:
        """Values of a range of a column, a piece at a time."""
        for begin, size in self._pieces(start, stop):
            part = np.empty(size, self.dtypes[name])
            self._fill_any(name, begin, part)
            yield part


class TreeColumns(Columns):
    """Columns of a tree: vertices, parents, and levels or distances.

    Of a search that is wanted ``within`` a limit, vertices beyond it are unreached.
    """

    def __init__(self, tree: Tree, ids: Ids, within: Within | None = None) -> None:
        self._tree = tree
        self._unreached = unreached(tree.kernel, tree.measure.dtype)
        self._limit = None if within is None else within.limit_of(self._of_targets(within, ids))
        self._parent_ids = np.empty(0, np.int32)
        dtypes = tree_dtypes(tree.kernel, tree.measure.dtype)
        stored = "+inf" if self._unreached == np.inf else self._unreached
        attributes = {"root": tree.root, "unreached": stored}
        if self._limit is not None:
            attributes["limit"] = self._limit
        super().__init__(ids, dtypes, attributes)

    def _of_targets(self, within: Within, ids: Ids) -> AnyArray:
        """Levels or distances of the targets; of a root without arcs, too."""
        tree = self._tree
        targets = np.empty(0, np.int64) if within.targets is None else within.targets
        rows = ids.internal_of[targets]
        found = np.full(len(targets), self._unreached, tree.measure.dtype)
        if len(tree.measure):
            found = np.where(rows >= 0, tree.measure[np.maximum(rows, 0)], found)
        found[targets == tree.root_position] = 0
        return found

    def fill(self, name: str, start: int, out: AnyArray) -> None:
        """Put parents or measures of some vertices into ``out``."""
        tree, internal_of = self._tree, self.ids.internal_of[start : start + len(out)]
        is_parent, loops = name == PARENT, _loops()
        if not len(tree.parent):
            out.fill(-1 if is_parent else self._unreached)
        elif is_parent:
            loops.order_parents(internal_of, tree.parent, self.ids.original_of, out)
            if self._limit is not None:
                found = np.empty(len(out), tree.measure.dtype)
                loops.order_measures(internal_of, tree.measure, found.dtype.type(0), found)
                out[found > self._limit] = -1
        else:
            loops.order_measures(internal_of, tree.measure, out.dtype.type(self._unreached), out)
            if self._limit is not None:
                out[out > self._limit] = self._unreached
        if start <= tree.root_position < start + len(out):
            # A root without any arc has no row, and yet it is reached.
            out[tree.root_position - start] = tree.root if is_parent else 0

    def empty(self, names: Sequence[str] = ()) -> dict[str, AnyArray]:
        """Memory for columns, and for the original ids of parents by row."""
        largest = self.ids.original_at(self.size - 1) if self.size else -1
        self._parent_ids = np.empty(len(self._tree.parent), parent_id_dtype(largest))
        return super().empty(names)

    def fill_all(self, name: str, out: AnyArray, threads: int) -> None:
        """Put a whole column into ``out``; parents by row first."""
        rows, parent_ids = len(self._tree.parent), self._parent_ids
        if name != PARENT or not rows or self._limit is not None:
            super().fill_all(name, out, threads)
            return
        parent, ids, loops, none = self._tree.parent, self.ids, _loops(), out.dtype.type(-1)

        def give_ids(low: int, end: int) -> None:
            loops.parent_ids_of(parent[low:end], ids.original_of, parent_ids[low:end])

        def order(low: int, end: int) -> None:
            loops.order_measures(ids.internal_of[low:end], parent_ids, none, out[low:end])

        _by_threads(threads, rows, give_ids)
        _by_threads(threads, self.size, order)
        out[self._tree.root_position] = self._tree.root
        self._parent_ids = parent_ids[:0].copy()  # an answer that is read late keeps no more


def _loops() -> Any:
    """Kernels that fill columns, imported when one is filled: an answer may never be read."""
    from ooc_graph.kernels.cpu import original_order  # noqa: PLC0415

    return original_order


def unreached(kernel: str, dtype: np.dtype[Any]) -> Any:
    """Level or distance of a vertex that a search did not reach."""
    if kernel == "bfs":
        return -1
    return INT64_UNREACHED if dtype.kind == "i" else np.inf


def _piece_size(size: int) -> int:
    """Vertices whose columns are made at a time: a small part of them, of small graphs, too."""
    return min(max(size >> 3, _LEAST_PIECE), _MOST_PIECE)


def tree_dtypes(kernel: str, measure: np.dtype[Any]) -> dict[str, np.dtype[Any]]:
    """Columns of a tree by name, in their order; ``measure`` is of levels or distances."""
    wide = np.dtype(np.int64)
    return {VERTEX: wide, PARENT: wide, LEVEL if kernel == "bfs" else DISTANCE: measure}


def parent_id_dtype(largest: int) -> np.dtype[Any]:
    """Type of the original ids of parents by row, which exist while their column is made."""
    return np.dtype(np.int32 if largest <= np.iinfo(np.int32).max else np.int64)


def fill_dense(first: int, out: AnyArray, threads: int) -> None:
    """Put ids without gaps, from ``first`` on, into a whole column."""
    _by_threads(threads, len(out), lambda low, end: _loops().count_from(first + low, out[low:end]))


def _by_threads(threads: int, vertices: int, do: Callable[[int, int], None]) -> None:
    in_ranges(min(threads, vertices // _THREAD_VERTICES), vertices, do)
