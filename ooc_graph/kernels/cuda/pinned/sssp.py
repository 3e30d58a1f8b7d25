"""SSSP on a CUDA device of a graph whose rows stand in pinned host memory.

Rows ascend by weight, and what a search reads of a row is its lightest arcs, of a long row more
than of a short one. So of each row a share of its first arcs is on the device too. Everything else
is read over the bus, where a search comes to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.kernels.cuda.pinned.bfs import FILL_BLOCKS, TIERED
from ooc_graph.kernels.cuda.runtime.bus import asked_bytes, counted_at, forget_asked
from ooc_graph.kernels.cuda.runtime.modules import THREADS, blocks_for, cuda, kernel
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows, extents
from ooc_graph.kernels.cuda.sssp.method import Method, Weighted
from ooc_graph.kernels.cuda.sssp.pull import Heads, PushPull
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.types import AnyArray, Rows

LEAST_ARCS = 5
"""Arcs of each row that are on the device, if it has so many: those that stand in columns too."""
COUNTED: dict[str, int | str] = counted_at(72)
"""What ``sssp.cu`` is compiled with that counts what it asks of host memory."""


@dataclass(frozen=True)
class SsspHold:
    """What of each row is on the device too: ``least`` arcs, and one in ``2**shift`` of its.

    At least 1 arc (`UsageError`): the last one held of a row bounds the others from below.
    """

    least: int
    shift: int

    def __post_init__(self) -> None:
        if self.least < 1:
            raise UsageError("one arc of each row is held at least")


class CudaTierSsspSearch(CudaSsspSearch):
    """As `CudaSsspSearch`, of rows that the device reads where they are; by push and pull alone.

    Parameters
    ----------
    out, into
        Light-first rows of out- and in-arcs (the same object when undirected); offsets on the
        device or in host memory (copied), neighbours and weights as the device's views of pinned
        host memory. Weights are float32.
    held
        What is copied to the device.
    count_bus
        Whether `asked_bytes` is known, which takes a little time.

    Raises
    ------
    UsageError
        As of `CudaSsspSearch`; or the weights are of another type: such graphs go by near-far.
    """

    def __init__(
        self,
        out: Rows,
        into: Rows,
        tuples: AnyArray,
        held: SsspHold,
        *,
        original_of: AnyArray | None = None,
        count_bus: bool = False,
    ) -> None:
        if held.least < LEAST_ARCS:
            raise UsageError(f"{LEAST_ARCS} arcs of each row are held at least")
        self._held, self._count_bus = held, count_bus
        if out.weights is not None and out.weights.dtype != np.float32:
            raise UsageError(
                f"SSSP with weights of type {out.weights.dtype} wants all rows on the device, "
                "which is too small for them; with float32 it does not"
            )
        super().__init__(out, into, tuples, original_of=original_of)

    def _method_for(self, graph: Weighted, pulls: bool) -> Method:
        """Push and pull, also where that does not pay: who chose this way has asked fewer rows."""
        del pulls
        return _TierPushPull(graph, self._held, self._count_bus)

    @property
    def asked_bytes(self) -> int | None:
        """Bytes of rows in host memory that the last search asked for; None: not counted.

        In sectors of 32 bytes; what was asked for twice counts twice.
        """
        method = self._method
        assert isinstance(method, _TierPushPull)
        return method.asked_bytes


class _TierPushPull(PushPull):
    """Push and pull on rows in host memory."""

    def __init__(self, graph: Weighted, held: SsspHold, count_bus: bool) -> None:
        self._count_bus = count_bus
        self._near_out = _Shares(graph.out, held)
        self._near_in = self._near_out
        if graph.into is not graph.out:
            self._near_in = _Shares(graph.into, held)
        super().__init__(graph)

    def _heads_of(self, graph: Weighted) -> Heads:
        out = self._near_out.rows
        # One and the same object when undirected: then no column of lightest weights is needed.
        into = out if self._near_in is self._near_out else self._near_in.rows
        return Heads(out, into, graph.sums, extents(graph.into, 0, 1))

    def _constants(self) -> dict[str, int | str]:
        return {**TIERED, **COUNTED} if self._count_bus else TIERED

    @property
    def asked_bytes(self) -> int | None:
        return asked_bytes(self._state, COUNTED) if self._count_bus else None

    def launch(self, root: int, original_of: Any) -> Callable[[], None]:
        if self._count_bus:
            forget_asked(self._state, COUNTED)
        return super().launch(root, original_of)

    def _arguments(self) -> tuple[Any, ...]:
        sides = self._near_out, self._near_in
        return tuple(a for side in sides for a in (side.starts, side.neighbors, side.weights))


class _Shares:
    """The first arcs of each row: where they begin, neighbours, weights."""

    def __init__(self, rows: DeviceRows, held: SsspHold) -> None:
        cupy = cuda()
        counts = cupy.zeros(rows.rows + 1, np.uint32)
        share = (np.uint32(min(held.least, 0xFFFFFFFF)), np.uint32(held.shift))
        blocks = (blocks_for(rows.rows),)
        count = kernel("heads.cu", "share_counts")
        count(blocks, (THREADS,), (np.uint32(rows.rows), *share, rows.offsets, counts[1:]))
        if int(counts.sum(dtype=np.uint64)) >= 1 << 32:
            raise MemoryBudgetError("2^32 arcs and more are held of all rows at most")
        self.starts = cupy.cumsum(counts, dtype=np.uint32)
        del counts
        arcs = int(self.starts[-1].get())
        self.neighbors, self.weights = (cupy.empty(arcs, np.uint32) for _ in range(2))
        fill = kernel("heads.cu", "hold_shares")
        grid = (min(FILL_BLOCKS, blocks_for(32 * rows.rows)),)
        for words, kept in ((rows.neighbors, self.neighbors), (rows.weights, self.weights)):
            arguments = (np.uint32(rows.rows), self.starts, rows.offsets, words, kept)
            fill(grid, (THREADS,), arguments)

    @property
    def rows(self) -> DeviceRows:
        """The shares as rows."""
        return DeviceRows(self.starts, self.neighbors, self.weights)
