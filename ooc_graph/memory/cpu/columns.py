"""Columns of rows in a store: reads of verified blocks of 64 KiB.

Every block is compared with its crc32c in the sidecar each time it is read.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import google_crc32c
import numpy as np

from ooc_graph.errors import CorruptStoreError
from ooc_graph.layout import names
from ooc_graph.layout.blocks import byte_view, read_up_to
from ooc_graph.layout.chunks import REPAIR
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.packing import block_length
from ooc_graph.layout.stored import Stored
from ooc_graph.types import AnyArray, IntArray

RUN_BLOCKS = 16
"""Most blocks that one request reads."""


@dataclass(frozen=True)
class _Part:
    """One shard's array of a column, with what a read would work out each time."""

    spec: ArraySpec
    crcs: AnyArray
    chunk_blocks: int
    block_bytes: int
    chunk_bytes: int
    paths: tuple[str, ...]
    """Of its chunks."""


class Column:
    """Units of one column of all shards."""

    def __init__(self, stored: Stored, arrays: Sequence[str], first: IntArray) -> None:
        specs = [stored.spec(array) for array in arrays]
        self.dtype = specs[0].dtype
        self.first_blocks = first * self.dtype.itemsize // names.SIDECAR_BYTES
        self._folder = stored.path
        self._parts = [self._part(stored, spec) for spec in specs]
        self._begins: list[int] = self.first_blocks[: len(specs)].tolist()
        last = self._parts[-1]
        self.blocks = int(self.first_blocks[len(specs) - 1]) + len(last.crcs)

    def _part(self, stored: Stored, spec: ArraySpec) -> _Part:
        blocks = -(-spec.chunk_bytes // spec.block_bytes)
        if spec.chunks > 1 and spec.chunk_bytes % spec.block_bytes:
            raise ValueError(f"{spec.path}: chunks of {spec.chunk_bytes} bytes are no whole blocks")
        paths = tuple(str(self._folder / spec.chunk_path(chunk)) for chunk in range(spec.chunks))
        crcs = stored.sidecar(spec.path)
        return _Part(spec, crcs, blocks, spec.block_bytes, spec.chunk_bytes, paths)

    def runs(self, blocks: IntArray, wanted: AnyArray) -> Iterator[tuple[int, int]]:
        """Runs of ``blocks`` that are wanted and follow one another in one chunk file."""
        if not len(blocks):
            return
        chunk = self._chunk(blocks)
        breaks = np.flatnonzero(
            (np.diff(blocks) != 1) | (np.diff(chunk) != 0) | (wanted[1:] != wanted[:-1])
        )
        for begin, end in pairwise([0, *(breaks + 1).tolist(), len(blocks)]):
            if wanted[begin]:
                for start in range(begin, end, RUN_BLOCKS):
                    yield start, min(start + RUN_BLOCKS, end)

    def _chunk(self, blocks: IntArray) -> IntArray:
        """A number for the chunk file of each block, different from its neighbours'."""
        shard = np.searchsorted(self.first_blocks[: len(self._parts)], blocks, "right") - 1
        chunk_blocks = np.array([part.chunk_blocks for part in self._parts])[shard]
        chunk: IntArray = (blocks - self.first_blocks[shard]) // chunk_blocks + (shard << 40)
        return chunk

    def read(self, block: int, buffer: memoryview, last: LastFile) -> int:
        """Read blocks of one chunk from ``block`` on and check them; the bytes that were read.

        Packed ones are read to the buffer's end and unpacked from its beginning on: what is not
        unpacked yet is never written over, as a block takes less packed.
        """
        shard = bisect_right(self._begins, block) - 1
        part = self._parts[shard]
        index, within = divmod(block - self._begins[shard], part.chunk_blocks)
        spec, block_bytes = part.spec, part.block_bytes
        offset = within * block_bytes
        blocks = len(buffer) // names.SIDECAR_BYTES
        size = min(blocks * block_bytes, part.chunk_bytes - offset)
        data = buffer[:size] if spec.packing is None else buffer[-size:]
        path = part.paths[index]
        try:
            got = last.read(path, offset, data)
        except FileNotFoundError:
            raise CorruptStoreError(
                f"{path}: chunk {index} of {spec.path} is missing; {REPAIR}"
            ) from None
        first = index * part.chunk_blocks + within
        for begin in range(0, size, block_bytes):
            one = data[begin : min(begin + block_bytes, size)]
            if got < begin + len(one):
                raise CorruptStoreError(
                    f"{path}: chunk {index} of {spec.path} ends at byte {offset + got}, "
                    f"too early; {REPAIR}"
                )
            expected = int(part.crcs[first + begin // block_bytes])
            found = google_crc32c.value(np.frombuffer(one, np.uint8))
            if found != expected:
                raise CorruptStoreError(
                    f"{path}: chunk {index} of {spec.path} is damaged from byte "
                    f"{offset + begin} on (crc32c {found:08x}, its sidecar says {expected:08x}); "
                    f"{REPAIR}"
                )
        if spec.packing is not None:
            self._unpack(spec, within, data, buffer)
        return size

    def _unpack(self, spec: ArraySpec, within: int, packed: memoryview, buffer: memoryview) -> None:
        """Unpack blocks of a chunk from its ``within``-th on."""
        assert spec.packing is not None
        elements, block_bytes = block_length(spec.dtype), spec.block_bytes
        values = np.frombuffer(buffer, spec.dtype)
        one = np.empty(block_bytes, np.uint8)
        for block in range(-(-len(packed) // block_bytes)):
            part = packed[block * block_bytes : (block + 1) * block_bytes]
            byte_view(one)[: len(part)] = part
            length = min(elements, spec.chunk - (within + block) * elements)
            target = values[block * elements : block * elements + length]
            spec.packing.unpack(one[: len(part)], length, target)


class LastFile:
    """Keeps the file open that was read last: blocks of a batch lie close together; a context."""

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
