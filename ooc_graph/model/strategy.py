"""What a strategy is: where the rows of a graph are kept, and how they are searched there."""

from __future__ import annotations

from typing import Any, Protocol

from ooc_graph.model.engine import Engine
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import Refusal, Reservation
from ooc_graph.shards.load import Graph

MEMORY, PINNED, DISK = 0, 1, 2
"""Tiers, in the order in which they are tried: all rows where they are searched; rows in pinned
host memory; arcs in the store. Later ones take less, except on small graphs, since their buffers
have a fixed size."""


OTHER_METHOD = "another method is asked for"
"""What a strategy lacks that follows a method nobody asked for: it is no candidate at all."""


class KeepsRows(Protocol):
    """Where rows are kept."""

    @property
    def name(self) -> str:
        """Device and tier, such as ``cuda/pinned``."""

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""

    @property
    def tier(self) -> int:
        """One of the tiers above."""


class Strategy(KeepsRows, Protocol):
    """Where the rows of a graph are kept, and how they are searched there.

    A strategy is a frozen dataclass of a module: it travels to workers as it is.
    """

    def lacks(self, job: Job) -> str:
        """Why it is no candidate for this request; or empty."""

    def cached(self, job: Job) -> Reservation | None:
        """What this process still has loaded, if it will do; it needs no free memory."""

    def reserve(self, job: Job) -> Reservation:
        """What it would hold in memory.

        MemoryBudgetError: says how much memory is needed.
        """

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:
        """What it would hold now that this, or a strategy before it, was refused memory.

        None if that would not help: it would hold no less of what was refused.

        MemoryBudgetError: there is too little for it.
        """

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """What it holds in memory by purpose, JSON-able."""

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """What a search does, in words that follow "memory was refused:"."""


class WholeGraph(Strategy, Protocol):
    """A strategy of one process that has the whole graph."""

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:
        """Bring into memory what was reserved, and give what searches it.

        DeviceError, DeviceBusyError: there is no CUDA device, or others have it, or its memory.
        MemoryBudgetError, MemoryError: the memory is refused. CorruptStoreError: names the chunk.
        """


class StrategyDefaults:
    """What strategies have if they say nothing else."""

    rank_rows = ""  # what a summary says of where ranks have their rows

    def cached(self, job: Job) -> Reservation | None:  # noqa: ARG002
        """Nothing that is loaded decides."""
        return None

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:  # noqa: ARG002
        """Nothing else would help."""
        return None

    def lacks_rank(self, *_: Any) -> str:
        """Nothing, if ranks can follow it."""
        return ""
