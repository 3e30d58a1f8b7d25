"""Chunk files: little-endian elements followed by their crc32c, as Zarr's crc32c codec has them."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import google_crc32c
import numpy as np

from ooc_graph.errors import CorruptStoreError
from ooc_graph.layout.blocks import BLOCK_BYTES, BlockWriter, byte_view
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import CRC_BYTES, SIDECAR_BYTES
from ooc_graph.types import AnyArray


@dataclass(frozen=True)
class FileEntry:
    """What the manifest says of one file.

    Parameters
    ----------
    path
        Path inside the store.
    size
        Bytes.
    sha256
        Hex digest of the whole file.
    crc32c
        The four bytes that end a chunk file, as an integer; None for other files.
    sidecar
        crc32c of each 64 KiB of the chunk's elements; empty for other files.
    """

    path: str
    size: int
    sha256: str
    crc32c: int | None = None
    sidecar: tuple[int, ...] = ()


def write_chunk(store: Path, spec: ArraySpec, index: int, parts: Iterable[AnyArray]) -> FileEntry:
    """Write one chunk file from consecutive pieces of its elements.

    It goes to the disk at once; the commit waits for that.

    Parameters
    ----------
    store
        Folder of the (partial) store; it exists.
    parts
        Arrays whose concatenation is the chunk; the last chunk is padded with zeros to full
        length, as Zarr's regular grid wants.

    Raises
    ------
    OSError
        As the file system has it (``ENOSPC`` when the disk is full).
    """
    path = store / spec.chunk_path(index)
    _make_folders(store, path.parent)
    digest, sidecar = hashlib.sha256(), _Sidecar()
    with BlockWriter(path) as writer:
        written = 0
        for part in _padded(spec, index, parts):
            whole = np.ascontiguousarray(part).view(np.uint8)
            # By blocks, so that one is on its way to the disk while the next is hashed.
            for start in range(0, len(whole), BLOCK_BYTES):
                block = whole[start : start + BLOCK_BYTES]
                data = byte_view(block)
                writer.write(data)
                digest.update(data)
                sidecar.add(data)
            written += len(whole)
        parts_crc, crc = sidecar.finish()
        tail = struct.pack("<I", crc)
        writer.write(memoryview(tail))
        digest.update(tail)
    return FileEntry(
        spec.chunk_path(index), written + CRC_BYTES, digest.hexdigest(), crc, parts_crc
    )


def _make_folders(store: Path, folder: Path) -> None:
    # Below a store that is there: what still runs for a store that was given up makes none anew.
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
        yield np.zeros(spec.chunk - count, spec.dtype)


class _Sidecar:
    """crc32c of each 64 KiB of a stream."""

    def __init__(self) -> None:
        self._crcs: list[int] = []
        self._crc, self._filled = 0, 0

    def add(self, data: memoryview) -> None:
        position = 0
        while position < len(data):
            take = min(SIDECAR_BYTES - self._filled, len(data) - position)
            self._crc = google_crc32c.extend(
                self._crc, np.frombuffer(data[position : position + take], np.uint8)
            )
            self._filled += take
            position += take
            if self._filled == SIDECAR_BYTES:
                self._close()

    def _close(self) -> None:
        self._crcs.append(self._crc)
        self._crc, self._filled = 0, 0

    def finish(self) -> tuple[tuple[int, ...], int]:
        """The parts' crcs, and that of the whole, which needs no second look at the bytes."""
        crc = 0
        for part in self._crcs:
            crc = _after(crc, SIDECAR_BYTES) ^ part
        if self._filled:
            crc = _after(crc, self._filled) ^ self._crc
            self._close()
        return tuple(self._crcs), crc


def _after(crc: int, zeros: int) -> int:
    """What a crc becomes where so many bytes follow, but for their own crc, which is added by xor.

    Source: zlib's ``crc32_combine``.
    """
    if not crc:
        return 0
    table = _shifts(zeros)
    return (
        table[0][crc & 255]
        ^ table[1][crc >> 8 & 255]
        ^ table[2][crc >> 16 & 255]
        ^ table[3][crc >> 24]
    )


@lru_cache(8)
def _shifts(zeros: int) -> tuple[tuple[int, ...], ...]:
    """`_after` of every value of each of the four bytes; it is linear in the bits."""
    data = bytes(zeros)
    alone = google_crc32c.value(data)
    bits = [google_crc32c.extend(1 << bit, data) ^ alone for bit in range(32)]
    table = []
    for first in range(0, 32, 8):
        row = [0]
        for bit in bits[first : first + 8]:
            row += [bit ^ lower for lower in row]
        table.append(tuple(row))
    return tuple(table)


def read_chunk(store: Path, spec: ArraySpec, index: int, out: AnyArray, expected: int) -> None:
    """Read one chunk straight into ``out`` and check its crc32c.

    Parameters
    ----------
    out
        Contiguous array of ``spec.dtype`` with the chunk's elements (padding left out).
    expected
        crc32c that the manifest has for the chunk.

    Raises
    ------
    CorruptStoreError
        If the file is missing, has another length, or its content does not have the crc32c.
    """
    path = store / spec.chunk_path(index)
    padding = np.empty((spec.chunk - len(out)) * spec.dtype.itemsize + CRC_BYTES, np.uint8)
    whole = out.nbytes + len(padding)
    try:
        with path.open("rb", buffering=0) as file:
            done = _read_all(file.fileno(), [byte_view(out), byte_view(padding)])
            extra = os.pread(file.fileno(), 1, whole)
    except FileNotFoundError:
        raise CorruptStoreError(f"{path}: chunk {index} of {spec.path} is missing") from None
    if done != whole or extra:
        raise CorruptStoreError(
            f"{path}: chunk {index} of {spec.path} has {'more than ' if extra else ''}{done} "
            f"bytes, expected {whole}; restore the file or build the store again"
        )
    crc = google_crc32c.value(out)
    crc = google_crc32c.extend(crc, padding[:-CRC_BYTES])
    stored = struct.unpack("<I", padding[-CRC_BYTES:].tobytes())[0]
    if crc != stored or stored != expected:
        raise CorruptStoreError(
            f"{path}: chunk {index} of {spec.path} is damaged (its content has crc32c {crc:08x}, "
            f"the file ends in {stored:08x}, the manifest says {expected:08x}); restore the file "
            "or build the store again"
        )


def _read_all(descriptor: int, buffers: list[memoryview]) -> int:
    done = 0
    for buffer in buffers:
        position = 0
        while position < len(buffer):
            got = os.preadv(descriptor, [buffer[position:]], done)
            if got == 0:
                return done
            position += got
            done += got
    return done
