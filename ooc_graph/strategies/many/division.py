"""How many sources are divided into tasks and batches, and what a process holds for them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ooc_graph.answers.reductions import BINS, HISTOGRAM
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.model.job import Job
from ooc_graph.model.reservation import Reservation
from ooc_graph.strategies.many.job import answer_bytes, beside_bytes


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
        f"many sources on {job.graph.path} need {needed:,} bytes in one worker, and a worker may "
        f"use {job.resources.least_limit_bytes:,}; {advice}"
    )
    return MemoryBudgetError(said).needing(needed)
