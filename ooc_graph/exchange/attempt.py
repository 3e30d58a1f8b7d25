"""One try at a run, seen from the client: open everywhere, submit, watch, fetch."""

from __future__ import annotations

import concurrent.futures
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from distributed import CancelledError, Future, KilledWorker

from ooc_graph.errors import ClusterLostError, OocGraphError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.handle import Aborted, Failed, Finish, Finished, Outcome, brief, serve
from ooc_graph.exchange.ranks import Make
from ooc_graph.exchange.resident import close_attempt, open_attempt
from ooc_graph.exchange.routing import Terms
from ooc_graph.exchange.task import PREFIX, carried_out, executing
from ooc_graph.settings import patience_s

LOOK_UP_S = 0.2
CLOSE_S = 5.0
LONGEST_FETCH = 10
"""Times the patience that an outcome may travel."""
DRAIN_S = 60.0


class LostError(Exception):
    """An attempt ended because of these workers, which are gone or do not answer.

    ``is_refusal``: none is; some may not share memory, and do without in the next attempt.
    """

    def __init__(self, cause: str, workers: set[str], *, is_refusal: bool) -> None:
        super().__init__(cause)
        self.cause, self.workers, self.is_refusal = cause, workers, is_refusal


class Attempt:
    """Runs all ranks once, on the workers of the party, which may keep the results."""

    def __init__(self, cluster: Cluster, terms: Terms, *, leaves: bool = False) -> None:
        self._leaves = leaves
        self._cluster, self._terms = cluster, terms
        self._client: Any = cluster.client  # Dask annotates some of its methods only
        self._id = terms.run_id, terms.attempt
        self._pending: dict[Future[Any], str] = {}
        self._fetches: dict[Future[Any], tuple[concurrent.futures.Future[Any], float]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._lost: dict[str, str] = {}

    def run(self, make: Make, finish: Finish | None) -> list[Finished]:
        """Run to the end; one outcome for each worker.

        Raises `LostError` if a worker was lost, else what a rank raised, of the lowest rank first.
        """
        try:
            with self._cluster.talking():
                self._open()
                self._submit(make, finish)
                self._watch()
            return self._finished()
        except BaseException:
            with suppress(ClusterLostError, OSError):
                self._end("the client ended the run")
            # Who handles the error may keep this for longer than workers need the memory.
            done = (one for one in self._outcomes.values() if isinstance(one, Finished))
            self._cluster.cancel([one.there[0] for one in done if one.there is not None])
            self._outcomes.clear()
            raise

    def _open(self) -> None:
        members = frozenset(range(len(self._terms.party)))
        arguments = {
            address: (*self._id, members - {member})
            for member, (address, _) in enumerate(self._terms.party)
        }
        answers = self._cluster.ask_each(open_attempt, arguments)
        for address, answer in answers.items():
            if isinstance(answer, OSError):
                self._lost[address] = f"{address} does not answer"
            elif isinstance(answer, Exception):
                raise answer
        if self._lost:
            self._raise_loss()
        doors = tuple(answers[address] for address, _ in self._terms.party)
        self._terms = replace(self._terms, doors=doors)

    def _submit(self, make: Make, finish: Finish | None) -> None:
        for member, (address, _) in enumerate(self._terms.party):
            future = self._client.submit(
                carried_out, f"{PREFIX}ranks", serve, self._terms, member, make, finish,
                self._leaves,
                key=f"{PREFIX}ranks-{self._terms.run_id}-{self._terms.attempt}-{member}",
                workers=[address], allow_other_workers=False,
                retries=0, pure=False, priority=10,
            )  # fmt: skip
            self._pending[future] = address

    def _watch(self) -> None:
        """Wait until every task ended or its worker is gone; one failure ends them all."""
        deadline_s = float("inf")
        while self._pending and time.monotonic() < deadline_s:
            self._take_done()
            self._look_for_lost()
            if deadline_s == float("inf") and self._is_failing():
                deadline_s = time.monotonic() + DRAIN_S
                self._end(self._cause(), keep_running=True)

    def _take_done(self) -> None:
        if self._fetches:
            fetches = [fetch for fetch, _ in self._fetches.values()]
            concurrent.futures.wait(fetches, LOOK_UP_S, concurrent.futures.FIRST_COMPLETED)
        else:
            self._cluster.wait(list(self._pending), LOOK_UP_S)
        for future, address in list(self._pending.items()):
            if future.status == "pending":
                continue
            if future.status == "cancelled":
                # Nothing to fetch, and a client that closes would leave the request unanswered.
                self._lost[address] = f"{address}: its task was cancelled"
                self._forget(future)
                continue
            fetch, since_s = self._fetched(future, address)
            if fetch.cancelled():
                # A request for several outcomes was stopped, and this was one of them.
                del self._fetches[future]
                continue
            if not fetch.done():
                if time.monotonic() - since_s > LONGEST_FETCH * patience_s():
                    self._lost[address] = f"{address}: its outcome does not arrive"
                    self._forget(future)
                continue
            try:
                self._outcomes[address] = self._without_kept(fetch.result(), (future, address))
            except (KilledWorker, CancelledError, OSError) as error:
                self._lost[address] = f"{address}: {error}"
            except Exception as error:  # noqa: BLE001 -- raised again with the others' outcomes
                self._outcomes[address] = Failed(error, "")
            self._forget(future)

    def _fetched(
        self, future: Future[Any], address: str
    ) -> tuple[concurrent.futures.Future[Any], float]:
        """The outcome of a task on its way here, and since when it is."""
        if future not in self._fetches:
            fetch = self._cluster.fetch(future, address, brief if self._leaves else None)
            self._fetches[future] = fetch, time.monotonic()
        return self._fetches[future]

    def _without_kept(self, outcome: Outcome, there: tuple[Any, str]) -> Outcome:
        """The outcome, with Dask's future of it if it stays on its worker."""
        if self._leaves and isinstance(outcome, Finished):
            # All of it has come if Dask has moved it meanwhile.
            return replace(outcome, kept={}, there=there)
        return outcome

    def _forget(self, future: Future[Any]) -> None:
        del self._pending[future]
        fetch, _ = self._fetches.pop(future, (None, 0.0))
        if fetch is not None:
            fetch.cancel()

    def _look_for_lost(self) -> None:
        states = self._cluster.look()
        lost = {
            address: f"{address} left the cluster"
            for address in self._pending.values()
            if address not in states
        }
        hindered = {a: states[a] for a in self._pending.values() if a not in lost}
        hindered = {a: state for a, state in hindered.items() if state.is_hindered}
        paused = [address for address, state in hindered.items() if state.is_paused]
        begun = self._cluster.ask(executing, of=paused) if paused else {}
        for future, address in list(self._pending.items()):
            # A paused worker ends the tasks that it has begun, and sends their results.
            continues = future in self._fetches or str(future.key) in begun.get(address, ())
            if address in hindered and not (continues and address in paused):
                lost[address] = str(hindered[address])
            if address in lost:
                self._lost[address] = lost[address]
                self._drop(future)

    def _is_failing(self) -> bool:
        done = self._outcomes.values()
        return bool(self._lost) or not all(isinstance(outcome, Finished) for outcome in done)

    def _end(self, cause: str, *, keep_running: bool = False) -> None:
        """End the attempt on its workers and forget tasks, except those that still run."""
        arguments = {address: (*self._id, cause) for address, _ in self._terms.party}
        states = self._cluster.look()
        there = [a for a in arguments if a in states and a not in self._lost]
        answers = self._cluster.ask_each(
            close_attempt, {a: arguments[a] for a in there if not states[a].is_silent}, CLOSE_S
        )
        for future, address in list(self._pending.items()):
            if not (keep_running and answers.get(address) is True):
                self._drop(future)

    def _drop(self, future: Future[Any]) -> None:
        self._forget(future)
        self._cluster.cancel([future])

    def _finished(self) -> list[Finished]:
        ordered = sorted(self._terms.party, key=lambda member: member[1])
        outcomes = [self._outcomes.get(address) for address, _ in ordered]
        for (address, _), outcome in zip(ordered, outcomes, strict=True):
            if isinstance(outcome, Failed):
                raise _with_origin(outcome, address)
        finished = [outcome for outcome in outcomes if isinstance(outcome, Finished)]
        if len(finished) < len(outcomes):
            self._raise_loss()
        return finished

    def _raise_loss(self) -> None:
        aborted = [o for o in self._outcomes.values() if isinstance(o, Aborted)]
        unfinished = set(self._pending.values())
        workers = {*self._lost, *unfinished, *(o.lost for o in aborted if o.lost)}
        is_refusal = not workers and any(o.is_refusal for o in aborted)
        raise LostError(self._cause(), workers, is_refusal=is_refusal)

    def _cause(self) -> str:
        """Say what went wrong, in as few clauses as say it."""
        outcomes = self._outcomes.values()
        failed = [repr(o.error) for o in outcomes if isinstance(o, Failed)]
        lost = [o.cause for o in outcomes if isinstance(o, Aborted) and o.lost]
        vague = [o.cause for o in outcomes if isinstance(o, Aborted) and not o.lost]
        refused = [o.cause for o in outcomes if isinstance(o, Aborted) and o.is_refusal]
        late = [f"{address} did not end in time" for address in self._pending.values()]
        clauses = failed or list(self._lost.values()) or lost or refused or vague or late
        return ", ".join(sorted(set(clauses)))


def _with_origin(failed: Failed, address: str) -> Exception:
    if failed.trace and not isinstance(failed.error, OocGraphError):
        failed.error.add_note(f"On Dask worker {address}:\n{failed.trace}")
    return failed.error
