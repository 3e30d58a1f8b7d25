"""What a strategy holds of a graph, and the refusal of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ooc_graph.errors import DeviceBusyError, MemoryBudgetError, UsageError
from ooc_graph.model.resources import CUDA, Resources

ONE, LOCAL = "one", "local"
"""Exchange of a search by one rank: none; of all ranks in one process."""
HOST, DEVICE, BUSY, UNSUPPORTED = "host memory", "device memory", "busy device", "unsupported"
"""What a refusal is about: memory of the host or of the device, a device that others use, or a
search that the device cannot do."""


@dataclass(frozen=True)
class Reservation:
    """What a strategy holds of a graph in the process that searches."""

    strategy: str  # its name, such as ``cuda/pinned``
    # Memory of the host and of the device: what it takes at most, or the budget that it fills.
    host_bytes: int = 0
    device_bytes: int = 0
    pinned_bytes: int = 0  # part of the host memory that is pinned, or may be
    # Of many sources whether they are searched in batches or one by one; else empty.
    method: str = ""
    copies: bool = False  # whether rows in memory are kept in another form as well
    # Whether memory is kept for original ids as parents, since answers stay on the device.
    original_parents: bool = False
    exchange: str = ONE  # ``one`` rank; or of many ranks ``local`` or ``scheduler``
    fills_device: bool = False  # whether it takes all of the device that is free
    # Of ranks that have the distances of their own rows alone: host memory for lists and messages.
    messages_bytes: int = 0

    @property
    def engine(self) -> Reservation:
        """What makes one engine unlike another: without how its work is divided."""
        return self

    @property
    def whole_bytes(self) -> int:
        """Host memory of the process in all."""
        return self.host_bytes

    @property
    def tier_bytes(self) -> dict[str, int]:
        """Bytes by kind of memory: ``memory`` of the host, ``pinned``, ``device``; none is 0."""
        memory = self.whole_bytes - self.pinned_bytes
        tiers = {"memory": memory, "pinned": self.pinned_bytes, "device": self.device_bytes}
        return {tier: size for tier, size in tiers.items() if size}

    @property
    def is_of_ranks(self) -> bool:
        """Whether many ranks search."""
        return self.exchange != ONE


class Key(NamedTuple):
    """What one engine serves: searches of a graph by one kernel, within a reservation."""

    path: str
    identity: str
    kernel: str
    device: str
    reserved: Reservation


@dataclass(frozen=True)
class Freed:
    """What a process found when it released its engines, after one of them was refused memory."""

    # Whether the engine was loaded, so that it was its search that was refused memory.
    was_loaded: bool = False
    had_others: bool = False  # whether other engines had taken memory
    device_bytes: int = 0  # device memory that is free now; 0 on the CPU


@dataclass(frozen=True)
class Refusal:
    """Memory that was refused, or a device: without the error, whose frames hold memory."""

    reserved: Reservation  # what was to be held
    kind: str  # one of the kinds above
    said: str  # what the error says
    freed: Freed = Freed()  # what the process found afterwards
    # Whether rows were to be in pinned host memory, which a device refuses as it does its own.
    is_pinned: bool = False

    def less(self, resources: Resources) -> Resources:
        """What there is, without the device memory that was not to be had."""
        if self.kind not in (DEVICE, BUSY) or not self.reserved.device_bytes:
            return resources
        device = resources.device
        most = min(device.memory_bytes, self.reserved.device_bytes - 1)
        return replace(resources, device=replace(device, memory_bytes=most))

    @property
    def what(self) -> str:
        """What was refused, in words."""
        if self.kind == BUSY:
            return "others have memory of the device: device memory was refused"
        is_of_either = self.kind == DEVICE and self.is_pinned
        is_on_device = self.reserved.device_bytes or self.reserved.fills_device
        if is_of_either or not is_on_device:
            return "memory was refused"
        return f"{self.kind} was refused"


def kind_of(error: Exception, device: str) -> str:
    """What an error refuses, of a search on a device; empty if it refuses nothing.

    On the CPU what a plan refuses is no news: only the system's refusals count.
    """
    if isinstance(error, MemoryError):
        return HOST
    if device != CUDA:
        return ""
    kinds = ((DeviceBusyError, BUSY), (MemoryBudgetError, DEVICE), (UsageError, UNSUPPORTED))
    return next((kind for cause, kind in kinds if isinstance(error, cause)), "")


def said_by(error: Exception) -> str:
    """What an error says that tells of refused memory; Python's own may say nothing."""
    if not isinstance(error, MemoryError):
        return str(error)
    return f"host memory was refused: {error}" if str(error) else "host memory was refused"
