"""BFS on a CUDA device of a graph whose rows stand in pinned host memory.

What a search reads most is on the device too: the first neighbours of all rows, in columns, and the
rows of the hubs. Everything else is read over the bus, where a search comes to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.bfs.compiled import INT_LEVELS
from ooc_graph.kernels.cuda.bfs.heads import PIECE_ARCS, names_of
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.runtime.modules import cuda, free_unused, launch
from ooc_graph.kernels.cuda.runtime.rows import NULL, QUAD_ROWS, DeviceRows, Extents
from ooc_graph.kernels.cuda.runtime.shares import FILL_BLOCKS, TIERED
from ooc_graph.types import AnyArray, Rows

MOST_COLUMNS = 7
"""Columns of four neighbours that may stand on the device."""
PULL_ABOVE = (12, 25, 60)
"""How small a share of the arcs a frontier may have to pull, with no column, one, and more.

A pull from a small frontier reads many rows to their ends, which is dear where these are in host
memory. Measured on one H200 at scale 26.
"""
_COPIED_AT_ONCE = 1 << 19


@dataclass(frozen=True)
class BfsShare:
    """What of the rows is on the device too."""

    columns: int  # of four neighbours of in-rows, behind the first one; `MOST_COLUMNS` at most
    # So many rows of each side, the hubs', are there whole.
    out_rows: int = 0
    in_rows: int = 0


class CudaTierBfsSearch(CudaBfsSearch):
    """As `CudaBfsSearch`, of rows that the device reads where they are.

    Offsets are on the device or in host memory (copied), neighbours the device's view of pinned
    host memory. The ``share`` is copied to the device. Once a search has found more levels than a
    byte can count, levels take four bytes a row, and the share is ``deep`` (None: ``share``) from
    then on.
    """

    def __init__(
        self,
        out: Rows,
        into: Rows,
        share: BfsShare,
        *,
        deep: BfsShare | None = None,
        original_of: AnyArray | None = None,
        count_arcs: bool = True,
    ) -> None:
        for one in (share, deep or share):
            if not 0 <= one.columns <= MOST_COLUMNS:
                raise UsageError(f"{one.columns} columns: choose 0 to {MOST_COLUMNS}")
        self._share, self._deep = share, deep or share
        self._near: Near | None = None
        super().__init__(out, into, original_of=original_of, count_arcs=count_arcs)

    def _load_heads(self) -> None:
        self._near = Near(self._out, self._into, self._share, self._original_of)
        self._heads = self._near.heads

    def _use(self, level: str, traced_levels: int) -> None:
        if level == INT_LEVELS and self._share != self._deep:
            # The share must be gone before there are wider levels.
            self._share = self._deep
            self._level = self._heads = self._near = None
            # Else parts of it would be taken, and what is left of those be of no use.
            free_unused()
        if self._heads is None:  # or the search before was refused them
            self._load_heads()
        super()._use(level, traced_levels)

    def _queue_capacity(self) -> int:
        return queue_capacity(self._out, self._into)

    def _constants(self) -> dict[str, int | str]:
        return {**TIERED, "PULL_ABOVE": PULL_ABOVE[min(self._share.columns, 2)]}

    def _arguments(self) -> tuple[Any, ...]:
        assert self._near is not None
        return self._near.arguments


def queue_capacity(out: DeviceRows, into: DeviceRows) -> int:
    """Entries of the queue: pieces of rows that are not visited yet stand behind those that are."""
    return out.rows + into.arcs // PIECE_ARCS + 1


class Near:
    """What a device has of rows in host memory: columns of first neighbours, rows of the hubs.

    ``arguments`` are those of the kernel behind the ones that all searches have.
    """

    def __init__(
        self, out: DeviceRows, into: DeviceRows, share: BfsShare, original_of: Any = None
    ) -> None:
        self.heads = _Columns(into, share.columns, original_of)
        near_out = near_in = _first_rows(out, share.out_rows)
        if into is not out or share.in_rows != share.out_rows:
            near_in = _first_rows(into, share.in_rows)
        self.arguments = (
            *(near_out, near_in),
            *(np.uint32(number) for number in (share.out_rows, share.in_rows, share.columns)),
            *(self.heads.column, np.uint32(queue_capacity(out, into))),
        )


def _first_rows(rows: DeviceRows, count: int) -> Any:
    """Neighbours of the first rows, on the device."""
    cupy = cuda()
    if not 0 <= count <= rows.rows:
        raise UsageError(f"{count:,} rows of {rows.rows:,} cannot be copied")
    arcs = int(rows.offsets[count].get())
    if not arcs:
        return NULL
    copy, runtime = cupy.empty(arcs, np.uint32), cupy.cuda.runtime
    stream = cupy.cuda.get_current_stream().ptr
    ends = copy.data.ptr, rows.neighbors.data.ptr
    runtime.memcpyAsync(*ends, copy.nbytes, runtime.memcpyDefault, stream)
    return copy


def column_rows(offsets: Any) -> list[int]:
    """Rows of each column that there may be: none behind them has so many arcs."""
    cupy, rows = cuda(), len(offsets) - 1
    found = cupy.zeros(MOST_COLUMNS, np.uint32)
    arguments = (np.uint32(rows), np.uint32(MOST_COLUMNS), offsets, found)
    launch("heads.cu", "column_rows", rows, *arguments, most=1024)
    return [int(number) for number in found.get()]


class _Columns:
    """First neighbours of all rows, and columns of four behind them."""

    def __init__(self, rows: DeviceRows, columns: int, original_of: Any) -> None:
        cupy, longer = cuda(), column_rows(rows.offsets)
        taken = longer[:columns]
        # Python's integers: NumPy refuses those that are too large for a word, and wraps its own.
        starts = list(accumulate(taken, initial=0))
        spans = np.array([*zip(starts[:-1], taken, strict=True), (0, 0)], np.uint32)
        self.column = cupy.asarray(spans.reshape(-1))
        # The first two columns are the ones that every search knows.
        self.extents = Extents(longer[0], 0, longer[1] if columns > 1 else 0, 0)
        self.head = cupy.full(rows.quads * QUAD_ROWS, 0xFFFFFFFF, np.uint32)
        self.heads = cupy.empty(4 * starts[-1], np.uint32)
        sizes = (np.uint32(rows.rows), np.uint32(columns))
        arguments = (*sizes, self.column, rows.offsets, rows.neighbors, self.head, self.heads)
        launch("heads.cu", "hub_columns", 32 * rows.rows, *arguments, most=FILL_BLOCKS)
        self.head_original = names_of(self.head, original_of, at_once=_COPIED_AT_ONCE)
