"""Device memory that the ranks of one host open to each other, for kernels that meet in it."""

from __future__ import annotations

import os
import secrets
import socket
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.rows import on_device

MOST_PEERS = 64
MAIL_BYTES = 128 * MOST_PEERS
"""Where the mail of `peers.cuh` ends, with which the memory of every rank begins."""
_HANDLE_WORDS = 8
_LAZY = 1  # cudaIpcMemLazyEnablePeerAccess
# cudaErrorPeerAccessAlreadyEnabled
_ALREADY = 704

WORDS = 6 + _HANDLE_WORDS
"""Numbers in an `Opened.offer`."""


class Opened:
    """Memory on the current device that other ranks read and write, zeros at first.

    It is the driver's own, since it is opened to other processes as a whole. If the device has too
    little, that is CuPy's error.
    """

    def __init__(self, size_bytes: int) -> None:
        cupy = cuda()
        self._memory = cupy.cuda.Memory(size_bytes)
        # Tells it from memory that was at the same address before.
        self._serial = secrets.randbits(63)
        self.address: int = self._memory.ptr
        cupy.cuda.runtime.memset(self.address, 0, size_bytes)
        cupy.cuda.Device().synchronize()

    def array(self, offset: int, count: int, dtype: Any) -> Any:
        """A view of so many elements from so many bytes on."""
        cupy = cuda()
        pointer = cupy.cuda.MemoryPointer(self._memory, offset)
        return cupy.ndarray((count,), dtype, pointer)

    @property
    def offer(self) -> tuple[int, ...]:
        """What another rank needs to reach this memory: `WORDS` numbers below 2**64."""
        cupy = cuda()
        handle = cupy.cuda.runtime.ipcGetMemHandle(self.address)
        words = np.frombuffer(handle, np.uint64).tolist()
        device = cupy.cuda.Device()
        bus = zlib.crc32(device.pci_bus_id.encode())
        return (_host(), os.getpid(), bus, device.id, self._serial, self.address, *words)


class Reached:
    """Where this process finds the memory that the ranks of a search have opened.

    ``offers`` are those of all ranks, one of them this rank's own. Memory of another process stays
    open until `close`. ``addresses``, uint64 (ranks,), are on the device.
    """

    def __init__(self, offers: Sequence[tuple[int, ...]]) -> None:
        self._opened: list[int] = []
        try:
            self.addresses = on_device(np.array([self._reach(one) for one in offers], np.uint64))
        except BaseException:
            self.close()
            raise

    def _reach(self, offer: tuple[int, ...]) -> int:
        runtime = cuda().cuda.runtime
        _, process, _, device, _, address, *words = offer
        if process == os.getpid():
            if device != cuda().cuda.Device().id:
                try:
                    runtime.deviceEnablePeerAccess(device)
                except runtime.CUDARuntimeError as error:
                    if error.status != _ALREADY:
                        raise
            return address
        self._opened.append(runtime.ipcOpenMemHandle(np.array(words, np.uint64).tobytes(), _LAZY))
        return self._opened[-1]

    def close(self) -> None:
        """Give back what was opened."""
        while self._opened:
            cuda().cuda.runtime.ipcCloseMemHandle(self._opened.pop())


def can_meet(offers: Sequence[tuple[int, ...]]) -> bool:
    """Whether all ranks run on this host, and no two processes share a device.

    Kernels of several processes take turns on a device, so that one would wait for another in vain.
    """
    processes = {(host, bus): set[int]() for host, _, bus, *_ in offers}
    for host, process, bus, *_ in offers:
        processes[host, bus].add(process)
    is_local = all(host == _host() for host, _ in processes)
    return is_local and all(len(each) == 1 for each in processes.values())


def sharing(offers: Sequence[tuple[int, ...]], own: tuple[int, ...]) -> int:
    """How many of the ranks share a rank's device, it included."""
    return sum(offer[:3] == own[:3] for offer in offers)


@cache
def _host() -> int:
    """A number that differs between hosts, and between starts of one."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        boot = ""
    return zlib.crc32(f"{socket.gethostname()} {boot}".encode())
