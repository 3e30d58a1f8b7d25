"""Batches of BFS from many sources on a CUDA device (`many_bfs.cu`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.kernels.cuda.many import bfs_plan as plan
from ooc_graph.kernels.cuda.many.core import NONE
from ooc_graph.kernels.cuda.runtime.modules import cuda, kernel, launch, limits
from ooc_graph.kernels.cuda.runtime.rows import NULL, DeviceRows, on_device, seconds_of
from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray

BATCH_REPORT = np.dtype([("visits", "u8"), ("found", "u8"), ("depth", "u4"), ("pad", "u4")])
"""What is known of a batch: rows settled, sources found there, and the last level it looked at."""
_MOST_BLOCKS = 1 << 16


@dataclass(frozen=True)
class LevelColumns:
    """What is asked of every source, on the device."""

    row: Any  # uint32 (columns,): rows of the graph, all ones for columns that nobody reaches
    most: int  # largest level that counts as reached; less than 0: none does
    far: int  # level of what is not reached


@dataclass(frozen=True)
class Counting:
    """What is counted instead of levels."""

    wanted: Any  # uint32 (words,), on the device: bitmap of the rows that count
    bins: int  # of levels, each so wide
    width: int
    tallies: Any  # int64 (sources, 3 + bins), on the device, zeros; written


class BfsBatches:
    """Batches of one graph with its rows on the device, on CuPy's current stream."""

    dtype: np.dtype[Any] = np.dtype(np.int32)
    slots = plan.SLOTS

    def __init__(self, out: DeviceRows, into: DeviceRows) -> None:
        cupy, rows = cuda(), into.rows
        self._out, self._into = out, into
        self._order = plan.ordered_rows(into.offsets, cupy)
        self._queue_capacity = plan.queue_capacity(rows, out.arcs)
        self._words = cupy.empty(3 * rows * plan.SLOTS // 64, np.uint64)
        self._queues = cupy.empty(2 * self._queue_capacity, np.uint64)
        self._touched = cupy.empty(-(-rows // 32), np.uint32)
        self._levels = cupy.empty(3 * plan.LEVEL_BYTES, np.uint8)
        self._counts = cupy.empty(3 * plan.SLOTS, np.uint32)
        self._barrier = cupy.zeros(2, np.uint32)
        self._report = cupy.zeros(BATCH_REPORT.itemsize, np.uint8)
        self._planes: Any = None

    @property
    def vertices(self) -> int:
        """Rows of the graph."""
        return self._into.rows

    def columns(
        self, positions: AnyArray | None = None, most: int | None = None, far: int = INT32_UNREACHED
    ) -> LevelColumns:
        """Columns of internal ids, -1 without a row (None: all rows), and levels up to ``most``."""
        cupy, last = cuda(), INT32_UNREACHED - 1 if most is None else most
        if positions is None:
            return LevelColumns(cupy.arange(self.vertices, dtype=np.uint32), last, far)
        row = np.where(positions < 0, NONE, positions).astype(np.uint32)
        return LevelColumns(on_device(row), last, far)

    def pitch(self, columns: LevelColumns) -> int:
        """Levels from one source's answer to the next."""
        return plan.answer_pitch(len(columns.row))

    def search_into(
        self, out: Any, sources: IntArray, columns: LevelColumns, own: AnyArray | None = None
    ) -> None:
        """Levels from internal ids, int64 (sources,), as rows of `pitch` levels; does not wait.

        ``out`` is int32, on the device, with room for all rows. A source's ``own`` level is 0 in
        any column.
        """
        del own
        if self._planes is None:
            self._planes = cuda().empty(plan.noted_bytes(self.vertices) // 8, np.uint64)
        pitch, at = self.pitch(columns), cuda().asarray(sources.astype(np.uint32))
        name, chosen = ("many_bfs_answer.cu", "write_levels"), plan.constants()
        for first in range(0, len(sources), self.slots):
            some = at[first : first + self.slots]
            self._search(some, max(columns.most, 0), self._planes, None)
            arguments = (
                *(np.uint32(self.vertices), np.uint32(len(some)), np.uint64(len(columns.row))),
                *(columns.row, self._words, self._planes, self._report),
                *(np.int32(columns.most), np.int32(columns.far), np.uint64(pitch)),
                out[first * pitch :],
            )
            launch(*name, len(columns.row), *arguments, constants=chosen, most=_MOST_BLOCKS)

    def count(self, sources: IntArray, most: int, counting: Counting) -> None:
        """Tallies of one batch of sources, int64, up to a level; does not wait."""
        self._search(cuda().asarray(sources.astype(np.uint32)), most, None, counting)

    def try_out(self, sources: IntArray) -> tuple[float, AnyArray]:
        """Seconds of one batch that nobody asks anything of, and its `BATCH_REPORT`; waits."""
        at = cuda().asarray(sources.astype(np.uint32))
        _kernel()  # what is compiled is not timed
        elapsed_s = seconds_of(lambda: self._search(at, INT32_UNREACHED - 1, None, None))
        report: AnyArray = self._report.get().view(BATCH_REPORT)[0]
        return elapsed_s, report

    def _search(self, sources: Any, most: int, planes: Any, counting: Counting | None) -> None:
        """One launch; ``sources`` are uint32 on the device."""
        processors, _ = limits(cuda().cuda.Device().id)
        order, out, into = self._order, self._out, self._into
        counted: tuple[Any, ...] = NULL, self._counts, np.uint32(1), np.uint32(0), NULL
        if counting is not None:
            sizes = np.uint32(counting.width), np.uint32(counting.bins)
            counted = counting.wanted, self._counts, *sizes, counting.tallies
        arguments = (
            *(np.uint32(self.vertices), out.offsets, out.neighbors, into.offsets, into.neighbors),
            *(order.row, *(np.uint32(n) for n in (order.longer, order.middle, order.shorter))),
            *(np.uint32(len(sources)), sources, np.uint32(most), self._barrier),
            *(self._words, self._touched, self._queues),
            *(np.uint64(self._queue_capacity), self._levels),
            *(NULL if planes is None else planes, *counted, self._report),
        )
        _kernel()((processors * plan.BLOCKS_A_PROCESSOR,), (plan.BLOCK,), arguments)


def _kernel() -> Any:
    return kernel("many_bfs.cu", "many_bfs", plan.constants(), cooperative=True)
