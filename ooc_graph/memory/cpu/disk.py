"""Columns of rows in a store, read by verified units of 64 KiB into buffers that are used again.

Every unit is held against its crc32c in the sidecar each time it is read. Threads read the units of
the next batch while the caller works on one. Units that were read are kept while there is room for
them, and are not read again; the first ones stay, since a pass in order over more than there is
room for would find nothing in what it read last.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import google_crc32c
import numpy as np

from ooc_graph.errors import CorruptStoreError
from ooc_graph.layout import names
from ooc_graph.layout.blocks import byte_view, read_up_to
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.packing import unit_length
from ooc_graph.layout.stored import Stored
from ooc_graph.memory import watch
from ooc_graph.memory.io_stats import IoStats, Meter
from ooc_graph.threads import Members
from ooc_graph.types import AnyArray, IntArray

READERS = 4
"""Threads that read; a disk wants several requests at once, a page cache two."""
RUN_UNITS = 16
"""Most units that one request reads."""
LOOK_EVERY_S = 1.0
"""Between looks at how reading goes, while the search waits for it."""


@dataclass(frozen=True)
class _Part:
    """One shard's array of a column, with what a read would work out each time."""

    spec: ArraySpec
    crcs: AnyArray
    chunk_units: int
    unit_bytes: int
    chunk_bytes: int
    paths: tuple[str, ...]
    """Of its chunks."""


