"""What a device has of rows in pinned host memory, for `bfs.cu` and `bfs_peers.cu`.

The first neighbours of all rows, in columns, and the rows of the hubs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.bfs.heads import PIECE_ARCS, names_of
from ooc_graph.kernels.cuda.runtime.modules import cuda, launch
from ooc_graph.kernels.cuda.runtime.rows import NULL, QUAD_ROWS, DeviceRows, Extents
from ooc_graph.kernels.cuda.runtime.shares import FILL_BLOCKS

MOST_COLUMNS = 7
"""Columns of four neighbours that may stand on the device."""
_COPIED_AT_ONCE = 1 << 19


@dataclass(frozen=True)
class BfsShare:
    """What of the rows is on the device too."""

    columns: int  # of four neighbours of in-rows, behind the first one; `MOST_COLUMNS` at most
    # The first rows of each side, the hubs', that are there whole.
    out_rows: int = 0
    in_rows: int = 0


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
    """Rows of each column, (`MOST_COLUMNS`,): rows behind these are too short to reach it."""
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
