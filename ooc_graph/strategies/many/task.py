"""How many sources are divided into tasks and batches, and tasks as they travel to processes."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ooc_graph.answers.asked import TOGETHER, Asked
from ooc_graph.answers.reductions import BINS, HISTOGRAM
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.many.search_plan import BLOCK_GROUPS
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import Key, Reservation
from ooc_graph.model.resources import CPU, CUDA, FREE, Capacity
from ooc_graph.model.strategy import MEMORY, WholeGraph
from ooc_graph.strategies.many.tiers import ONE_BY_ONE

ON_DEVICE = ("eccentricity", "closeness", "sum")
"""Reductions that a CUDA device makes itself."""
SUMMED = ("closeness", "sum")
"""Those that add distances up."""
BEYOND = 64
"""Sources whose distances leave the device at once if their sums are beyond float64."""
# Of one source where its distances are reduced: what it reaches, and the number; of a bin its
# count, as Python has it on its way, too.
_REDUCED_BYTES, _BIN_BYTES = 16, 48
# Of a number, or of a bin's count, in a column.
_COUNT_BYTES = 8


@dataclass(frozen=True)
class Division(Reservation):
    """A reservation for many sources, and how they are divided."""

    batch_size: int = 1  # most sources of a batch, which one thread searches
    chunks: int = 1  # chunks of a task
    needed_bytes: int = 0  # host memory of one process, with all that it may keep
    # Sources of one process, if it may keep a matrix of all pairs as well; else 0.
    matrix_sources: int = 0
    # Sources of a task whose distances to all vertices are held at a time, if arcs stay in the
    # store and few targets are asked for; 0: all of them.
    slice_sources: int = 0

    @property
    def engine(self) -> Reservation:
        """What the engine holds, however the sources are divided."""
        values = {each.name: getattr(self, each.name) for each in fields(Reservation)}
        return Reservation(**values)

    @property
    def whole_bytes(self) -> int:
        """With answers."""
        return self.needed_bytes


def require_answer(job: Job) -> None:
    """Refuse an answer that memory has no room for, if it stays there."""
    answer = answer_bytes(job)
    if job.in_memory and answer > job.resources.limit_bytes:
        raise MemoryBudgetError(
            f"{job.spec.length:,} sources have {answer:,} bytes of distances, and there are "
            f"{job.resources.limit_bytes:,}; give out= to write them to a store"
        )


def too_many(job: Job, needed: int) -> MemoryBudgetError:
    """The error of processes that have too little memory for many sources."""
    bins = job.asked.bins.count
    advice = "raise --memory-limit or add memory to the workers"
    if job.asked.reduce == HISTOGRAM and bins > BINS:
        advice = f"ask for fewer bins than {bins:,}, or {advice}"
    beside = beside_bytes(job)
    if job.in_memory and beside:
        advice += f", or give out=, as {beside:,} of them are the answer"
    said = (
        f"many sources on {job.graph.name} need {needed:,} bytes in one worker, and a worker may "
        f"use {job.resources.least_limit_bytes:,}; {advice}"
    )
    return MemoryBudgetError(said).needing(needed)


def batches_name(device: str) -> str:
    """Name of the strategy that has all arcs in the memory of a device."""
    return f"{device}/batches"


def beside_bytes(job: Job) -> int:
    """Memory of the answer in the process that searches; with a cluster it is the client's."""
    if job.resources.has_client:
        return 0
    if job.in_memory:
        return answer_bytes(job)
    # Numbers become columns of the store when all are found.
    return 0 if job.asked.reduce is None else stored_bytes(job)


def stored_bytes(job: Job) -> int:
    """Bytes of what is written, without ids; of numbers at most."""
    if job.asked.reduce is None:
        return job.spec.length * sum(spec.item_bytes for spec in job.specs)
    counts = job.asked.bins.count if job.asked.reduce == HISTOGRAM else 1
    return job.spec.length * _COUNT_BYTES * (1 + counts)


def _stays_in_process(job: Job) -> bool:
    """Whether answers stay in the memory of the process that searches."""
    return job.in_memory and not job.resources.has_client


def is_in_place(job: Job, device: str) -> bool:
    """Whether distances go where they belong as they are found, so that no task holds any."""
    is_ordered = not job.asked.hops or device == CUDA
    stays = _stays_in_process(job)
    return stays and is_ordered and job.asked.reduce is None and not job.asked.parents


def answer_bytes(job: Job) -> int:
    """Memory of all that was asked for, if it is not somebody else's."""
    if job.asked.has_array:
        return 0
    item = sum(spec.item_bytes for spec in job.specs)
    return job.spec.length * (item if job.asked.reduce is None else _reduced_bytes(job))


def _reduced_bytes(job: Job) -> int:
    """Memory of what is kept of one source."""
    bins = job.asked.bins.count if job.asked.reduce == HISTOGRAM else 0
    return _REDUCED_BYTES + bins * _BIN_BYTES


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
