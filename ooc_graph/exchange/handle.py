"""The Dask task that is an attempt's handle on one worker."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from distributed import Worker, get_worker, secede

from ooc_graph.exchange.interface import ExchangeStats
from ooc_graph.exchange.parcel import Kind, Part
from ooc_graph.exchange.party import Party
from ooc_graph.exchange.ranks import Make, Ranks
from ooc_graph.exchange.resident import find_resident
from ooc_graph.exchange.routing import Terms
from ooc_graph.exchange.transport import AttemptAbortedError, Mail, SharingRefusedError
from ooc_graph.threads import Threads
from ooc_graph.types import Gathering

Finish = Callable[[int, Any, int], Any]


@dataclass(frozen=True)
class Finished:
    """All ranks of the worker came to their end; values are results, or what ``finish`` made.

    ``kept`` are results that stay on the worker, which have ``nbytes``. The client has ``there``
    instead: Dask's future of this, and the worker's address.
    """

    values: dict[int, Any]
    stats: ExchangeStats
    kept: dict[int, Any] = field(default_factory=dict)
    there: tuple[Any, str] | None = None

    def __sizeof__(self) -> int:
        """Bytes by which Dask knows what a worker keeps, and what to move or spill."""
        return object.__sizeof__(self) + int(sum(one.nbytes for one in self.kept.values()))


@dataclass(frozen=True)
class Failed:
    """A rank, the factory or ``finish`` raised; carried as a value, so that Dask logs nothing."""

    error: Exception
    trace: str


@dataclass(frozen=True)
class Aborted:
    """The attempt could not continue, for a reason outside this worker's ranks.

    ``is_refusal``: no worker is at fault, and the next attempt does without what was refused.
    """

    cause: str
    lost: str | None
    is_refusal: bool = False


Outcome = Finished | Failed | Aborted


def serve(terms: Terms, member: int, make: Make, finish: Finish | None, leaves: bool) -> Outcome:
    """Run one worker's ranks; the body of a task pinned to that worker, which keeps the results.

    The task secedes once it trades: two runs that share workers must not wait for each other's
    threads. Most searches of ranks that have met come to their end before.
    """
    worker = get_worker()
    key = worker.get_current_task()
    # A worker that was restarted under its address has neither plugin nor postbox.
    resident = find_resident(worker)
    box = None if resident is None else resident.box(terms.run_id, terms.attempt)
    if resident is None or box is None:
        return Aborted(f"{worker.address} no longer has the attempt", None)
    box.is_manned, is_done = True, False
    try:
        party = Party(terms, member, worker, box, lambda: _is_wanted(worker, key))
        finished = _play(party, make, finish, leaves)
        is_done = True
        return finished
    except AttemptAbortedError as error:
        return Aborted(error.cause, error.lost, isinstance(error, SharingRefusedError))
    except Exception as error:  # noqa: BLE001 -- carried to the client, who raises it again
        return Failed(_portable(error), traceback.format_exc())
    finally:
        resident.close_soon(terms.run_id, terms.attempt, is_done=is_done)


def _play(party: Party, make: Make, finish: Finish | None, leaves: bool) -> Finished:
    terms = party.terms
    ranks_of = [ranks for _, ranks in terms.party]
    mine = ranks_of[party.member]
    with ExitStack() as stack:
        stack.enter_context(closing(party))
        coroutines, shared = stack.enter_context(make(mine))
        # Ranks cannot gather if several share a process, or if not all are on one host.
        are_alone = all(len(ranks) == 1 for ranks in ranks_of)
        if are_alone and not party.has_far and hasattr(shared, "gathering"):
            shared.gathering = Gathering(terms.name, party.is_silent)
        leave_pool: Callable[[], None] = cache(secede)

        def trade(kind: Kind, parts_for: Callable[[int], Sequence[Part]]) -> Mail:
            if kind is not Kind.DONE:
                leave_pool()
            return party.trade(kind, parts_for)

        given = trade, ranks_of, party.member, coroutines, shared
        threads = Threads(terms.threads)
        advanced = Ranks(
            *given, apply=map if terms.threads == 1 else threads.map, codes=party.has_far,
            part_bytes=party.part_bytes, common=party.common,
        )  # fmt: skip
        stack.enter_context(closing(advanced))
        # Left before ranks are closed: if one of them fails, threads are still at others.
        stack.enter_context(threads)
        results = advanced.run()
    values = results
    if finish is not None:
        ranks = sum(map(len, ranks_of))
        values = {rank: finish(rank, results[rank], ranks) for rank in sorted(results)}
    return Finished(values, party.stats(), results if leaves else {})


def brief(key: str, dask_worker: Any) -> Finished | None:
    """What a worker's task came to, without what it keeps; None if that is something else.

    For the worker's event loop.
    """
    outcome = dask_worker.data.get(key)
    return replace(outcome, kept={}) if isinstance(outcome, Finished) else None


def _is_wanted(worker: Worker, key: Any) -> bool:
    """Whether the scheduler still has the task: it takes it back when the client is gone."""
    task = worker.state.tasks.get(key)
    return task is not None and task.state != "cancelled"


def _portable(error: Exception) -> Exception:
    """Return a copy that can travel and holds no frames (they would hold the ranks' arrays)."""
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own bytes
    except Exception:  # noqa: BLE001 -- whatever its __reduce__ raises
        return RuntimeError(f"{type(error).__name__}: {error}")
    return copy
