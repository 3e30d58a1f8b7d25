"""Dask workers as the scheduler describes them, and waits for them that end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any, TypeVar

from dask.utils import format_bytes

from ooc_graph.settings import answer_timeout_s

Made = TypeVar("Made", bound=Any)


def within(limit_s: float, make: Callable[[], Made]) -> Made:
    """What a call makes, a client or a cluster; Dask may wait for them without limit.

    TimeoutError after ``limit_s`` seconds: the call continues in a thread, and what it makes is
    closed.
    """
    promised: Future[Made] = Future()

    def run() -> None:
        try:
            made = make()
        except BaseException as error:  # noqa: BLE001 -- to whoever waits
            with suppress(InvalidStateError):
                promised.set_exception(error)
            return
        try:
            promised.set_result(made)
        except InvalidStateError:
            made.close()

    Thread(target=run, daemon=True).start()
    try:
        return promised.result(limit_s)
    except BaseException:
        promised.cancel()
        raise


# Between two looks a worker is taken to have been silent for this long at most: this process may
# itself have been stopped, and the scheduler with it.
_LONGEST_STEP_S = 2.0
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


class LastSeen:
    """The last known states of workers, by address, and for how long each has been silent."""

    def __init__(self) -> None:
        self.states: dict[str, WorkerState] = {}
        # When each was last seen by the scheduler's clock, and for how long that has not changed.
        self._heartbeats: dict[str, tuple[float, float]] = {}

    def note(self, workers: Mapping[str, Any], step_s: float) -> None:
        """Take what the scheduler says of its workers, so long after it last said so."""
        # With many workers Dask's heartbeats come more seldom.
        longest_s = max(answer_timeout_s(), 3 * (1 + len(workers) / 200))
        heartbeats: dict[str, tuple[float, float]] = {}
        states: dict[str, WorkerState] = {}
        for address, worker in workers.items():
            seen_s, silent_s = self._heartbeats.get(address, (0.0, 0.0))
            is_same = seen_s == worker["last_seen"]
            silent_s = silent_s + min(step_s, _LONGEST_STEP_S) if is_same else 0.0
            heartbeats[address] = worker["last_seen"], silent_s
            states[address] = WorkerState(
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
        self._heartbeats, self.states = heartbeats, states

    def note_silent(self, addresses: Collection[str]) -> None:
        """Take workers that did not answer for silent, until their next heartbeat."""
        for address in self.states.keys() & addresses:
            seen_s, silent_s = self._heartbeats[address]
            silent_s = max(silent_s, answer_timeout_s())
            self._heartbeats[address] = seen_s, silent_s
            self.states[address] = replace(self.states[address], silent_s=silent_s, is_silent=True)
