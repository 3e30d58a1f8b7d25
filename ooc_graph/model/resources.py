"""What plans know of machines: devices, limits, and the memory and threads of processes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ooc_graph.errors import UsageError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MOST_BYTES = 1 << 62


def parse_bytes(
    text: str | int | None, *, option: str = "--memory-limit", or_none: bool = False
) -> int | None:
    """Bytes of "4GiB", "500 MB", "256MiB" or a plain number.

    A UsageError, for anything else, names the ``option``. Zero is refused unless it is a limit,
    too, so that nothing may be used (``or_none``).
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", str(text).lower())
    if not found or (found[3] and not found[2]):
        raise UsageError(f"{option} {text!r}: give bytes or a size such as 4GiB or 500MB")
    unit = (_BINARY if found[3] else _UNITS)[found[2]]
    size = float(found[1]) * unit
    if size < 1 and not (or_none and size == 0):
        raise UsageError(f"{option} {text!r}: give more than nothing")
    # More digits than a float holds are infinitely many bytes: no machine tells the difference.
    return int(min(size, _MOST_BYTES))


AUTO, CPU, CUDA = "auto", "cpu", "cuda"
DEVICES = (AUTO, CPU, CUDA)


@dataclass(frozen=True)
class Device:
    """A device that was chosen."""

    name: str  # ``cpu`` or ``cuda``
    memory_bytes: int = 0  # of the smallest CUDA device; 0 for the CPU
    why: str = ""  # why it is the CPU if ``auto`` was asked for; else empty


@dataclass(frozen=True)
class CudaLimits:
    """Memory that searches on a CUDA device may use."""

    device_bytes: int | None = None  # of the device; None: what it has
    # Of pinned host memory; None: what the process may use; 0: nothing is pinned.
    pinned_bytes: int | None = None

    @classmethod
    def of(cls, device_memory: str | int | None, host_memory: str | int | None) -> CudaLimits:
        """Limits as they are given, such as ``"16GiB"``.

        UsageError: a size is invalid, or that of the device is zero.
        """
        return cls(
            parse_bytes(device_memory, option="--device-memory"),
            parse_bytes(host_memory, option="--host-memory", or_none=True),
        )

    def require_cuda(self, wanted: str) -> CudaLimits:
        """These limits, for a device that is asked for.

        UsageError: there are limits, and it is the CPU, which heeds none of them.
        """
        if wanted == CPU and (self.device_bytes is not None or self.pinned_bytes is not None):
            raise UsageError(
                "--device-memory and --host-memory are for CUDA devices: use --device cuda, or "
                "--memory-limit for the CPU"
            )
        return self

    def within(self, device: Device) -> Device:
        """The device with as much memory as may be used."""
        if self.device_bytes is None:
            return device
        return replace(device, memory_bytes=min(device.memory_bytes, self.device_bytes))


def require_name(wanted: str) -> None:
    """Refuse a device that there is not, with a UsageError."""
    if wanted not in DEVICES:
        raise UsageError(f"device {wanted!r}: choose {', '.join(DEVICES)}")


NO_LIMITS = CudaLimits()


@dataclass(frozen=True)
class Capacity:
    """Memory that the engines of a process may take together; None: what is free."""

    # Limits that somebody set.
    host_bytes: int | None = None
    device_bytes: int | None = None
    pinned_bytes: int | None = None  # limit of pinned host memory


FREE = Capacity()


@dataclass(frozen=True)
class Resources:
    """What the processes offer to a search, at one moment."""

    wanted: str  # device that was asked for: ``auto``, ``cpu`` or ``cuda``
    device: Device  # device that all processes have
    cuda_limits: CudaLimits  # memory that searches on CUDA devices may use
    limit_bytes: int  # host memory of all processes together
    # Host memory of the process that has most, which searches of one process.
    process_limit_bytes: int
    least_limit_bytes: int  # host memory of the process that has least
    # Whether that memory is a limit that somebody set, not what happens to be free.
    is_limited: bool
    processes: int  # processes that search
    threads: int  # threads that every process has
    has_ranks: bool  # whether many ranks can search, on workers
    # Whether the processes are workers of a cluster, apart from the process that asks.
    has_client: bool

    def capacity(self, answer_bytes: int) -> Capacity:
        """What the engines of a process may take together, beside an answer in host memory."""
        host_bytes = self.process_limit_bytes - answer_bytes if self.is_limited else None
        return Capacity(host_bytes, self.cuda_limits.device_bytes, self.cuda_limits.pinned_bytes)
