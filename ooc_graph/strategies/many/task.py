"""Searches from many sources as they travel to the processes that search."""

from __future__ import annotations

from dataclasses import dataclass

from ooc_graph.answers.asked import TOGETHER, Asked
from ooc_graph.kernels.cuda.many.search_plan import BLOCK_GROUPS
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.model.reservation import Key
from ooc_graph.model.resources import CPU, CUDA, FREE, Capacity
from ooc_graph.model.strategy import MEMORY, WholeGraph
from ooc_graph.strategies.many.division import SUMMED, Division
from ooc_graph.strategies.many.tiers import ONE_BY_ONE


@dataclass(frozen=True)
class ManyTask:
    """What all sources of a run have in common, as it travels to workers."""

    # Of the graph.
    path: str
    identity: str
    asked: Asked  # what is asked of every source
    sources: int  # how many there are in all
    # How distances, and parents if wanted, are stored: in chunks of the same whole sources.
    specs: tuple[ArraySpec, ...]
    # How they are searched, and divided.
    strategy: WholeGraph
    reserved: Division
    # The partial store, and the folder of this run in it; None if nothing is written.
    folder: str | None = None
    attempt: str | None = None
    capacity: Capacity = FREE  # memory for all that the process keeps loaded

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.strategy.device

    @property
    def batch_size(self) -> int:
        """Most sources of a batch."""
        return self.reserved.batch_size

    @property
    def key(self) -> Key:
        """The engine that it needs."""
        whom = self.path, self.identity, self.asked.kernel
        return Key(*whom, self.device, self.reserved.engine)

    @property
    def spec(self) -> ArraySpec:
        """How distances are stored."""
        return self.specs[0]

    @property
    def is_one_by_one_on_device(self) -> bool:
        """Whether a CUDA device searches from one source after the other."""
        return self.device == CUDA and self.reserved.method == ONE_BY_ONE

    @property
    def is_batched_on_device(self) -> bool:
        """Whether a CUDA device searches from many sources at a time."""
        return self.device == CUDA and self.reserved.method != ONE_BY_ONE

    @property
    def most_found(self) -> int:
        """Sources that a process may have found and not recorded, or is searching from.

        0 if every thread searches batches of its own: each records one before the next.
        """
        if self.is_batched_on_device:
            # Each of its crews has a batch; BFS is all of one.
            return self.batch_size if self.asked.hops else BLOCK_GROUPS * self.batch_size
        is_in_memory = self.device == CPU and self.strategy.tier == MEMORY
        return 0 if is_in_memory else TOGETHER[self.asked.hops]

    @property
    def sums_on_device(self) -> bool:
        """Whether sums of floats have the bits that a CUDA device gives them."""
        is_sum = self.is_batched_on_device and self.asked.reduce in SUMMED
        return is_sum and self.spec.dtype.kind == "f"
