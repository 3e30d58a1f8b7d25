"""What the disk under a store gives at most: its own chunk files, read one after the other."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

PROBE_BYTES = 256 << 20
"""Bytes that a probe reads at most."""
_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class Probe:
    """A sequential read of a store's files.

    The page cache had ``cached_bytes`` of it, though it was asked to drop them; None: not known.
    """

    bytes: int
    seconds: float
    cached_bytes: int | None

    @property
    def bytes_s(self) -> float | None:
        """Bytes in a second; None if nothing was there to be read."""
        return self.bytes / self.seconds if self.bytes and self.seconds > 0 else None

    @property
    def is_cached(self) -> bool | None:
        """Whether the page cache gave most of it, so that it tells nothing of the disk."""
        return None if self.cached_bytes is None else 2 * self.cached_bytes > self.bytes


def probe_disk(
    store: Path, most_bytes: int = PROBE_BYTES, clock: Callable[[], float] = perf_counter
) -> Probe:
    """Read at most so many bytes of a stored graph's neighbours, past the page cache if it lets go.

    The page cache loses what it had of these files: not for between timed searches. Memory: 4 MiB.
    """
    parts = list(_parts(sorted(store.glob("shards/*/*/*/neighbors/c/*")), most_bytes))
    cached = [_drop(path, size) for path, size in parts]
    buffer = memoryview(bytearray(_BLOCK_BYTES))
    begun = clock()
    got = sum(_read(path, size, buffer) for path, size in parts)
    seconds = clock() - begun
    known = [size for size in cached if size is not None]
    return Probe(got, seconds, sum(known) if len(known) == len(cached) else None)


def _parts(paths: Iterable[Path], most_bytes: int) -> Iterable[tuple[Path, int]]:
    """Files, and bytes to read of each from its beginning on."""
    for path in paths:
        size = min(path.stat().st_size, most_bytes)
        most_bytes -= size
        if size:
            yield path, size


def _drop(path: Path, size: int) -> int | None:
    """Have the page cache forget a file; bytes of its first ``size`` that it keeps, if known."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return _resident_bytes(descriptor, size)
    except OSError:  # of a file system without mappings
        return None
    finally:
        os.close(descriptor)


def _resident_bytes(descriptor: int, size: int) -> int | None:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "mincore"):
        return None
    pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
    with mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        begin = ctypes.c_void_p(view.ctypes.data)
        failed = library.mincore(begin, ctypes.c_size_t(size), ctypes.c_void_p(pages.ctypes.data))
        del view  # else the mapping could not be closed
    if failed:
        return None
    return min(size, int(np.count_nonzero(pages & 1)) * mmap.PAGESIZE)


def _read(path: Path, size: int, buffer: memoryview) -> int:
    got = 0
    with path.open("rb", buffering=0) as file:
        while got < size and (count := file.readinto(buffer[: size - got])):
            got += count
    return got
