"""What a CUDA device has of rows in a store: first arcs in columns, and blocks on their way.

Nothing here knows of a search. The first arc of each row stands apart; behind it come columns of
four, the k-th as long as there are rows of more than 1 + 4 k arcs. The first few columns are in
device memory, the others in pinned host memory, which kernels read where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.common.store.rows import Window
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.pinned import PinnedArray
from ooc_graph.kernels.cuda.runtime.rows import QUAD_ROWS, on_device
from ooc_graph.kernels.cuda.runtime.steps import wait
from ooc_graph.types import AnyArray

SOURCE = "bfs_disk.cu"
NO_VERTEX = 0xFFFFFFFF
"""What stands where a row has no more arcs."""
REQUEST_BYTES = 4 * 8 + 1
"""Device memory of a request: row, place, arcs, arcs before it, and whether it was a hit."""


def padded(rows: int) -> int:
    """Rows with those that arrays on the device are padded to."""
    return -(-max(rows, 1) // QUAD_ROWS) * QUAD_ROWS


def ends_of(lengths: AnyArray) -> AnyArray:
    """Offsets of rows of these lengths, uint64 (rows + 1,), in host memory."""
    ends = np.zeros(len(lengths) + 1, np.uint64)
    np.cumsum(lengths, dtype=np.uint64, out=ends[1:])
    return ends


class HeadColumns:
    """First arcs of the in-rows, where the current device reads them; none are there at first.

    ``near`` are the rows of each column in device memory, which is allocated here, and ``far`` the
    columns behind them, uint32 (4 * rows of the column,): the device's views of pinned memory,
    filled with `NO_VERTEX`.
    """

    def __init__(self, rows: int, near: Sequence[int], far: Sequence[Any]) -> None:
        cupy = cuda()
        self.head = cupy.full(padded(rows), NO_VERTEX, np.uint32)  # on the device
        made = [cupy.full(4 * max(count, 1), NO_VERTEX, np.uint32) for count in near]
        self._kept = [*made, *far]
        addresses = [column.data.ptr for column in self._kept]
        self.column = cupy.asarray(np.array(addresses or [0], np.uint64))  # on the device
        self.columns = len(addresses)
        self.loaded = 1 + 4 * self.columns


class WholeRows:
    """Some rows that are kept whole, one after the other, where the current device reads them.

    Their lengths are int32, in host memory, and arcs stand in ``pinned`` host memory, uint32 of all
    of them, or in device memory that is allocated here. On the device are ``starts``, uint64 (rows
    + 1,), and ``arcs``, uint32.
    """

    def __init__(self, first: int, lengths: AnyArray, pinned: PinnedArray | None) -> None:
        cupy = cuda()
        self.first, self.rows = first, len(lengths)
        self._starts = ends_of(lengths)
        self.starts = on_device(self._starts)
        self._pinned = pinned
        count = int(self._starts[-1])
        self.arcs = cupy.empty(count, np.uint32) if pinned is None else pinned.device

    def take(self, window: Window, begin: int, end: int, blocks: AnyArray) -> None:
        """Take what was asked for of these rows; others are left out. Waits."""
        for index in range(begin, end):
            row = int(window.row[index]) - self.first
            if not 0 <= row < self.rows:
                continue
            offset = window.offset[0, index]
            target = int(self._starts[row]) + int(window.cursor[index])
            arcs = blocks[offset : offset + window.asked[index]]
            if self._pinned is None:
                _send(self.arcs[target:], arcs)
            else:
                self._pinned.host[target : target + len(arcs)] = arcs
        wait()


class Requests:
    """Room on the device for a batch of blocks, and for a request for each row of a window."""

    def __init__(self, rows: int, arcs: int) -> None:
        cupy = cuda()
        self.row, self.offset, self.asked = (cupy.empty(rows, np.int64) for _ in range(3))
        self.starts = cupy.empty(rows + 1, np.uint64)
        self._sent_starts: AnyArray | None = None
        self.hit = cupy.empty(rows, np.uint8)
        self.blocks = cupy.empty(arcs, np.uint32)

    def send(self, window: Window, begin: int, end: int, blocks: AnyArray) -> np.uint32:
        """Have requests ``begin … end - 1`` and their blocks brought here; how many there are.

        ``blocks`` must stay as they are until the current stream was waited for.
        """
        _send(self.blocks, blocks)
        _send(self.row, window.row[begin:end])
        _send(self.offset, window.offset[0, begin:end])
        _send(self.asked, window.asked[begin:end])
        return np.uint32(end - begin)

    def send_starts(self, window: Window, begin: int, end: int) -> int:
        """As `send`, how many arcs are asked for before each request; those of all."""
        starts = ends_of(window.asked[begin:end])
        _send(self.starts, starts)
        self._sent_starts = starts  # until the next ones: then the stream has been waited for
        return int(starts[-1])


def _send(target: Any, source: AnyArray) -> None:
    """Copy to the beginning of an array on the device; the source stays until it was waited for."""
    if source.nbytes > target.nbytes or not source.flags.c_contiguous:
        raise ValueError(f"{source.nbytes} bytes do not go to {target.nbytes} as they are")
    runtime, stream = cuda().cuda.runtime, cuda().cuda.get_current_stream().ptr
    ends = target.data.ptr, source.ctypes.data
    runtime.memcpyAsync(*ends, source.nbytes, runtime.memcpyHostToDevice, stream)
