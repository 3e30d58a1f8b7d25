"""Bytes to and from files: whole transfers, and files that go past the page cache.

What is written once and not read soon has no use for the page cache, and pages for it cost a core
as much as 2 s/GB on a virtual machine that has to get them from its host. `BlockWriter` therefore
writes blocks straight to the disk if the system allows it, each from a thread of its own while
the caller prepares the next.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

from ooc_graph.forked import in_child
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray

BLOCK_BYTES = 1 << 20
_MOST_WRITERS = 256

_libc = ctypes.CDLL(None)
_WRITE = 2  # SYNC_FILE_RANGE_WRITE
_DIRECT = getattr(os, "O_DIRECT", 0)

# What file systems answer that cannot go past the page cache.
_REFUSED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP)

_writers = Threads(_MOST_WRITERS, thread_name_prefix="block-writer")
_of_thread = threading.local()


@in_child
def _begin_anew() -> None:
    """In a forked process: threads are not copied, and the blocks are the parent's still."""
    global _writers, _of_thread  # noqa: PLW0603
    _writers = Threads(_MOST_WRITERS, thread_name_prefix="block-writer")
    _of_thread = threading.local()


def byte_view(data: AnyArray) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    return memoryview(cast(Any, data)).cast("B")


def in_blocks(content: AnyArray) -> Iterator[AnyArray]:
    """Bytes, a block at a time: what is done to a block next finds it in a cache."""
    for start in range(0, len(content), BLOCK_BYTES):
        yield content[start : start + BLOCK_BYTES]


def write_all(descriptor: int, data: memoryview) -> None:
    """Write all of ``data`` where the file stands, however often it takes."""
    done = 0
    while done < len(data):
        done += _some(os.write(descriptor, data[done:]))


def _some(count: int) -> int:
    if count == 0:
        raise OSError(errno.EIO, "the file system takes no more bytes and does not say why")
    return count


def read_up_to(descriptor: int, data: memoryview, offset: int) -> int:
    """Fill ``data`` from a file's offset on, as far as the file goes; bytes that were read."""
    done = 0
    while done < len(data) and (got := os.preadv(descriptor, [data[done:]], offset + done)):
        done += got
    return done


def read_at(descriptor: int, data: memoryview, offset: int) -> None:
    """Fill ``data`` from a file's offset on; OSError if the file ends before."""
    if read_up_to(descriptor, data, offset) < len(data):
        raise OSError("a temporary file ended early; was it changed by something else?")


class BlockWriter:
    """A new file, written from front to back; one that exists is replaced.

    Each thread that writes files has two blocks of `BLOCK_BYTES`: one is filled while the other is
    written; it writes one such file at a time. Less than a block at the end goes through the page
    cache. Errors come at the latest when the ``with`` block ends.
    """

    def __init__(self, path: Path) -> None:
        self._full, self._empty = _blocks()
        self._descriptor, self._direct = _create(path)
        self._filled = 0
        self._pending: Future[None] | None = None
        # Held while the descriptor is used: a number that is closed may be another file's next.
        self._in_use = threading.Lock()
        self._open = True

    def __enter__(self) -> BlockWriter:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        whole = False
        try:
            if error is None:
                self._finish()
                whole = True
        finally:
            if not whole:
                # An interrupt may have left a write under way that nobody waits for: the blocks are
                # left to it, and this thread gets new ones.
                vars(_of_thread).pop("blocks", None)
            with self._in_use:
                self._open = False
                os.close(self._descriptor)

    def write(self, data: memoryview) -> None:
        """Append."""
        while len(data):
            count = min(len(data), BLOCK_BYTES - self._filled)
            self._full[self._filled : self._filled + count] = data[:count]
            self._filled += count
            data = data[count:]
            if self._filled == BLOCK_BYTES:
                self._wait()
                self._pending = _writers.submit(self._write_block, self._full)
                self._full, self._empty, self._filled = self._empty, self._full, 0

    def _write_block(self, block: memoryview) -> None:
        with self._in_use:
            if self._open:
                self._put(block)

    def _put(self, block: memoryview) -> None:
        """Write where the file stands; through the page cache if going past it is refused."""
        done = 0
        while done < len(block):
            try:
                done += _some(os.write(self._descriptor, block[done:]))
            except OSError as error:
                # Some file systems let a file be opened that way, but not written; and after a
                # short write the rest is no longer aligned.
                if not self._direct or error.errno not in _REFUSED:
                    raise
                self._use_page_cache()

    def _use_page_cache(self) -> None:
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~_DIRECT)
        self._direct = False

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def _finish(self) -> None:
        self._wait()
        direct = self._direct
        if direct:
            self._use_page_cache()
        self._put(self._full[: self._filled])
        if not direct and hasattr(_libc, "sync_file_range"):
            # Let the disk work while the next file is computed.
            _libc.sync_file_range(self._descriptor, ctypes.c_int64(0), ctypes.c_int64(0), _WRITE)


def _create(path: Path) -> tuple[int, bool]:
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
    if _DIRECT:
        try:
            return os.open(path, flags | _DIRECT, 0o666), True
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
    return os.open(path, flags, 0o666), False


def _blocks() -> tuple[memoryview, memoryview]:
    """The calling thread's two blocks, aligned as the disk wants them."""
    if not hasattr(_of_thread, "blocks"):
        _of_thread.blocks = tuple(memoryview(mmap.mmap(-1, BLOCK_BYTES)) for _ in range(2))
    blocks: tuple[memoryview, memoryview] = _of_thread.blocks
    return blocks
