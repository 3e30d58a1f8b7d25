"""Push-pull SSSP on a CUDA device: buffers, and the one launch of a search (`sssp.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import DeviceError
from ooc_graph.kernels.cuda.runtime.modules import SHARED_RESERVE, cuda, launch, limits, on_all
from ooc_graph.kernels.cuda.runtime.rows import QUAD_ROWS, DeviceRows, Extents, extents
from ooc_graph.kernels.cuda.sssp.method import Method, Weighted
from ooc_graph.kernels.cuda.sssp.sums import Sums

# Constants of sssp.cu.
_BLOCK = 1024
_WARP_QUADS = (4, 2, 1)

INFINITE_INTEGERS: dict[str, int | str] = {"INFINITE": "0xFFFFFFFFu"}
"""What ``heads.cu`` is compiled with for integers."""
SHARES: dict[str, int | str] = {"OFFSET": "u32"}
"""And where it is given shares of rows that begin within 32 bits."""
PIECE_CAPACITY = 1 << 20
"""Stretches of long rows that one round can leave to other warps."""
LONG_ROW = 1024
"""Rows with more tuples than this are looked at by a whole warp each."""


def constants(shared_bytes: int, sums: Sums) -> dict[str, int | str]:
    """What ``sssp.cu`` is compiled with where a block may have so much shared memory."""
    for quads in _WARP_QUADS:
        buffer_bytes = quads * QUAD_ROWS * 10 + 128
        if _BLOCK // 32 * buffer_bytes + SHARED_RESERVE <= shared_bytes:
            return {"WARP_QUADS": quads, "BUFFER_BYTES": buffer_bytes, **sums.constants}
    raise DeviceError(f"SSSP needs more than the device's {shared_bytes} bytes of shared memory")


class PushPull(Method):
    """Searches by push and pull, for graphs whose hubs hold much of them; lengths of 32 bits."""

    _COUNTS = slice(6, 16)

    def __init__(self, graph: Weighted) -> None:
        super().__init__(graph)
        self._heaviest = graph.heaviest
        self._heads = self._heads_of(graph)
        # A warp's share begins at a multiple of what it takes at a time.
        taken = QUAD_ROWS * _WARP_QUADS[0]
        self._hubs = graph.rows_above(LONG_ROW) // taken * taken
        cupy, rows, quads = cuda(), self._out.rows, self._out.quads
        self.parent = cupy.empty(rows, np.uint32)
        self._length = cupy.empty(quads * QUAD_ROWS, np.uint32)
        self.length = self._length[:rows]
        self._record = cupy.empty(rows, np.uint64)
        self._marks, self._resolved = (cupy.empty(4 * quads, np.uint32) for _ in range(2))
        self._queue, self._starts = (cupy.empty(rows, np.uint32) for _ in range(2))
        self._pieces = cupy.empty(PIECE_CAPACITY, np.uint64)
        chosen = constants(limits(cupy.cuda.Device().id)[1], graph.sums) | self._constants()
        shared = _BLOCK // 32 * int(chosen["BUFFER_BYTES"])
        self._search = on_all("sssp.cu", "sssp_search", chosen, _BLOCK, shared)

    def _heads_of(self, graph: Weighted) -> Heads:
        """What of the rows stands apart."""
        return Heads(graph.out, graph.into, graph.sums)

    def _constants(self) -> dict[str, int | str]:
        """Constants beside those that all searches have."""
        return {}

    def _arguments(self, root: np.uint32, original_of: Any) -> tuple[Any, ...]:
        out, into, heads = self._out, self._into, self._heads
        return (
            *(np.uint32(out.rows), np.uint32(out.quads), np.uint64(out.arcs)),
            *(out.offsets, out.neighbors, out.weights),
            *(heads.lightest, np.uint32(heads.lightest_shift)),
            *(into.offsets, into.neighbors, into.weights),
            *(heads.head, heads.second, heads.pair, heads.pair2),
            *(np.uint32(heads.longer1), np.uint32(heads.longer3), np.uint32(self._hubs)),
            original_of,
            *(self.parent, self._length, self._record, self._marks, self._resolved),
            *(self._queue, self._starts, self._pieces, np.uint32(PIECE_CAPACITY), self._state),
            *(np.float32(self._step), self._heaviest, root),
        )


class Heads:
    """First arcs of all in-rows in columns, and the lightest weight of each out-row.

    Rows are whole, or five arcs of each at least, with offsets of 32 or 64 bits. ``found`` are the
    extents of the in-rows, if these do not have them themselves.
    """

    def __init__(
        self, out: DeviceRows, into: DeviceRows, sums: Sums, found: Extents | None = None
    ) -> None:
        cupy = cuda()
        found = found or extents(into, 0, 1)
        self.longer1, self.longer3 = found.longer1, found.longer3
        self.head = cupy.empty(2 * into.rows, np.uint32)
        self.second = cupy.empty(self.longer1, np.uint32)
        self.pair = cupy.empty(4 * self.longer1, np.uint32)
        self.pair2 = cupy.empty(4 * self.longer3, np.uint32)
        infinite = INFINITE_INTEGERS if sums.integers else {}
        if into.offsets.dtype.itemsize == 4:
            infinite = {**infinite, **SHARES}
        sizes = (np.uint32(n) for n in (into.rows, self.longer1, self.longer3))
        rows = (into.offsets, into.neighbors, into.weights)
        columns = (self.head, self.second, self.pair, self.pair2)
        given = (*sizes, *rows, *columns)
        launch("heads.cu", "light_heads", into.rows, *given, constants=infinite)
        # Undirected: every second word of the heads. No copy.
        self.lightest, self.lightest_shift = self.head[1:], 1
        if out is not into:
            self.lightest, self.lightest_shift = cupy.empty(out.rows, np.uint32), 0
            given = (np.uint32(out.rows), out.offsets, out.weights, self.lightest)
            launch("heads.cu", "first_weights", out.rows, *given, constants=infinite)
