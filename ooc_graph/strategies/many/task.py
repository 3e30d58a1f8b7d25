"""Searches from many sources as they travel to the processes that search."""

from __future__ import annotations

from dataclasses import dataclass

from ooc_graph.answers.pairs import TOGETHER, Asked
from ooc_graph.kernels.cuda.many.search import CREWS
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.model.kernel import ROWS
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.strategies.many.tiers import ONE_BY_ONE

ON_DEVICE = ("eccentricity", "closeness", "sum")
"""Reductions that a CUDA device makes itself."""
SUMMED = ("closeness", "sum")
"""Those that add distances up."""


@dataclass(frozen=True)
class PairsTask:
    """What all sources of a run have in common, as it travels to workers.

    Parameters
    ----------
    path, identity
        The graph's.
    asked
        What is asked of every source.
    sources
        How many there are in all.
    lanes
        Most sources of a batch.
    specs
        How distances, and parents if wanted, are stored: in chunks of the same whole sources.
    folder, attempt
        The partial store, and the folder of this run in it; None where nothing is written.
    device
        ``cpu`` or ``cuda``.
    budget_bytes
        Memory beside answers and a batch's lanes, where arcs stay in the store; 0 where all are
        brought into memory. On a CUDA device its memory, where rows are in pinned host memory or in
        the store, or what batches may take of it at most; 0: what there is.
    method
        How these search, see `ooc_graph.strategies.many.tiers.methods_of`; on a CUDA device
        ``rows``, in batches, or one by one.
    closing
        Sources of one process, if it may keep a matrix of all pairs as well; else 0.
    host_bytes
        Host memory for searches on a CUDA device whose arcs stay in the store; else None.
    stretch
        Sources whose distances to all vertices are held at a time; 0: those of all of a task's.
    """

    path: str
    identity: str
    asked: Asked
    sources: int
    lanes: int
    specs: tuple[ArraySpec, ...]
    folder: str | None = None
    attempt: str | None = None
    device: str = CPU
    budget_bytes: int = 0
    method: str = ROWS
    closing: int = 0
    host_bytes: int | None = None
    stretch: int = 0

    @property
    def spec(self) -> ArraySpec:
        """How distances are stored."""
        return self.specs[0]

    @property
    def is_one_by_one_on_device(self) -> bool:
        """Whether a CUDA device searches from one source after the other."""
        return self.device == CUDA and self.method == ONE_BY_ONE

    @property
    def most_found(self) -> int:
        """Sources that a process may have found and not recorded, or is searching from.

        0 where every thread searches batches of its own: each records one before the next.
        """
        if self.device == CUDA and self.method != ONE_BY_ONE:
            # Each of its crews has a batch; BFS is all of one.
            return self.lanes if self.asked.hops else CREWS * self.lanes
        is_in_memory = self.device == CPU and not self.budget_bytes
        return 0 if is_in_memory else TOGETHER[self.asked.hops]

    @property
    def sums_on_device(self) -> bool:
        """Whether sums of floats have the bits that a CUDA device gives them."""
        is_batched = self.device == CUDA and self.method != ONE_BY_ONE
        return is_batched and self.asked.reduce in SUMMED and self.spec.dtype.kind == "f"
