"""Dask workers as the scheduler describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dask.utils import format_bytes

NO_WORKERS = "the Dask cluster has no workers"


@dataclass(frozen=True)
class WorkerState:
    """A worker as the scheduler last described it, with Dask's word for its status.

    It is silent if there was no heartbeat for longer than the limit for an answer. Memory is that
    which is resident, and Dask's limit for it (0: none).
    """

    address: str
    name: str
    host: str
    status: str
    silent_s: float
    is_silent: bool
    threads: int
    memory_bytes: int
    limit_bytes: int

    @property
    def can_work(self) -> bool:
        """Whether a task that is sent there begins."""
        return self.status == "running" and not self.is_silent

    @property
    def is_hindered(self) -> bool:
        """Whether it is silent or paused: there, and of no use for the time being."""
        return self.is_silent or self.is_paused

    @property
    def is_paused(self) -> bool:
        """Whether Dask starts no task there because of its memory."""
        return self.status == "paused" and not self.is_silent

    def __str__(self) -> str:
        if self.is_silent:
            return f"worker {self.address} has not answered for {self.silent_s:.0f} s"
        if self.is_paused:
            return (
                f"worker {self.address} is paused by Dask: its process has "
                f"{format_bytes(self.memory_bytes)} of {format_bytes(self.limit_bytes)} (raise its "
                "memory limit or distributed.worker.memory.pause, or give a smaller memory limit "
                "to the search)"
            )
        return f"worker {self.address} is {self.status}"


def describe(states: Iterable[WorkerState]) -> str:
    """One clause for each worker."""
    return "; ".join(str(state) for state in states) or NO_WORKERS


def state_of(
    address: str, worker: Mapping[str, Any], silent_s: float, longest_s: float
) -> WorkerState:
    """State of a worker, given its entry in the scheduler's answer."""
    return WorkerState(
        address,
        str(worker["name"]),
        worker["host"],
        worker["status"],
        silent_s,
        silent_s >= longest_s,
        int(worker["nthreads"]),
        int(worker["metrics"].get("memory") or 0),
        int(worker["memory_limit"] or 0),
    )
