"""Answers of many searches, from a CUDA device to host memory, mostly beside the next searches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.completion import OnDone, batches_of
from ooc_graph.kernels.cuda.many.bfs_batch import BfsBatches
from ooc_graph.kernels.cuda.many.pieces import Pieces, staged_bytes
from ooc_graph.kernels.cuda.many.search import CudaManySearch
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.pinned import is_pinned, pinned_buffer
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray, IntArray

PART_BYTES = 64 << 20
"""Bytes of answers that are searched for at once, about."""


class HostAnswers:
    """Copies answers of one search to host memory, part by part.

    Page-locked memory is written by the device; other memory by threads, from a page-locked buffer
    that is allocated once (an ordinary one if the system refuses to lock pages).
    """

    def __init__(self, search: CudaManySearch | BfsBatches, threads: int) -> None:
        self._search, self._threads = search, threads
        self._device: list[Any] = []
        self._staged: AnyArray = np.empty(0, np.uint8)
        self._capacity = 0

    def run(
        self,
        sources: IntArray,
        answer: AnyArray,
        columns: Any = None,
        own: AnyArray | None = None,
        on_done: OnDone | None = None,
        at: IntArray | None = None,
    ) -> None:
        """Search from internal ids, int64 (sources,); distances become rows of ``answer``.

        ``answer``, (sources, columns), has the search's dtype and is C-contiguous. ``columns`` is
        what is asked of each source, as the search's ``columns`` gives it (None: all rows).
        ``own``, uint32 (sources,), is the column of each source, all ones if it has none (None: its
        row). ``on_done`` is called for every part that has arrived in ``answer``; the next one
        is searched then. ``at`` is as of `CudaJohnson.run_columns`.
        """
        if not answer.size or not len(sources):
            return
        chosen: Any = columns or self._search.columns()
        pitch, length = self._search.pitch(chosen), self._sources_at_once(chosen, len(sources))
        if on_done is not None and on_done.most:
            length = min(length, on_done.most)
        self._allocate(length * pitch)
        staged = None if at is None and is_pinned(answer) else self._stage(answer, len(sources))
        copying = cuda().cuda.Stream(non_blocking=True)
        try:
            with Threads(self._threads) as executor:
                pieces = Pieces(answer, at, staged, copying, executor)
                self._bring(sources, length, chosen, own, pieces, copying, on_done)
        finally:
            # Whatever happens, memory is given back only when nothing is copied any more.
            copying.synchronize()

    def _bring(
        self,
        sources: IntArray,
        length: int,
        columns: Any,
        own: AnyArray | None,
        pieces: Pieces,
        copying: Any,
        on_done: OnDone | None,
    ) -> None:
        """Search from so many sources at once; what the ones before have found is copied then.

        If ``on_done`` is to be called, it is copied before.
        """
        cupy, pitch_bytes = cuda(), self._pitch_bytes(columns)
        stream = cupy.cuda.get_current_stream()
        copied = [cupy.cuda.Event(disable_timing=True) for _ in range(2)]

        def send(part: slice, slot: int, found: Any) -> int:
            copying.wait_event(found)
            last = pieces.send(self._device[slot].data.ptr, pitch_bytes, part)
            copied[slot].record(copying)
            return last

        before: tuple[slice, int, Any] | None = None
        for number, part in enumerate(batches_of(len(sources), length, on_done)):
            slot = number % 2
            if number > 1:
                stream.wait_event(copied[slot])
            mine = None if own is None else own[part]
            self._search.search_into(self._device[slot], sources[part], columns, mine)
            found = stream.record()
            if on_done is not None:
                pieces.wait_for(send(part, slot, found))
                continue
            if before is not None:
                send(*before)
            # Copied while the next one is searched.
            before = part, slot, found
        if before is not None:
            pieces.wait_for(send(*before))

    def _sources_at_once(self, columns: Any, sources: int) -> int:
        """Whole batches of about `PART_BYTES`."""
        slots, source_bytes = self._search.slots, self._pitch_bytes(columns)
        batches = max(1, PART_BYTES // (source_bytes * slots))
        return min(batches * slots, sources)

    def _pitch_bytes(self, columns: Any) -> int:
        return self._search.pitch(columns) * self._search.dtype.itemsize

    def _allocate(self, elements: int) -> None:
        if self._capacity < elements:
            self._device, self._capacity = [], 0
            self._device = [cuda().empty(elements, self._search.dtype) for _ in range(2)]
            self._capacity = elements

    def _stage(self, answer: AnyArray, sources: int) -> AnyArray:
        """Page-locked memory that pieces of an answer pass."""
        needed_bytes = staged_bytes(sources, int(answer.shape[1]), answer.itemsize)
        # A larger one might be beyond what may be pinned by now.
        if len(self._staged) != needed_bytes:
            self._staged = np.empty(0, np.uint8)
            # Of CuPy's pool, what was there before would stay pinned beside it.
            self._staged = pinned_buffer(needed_bytes, pooled=False)
        return self._staged
