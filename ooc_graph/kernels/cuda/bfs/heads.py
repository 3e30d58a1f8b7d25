"""First neighbours of all rows in columns of their own, for `bfs.cu`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.cuda.runtime.modules import cuda, launch
from ooc_graph.kernels.cuda.runtime.rows import QUAD_ROWS, DeviceRows, extents

# Constants of bfs.cu.
_HEADS, _LANE_ARCS, PIECE_ARCS = 9, 24, 1024


class Heads:
    """First neighbours of all rows in columns, and their original ids."""

    def __init__(self, rows: DeviceRows, original_of: Any) -> None:
        cupy = cuda()
        self.extents = found = extents(rows, _HEADS + _LANE_ARCS, PIECE_ARCS)
        padded = rows.quads * QUAD_ROWS
        self.head = cupy.full(padded, 0xFFFFFFFF, np.uint32)
        self.heads = cupy.empty(4 * (found.longer1 + found.longer5), np.uint32)
        sizes = (np.uint32(n) for n in (rows.rows, found.longer1, found.longer5))
        arguments = (*sizes, rows.offsets, rows.neighbors, self.head, self.heads)
        launch("heads.cu", "hub_heads", rows.rows, *arguments)
        self.head_original = names_of(self.head, original_of)


def names_of(head: Any, original_of: Any, *, at_once: int = 1 << 28) -> Any:
    """Original ids of first neighbours, if there are any, so many rows at a time; else None."""
    if original_of is None:
        return None
    cupy, most = cuda(), max(len(original_of), 1) - 1
    names = cupy.empty(len(head), np.uint32)
    for begin in range(0, len(head), at_once):
        some = slice(begin, begin + at_once)
        # Without a neighbour any number will do: nobody reads it.
        names[some] = original_of[cupy.minimum(head[some], most)]
    return names
