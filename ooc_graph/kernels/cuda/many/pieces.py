"""Answers on their way from a CUDA device to an array in host memory, piece by piece."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np

from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray, IntArray

PIECE_BYTES = 8 << 20
"""Bytes of a piece at most: one thread brings it from page-locked memory to where it belongs."""
PIECES = 16
"""Pieces that page-locked memory holds."""
IN_FLIGHT = 4
"""Of them the device copies so many; all others are with threads."""
STAGED_BYTES = PIECES * PIECE_BYTES
_TO_HOST = 2  # cudaMemcpyDeviceToHost


def piece_shape(width: int, size: int) -> tuple[int, int]:
    """Rows and columns of a piece: whole rows, or some of a row that is longer than a piece."""
    row_bytes = width * size
    if row_bytes <= PIECE_BYTES:
        return PIECE_BYTES // row_bytes, width
    return 1, max(1, PIECE_BYTES // size)


def staged_bytes(sources: int, width: int, size: int) -> int:
    """Page-locked bytes for so many rows of an answer, `STAGED_BYTES` at most."""
    rows, columns = piece_shape(width, size)
    rows = min(rows, sources)
    count = -(-sources // rows) * -(-width // columns)
    return min(PIECES, count) * rows * columns * size


class Pieces:
    """Rows of one answer that come from a device: one thread calls this, others copy.

    The answer is C-contiguous. Row ``at``, int64 (sources,), is that of each source; None: they are
    in order. Pieces pass ``staged``, uint8 (`staged_bytes`,), page-locked; None: the device writes
    to the answer, which is. They are copied by the stream ``copying``, and brought to their places
    by threads.
    """

    def __init__(
        self,
        answer: AnyArray,
        at: IntArray | None,
        staged: AnyArray | None,
        copying: Any,
        executor: Threads,
    ) -> None:
        self._answer, self._at, self._staged = answer, at, staged
        self._copying, self._executor, self._cupy = copying, executor, cuda()
        self._sent = 0
        # Each with its number, in order: what the device copies, and what threads have.
        self._coming: deque[tuple[int, slice, slice, Any]] = deque()
        self._drained: deque[tuple[int, Future[None]]] = deque()
        sources = len(answer) if at is None else len(at)
        self._rows, self._columns = piece_shape(int(answer.shape[1]), answer.itemsize)
        self._rows = min(self._rows, max(sources, 1))
        self._step_bytes = self._rows * self._columns * answer.itemsize
        self._slots = IN_FLIGHT if staged is None else len(staged) // self._step_bytes

    def send(self, pointer: int, pitch_bytes: int, part: slice) -> int:
        """Have the rows of some sources copied from device memory; the number of the last piece.

        It waits for pieces sent before, where there is no room for more of them.
        """
        for rows, columns in self._divided(part):
            if len(self._coming) == min(IN_FLIGHT, self._slots):
                self._finish_copy()
            # Where it goes to was that one's.
            self.wait_for(self._sent - self._slots)
            from_ = pointer + (rows.start - part.start) * pitch_bytes
            from_ += columns.start * self._answer.itemsize
            height = rows.stop - rows.start
            width = (columns.stop - columns.start) * self._answer.itemsize
            self._cupy.cuda.runtime.memcpy2DAsync(
                *(self._to(rows), width, from_, pitch_bytes),
                *(width, height, _TO_HOST, self._copying.ptr),
            )
            event = self._cupy.cuda.Event(disable_timing=True)
            event.record(self._copying)
            self._coming.append((self._sent, rows, columns, event))
            self._sent += 1
        return self._sent - 1

    def wait_for(self, last: int) -> None:
        """Wait until the pieces up to this number are where they belong."""
        while self._coming and self._coming[0][0] <= last:
            self._finish_copy()
        while self._drained and self._drained[0][0] <= last:
            self._drained.popleft()[1].result()

    def _divided(self, part: slice) -> Iterator[tuple[slice, slice]]:
        """Rows and columns of each piece."""
        width = self._answer.shape[1]
        if self._staged is None:
            yield part, slice(0, width)
            return
        for low in range(part.start, part.stop, self._rows):
            rows = slice(low, min(low + self._rows, part.stop))
            for left in range(0, width, self._columns):
                yield rows, slice(left, min(left + self._columns, width))

    def _to(self, rows: slice) -> int:
        """Address that the next piece is copied to."""
        if self._staged is None:
            return int(self._answer[rows].ctypes.data)
        return int(self._staged.ctypes.data) + self._sent % self._slots * self._step_bytes

    def _finish_copy(self) -> None:
        """Wait for the piece that comes first, and give it to a thread."""
        number, rows, columns, event = self._coming.popleft()
        event.synchronize()
        if self._staged is not None:
            given = self._executor.submit(self._drain, number, rows, columns)
            self._drained.append((number, given))

    def _drain(self, number: int, rows: slice, columns: slice) -> None:
        assert self._staged is not None
        shape = rows.stop - rows.start, columns.stop - columns.start
        begin = number % self._slots * self._step_bytes
        piece = self._staged[begin:][: shape[0] * shape[1] * self._answer.itemsize]
        from_ = piece.view(self._answer.dtype).reshape(shape)
        # The interpreter's lock is not held meanwhile, in either way.
        if self._at is None:
            np.copyto(self._answer[rows, columns], from_)
        else:
            self._answer[self._at[rows], columns] = from_
