"""Chunk files: little-endian elements followed by their crc32c, as Zarr's crc32c codec has them."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import numpy as np

from ooc_graph.errors import CorruptStoreError
from ooc_graph.layout.blocks import BlockWriter, byte_view, in_blocks, read_up_to
from ooc_graph.layout.digests import Hasher, crc_of_blocks
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import CRC_BYTES, SIDECAR_BYTES
from ooc_graph.layout.packing import Packing, block_length
from ooc_graph.layout.whole_file import naming, renamed_file
from ooc_graph.types import AnyArray

REPAIR = "restore the file, or build or search again"
"""What to do about a store that is damaged."""

UNPACKED_BLOCKS = 4
"""Units that are read at a time if numbers are packed."""


@dataclass(frozen=True)
class FileEntry:
    """What the manifest says of one file, by its path inside the store.

    ``digest`` is the hash of its content (`ooc_graph.layout.digests`), empty for files under
    ``spill/``. ``crc32c`` are the four bytes that end a chunk file, as an integer, and ``sidecar``
    the crc32c of each block of its elements (`ArraySpec.block_bytes`); None and empty for other
    files.
    """

    path: str
    size: int
    digest: str
    crc32c: int | None = None
    sidecar: tuple[int, ...] = ()


def write_chunk(store: Path, spec: ArraySpec, index: int, parts: Iterable[AnyArray]) -> FileEntry:
    """Write one chunk file from consecutive pieces of its elements.

    It goes to the disk at once; the commit waits for that. Pieces are arrays of one dimension or of
    whole rows. The last chunk is padded with zeros (if numbers are packed, with their base) to full
    length, as Zarr's regular grid wants.
    """
    path = store / spec.chunk_path(index)
    make_folders(store, path.parent)
    block_bytes = SIDECAR_BYTES if spec.packing is None else spec.block_bytes
    hasher, checksums = Hasher(), _Checksums(block_bytes)
    with renamed_file(path) as partial, BlockWriter(partial) as writer:
        written = 0
        elements = _padded(spec, index, parts)
        for part in elements if spec.packing is None else _packed(spec, elements):
            whole = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
            # A block is on its way to the disk while the next one is hashed.
            for block in in_blocks(whole):
                data = byte_view(block)
                writer.write(data)
                hasher.update(data)
                checksums.add(data)
            written += len(whole)
        crc = checksums.whole
        tail = struct.pack("<I", crc)
        writer.write(memoryview(tail))
        hasher.update(tail)
    crcs = crc, tuple(checksums.blocks)
    return FileEntry(spec.chunk_path(index), written + CRC_BYTES, hasher.digest(), *crcs)


def write_array(
    store: Path, spec: ArraySpec, read: Callable[[int, int], Iterable[AnyArray]]
) -> list[FileEntry]:
    """Write all chunks of an array; ``read`` gives the pieces of a range of its elements."""
    return [
        write_chunk(store, spec, index, read(*spec.bounds(index))) for index in range(spec.chunks)
    ]


def make_folders(store: Path, folder: Path) -> None:
    """Make folders below a store; FileNotFoundError if the store is not there.

    What still runs for a store that was removed makes none again.
    """
    for name in folder.relative_to(store).parts:
        store /= name
        store.mkdir(exist_ok=True)


def _padded(spec: ArraySpec, index: int, parts: Iterable[AnyArray]) -> Iterable[AnyArray]:
    start, stop = spec.bounds(index)
    count = 0
    for part in parts:
        if part.dtype != spec.dtype:
            raise ValueError(f"{spec.path}: {part.dtype} given for {spec.dtype}")
        count += len(part)
        if len(part):
            yield part
    if count != stop - start:
        raise ValueError(f"{spec.path}: chunk {index} was given {count} of {stop - start} elements")
    if count < spec.chunk:
        base = 0 if spec.packing is None else spec.packing.base
        yield np.full(spec.shape(spec.chunk - count), base, spec.dtype)


def _packed(spec: ArraySpec, parts: Iterable[AnyArray]) -> Iterator[AnyArray]:
    """Pack consecutive elements block by block: no chunk is in memory whole for it."""
    assert spec.packing is not None
    block, filled = np.empty(block_length(spec.dtype), spec.dtype), 0
    for part in parts:
        done = 0
        while done < len(part):
            count = min(len(block) - filled, len(part) - done)
            block[filled : filled + count] = part[done : done + count]
            filled, done = filled + count, done + count
            if filled == len(block):
                yield _packed_block(spec, block)
                filled = 0
    if filled:
        yield _packed_block(spec, block[:filled])


def _packed_block(spec: ArraySpec, block: AnyArray) -> AnyArray:
    assert spec.packing is not None
    try:
        return spec.packing.pack(block)
    except ValueError as error:
        # How many bits are needed was counted in the pass over the input before this one.
        raise OSError(f"{spec.path}: {error}; was the input changed while it was read?") from error


class _Checksums:
    """crc32c of each block of a stream, and of all of it."""

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes, self._filled = block_bytes, 0
        self.blocks = list[int]()

    def add(self, data: memoryview) -> None:
        while len(data):
            part = data[: self._block_bytes - self._filled]
            crc = self.blocks.pop() if self._filled else 0
            self.blocks.append(google_crc32c.extend(crc, np.frombuffer(part, np.uint8)))
            self._filled = (self._filled + len(part)) % self._block_bytes
            data = data[len(part) :]

    @property
    def whole(self) -> int:
        """crc32c of all that was added."""
        return crc_of_blocks(self.blocks, self._block_bytes, self._filled or self._block_bytes)


def ends_in_crc(path: Path, entry: FileEntry) -> bool:
    """Whether a chunk file has its size and ends in its crc32c: swapped or stale ones do not."""
    with naming(path), path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        tail = os.pread(file.fileno(), CRC_BYTES, entry.size - CRC_BYTES)
    return size == entry.size and tail == struct.pack("<I", entry.crc32c)


def read_chunk(store: Path, spec: ArraySpec, index: int, out: AnyArray, expected: int) -> None:
    """Read one chunk straight into ``out``, contiguous and without padding, and check its crc32c.

    CorruptStoreError if it is missing, has another length, or not the crc32c of the manifest.
    """
    path = store / spec.chunk_path(index)
    whole = spec.chunk_bytes + CRC_BYTES
    try:
        with naming(path), path.open("rb", buffering=0) as file:
            if spec.packing is None:
                done, crc, stored = _read_plain(file.fileno(), spec, out)
            else:
                done, crc, stored = _read_packed(file.fileno(), spec, spec.packing, out)
            extra = os.pread(file.fileno(), 1, whole)
    except FileNotFoundError:
        raise CorruptStoreError(
            f"{path}: chunk {index} of {spec.path} is missing; {REPAIR}"
        ) from None
    if done != whole or extra:
        raise CorruptStoreError(
            f"{path}: chunk {index} of {spec.path} has {'more than ' if extra else ''}{done} "
            f"bytes, expected {whole}; {REPAIR}"
        )
    if crc != stored or stored != expected:
        raise CorruptStoreError(
            f"{path}: chunk {index} of {spec.path} is damaged (its content has crc32c {crc:08x}, "
            f"the file ends in {stored:08x}, the manifest says {expected:08x}); {REPAIR}"
        )


def _read_plain(descriptor: int, spec: ArraySpec, out: AnyArray) -> tuple[int, int, int]:
    """Fill ``out``; bytes that were read, their crc32c, and the one that the file ends in."""
    content = np.frombuffer(byte_view(out), np.uint8)
    padding = np.empty(spec.chunk_bytes + CRC_BYTES - out.nbytes, np.uint8)
    done = crc = 0
    for block in in_blocks(content):
        done += read_up_to(descriptor, byte_view(block), done)
        crc = google_crc32c.extend(crc, block)
    done += read_up_to(descriptor, byte_view(padding), done)
    crc = google_crc32c.extend(crc, padding[:-CRC_BYTES])
    return done, crc, struct.unpack("<I", padding[-CRC_BYTES:].tobytes())[0]


def _read_packed(
    descriptor: int, spec: ArraySpec, packing: Packing, out: AnyArray
) -> tuple[int, int, int]:
    """As `_read_plain`, a few blocks at a time, so that no second chunk is in memory.

    They are unpacked before the chunk's crc32c is known to be right; any bytes are numbers, and
    nobody uses them if it is not.
    """
    crc, done = 0, 0
    step = UNPACKED_BLOCKS * block_length(spec.dtype)
    packed = np.empty(packing.bytes_of(min(step, spec.chunk), spec.dtype), np.uint8)
    for begin in range(0, spec.chunk, step):
        length = min(step, spec.chunk - begin)
        part = packed[: packing.bytes_of(length, spec.dtype)]
        got = read_up_to(descriptor, byte_view(part), done)
        done += got
        if got < len(part):
            break
        crc = google_crc32c.extend(crc, part)
        if begin < len(out):
            packing.unpack(part, length, out[begin : begin + length])
    tail = np.empty(CRC_BYTES, np.uint8)
    done += read_up_to(descriptor, byte_view(tail), done)
    return done, crc, struct.unpack("<I", tail.tobytes())[0]
