"""Arrays of a store that grow at their end: pieces -> full chunks -> files, written by threads.

Each chunk is gathered in a buffer of its own, which is used again once the chunk is written. There
are only so many: whoever makes pieces faster than the disk takes them waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.layout.chunks import FileEntry, write_chunk
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import chunk_length
from ooc_graph.layout.packing import Packing
from ooc_graph.shards.plan import RESERVE_BYTES
from ooc_graph.shards.workforce import Workforce, stop_all
from ooc_graph.threads import CHECK_S
from ooc_graph.types import AnyArray

OPEN_COLUMNS = 5
"""Columns that grow at the same time, at most: those of both row orders."""
_ENDLESS = 1 << 62


class ChunkSink:
    """Writes chunks of a partial store on the threads of a workforce.

    There is a buffer for each thread and each open column, fewer if the memory limit does not allow
    it; ``new_buffer`` makes so many bytes, uint8. ``specs`` are finished, ``entries`` written.
    """

    def __init__(
        self, store: Path, workforce: Workforce, new_buffer: Callable[[int], AnyArray]
    ) -> None:
        self._store, self._workforce, self._new_buffer = store, workforce, new_buffer
        self._bytes = chunk_length(_ENDLESS, 1)
        budget = workforce.budget
        # The other half is for what is read.
        fit = (budget.limit_bytes - RESERVE_BYTES) // 2 // self._bytes
        self._left = OPEN_COLUMNS + max(1, min(budget.slots, fit - OPEN_COLUMNS))
        self._spare: list[AnyArray] = []
        self._writing: dict[Future[FileEntry], AnyArray] = {}
        self.specs: list[ArraySpec] = []
        self.entries: list[FileEntry] = []

    def column(self, path: str, dtype: Any, packing: Packing | None = None) -> Column:
        """A new array."""
        return Column(self, ArraySpec(path, 0, np.dtype(dtype), packing=packing))

    def take(self) -> AnyArray:
        """A buffer for one chunk; waits until there is one."""
        if not self._spare and self._left:
            self._left -= 1
            return self._new_buffer(self._bytes)
        while not self._spare:
            self._collect()
        return self._spare.pop()

    def write(self, spec: ArraySpec, index: int, buffer: AnyArray, elements: int) -> None:
        """Write a chunk; the buffer is the sink's again."""
        data = buffer[: elements * spec.dtype.itemsize].view(spec.dtype)
        submit = self._workforce.executor.submit
        self._writing[submit(write_chunk, self._store, spec, index, [data])] = buffer

    def _collect(self) -> None:
        done, _ = wait(self._writing, timeout=CHECK_S, return_when=FIRST_COMPLETED)
        for future in done:
            self._spare.append(self._writing.pop(future))
            self.entries.append(future.result())

    def finish(self) -> None:
        """Wait until everything is written."""
        while self._writing:
            self._collect()

    def stop(self) -> None:
        """Write no more; what is being written is waited for, and buffers are dropped."""
        stop_all(self._workforce, self._writing, [write_chunk.__name__])
        self._writing.clear()
        self._spare.clear()


class Column:
    """One array of the store; see `ChunkSink.column`."""

    def __init__(self, sink: ChunkSink, empty: ArraySpec) -> None:
        self._sink, self._empty, self._dtype = sink, empty, empty.dtype
        self._full = chunk_length(_ENDLESS, empty.dtype.itemsize)
        self._buffer: AnyArray | None = None
        self._written = self._filled = 0

    def append(self, data: Any) -> None:
        """Copy contiguous elements of the column's dtype to the end, from the host or a device."""
        done = 0
        while done < len(data):
            count = min(self._full - self._filled, len(data) - done)
            if self._buffer is None:
                self._buffer = self._sink.take()
            elements = self._buffer[: self._full * self._dtype.itemsize].view(self._dtype)
            _copy(data[done : done + count], elements[self._filled : self._filled + count])
            self._filled += count
            done += count
            if self._filled == self._full:
                self._flush(self._written + self._full)

    def _flush(self, length: int) -> None:
        if self._buffer is not None:
            spec, index = self._spec(length), self._written // self._full
            self._sink.write(spec, index, self._buffer, self._filled)
            self._written += self._filled
            self._buffer, self._filled = None, 0

    def finish(self) -> None:
        """The array has all its elements."""
        length = self._written + self._filled
        self._flush(length)
        self._sink.specs.append(self._spec(length))

    def _spec(self, length: int) -> ArraySpec:
        return replace(self._empty, length=length)


def _copy(data: Any, elements: AnyArray) -> None:
    if isinstance(data, np.ndarray):
        elements[:] = data
    else:
        data.get(out=elements)
