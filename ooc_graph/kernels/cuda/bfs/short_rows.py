"""Arcs of short rows at fixed positions, for the narrow levels of `bfs.cu`."""

from __future__ import annotations

import numpy as np

from ooc_graph.kernels.common.decisions import FIXED_ARCS, FIXED_ID_BITS, rows_are_short
from ooc_graph.kernels.cuda.runtime.modules import cuda, launch
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows

PLANES = 7
"""Positions of four arcs that a row may have; longer rows end narrow levels."""
MOST_MEAN_ARCS = 8
"""Graphs with more arcs a row get no fixed rows."""
MOST_MEAN_POSITIONS = 3
"""Nor do those whose planes would take more positions a row."""


def are_short(out: DeviceRows, into: DeviceRows) -> bool:
    """Tell whether the rows of both sides are short."""
    return rows_are_short(_widest(out), _widest(into))


def _widest(rows: DeviceRows) -> int:
    """Most arcs of a row; of the first alone if that is too long for short rows already."""
    if not rows.rows:
        return 0
    first = int(rows.offsets[1].get())
    return first if not rows_are_short(first, first) else int(cuda().diff(rows.offsets).max())


def may_fix_rows(rows: int, arcs: int) -> bool:
    """Tell whether a graph may get fixed rows: ids leave bits free, and the memory is bounded."""
    return rows < 1 << FIXED_ID_BITS and arcs <= MOST_MEAN_ARCS * rows


class FixedRows:
    """Four arcs of each row, and four more of the longer rows in each of some planes behind.

    On the device are the ``arcs``, uint32 (positions, 4): neighbours, and in the upper three bits
    how many more positions their rows have; all ones if there is no arc. They take 16 bytes a row,
    and 16 more for each row of a plane. ``planes``, uint32 (PLANES,), is where each plane begins.
    Planes are prefixes of the rows, which fall by degree.
    """

    @classmethod
    def unless_too_many(cls, out: DeviceRows) -> FixedRows | None:
        """Positions for short rows, or None if they would take too much memory."""
        if not may_fix_rows(out.rows, out.arcs):
            return None
        if sum(_longer(out)) > MOST_MEAN_POSITIONS * out.rows:
            return None
        return cls(out)

    def __init__(self, out: DeviceRows) -> None:
        cupy = cuda()
        longer = _longer(out)
        starts = np.cumsum([0, *longer])
        self.arcs = cupy.empty((int(starts[-1]), FIXED_ARCS), np.uint32)
        self.planes = cupy.asarray(starts[:-1].astype(np.uint32))
        bounds = cupy.asarray(np.array(longer, np.uint32))
        sizes = np.uint32(out.rows), np.uint32(PLANES)
        arguments = (*sizes, bounds, self.planes, out.offsets, out.neighbors, self.arcs)
        launch("heads.cu", "fix_short_rows", out.rows, *arguments)


def _longer(out: DeviceRows) -> list[int]:
    """Rows of each plane: none behind them has so many arcs."""
    cupy, longer = cuda(), [out.rows]
    degrees = cupy.diff(out.offsets)
    for plane in range(1, PLANES):
        wide = cupy.flatnonzero(degrees > FIXED_ARCS * plane)
        longer.append(int(wide[-1]) + 1 if len(wide) else 0)
    return longer
