"""Near-far SSSP on a CUDA device: buffers, and the one launch of a search (`sssp_near.cu`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ooc_graph.errors import DeviceError
from ooc_graph.kernels.common.decisions import FIXED_ARCS, fixed_rows_pay
from ooc_graph.kernels.cuda.runtime.modules import SHARED_RESERVE, cuda, launch, limits, on_all
from ooc_graph.kernels.cuda.runtime.rows import NULL
from ooc_graph.kernels.cuda.sssp.method import Method, Weighted
from ooc_graph.kernels.cuda.sssp.sums import Sums

# Constants of sssp_near.cu.
_BLOCK = 512
_ARCS = 4
_ENTRY_BYTES = 16

MOST_FRONT = 2048
"""Entries of a round that one block does alone, where its shared memory has room for two such."""
NEAR_SHARE, FAR_SHARE = 2, 4
"""Lists hold one in this many of the rows; where more wait, all rows are looked through."""
KEEP_SMALL = True
"""Whether one block holds all lengths in shared memory where it can."""
HUB_ARCS, GIANT_ARCS = 64, 8192
"""Rows with more tuples than this are looked at by a warp, by a block each."""


def constants(shared_bytes: int, sums: Sums) -> dict[str, int | str]:
    """What ``sssp_near.cu`` is compiled with where a block may have so much shared memory."""
    front = MOST_FRONT
    while 2 * front * _ENTRY_BYTES + SHARED_RESERVE > shared_bytes:
        front //= 2
        if front < _BLOCK:
            raise DeviceError(
                f"SSSP needs more than the device's {shared_bytes} bytes of shared memory"
            )
    return {"BLOCK": _BLOCK, "ARCS": _ARCS, "FRONT": front, **sums.constants}


class NearFar(Method):
    """Searches by near-far, for rows and sums of all kinds."""

    _COUNTS = slice(2, 12)

    def __init__(self, graph: Weighted) -> None:
        super().__init__(graph)
        self._giants, self._hubs = (graph.rows_above(n) for n in (GIANT_ARCS, HUB_ARCS))
        out, sums = graph.out, graph.sums
        _, most = limits(cuda().cuda.Device().id)
        chosen = constants(most, sums)
        front, threads, most_bytes = int(chosen["FRONT"]), int(chosen["BLOCK"]), 0
        shared, lengths = 2 * front * _ENTRY_BYTES, out.rows * sums.length.itemsize
        if KEEP_SMALL and shared + lengths + SHARED_RESERVE <= most:
            chosen["SMALL"], shared, most_bytes = 1, shared + lengths, most - SHARED_RESERVE
        self._fixed = self._fix_rows(chosen)
        chosen["FIXED"] = int(self._fixed[0] is not NULL)
        self._allocate(sums, front)
        self._search = on_all(
            "sssp_near.cu", "sssp_near", chosen, threads, shared, most_shared_bytes=most_bytes
        )

    def _fix_rows(self, chosen: dict[str, int | str]) -> tuple[Any, Any]:
        """Neighbours and weights of all rows' first arcs, at fixed positions, if that pays."""
        cupy, out = cuda(), self._out
        longer = int((cupy.diff(out.offsets) > FIXED_ARCS).sum())
        if not fixed_rows_pay(out.rows, out.arcs, longer):
            return NULL, NULL
        neighbors = cupy.empty(FIXED_ARCS * out.rows, np.uint32)
        weights = cupy.empty(FIXED_ARCS * out.rows, out.weights.dtype)
        chosen = {**chosen, "FIXED": 1}
        rows = (np.uint32(out.rows), out.offsets, out.neighbors, out.weights, neighbors, weights)
        launch("sssp_near.cu", "fix_rows", out.rows, *rows, constants=chosen)
        return neighbors, weights

    def _allocate(self, sums: Sums, front: int) -> None:
        cupy, rows = cuda(), self._out.rows
        self.parent = cupy.empty(rows, np.uint32)
        self.length, self._done = (cupy.empty(rows, sums.length) for _ in range(2))
        self._marks = cupy.empty(-(-rows // 32), np.uint32)
        self._near_capacity = rows // NEAR_SHARE + front
        self._far_capacity = rows // FAR_SHARE + front
        # The memory of the first list also holds a word a row, once lengths are final.
        self._near_stride = max(self._near_capacity, -(-4 * rows // _ENTRY_BYTES))
        self._near = cupy.empty(2 * self._near_stride * _ENTRY_BYTES // 4, np.uint32)
        self._far = cupy.empty(2 * self._far_capacity * _ENTRY_BYTES // 4, np.uint32)

    @property
    def _lane_bits(self) -> int:
        """Two to the power of it: lanes that share a row, so that most rows take one turn."""
        if self._fixed[0] is not NULL:
            return 0
        mean = self._out.arcs / max(self._out.rows, 1)
        return min(max(math.ceil(mean / _ARCS) - 1, 0).bit_length(), 5)

    def _arguments(self, root: np.uint32, original_of: Any) -> tuple[Any, ...]:
        out, into = self._out, self._into
        return (
            *(np.uint32(out.rows), out.offsets, out.neighbors, out.weights),
            *(into.offsets, into.neighbors, into.weights, *self._fixed),
            *(np.uint32(self._giants), np.uint32(self._hubs), np.uint32(self._lane_bits)),
            original_of,
            *(self.parent, self.length, self._done, self._marks, self._near, self._far),
            *(np.uint64(self._near_stride), np.uint32(self._near_capacity)),
            *(np.uint32(self._far_capacity), self._state, np.float64(self._step), root),
        )
