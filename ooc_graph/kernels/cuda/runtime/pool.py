"""Memory of a device within a limit, in pieces that are never cut."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from ooc_graph.kernels.cuda.runtime.modules import cuda, is_plain_pool

GRANULE_BYTES = 512
"""Pieces are multiples of it, as CuPy's are."""
PAGE_BYTES, PAGES_LIMIT = 2 << 20, 512 << 20
"""Pages of the device, and limits from which they count: what is half a page or more takes whole
ones. Smaller limits are for bytes of arrays, which would often take half as much again."""

NO_MEMORY = 2
"""cudaErrorMemoryAllocation."""

_Key = tuple[int, int, int]


class WholePieces:
    """An allocator for CuPy that gives as much as its limit says, however arrays come and go.

    CuPy's pool cuts a piece that was freed in two if a smaller array finds no other. What is left
    may be of no use to a larger one, nor go back to the device: a pool with a limit refuses what
    would fit it. Here every array has a piece of its own. What was freed serves arrays of the same
    size, or goes back to the device, the oldest first, if the limit wants it. What is kept of it
    counts within the limit.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit, self._lock = limit_bytes, Lock()
        self._in_pages = limit_bytes >= PAGES_LIMIT
        # Arrays are dropped by any thread at any time, also while this one holds the lock.
        self._returned: deque[tuple[_Key, Any]] = deque()
        self._kept: list[tuple[_Key, Any]] = []
        self.used_bytes = self.most_bytes = 0  # taken of the device now, and at most

    def malloc(self, size: int) -> Any:
        """A ``cupy.cuda.MemoryPointer`` to so many bytes, for the current stream."""
        memory = cuda().cuda
        if not size:
            return memory.MemoryPointer(memory.Memory(0), 0)
        device, stream = memory.Device().id, memory.get_current_stream().ptr
        granule = PAGE_BYTES if self._in_pages and size >= PAGE_BYTES // 2 else GRANULE_BYTES
        key = (device, stream, -(-size // granule) * granule)
        piece = self._piece(key)
        if piece is None:
            # What is in a cycle is dropped by Python's collector alone, and CuPy's own pool may
            # keep what others have dropped. Without the lock: finalizers may ask for memory.
            gc.collect()
            cuda().get_default_memory_pool().free_all_blocks()
            piece = self._piece(key)
        if piece is None:
            raise memory.memory.OutOfMemoryError(key[2], self.used_bytes, self._limit)
        return memory.MemoryPointer(memory.UnownedMemory(piece.ptr, size, piece, device), 0)

    def free_within(self, free_bytes: int) -> int:
        """Bytes that arrays can still have, where the device has so many free beside what is held.

        What is kept of what was freed counts: it goes back where the limit or the device wants it.
        """
        with self._lock:
            self._take_back()
            kept = sum(size for (_, _, size), _ in self._kept)
            return min(free_bytes, self._limit - self.used_bytes) + kept

    def _take_back(self) -> None:
        while self._returned:
            self._kept.append(self._returned.popleft())

    def _piece(self, key: _Key) -> _Piece | None:
        """A piece of the key's size; None where there is no room for it."""
        with self._lock:
            found = self._taken(key)
            return None if found is None else _Piece(key, found, self._returned)

    def _taken(self, key: _Key) -> Any:
        self._take_back()
        # The one that was freed last: the others may not be wanted any more.
        for at in range(len(self._kept) - 1, -1, -1):
            if self._kept[at][0] == key:
                return self._kept.pop(at)[1]
        size = key[2]
        while self._kept and self.used_bytes + size > self._limit:
            self._give_back()
        found = self._new(size) if self.used_bytes + size <= self._limit else None
        if found is not None:
            self.used_bytes += size
            self.most_bytes = max(self.most_bytes, self.used_bytes)
        return found

    def _new(self, size: int) -> Any:
        """Memory of the device; None where it has none left."""
        cupy = cuda()
        while True:
            try:
                return cupy.cuda.Memory(size)
            except cupy.cuda.runtime.CUDARuntimeError as error:
                if error.status != NO_MEMORY:
                    raise
                if not self._kept:
                    return None
            self._give_back()

    def _give_back(self) -> None:
        """Give the piece that was freed first back to the device, which is waited for."""
        (_, _, size), _ = self._kept.pop(0)
        self.used_bytes -= size


class _Piece:
    """Memory of an array, kept when that is dropped."""

    def __init__(self, key: _Key, memory: Any, returned: deque[tuple[_Key, Any]]) -> None:
        self._key, self._memory, self._returned = key, memory, returned

    @property
    def ptr(self) -> int:
        """Address on the device."""
        return int(self._memory.ptr)

    def __del__(self) -> None:
        self._returned.append((self._key, self._memory))


def pool_within(limit_bytes: int | None) -> WholePieces | None:
    """An allocator with a limit, which holds for all that is taken of the device.

    None if there is no limit, or the allocator in place stays: one that somebody else has put there
    (RMM, which may hold all of the device), or CuPy's pool with a limit of its own. What was freed
    is the device's again when nobody holds the pool, nor an array of it.
    """
    if limit_bytes is None or not is_plain_pool():
        return None
    # What CuPy's pool keeps counts as free, and is of no use to others.
    cuda().get_default_memory_pool().free_all_blocks()
    return WholePieces(limit_bytes)


@contextmanager
def allocating(pool: WholePieces | None) -> Iterator[None]:
    """Have this thread allocate from a pool; None: as it does."""
    if pool is None:
        yield
        return
    with cuda().cuda.using_allocator(pool.malloc):
        yield
