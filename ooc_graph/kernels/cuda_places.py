"""Arcs of short rows at fixed places, for the narrow levels of `bfs.cu`."""

from __future__ import annotations

import numpy as np

from ooc_graph.kernels.cuda_held import DeviceRows
from ooc_graph.kernels.cuda_modules import THREADS, blocks_for, cuda, kernel
from ooc_graph.kernels.interface import FIXED_ARCS, FIXED_ID_BITS

PLANES = 7
"""Places that a row may have; longer rows end narrow levels."""


def may_place(rows: int) -> bool:
    """Tell whether ids leave room for how many places a row has, and for an arc that is none."""
    return rows < 1 << FIXED_ID_BITS


class Places:
    """Four arcs of each row, and four more of the longer rows in each of some planes behind.

    Parameters
    ----------
    out
        Rows on the device, fewer than 2**29 (`may_place`).

    Attributes
    ----------
    arcs
        uint32 (places, 4): neighbours, in the upper three bits how many more places their rows
        have; all ones where there is no arc. 16 bytes a row, and 16 more for each row of a plane.
    planes
        uint32 (PLANES,): where each plane begins. Planes are prefixes of the rows, which fall by
        degree.
    """

    def __init__(self, out: DeviceRows) -> None:
        cupy = cuda()
        degrees = cupy.diff(out.offsets)
        longer = [out.rows]
        for plane in range(1, PLANES):
            wide = cupy.flatnonzero(degrees > FIXED_ARCS * plane)
            longer.append(int(wide[-1]) + 1 if len(wide) else 0)
        starts = np.cumsum([0, *longer])
        self.arcs = cupy.empty((int(starts[-1]), FIXED_ARCS), np.uint32)
        self.planes = cupy.asarray(starts[:-1].astype(np.uint32))
        fill = kernel("heads.cu", "narrow_places")
        bounds = cupy.asarray(np.array(longer, np.uint32))
        sizes = np.uint32(out.rows), np.uint32(PLANES)
        arguments = (*sizes, bounds, self.planes, out.offsets, out.neighbors, self.arcs)
        fill((blocks_for(out.rows),), (THREADS,), arguments)
