"""Device memory that the ranks of one host open to each other, for kernels that meet in it."""

from __future__ import annotations

import ctypes
import os
import secrets
import socket
import weakref
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.pool import NO_MEMORY
from ooc_graph.kernels.cuda.runtime.rows import on_device

MOST_PEERS = 64
MOST_ON_A_DEVICE = 4
"""Streams share a few queues: kernels in one queue would wait for those behind them."""
MAIL_BYTES = 128 * MOST_PEERS
"""Where the mail of `peers.cuh` ends, with which the memory of every rank begins."""
_LAZY = 1  # cudaIpcMemLazyEnablePeerAccess
_ALREADY_ENABLED = 704  # cudaErrorPeerAccessAlreadyEnabled
_NATIVE_ATOMICS = 3  # CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
_PROCESS = secrets.randbits(62)

Words = tuple[int, ...]
IDENTITY_WORDS, OFFER_WORDS = 3, 10
"""Numbers of an `identity` and of an `Opened.offer`, each below 2**64."""


class RefusedError(Exception):
    """A rank's memory cannot be reached from another process or device."""


def identity() -> Words:
    """What tells the host, the process and the device of a rank from others; none of them is 0."""
    bus = cuda().cuda.Device().pci_bus_id
    return _host(), _PROCESS ^ os.getpid() | 1 << 62, _number_of(bus)


def can_meet(identities: Sequence[Words]) -> bool:
    """Whether all ranks run on one host, and no two processes share a device.

    Kernels of several processes take turns on a device, so that one would wait for another in vain.
    A rank that is all zeros cannot.
    """
    if len({host for host, _, _ in identities}) > 1 or not all(map(all, identities)):
        return False
    ranks = Counter(identities)
    devices = {bus for _, _, bus in identities}
    return len(ranks) == len(devices) and max(ranks.values()) <= MOST_ON_A_DEVICE


class Opened:
    """Memory on the current device that other ranks read and write, zeros at first.

    It comes from the driver, not from CuPy's pool, since it is opened as a whole. If the device has
    too little, that is a `MemoryError`.
    """

    def __init__(self, size_bytes: int) -> None:
        cupy = cuda()
        try:
            self._memory = cupy.cuda.Memory(size_bytes)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            if error.status != NO_MEMORY:
                raise
            raise MemoryError(f"the device has no {size_bytes:,} bytes to open: {error}") from error
        # Tells it from memory that was at the same address before.
        self._serial = secrets.randbits(63)
        cupy.cuda.runtime.memset(self._memory.ptr, 0, size_bytes)
        cupy.cuda.Device().synchronize()

    def array(self, offset: int, count: int, dtype: Any) -> Any:
        """View ``count`` elements of the memory, beginning at ``offset`` bytes."""
        cupy = cuda()
        return cupy.ndarray((count,), dtype, cupy.cuda.MemoryPointer(self._memory, offset))

    @property
    def offer(self) -> Words:
        """What another rank needs to reach this memory."""
        address = self._memory.ptr
        handle = np.frombuffer(cuda().cuda.runtime.ipcGetMemHandle(address), np.uint64)
        return self._serial, address, *handle.tolist()


class Reached:
    """Where this process finds the memory that the ranks of a search have opened.

    Each is known by its identity and its offer. Memory of another process stays mapped until
    `close`, or until nobody refers to this object. ``addresses``, uint64 (ranks,), are on the
    device. `RefusedError` if a device cannot be reached, or not with atomic operations.
    """

    def __init__(self, identities: Sequence[Words], offers: Sequence[Words]) -> None:
        self._mapped: list[int] = []
        self.close = weakref.finalize(self, _unmap, self._mapped, cuda().cuda.Device().id)
        self.close.atexit = False
        try:
            found = [self._reach(*one) for one in zip(identities, offers, strict=True)]
        except cuda().cuda.runtime.CUDARuntimeError as error:
            self.close()
            raise RefusedError(str(error)) from error
        except BaseException:
            self.close()
            raise
        self.addresses = on_device(np.array(found, np.uint64))

    def _reach(self, whose: Words, offer: Words) -> int:
        runtime, own = cuda().cuda.runtime, cuda().cuda.Device().id
        (_, process, bus), (_, address, *handle) = whose, offer
        device = runtime.deviceGetByPCIBusId(_bus_of(bus))
        if device != own and not _has_atomics(own, device):
            raise RefusedError("atomic operations do not reach another device")
        if process == identity()[1]:
            if device != own:
                try:
                    runtime.deviceEnablePeerAccess(device)
                except runtime.CUDARuntimeError as error:
                    if error.status != _ALREADY_ENABLED:
                        raise
            return address
        self._mapped.append(runtime.ipcOpenMemHandle(np.array(handle, np.uint64).tobytes(), _LAZY))
        return self._mapped[-1]


def _unmap(mapped: list[int], device: int) -> None:
    with cuda().cuda.Device(device):
        while mapped:
            cuda().cuda.runtime.ipcCloseMemHandle(mapped.pop())


@cache
def _has_atomics(device: int, other: int) -> bool:
    """Whether a device's atomic operations in another's memory are atomic, as through NVLink."""
    found = ctypes.c_int()
    driver = ctypes.CDLL("libcuda.so.1")
    status = driver.cuDeviceGetP2PAttribute(ctypes.byref(found), _NATIVE_ATOMICS, device, other)
    return status == 0 and found.value == 1


def _number_of(bus: str) -> int:
    return int(bus.replace(":", "").replace(".", ""), 16) | 1 << 62


def _bus_of(number: int) -> str:
    """The PCI bus id that `_number_of` was given."""
    digits = f"{number & ~(1 << 62):09x}"
    return f"{digits[:-5]}:{digits[-5:-3]}:{digits[-3:-1]}.{digits[-1]}"


@cache
def _host() -> int:
    """A number that differs between hosts, and between starts of one."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        boot = ""
    return zlib.crc32(f"{socket.gethostname()} {boot}".encode()) | 1 << 62
