"""Rows in device memory, as the searches want them, and what all launches share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.runtime.modules import cuda, launch
from ooc_graph.types import AnyArray, Rows

MOST_ROWS = (1 << 32) - (1 << 20)
"""Rows of one search or rank are numbered in 32 bits.

Kernels go over them in strides of all threads of a grid, and in whole groups of `QUAD_ROWS`: what
is left above keeps these sums from wrapping.
"""
MOST_ID = (1 << 32) - 2
"""Largest original id of 32 bits: the number above means none."""
NARROW = np.dtype(np.uint32)
"""Type of ids that searches of whole graphs take."""
QUAD_ROWS = 128
"""Rows whose bits one thread loads at once; arrays are padded to so many."""

NULL = np.uint64(0)
"""A pointer to nothing, as a kernel's argument."""


@dataclass(frozen=True)
class DeviceRows:
    """Rows in the memory of the current device: CuPy arrays as in `Rows`."""

    offsets: Any
    neighbors: Any
    weights: Any = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1

    @property
    def arcs(self) -> int:
        """Number of arcs."""
        return len(self.neighbors)

    @property
    def quads(self) -> int:
        """Number of groups of `QUAD_ROWS` rows."""
        return -(-self.rows // QUAD_ROWS)


def on_device(array: AnyArray) -> Any:
    """An array on the current device; that which is there stays where it is.

    CuPy's own way from host memory pins as much again, to the next power of two, and keeps it. Of
    ordinary memory nothing is wanted any more once this returns; page-locked memory must be kept.
    """
    cupy = cuda()
    if not isinstance(array, np.ndarray):
        return cupy.asarray(array)
    copied = cupy.empty(array.shape, array.dtype)
    copied.set(np.ascontiguousarray(array))
    return copied


def rows_on_device(rows: Rows, *, weighted: bool, ids: np.dtype[Any] = NARROW) -> DeviceRows:
    """Rows on the current device, of ids of this type.

    They are copied if they are in host memory, or begin at an odd address. Neighbours of another
    type, and more than `MOST_ROWS` rows, are refused (`UsageError`).
    """
    cuda()
    if rows.neighbors.dtype != ids:
        raise UsageError(
            f"this search on a CUDA device takes neighbours of type {ids}, not "
            f"{rows.neighbors.dtype}"
        )
    require_rows(len(rows.offsets) - 1)
    weights = None if rows.weights is None or not weighted else on_device(rows.weights)
    offsets = on_device(rows.offsets).view(np.uint64)
    neighbors = on_device(rows.neighbors)
    if neighbors.data.ptr % 16:  # kernels load four at a time
        neighbors = neighbors.copy()
    return DeviceRows(offsets, neighbors, weights)


def require_rows(rows: int) -> None:
    """Refuse more than `MOST_ROWS` rows (`UsageError`)."""
    if rows > MOST_ROWS:
        raise UsageError(
            f"{rows:,} rows in one piece; a CUDA device searches {MOST_ROWS:,} at most: use more "
            "shards"
        )


def originals_on_device(original_of: AnyArray | None, rows: int) -> Any:
    """Original ids on the device, uint32 (rows,), or None; refuses others than 0 to `MOST_ID`."""
    if original_of is None:
        return None
    originals = on_device(original_of)
    if len(originals) != rows:
        raise UsageError(f"{len(originals):,} original ids were given for {rows:,} vertices")
    if rows and not 0 <= int(originals.min()) <= int(originals.max()) <= MOST_ID:
        raise UsageError(
            f"parents on a CUDA device are named by original ids of 0 to {MOST_ID:,} only"
        )
    return originals.astype(np.uint32, copy=False)


def require_root(root: int, rows: int) -> None:
    """Refuse a root that is no row (`UsageError`)."""
    if not 0 <= root < rows:
        raise UsageError(f"internal id {root} is not one of the graph's {rows:,}")


@dataclass(frozen=True)
class Extents:
    """How far rows of more arcs reach, and how many pieces long rows have."""

    # No row from there on has more than 1, 3, 5 arcs.
    longer1: int
    longer3: int
    longer5: int
    pieces: int  # of arcs behind the first few of each row


def extents(rows: DeviceRows, lane_arcs: int, piece_arcs: int) -> Extents:
    """Look at all rows once."""
    cupy = cuda()
    found = cupy.zeros(4, np.uint64)
    sizes = (np.uint32(rows.rows), np.uint32(lane_arcs), np.uint32(piece_arcs))
    launch("heads.cu", "row_extents", rows.rows, *sizes, rows.offsets, found, most=1024)
    return Extents(*(int(number) for number in found.get()))


def seconds_of(launch: Callable[[], None]) -> float:
    """Seconds from here until the current stream is through with a launch, by events; waits."""
    events = cuda().cuda
    begin, end = events.Event(), events.Event()
    begin.record()
    launch()
    end.record()
    end.synchronize()
    return float(events.get_elapsed_time(begin, end)) / 1e3
