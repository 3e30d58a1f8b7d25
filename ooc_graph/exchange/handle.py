"""The Dask task that is an attempt's handle on one worker."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from distributed import Worker, get_worker, secede

from ooc_graph.exchange.party import AttemptAbortedError, Party, Plan
from ooc_graph.exchange.ranks import Make, Ranks
from ooc_graph.exchange.resident import find_resident
from ooc_graph.threads import Threads

PROGRESS_EVERY_S = 0.2

Counts = tuple[int, tuple[int, ...]]
Finish = Callable[[int, Any], Any]


@dataclass(frozen=True)
class Finished:
    """All ranks of the worker came to their end.

    Parameters
    ----------
    values
        By rank: the result, or what ``finish`` made of it.
    last_counts
        Superstep and counts of the last `Share`, from the worker that reports them.
    """

    values: dict[int, Any]
    supersteps: int
    bytes_sent: int
    exchange_s: float
    last_counts: Counts | None


@dataclass(frozen=True)
class Failed:
    """A rank, the factory or ``finish`` raised; carried as a value, so that Dask logs nothing."""

    error: Exception
    trace: str


@dataclass(frozen=True)
class Aborted:
    """The attempt could not continue, for a reason outside this worker's ranks."""

    cause: str
    lost: str | None


Outcome = Finished | Failed | Aborted


def serve(plan: Plan, member: int, make: Make, finish: Finish | None) -> Outcome:
    """Run one worker's ranks; the body of a task pinned to that worker.

    The task secedes: two runs that share workers must not wait for each other's threads, and the
    worker stays open for coarse tasks.
    """
    worker = get_worker()
    key = worker.get_current_task()
    leave_pool: Callable[[], None] = secede
    leave_pool()
    # A worker that was restarted under its address has neither plugin nor postbox.
    resident = find_resident(worker)
    box = None if resident is None else resident.box(plan.run_id, plan.attempt)
    if resident is None or box is None:
        return Aborted(f"{worker.address} no longer has the attempt", None)
    box.is_manned = True
    try:
        party = Party(plan, member, worker, box, lambda: _is_wanted(worker, key))
        return _play(party, worker, make, finish)
    except AttemptAbortedError as error:
        return Aborted(error.cause, error.lost)
    except Exception as error:  # noqa: BLE001 -- carried to the client, who raises it again
        return Failed(_portable(error), traceback.format_exc())
    finally:
        resident.close_soon(plan.run_id, plan.attempt)


def _play(party: Party, worker: Worker, make: Make, finish: Finish | None) -> Finished:
    plan = party.plan
    mine = plan.party[party.member][1]
    reporter = _Reporter(worker, plan.run_id, plan.topic) if plan.topic and 0 in mine else None
    with ExitStack() as stack:
        ranks = Ranks(party, *make(mine), on_counts=reporter)
        stack.enter_context(closing(ranks))
        if plan.threads > 1:
            ranks.apply = stack.enter_context(Threads(plan.threads)).map
        results = ranks.run()
    values = results if finish is None else {r: finish(r, results[r]) for r in sorted(results)}
    last = reporter.last if reporter else None
    # The last trade was about being done, not a superstep.
    return Finished(values, party.supersteps - 1, party.bytes_sent, party.exchange_s, last)


def _is_wanted(worker: Worker, key: Any) -> bool:
    """Whether the scheduler still has the task: it takes it back when the client is gone."""
    task = worker.state.tasks.get(key)
    return task is not None and task.state != "cancelled"


class _Reporter:
    """Reports the counts to the client through Dask's events, not in every superstep."""

    def __init__(self, worker: Worker, run_id: str, topic: str) -> None:
        self.last: Counts | None = None
        self._worker, self._run_id, self._topic = worker, run_id, topic
        self._due_s = 0.0

    def __call__(self, superstep: int, counts: tuple[int, ...]) -> None:
        self.last = (superstep, counts)
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = now_s + PROGRESS_EVERY_S
            message = {"run_id": self._run_id, "superstep": superstep, "counts": list(counts)}
            self._worker.log_event(self._topic, message)


def _portable(error: Exception) -> Exception:
    """Return a copy that can travel and holds no frames (they would hold the ranks' arrays)."""
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own bytes
    except Exception:  # noqa: BLE001 -- whatever its __reduce__ raises
        return RuntimeError(f"{type(error).__name__}: {error}")
    return copy