class _Column:
    """Units of one column of all shards."""

    def __init__(self, stored: Stored, arrays: Sequence[str], first: IntArray) -> None:
        specs = [stored.spec(array) for array in arrays]
        self.dtype = specs[0].dtype
        self.first_units = first * self.dtype.itemsize // names.SIDECAR_BYTES
        self._folder = stored.path
        self._parts = [self._part(stored, spec) for spec in specs]
        self._begins: list[int] = self.first_units[: len(specs)].tolist()
        last = self._parts[-1]
        self.units = int(self.first_units[len(specs) - 1]) + len(last.crcs)

    def _part(self, stored: Stored, spec: ArraySpec) -> _Part:
        units = -(-spec.chunk_bytes // spec.unit_bytes)
        if spec.chunks > 1 and spec.chunk_bytes % spec.unit_bytes:
            raise ValueError(f"{spec.path}: chunks of {spec.chunk_bytes} bytes are no whole units")
        paths = tuple(str(self._folder / spec.chunk_path(chunk)) for chunk in range(spec.chunks))
        crcs = stored.sidecar(spec.path)
        return _Part(spec, crcs, units, spec.unit_bytes, spec.chunk_bytes, paths)

    def runs(self, units: IntArray, wanted: AnyArray) -> Iterator[tuple[int, int]]:
        """Stretches of ``units`` that are wanted and follow one another in one chunk file."""
        if not len(units):
            return
        chunk = self._chunk(units)
        breaks = np.flatnonzero(
            (np.diff(units) != 1) | (np.diff(chunk) != 0) | (wanted[1:] != wanted[:-1])
        )
        for begin, end in pairwise([0, *(breaks + 1).tolist(), len(units)]):
            if wanted[begin]:
                for start in range(begin, end, RUN_UNITS):
                    yield start, min(start + RUN_UNITS, end)

    def _chunk(self, units: IntArray) -> IntArray:
        """A number for the chunk file of each unit, different from its neighbours'."""
        shard = self._shard(units)
        chunk_units = np.array([part.chunk_units for part in self._parts])[shard]
        chunk: IntArray = (units - self.first_units[shard]) // chunk_units + (shard << 40)
        return chunk

    def _shard(self, units: Any) -> Any:
        return np.searchsorted(self.first_units[: len(self._parts)], units, "right") - 1

    def read(self, unit: int, buffer: memoryview, last: LastFile) -> int:
        """Read units of one chunk from ``unit`` on and check them; the bytes that were read.

        Packed ones are read to the buffer's end and unpacked from its beginning on: what is not
        unpacked yet is never written over, as a unit takes less packed.
        """
        shard = bisect_right(self._begins, unit) - 1
        part = self._parts[shard]
        index, within = divmod(unit - self._begins[shard], part.chunk_units)
        spec, unit_bytes = part.spec, part.unit_bytes
        offset = within * unit_bytes
        units = len(buffer) // names.SIDECAR_BYTES
        size = min(units * unit_bytes, part.chunk_bytes - offset)
        data = buffer[:size] if spec.packing is None else buffer[-size:]
        path = part.paths[index]
        try:
            got = last.read(path, offset, data)
        except FileNotFoundError:
            raise CorruptStoreError(f"{path}: chunk {index} of {spec.path} is missing") from None
        first = index * part.chunk_units + within
        for begin in range(0, size, unit_bytes):
            one = data[begin : min(begin + unit_bytes, size)]
            if got < begin + len(one):
                raise CorruptStoreError(
                    f"{path}: chunk {index} of {spec.path} ends at byte {offset + got}, "
                    "too early; restore the file or build the store again"
                )
            expected = int(part.crcs[first + begin // unit_bytes])
            found = google_crc32c.value(np.frombuffer(one, np.uint8))
            if found != expected:
                raise CorruptStoreError(
                    f"{path}: chunk {index} of {spec.path} is damaged from byte "
                    f"{offset + begin} on (crc32c {found:08x}, its sidecar says {expected:08x}); "
                    "restore the file or build the store again"
                )
        if spec.packing is not None:
            self._unpack(spec, within, data, buffer)
        return size

    def _unpack(self, spec: ArraySpec, within: int, packed: memoryview, buffer: memoryview) -> None:
        """Unpack units of a chunk from its ``within``-th on."""
        assert spec.packing is not None
        elements, unit_bytes = unit_length(spec.dtype), spec.unit_bytes
        values = np.frombuffer(buffer, spec.dtype)
        one = np.empty(unit_bytes, np.uint8)
        for unit in range(-(-len(packed) // unit_bytes)):
            part = packed[unit * unit_bytes : (unit + 1) * unit_bytes]
            byte_view(one)[: len(part)] = part
            length = min(elements, spec.chunk - (within + unit) * elements)
            target = values[unit * elements : unit * elements + length]
            spec.packing.unpack(one[: len(part)], length, target)


class LastFile:
    """Context that keeps the file open which was read last: units of a batch lie close together."""

    def __init__(self) -> None:
        self._path, self._descriptor = "", -1

    def __enter__(self) -> LastFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read(self, path: str, offset: int, buffer: memoryview) -> int:
        """Read a file from a byte on until the buffer is full or the file ends; the bytes read."""
        if path != self._path:
            self._close()
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._path = path
        try:
            return read_up_to(self._descriptor, buffer, offset)
        except OSError as error:
            # What fails by descriptor has no name of its own.
            error.filename = path
            raise

    def _close(self) -> None:
        if self._path:
            self._path = ""
            os.close(self._descriptor)


class DiskUnits:
    """Columns of the rows of one side of a graph, in a store; names of arrays by shard.

    ``first``, int64 (shards,), are positions at which each shard's rows begin, multiples of whole
    units. A batch has ``batch_units`` of the first column, two are in memory at a time;
    ``kept_bytes`` are for units that are kept. ``room`` makes a uint8 buffer that batches are
    staged in; None: ordinary memory.
    """

    def __init__(
        self,
        stored: Stored,
        columns: Sequence[Sequence[str]],
        first: IntArray,
        *,
        batch_units: int,
        kept_bytes: int = 0,
        readers: int = READERS,
        meter: Meter | None = None,
        room: Callable[[int], AnyArray] | None = None,
    ) -> None:
        self.unit_bytes, self.batch_units = names.SIDECAR_BYTES, max(2, batch_units)
        self._stored = stored
        self._columns = [_Column(stored, arrays, first) for arrays in columns]
        self.dtypes = tuple(column.dtype for column in self._columns)
        self._moved, self._meter = IoStats(), meter or Meter()
        make = room or partial(np.empty, dtype=np.uint8)
        first_bytes = self.dtypes[0].itemsize
        units = [self.batch_units * max(1, one.itemsize // first_bytes) for one in self.dtypes]
        self._buffers = [[make(most * self.unit_bytes) for most in units] for _ in range(2)]
        self._kept = np.empty(kept_bytes // self.unit_bytes * self.unit_bytes, np.uint8)
        self._used = 0
        self.keeping = False
        """Whether units that are read are kept; those of a first pass over all are not worth it."""
        self._slots = [np.full(column.units, -1, np.int32) for column in self._columns]
        self._threads = readers
        self._readers = Members(readers, "ooc-graph-reader")
        self._got: list[int] = []

    @property
    def io_stats(self) -> IoStats:
        """What was given so far."""
        return self._meter.added_to(self._moved)

    def stage(
        self, batches: Iterator[Sequence[IntArray]]
    ) -> Generator[tuple[AnyArray, ...], None, None]:
        """Give batch after batch of units; see `ooc_graph.kernels.common.store.rows.Units`."""
        turn = 0
        try:
            units = next(batches, None)
            if units is not None:
                self._begin(units, turn)
            while units is not None:
                self._finish(units, turn)
                staged = tuple(
                    buffer[: len(wanted) * self.unit_bytes].view(dtype)
                    for buffer, wanted, dtype in zip(
                        self._buffers[turn], units, self.dtypes, strict=True
                    )
                )
                turn = 1 - turn
                units = next(batches, None)
                if units is not None:
                    self._begin(units, turn)
                yield staged
        finally:
            # Nothing may be reading into the buffers when they are used again.
            with self._meter.waiting():
                self._readers.settle()

    def _begin(self, batch: Sequence[IntArray], turn: int) -> None:
        """Have the batch's units read; `_finish` copies what is kept."""
        if (watching := watch.current()) is not None:
            watching.begin(self._meter)
        reads: list[tuple[_Column, int, memoryview]] = []
        for column, units, slots, buffer in zip(
            self._columns, batch, self._slots, self._buffers[turn], strict=True
        ):
            view = byte_view(buffer)
            wanted = slots[units] < 0
            self._moved.kept_units += len(units) - int(np.count_nonzero(wanted))
            for begin, end in column.runs(units, wanted):
                data = view[begin * self.unit_bytes : end * self.unit_bytes]
                reads.append((column, int(units[begin]), data))
                self._moved.units += end - begin
        self._moved.requests += len(reads)
        shares = min(self._threads, len(reads))
        bounds = [len(reads) * share // shares for share in range(shares + 1)] if reads else []
        self._got = [0] * shares
        for share, (begin, end) in enumerate(pairwise(bounds)):
            self._readers.give(share, partial(self._read, share, reads[begin:end]))

    def _finish(self, batch: Sequence[IntArray], turn: int) -> None:
        with self._meter.waiting():
            self._wait()
        self._moved.bytes += sum(self._got)
        for units, slots, buffer in zip(batch, self._slots, self._buffers[turn], strict=True):
            staged = buffer.reshape(-1, self.unit_bytes)
            kept = self._kept.reshape(-1, self.unit_bytes)
            held = slots[units]
            again = np.flatnonzero(held >= 0)
            # The next batch was begun before this one's units were kept: both read some of them.
            for place in again.tolist():
                staged[place] = kept[held[place]]
            if not self.keeping:
                continue
            new = np.flatnonzero(held < 0)[: len(kept) - self._used]
            # An interrupt may come in between: a slot that is told of is full.
            begin = self._used
            for slot, place in enumerate(new.tolist(), begin):
                kept[slot] = staged[place]
            self._used = begin + len(new)
            slots[units[new]] = np.arange(begin, begin + len(new))

    def _wait(self) -> None:
        """Wait for what is being read; where somebody watches, with looks at how it goes."""
        watching = watch.current()
        if watching is None:
            self._readers.wait()
            return
        self._readers.wait(meanwhile=watching.look, every_s=LOOK_EVERY_S)
        watching.look()

    def _read(self, share: int, reads: Sequence[tuple[_Column, int, memoryview]]) -> None:
        """Read stretches of units one after the other, and note their bytes."""
        with self._stored.reading(), LastFile() as last:
            for column, unit, data in reads:
                with self._meter.reading(len(data) // self.unit_bytes):
                    size = column.read(unit, data, last)
                    self._got[share] += size
                    self._meter.count(size)

    def close(self) -> None:
        """End the threads."""
        self._readers.close()
