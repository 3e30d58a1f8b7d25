"""Rows in pinned host memory, with a share of the first arcs of each row on the device too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime.modules import THREADS, blocks_for, cuda, kernel
from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows, on_device, rows_on_device
from ooc_graph.types import Rows

TIERED: dict[str, int | str] = {"TIERED": 1}
"""What kernels are compiled with that find rows in host memory."""
WIDE_WORDS: dict[str, int | str] = {"WORD": "u64"}
"""What ``heads.cu`` is compiled with to copy neighbours or weights of 64 bits."""
FILL_BLOCKS = 2048
"""Blocks that copy rows to the device, at most; a warp takes a row at a time."""


class Shares:
    """The first arcs of each row on the device: where they begin, neighbours, weights.

    Of each row ``least`` arcs, and one in ``2**shift`` of its arcs. Offsets are on the device;
    neighbours and weights, if there are any, wherever it reads them. 2**32 arcs or more of all rows
    are a `MemoryBudgetError`.
    """

    def __init__(self, rows: DeviceRows, least: int, shift: int) -> None:
        cupy = cuda()
        counts = cupy.zeros(rows.rows + 1, np.uint32)
        share = (np.uint32(min(least, 0xFFFFFFFF)), np.uint32(shift))
        blocks = (blocks_for(rows.rows),)
        count = kernel("heads.cu", "share_counts")
        count(blocks, (THREADS,), (np.uint32(rows.rows), *share, rows.offsets, counts[1:]))
        if int(counts.sum(dtype=np.uint64)) >= 1 << 32:
            raise MemoryBudgetError("2^32 arcs and more are held of all rows at most")
        self.starts = cupy.cumsum(counts, dtype=np.uint32)
        del counts
        self.neighbors = self._held(rows, rows.neighbors)
        self.weights = None if rows.weights is None else self._held(rows, rows.weights)

    def _held(self, rows: DeviceRows, words: Any) -> Any:
        """The first words of each row."""
        kept = cuda().empty(int(self.starts[-1].get()), words.dtype)
        fill = kernel("heads.cu", "hold_shares", {} if words.itemsize == 4 else WIDE_WORDS)
        grid = (min(FILL_BLOCKS, blocks_for(32 * rows.rows)),)
        fill(grid, (THREADS,), (np.uint32(rows.rows), self.starts, rows.offsets, words, kept))
        return kept

    @property
    def rows(self) -> DeviceRows:
        """The shares as rows."""
        return DeviceRows(self.starts, self.neighbors, self.weights)


@dataclass(frozen=True)
class OnDevice:
    """Where a rank has its rows: all on the device."""

    constants: ClassVar[dict[str, int | str]] = {}
    """What its kernels are compiled with."""

    def hold(self, rows: Rows, *, weighted: bool, ids: np.dtype[Any]) -> DeviceRows:
        """Rows as its kernels are given them; see `rows_on_device`."""
        return rows_on_device(rows, weighted=weighted, ids=ids)


ON_DEVICE = OnDevice()


@dataclass(frozen=True)
class Pinned:
    """Where a rank has its rows: in pinned memory (``room``), and `Shares` on the device too."""

    room: PinnedAllocator
    least: int
    shift: int

    constants = TIERED

    def hold(self, rows: Rows, *, weighted: bool, ids: np.dtype[Any]) -> DeviceRows:
        """As of `OnDevice`."""
        outside = rows_on_device(self.room.on_device(rows), weighted=weighted, ids=ids)
        return TieredRows.of(outside, Shares(outside, self.least, self.shift))


@dataclass(frozen=True)
class TieredRows(DeviceRows):
    """Rows for kernels compiled with `TIERED`; columns are addresses (`Tiered` of ``rank.cuh``)."""

    outside: DeviceRows | None = None
    held: Shares | None = None

    @classmethod
    def of(cls, outside: DeviceRows, held: Shares) -> TieredRows:
        """Rows in host memory, with their first arcs on the device."""

        def column(near: Any, far: Any) -> Any:
            arrays = near, far, held.starts, outside.offsets
            return on_device(np.array([array.data.ptr for array in arrays], np.uint64))

        weights = None if outside.weights is None else column(held.weights, outside.weights)
        neighbors = column(held.neighbors, outside.neighbors)
        return cls(outside.offsets, neighbors, weights, outside, held)
