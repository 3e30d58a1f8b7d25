"""Answers of many searches, from a CUDA device to host memory while the next ones are searched."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.cuda_many import Columns, CudaManySearch
from ooc_graph.kernels.cuda_modules import cuda
from ooc_graph.kernels.cuda_pinned import pinned_buffer
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray, IntArray, Told

PART_BYTES = 64 << 20
"""Bytes of answers that are copied at once, about."""
_TO_HOST = 2  # cudaMemcpyDeviceToHost
_HOST = 1  # cudaMemoryTypeHost


class HostAnswers:
    """Copies answers of one search to host memory, part by part.

    Page-locked memory is written by the device; other memory by threads, from page-locked buffers
    that are allocated once (ordinary ones where the system refuses to lock pages).

    Parameters
    ----------
    search
        Whose answers.
    threads
        Threads that copy.
    """

    def __init__(self, search: CudaManySearch, threads: int) -> None:
        self._search, self._threads = search, threads
        self._device: list[Any] = []
        self._pinned: list[AnyArray] = []
        self._room = 0
        self._pinned_bytes = 0

    def run(
        self,
        sources: IntArray,
        answer: AnyArray,
        columns: Columns | None = None,
        own: AnyArray | None = None,
        told: Told | None = None,
    ) -> None:
        """Search from internal ids; distances become the rows of ``answer``.

        Parameters
        ----------
        sources
            int64 (sources,).
        answer
            (sources, columns) of the search's dtype, C-contiguous.
        columns
            What is asked of each source; None: all rows.
        own
            uint32 (sources,): column of each source, all ones where it has none; None: its row.
        told
            Hears of every part when it has arrived in ``answer``.
        """
        cupy = cuda()
        if not answer.size:
            return
        chosen = columns or self._search.columns()
        pitch, length = self._search.pitch(chosen), self._sources_at_once(chosen, len(sources))
        is_pinned = _is_pinned(answer)
        self._allocate(length * pitch, 0 if is_pinned else length * answer[0].nbytes)
        stream, copying = cupy.cuda.get_current_stream(), cupy.cuda.Stream(non_blocking=True)
        copied = [cupy.cuda.Event(disable_timing=True) for _ in range(2)]
        waiting: list[tuple[int, slice]] = []

        def arrived(slot: int, part: slice) -> None:
            copied[slot].synchronize()
            if not is_pinned:
                self._drain(executor, answer[part], slot)
            if told is not None:
                told(part.start, part.stop)

        try:
            with Threads(self._threads) as executor:
                for number, low in enumerate(range(0, len(sources), length)):
                    slot, part = number % 2, slice(low, min(low + length, len(sources)))
                    if number > 1:
                        stream.wait_event(copied[slot])
                    mine = None if own is None else own[part]
                    self._search.search_into(self._device[slot], sources[part], chosen, mine)
                    copying.wait_event(stream.record())
                    if len(waiting) > 1:
                        arrived(*waiting.pop(0))
                    to = answer[part].ctypes.data if is_pinned else self._pinned[slot].ctypes.data
                    width = answer[0].nbytes
                    cupy.cuda.runtime.memcpy2DAsync(
                        *(to, width, self._device[slot].data.ptr, pitch * answer.itemsize),
                        *(width, part.stop - part.start, _TO_HOST, copying.ptr),
                    )
                    copied[slot].record(copying)
                    if not is_pinned or told is not None:
                        waiting.append((slot, part))
                for ready in waiting:
                    arrived(*ready)
        finally:
            # Whatever happens, memory is given back only when nothing is copied any more.
            copying.synchronize()

    def _sources_at_once(self, columns: Columns, sources: int) -> int:
        """Whole batches of about `PART_BYTES`."""
        lanes, source_bytes = (
            self._search.lanes,
            self._search.pitch(columns) * self._search.dtype.itemsize,
        )
        batches = max(1, PART_BYTES // (source_bytes * lanes))
        return min(batches * lanes, sources)

    def _allocate(self, elements: int, pinned_bytes: int) -> None:
        cupy = cuda()
        if self._room < elements:
            self._device, self._room = [], 0
            self._device = [cupy.empty(elements, self._search.dtype) for _ in range(2)]
            self._room = elements
        if self._pinned_bytes < pinned_bytes:
            self._pinned, self._pinned_bytes = [], 0
            self._pinned = [pinned_buffer(pinned_bytes) for _ in range(2)]
            self._pinned_bytes = pinned_bytes

    def _drain(self, executor: Threads, to: AnyArray, slot: int) -> None:
        """Bring a part that has arrived where it belongs."""
        from_ = self._pinned[slot][: to.nbytes].view(to.dtype).reshape(to.shape)
        share = -(-len(to) // self._threads)
        list(
            executor.map(
                lambda low: np.copyto(to[low : low + share], from_[low : low + share]),
                range(0, len(to), share),
            )
        )


def _is_pinned(array: AnyArray) -> bool:
    """Whether the device may write to an array by itself."""
    found = cuda().cuda.runtime.pointerGetAttributes(array.ctypes.data)
    return bool(found.type == _HOST)
