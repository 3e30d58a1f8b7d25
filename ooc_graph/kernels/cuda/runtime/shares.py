"""Rows in pinned host memory, with a share of the first arcs of each row on the device too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime.modules import cuda, launch, within_memory
from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows, on_device, require_rows, rows_on_device
from ooc_graph.kernels.cuda.runtime.steps import ids_of
from ooc_graph.types import Dealing, Rows

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
        share = np.uint32(rows.rows), np.uint32(min(least, 0xFFFFFFFF)), np.uint32(shift)
        launch("heads.cu", "share_counts", rows.rows, *share, rows.offsets, counts[1:])
        if int(counts.sum(dtype=np.uint64)) >= 1 << 32:
            raise MemoryBudgetError("2^32 arcs and more are held of all rows at most")
        self.starts = cupy.cumsum(counts, dtype=np.uint32)
        del counts
        self.neighbors = self._copied(rows, rows.neighbors)
        self.weights = None if rows.weights is None else self._copied(rows, rows.weights)

    def _copied(self, rows: DeviceRows, words: Any) -> Any:
        """The first words of each row."""
        kept = cuda().empty(int(self.starts[-1].get()), words.dtype)
        given = np.uint32(rows.rows), self.starts, rows.offsets, words, kept
        wide = {} if words.itemsize == 4 else WIDE_WORDS
        launch("heads.cu", "hold_shares", 32 * rows.rows, *given, constants=wide, most=FILL_BLOCKS)
        return kept

    @property
    def rows(self) -> DeviceRows:
        """The shares as rows."""
        return DeviceRows(self.starts, self.neighbors, self.weights)


@dataclass(frozen=True)
class RankRows:
    """Rows of a rank as its kernels are given them, to push and to pull along.

    ``into`` is ``out`` if the graph is undirected. ``offsets`` are those of all out-arcs, also if
    ``out`` has only the first arcs of each row. ``constants`` are what kernels are compiled with
    to find the rows; ``weights`` is the type of the weights, None if there are none.
    """

    out: DeviceRows
    into: DeviceRows
    arcs: int
    offsets: Any
    weights: np.dtype[Any] | None = None
    constants: Mapping[str, int | str] = field(default_factory=dict)


class Tier:
    """Where a rank has its rows: on the device, all of them."""

    # What its kernels are compiled with.
    constants: ClassVar[dict[str, int | str]] = {}

    def load(self, rows: Rows, *, weighted: bool, ids: np.dtype[Any]) -> DeviceRows:
        """Rows of one side as its kernels are given them; errors as of `rows_on_device`."""
        return rows_on_device(rows, weighted=weighted, ids=ids)


ON_DEVICE = Tier()


@dataclass(frozen=True)
class Pinned(Tier):
    """Rows are in pinned memory (``allocator``), and `Shares` of them on the device too."""

    allocator: PinnedAllocator
    least: int
    shift: int

    constants: ClassVar[dict[str, int | str]] = TIERED

    def load(self, rows: Rows, *, weighted: bool, ids: np.dtype[Any]) -> DeviceRows:
        """As of `Tier`."""
        outside = rows_on_device(self.allocator.on_device(rows), weighted=weighted, ids=ids)
        return TieredRows.of(outside, self.least, self.shift)


def rank_rows(
    dealing: Dealing, out: Rows, into: Rows, tier: Tier, *, weighted: bool = False
) -> RankRows:
    """Rows of a shard in a tier; `MemoryBudgetError` if the device's memory is too small."""
    ids = ids_of(dealing.vertices)
    require_rows(dealing.rows)
    with within_memory("the rows of a rank"):
        pushed = tier.load(out, weighted=weighted, ids=ids)
        pulled = pushed if into is out else tier.load(into, weighted=weighted, ids=ids)
    weights = out.weights.dtype if weighted and out.weights is not None else None
    return RankRows(pushed, pulled, len(out.neighbors), pushed.offsets, weights, tier.constants)


@dataclass(frozen=True)
class TieredRows(DeviceRows):
    """Rows for kernels compiled with `TIERED`; columns are addresses (`Tiered` of ``rank.cuh``)."""

    outside: DeviceRows | None = None
    shares: Shares | None = None

    @classmethod
    def of(cls, outside: DeviceRows, least: int, shift: int) -> TieredRows:
        """Rows in host memory, with `Shares` of them on the device."""
        shares = Shares(outside, least, shift)

        def column(near: Any, far: Any) -> Any:
            arrays = near, far, shares.starts, outside.offsets
            return on_device(np.array([array.data.ptr for array in arrays], np.uint64))

        weights = None if outside.weights is None else column(shares.weights, outside.weights)
        neighbors = column(shares.neighbors, outside.neighbors)
        return cls(outside.offsets, neighbors, weights, outside, shares)
