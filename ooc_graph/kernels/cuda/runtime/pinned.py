"""Pinned host memory: arrays that a device reads over the bus, and buffers that it copies to."""

from __future__ import annotations

import mmap
import weakref
from contextlib import suppress
from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray, Rows

_MAPPED = 2  # cudaHostRegisterMapped
_HOST = 1  # cudaMemoryTypeHost
_PAGE_BYTES = 4096
_PIECE_BYTES = 64 << 20


def pinned_buffer(size_bytes: int, *, pooled: bool = True) -> AnyArray:
    """Host memory that the device copies to at full speed, uint8; ordinary if there is none.

    CuPy's pool takes up to twice as much, and keeps what is given back. Without ``pooled`` the
    buffer is as large as asked for, and its memory is gone with it.
    """
    cupy = cuda()
    try:
        if pooled:
            memory = cupy.cuda.alloc_pinned_memory(size_bytes)
        else:
            memory = cupy.cuda.PinnedMemoryPointer(cupy.cuda.PinnedMemory(size_bytes), 0)
        return np.frombuffer(memory, np.uint8, size_bytes)
    except (MemoryError, cupy.cuda.runtime.CUDARuntimeError):
        return np.empty(size_bytes, np.uint8)


def is_pinned(array: AnyArray) -> bool:
    """Whether the device may write to an array of host memory by itself."""
    found = cuda().cuda.runtime.pointerGetAttributes(array.ctypes.data)
    return bool(found.type == _HOST)


class PinnedArray:
    """An array of host memory, one-dimensional, that the current device reads too.

    ``host`` is NumPy's view, zeros at first, and ``device`` CuPy's view of the same bytes. Pages
    are huge if the system gives such, and are touched by several threads before they are pinned:
    pinning is quicker then, and so are random reads, which wait for page tables. If the system
    refuses the memory, or to pin it, that is a `MemoryBudgetError`.
    """

    def __init__(self, count: int, dtype: Any, *, threads: int = 4) -> None:
        cupy, dtype = cuda(), np.dtype(dtype)
        bytes_ = max(count * dtype.itemsize, 1)
        pinned = _Pinned(bytes_, threads)
        self.host: AnyArray = np.frombuffer(pinned.pages, dtype, count)
        memory = cupy.cuda.UnownedMemory(pinned.address, bytes_, pinned, cupy.cuda.Device().id)
        pointer = cupy.cuda.MemoryPointer(memory, 0)
        self.device: Any = cupy.ndarray((count,), dtype, pointer)


class PinnedAllocator:
    """Gives pinned arrays to be filled in host memory, and then the device's views of them."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._given: dict[int, PinnedArray] = {}

    def __call__(self, count: int, dtype: np.dtype[Any]) -> AnyArray:
        """An array to fill. Raises as `PinnedArray`."""
        array = PinnedArray(count, dtype, threads=self._threads)
        self._given[id(array.host)] = array
        return array.host

    def on_device(self, rows: Rows) -> Rows:
        """Rows whose neighbours and weights were given, as the device sees them."""
        weights = None if rows.weights is None else self._given[id(rows.weights)].device
        return Rows(rows.offsets, self._given[id(rows.neighbors)].device, weights)


class _Pinned:
    """Pages that are pinned as long as somebody holds this."""

    def __init__(self, bytes_: int, threads: int) -> None:
        runtime = cuda().cuda.runtime
        try:
            self.pages = mmap.mmap(-1, bytes_, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            if hasattr(mmap, "MADV_HUGEPAGE"):
                with suppress(OSError):  # where the system has none, small pages do
                    self.pages.madvise(mmap.MADV_HUGEPAGE)
            view = np.frombuffer(self.pages, np.uint8)
            _touch(view, threads)
        except (OSError, MemoryError) as error:
            raise _refused(bytes_, error, "free some, or") from error
        begin = view.ctypes.data
        try:
            runtime.hostRegister(begin, bytes_, _MAPPED)
        except runtime.CUDARuntimeError as error:
            advice = "raise the limit of locked memory (ulimit -l), or"
            raise _refused(bytes_, error, advice) from error
        weakref.finalize(self, runtime.hostUnregister, begin).atexit = False
        self.address = int(runtime.pointerGetAttributes(begin).devicePointer)


def _touch(view: AnyArray, threads: int) -> None:
    def piece(begin: int) -> None:
        view[begin : begin + _PIECE_BYTES : _PAGE_BYTES] = 0

    with Threads(threads) as pool:
        list(pool.map(piece, range(0, len(view), _PIECE_BYTES)))


def _refused(bytes_: int, error: Exception, advice: str) -> MemoryBudgetError:
    return MemoryBudgetError(
        f"{bytes_:,} bytes of pinned host memory are refused ({error}): {advice} use --device cpu"
    )
