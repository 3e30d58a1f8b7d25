"""Blocked Floyd-Warshall on a CUDA device: distances of all pairs at once (`floyd.cu`).

The matrix of all pairs of the core is closed in place, by sums of 32 bits, for integer weights
alone (`floyd_warshall`). A read of the pivots' bands serves 128 by 128 pairs, each of which is
lowered in a register, on newer devices by one instruction for sum and minimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.sssp.distances import TOP, holds_all, may_be_longer
from ooc_graph.kernels.cuda.many.core import Core
from ooc_graph.kernels.cuda.runtime.modules import THREADS, blocks_for, cuda, kernel

PIVOTS, SIDE = 64, 128
"""As in ``floyd.cu``."""
SURE_ROWS = 1024
"""Up to so many rows all pairs are found at once, whatever the arcs."""
NEEDED_SHARE = 1 / 16
"""In larger graphs if so many of all pairs have an arc that is needed."""
_CLOSERS = 256


def is_most(sources: int, vertices: int) -> bool:
    """Whether so many of the vertices are sources that all pairs may be found at once."""
    return 0 < vertices <= 2 * sources


def is_sure(rows: int) -> bool:
    """Whether closing the matrix is no slower than searches from all rows, whatever the arcs."""
    return rows <= SURE_ROWS


def pays(core: Core) -> bool:
    """Whether it is faster than searches along the arcs that are needed."""
    return len(core.weight) >= NEEDED_SHARE * core.rows**2


def side_of(rows: int) -> int:
    """Rows of the matrix for so many rows of a graph."""
    return -(-max(rows, 1) // SIDE) * SIDE


def matrix_bytes(rows: int) -> int:
    """Device memory that closing takes."""
    return (side_of(rows) + PIVOTS) * side_of(rows) * 4


def close(core: Core) -> Any:
    """Close the matrix of a core with integer weights >= 0; None if paths may exceed 32 bits.

    On the device, int32 (side, side), rows rounded up to whole squares: how far the row is from the
    column; `TOP` if there is no path.
    """
    cupy = cuda()
    side = side_of(core.rows)
    heaviest = int(core.weight.max()) if len(core.weight) else 0
    if heaviest >= TOP:
        return None
    matrix = cupy.empty((side, side), np.int32)
    across = cupy.empty((PIVOTS, side), np.int32)
    blocks = blocks_for(side * side, 8192)
    kernel("floyd.cu", "floyd_clear")((blocks,), (THREADS,), (np.uint64(side), matrix))
    arcs = np.uint64(len(core.weight)), core.row, core.neighbor, core.weight
    kernel("floyd.cu", "floyd_arcs")((blocks,), (THREADS,), (*arcs, np.uint64(side), matrix))
    bands, tiles = kernel("floyd.cu", "floyd_bands"), kernel("floyd.cu", "floyd_tiles")
    shared = 2 * PIVOTS * SIDE * 4
    tiles.max_dynamic_shared_size_bytes = shared
    # So that two blocks fit a multiprocessor, whatever the driver would give them.
    bands.preferred_shared_memory_carveout = tiles.preferred_shared_memory_carveout = 100
    for first in range(0, core.rows, PIVOTS):
        given = np.uint64(side), np.uint64(first), matrix, across
        bands((2 * side // PIVOTS,), (_CLOSERS,), given)
        tiles((side // SIDE, side // SIDE), (_CLOSERS,), given, shared_mem=shared)
    if not holds_all(heaviest, core.rows) and may_be_longer(matrix.ravel(), heaviest, SIDE * side):
        return None
    return matrix
