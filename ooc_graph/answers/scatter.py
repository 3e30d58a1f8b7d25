"""Search trees by internal id -> columns by original id, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.layout.chunks import FileEntry, write_array
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import DISTANCE, LEVEL, PARENT, VERTEX
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


def columns_of(tree: Tree, ids: Ids) -> dict[str, AnyArray]:
    """All columns of the answer in host memory."""
    size = len(ids.internal_of)
    parent, measure = np.empty(size, np.int64), np.empty(size, tree.measure.dtype)
    piece = _piece_size(size)
    for start in range(0, size, piece):
        stop = min(start + piece, size)
        parent[start:stop], measure[start:stop] = _piece(tree, ids, start, stop)
    return {VERTEX: ids.original_ids(0, size), PARENT: parent, _name(tree): measure}


def _piece(tree: Tree, ids: Ids, start: int, stop: int) -> tuple[IntArray, AnyArray]:
    """Parents and measures of a range of positions."""
    internal = ids.internal_of[start:stop]
    has_row = internal >= 0
    parent = np.full(stop - start, -1, np.int64)
    measure = np.full(stop - start, tree.unreached, tree.measure.dtype)
    rows = internal[has_row]
    measure[has_row] = tree.measure[rows]
    by_internal = tree.parent[rows]
    reached = by_internal != np.iinfo(by_internal.dtype).max
    mine = np.full(len(rows), -1, np.int64)
    mine[reached] = ids.original_of[by_internal[reached]]
    parent[has_row] = mine
    if start <= tree.root_position < stop:
        # A root without any arc has no row, and yet it is reached.
        parent[tree.root_position - start] = tree.root
        measure[tree.root_position - start] = 0
    return parent, measure


def _piece_size(size: int) -> int:
    """Vertices whose columns are made at a time: a small part of them, of small graphs, too."""
    return min(max(size >> 3, _LEAST_PIECE), _MOST_PIECE)


def _name(tree: Tree) -> str:
    return LEVEL if tree.kernel == "bfs" else DISTANCE


def write_columns(tree: Tree, ids: Ids, store: Path) -> tuple[list[ArraySpec], list[FileEntry]]:
    """Write all columns of the answer as chunks of a partial store."""
    size = len(ids.internal_of)
    dtypes = {
        VERTEX: np.dtype(np.int64),
        PARENT: np.dtype(np.int64),
        _name(tree): tree.measure.dtype,
    }
    specs, entries = [], []
    for name, dtype in dtypes.items():
        specs.append(ArraySpec(name, size, dtype))
        entries += write_array(store, specs[-1], partial(_parts, name, tree, ids))
    return specs, entries


def _parts(name: str, tree: Tree, ids: Ids, start: int, stop: int) -> Iterator[AnyArray]:
    piece = _piece_size(len(ids.internal_of))
    for begin in range(start, stop, piece):
        end = min(begin + piece, stop)
        if name == VERTEX:
            yield ids.original_ids(begin, end)
        else:
            yield _piece(tree, ids, begin, end)[0 if name == PARENT else 1]
