"""Heads of rows within a CUDA device's reach: on the device, and behind that in pinned memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.bitmap import WORD_BITS, whole_set, words_for
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.kernels.common.store.scans import heaviest_ends
from ooc_graph.kernels.common.store.windows import LoadedArcs
from ooc_graph.kernels.cuda.pinned.sssp import SsspShare
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.pinned import PinnedArray
from ooc_graph.kernels.cuda.runtime.rows import NULL, require_rows
from ooc_graph.kernels.cuda.runtime.steps import Steps
from ooc_graph.kernels.cuda.store.staged import Launch, Staged
from ooc_graph.types import AnyArray, IntArray

HEAD_SOURCE, TAIL_SOURCE = "disk_sssp.cu", "disk_tails.cu"
_MOST_LEAST = 0xFFFFFFFF


class DiskBuffers:
    """What loading writes on the device, then searches; allocated once. ``pins`` as of `Staged`."""

    def __init__(self, *sides: TierRows, pins: bool) -> None:
        rows = len(sides[0].heads.lengths)
        # On the device.
        self.distance, self.parent = (cuda().empty(count, np.uint32) for count in (rows, rows + 1))
        self.staged = Staged(*sides, pins=pins)


class DeviceHeads:
    """The first arcs of every row, neighbours and weights: room for them, and then they.

    ``lengths``, uint32 (rows,), are in host memory, and ``share`` says how many arcs of each row.
    The first rows' heads are on the device, ``device_arcs`` at most (None: all), and those of the
    other rows in pinned host memory, which the device reads over the bus; ``pinned`` makes its
    arrays. On the device are also 4 bytes and a bit a row. Without ``buffers`` 8 bytes a row are
    used meanwhile.

    If memory is refused, or there are 2**32 arcs or more, that is a `MemoryBudgetError`.
    """

    def __init__(
        self,
        lengths: AnyArray,
        share: SsspShare,
        device_arcs: int | None = None,
        *,
        buffers: DiskBuffers | None = None,
        pinned: Callable[[int, Any], PinnedArray] = PinnedArray,
    ) -> None:
        require_rows(len(lengths))
        self.share = SsspShare(min(share.least, _MOST_LEAST), min(share.shift, WORD_BITS - 1))
        with within_memory("the first arcs of every row"):
            self._measure(lengths, buffers)
            self._release_others(self.arcs if device_arcs is None else device_arcs, pinned)

    def _measure(self, lengths: AnyArray, buffers: DiskBuffers | None) -> None:
        cupy, rows = cuda(), len(lengths)
        words = 2 * words_for(rows)
        self.longer = cupy.zeros(words, np.uint32)
        if buffers is None:
            counts, there = (cupy.empty(count, np.uint32) for count in (rows + 1, rows))
        else:
            counts, there = buffers.parent, buffers.distance
        counts[:1].fill(0)
        there.set(lengths)  # `asarray` would pin as much host memory
        rule = np.uint32(self.share.least), np.uint32(self.share.shift)
        sizes = np.uint32(rows), np.uint32(words)
        steps = Steps(HEAD_SOURCE)
        steps.launch("measure_heads", 32 * words, *sizes, *rule, there, counts[1:], self.longer)
        del there
        self.arcs = int(counts.sum(dtype=np.uint64))
        if self.arcs >= 1 << 32:
            raise MemoryBudgetError("2^32 arcs and more are held of all rows at most")
        self._starts = cupy.cumsum(counts, dtype=np.uint32)

    def _release_others(self, device_arcs: int, pinned: Callable[[int, Any], PinnedArray]) -> None:
        cupy, self.device_arcs = cuda(), self.arcs
        if device_arcs < self.arcs:
            # No row is cut in two.
            most = cupy.asarray(np.array([device_arcs], np.uint32))
            row = int(cupy.searchsorted(self._starts, most, side="right")[0]) - 1
            self.device_arcs = int(self._starts[row])
        self._near = [cupy.empty(self.device_arcs, kind) for kind in (np.uint32, np.float32)]
        rest = self.arcs - self.device_arcs
        self._far = [pinned(rest, kind) for kind in (np.uint32, np.float32) if rest]
        near = [array.data.ptr for array in self._near]
        far = [array.device.data.ptr for array in self._far] or [int(NULL)] * 2
        addresses = [self._starts.data.ptr, self.longer.data.ptr, *near, *far, self.device_arcs]
        self.addresses = cupy.asarray(np.array(addresses, np.uint64))
        """What kernels are given: `Heads` in ``disk_arcs.cuh``."""

    @property
    def pinned_bytes(self) -> int:
        """Bytes in pinned host memory."""
        return sum(array.host.nbytes for array in self._far)

    def fill(
        self, rows: TierRows, *, pins: bool = True, buffers: DiskBuffers | None = None
    ) -> np.float32:
        """Bring all heads here, in the order of the tier; the largest weight of rows seen whole.

        Rows are of the same side, with limits: what is fetched of each, its head or more. Without
        ``buffers`` blocks are staged in as much memory, which is free again.
        """
        with within_memory("room for what is fetched of the store"):
            staged = Staged(rows, pins=pins) if buffers is None else buffers.staged
            steps = Steps(TAIL_SOURCE)

        def launch(asked: IntArray, fetched: tuple[Any, ...]) -> None:
            steps.launch("hold_arcs", 32 * len(asked), *fetched, self.addresses)

        return np.float32(fill_heads(rows, staged, launch))


def fill_heads(rows: TierRows, staged: Staged, launch: Launch) -> Any:
    """Fetch what the limits of all rows say, in the order of the tier, for a kernel.

    Returns the largest weight of the rows that were seen whole; 0 if there are none.
    """
    heaviest = np.zeros(1, rows.dtypes[-1])

    def note(window: Any, begin: int, end: int, columns: tuple[AnyArray, ...]) -> None:
        if len(columns) > 1:
            heaviest_ends(rows.heads.lengths, window, begin, end, columns[1], heaviest)

    for waiting in rows.rows(whole_set(len(rows.heads.lengths))):
        staged.scan(rows, waiting, launch, note=note, look=rows.most_look)
    return heaviest[0]


@dataclass(frozen=True)
class DiskSide:
    """Rows of one side, of which host memory has lengths and places; and their heads, filled."""

    rows: TierRows
    heads: DeviceHeads

    @property
    def loaded(self) -> LoadedArcs:
        """How many arcs of each row the heads are."""
        return self.rows.loaded(self.heads.share.least, self.heads.share.shift)
