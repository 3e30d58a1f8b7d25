"""A Dask cluster as its client sees it: every question has a time limit, every wait an end.

Dask itself waits without limit: for a worker that is stopped (SIGSTOP) or paused, for a scheduler
that does not answer, for a task that is tied to a worker which restarted under another address.
Everything in this package that asks a cluster or waits for it goes through `Cluster`, and how long
it waits is in `ooc_graph.settings`.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import RLock
from time import monotonic, sleep
from typing import Any, ClassVar

from distributed import CancelledError, Client

from ooc_graph.errors import ClusterLostError, OocGraphError, UsageError
from ooc_graph.exchange.outcomes import Describe, Outcomes, first_done
from ooc_graph.exchange.worker_states import LastSeen, WorkerState, describe
from ooc_graph.settings import answer_timeout_s, patience_s

LOOK_EVERY_S = 0.5
"""The scheduler is asked for its workers at most this often."""
CLOSED = "the connection to the Dask scheduler is closed"

_NOT_INSTALLED = "No module named 'ooc_graph"
# A closing event loop may forget a question; then its thread stops waiting this much later.
_GRACE_S = 5.0


class Cluster:
    """Questions to the scheduler and the workers of a synchronous client's cluster.

    `Cluster.of` gives the same object for the same client, so that what one call learnt about its
    workers serves the next.
    """

    _known: ClassVar[weakref.WeakKeyDictionary[Client, Cluster]] = weakref.WeakKeyDictionary()

    def __init__(self, client: Client) -> None:
        # Weak: `_known` would keep a client that nobody else has.
        self._client = weakref.ref(client)
        self._lock = RLock()
        self._workers = LastSeen()
        self.outcomes = Outcomes()
        self._answers: dict[Callable[..., Any], tuple[float, object, dict[str, Any]]] = {}
        self._looked_s = float("-inf")
        self._unanswered_since_s: float | None = None

    @classmethod
    def of(cls, client: Client) -> Cluster:
        """The cluster of a client."""
        return cls._known.setdefault(client, cls(client))

    @property
    def client(self) -> Any:
        """The client."""
        client = self._client()
        if client is None:
            raise ClusterLostError(CLOSED)
        return client

    @property
    def is_closed(self) -> bool:
        """Whether the client's connection is gone or going."""
        client = self._client()
        return client is None or client.status in ("closing", "closed")

    @contextmanager
    def talking(self) -> Iterator[None]:
        """Turn what a closed client raises, which can be anything, into ClusterLostError."""
        try:
            if self.is_closed:
                raise ClusterLostError(CLOSED)
            yield
        except OocGraphError:
            raise
        except (Exception, CancelledError) as error:
            if self.is_closed or "IOLoop is clos" in str(error):
                raise ClusterLostError(CLOSED) from error
            raise

    def sync(
        self, function: Callable[..., Any], *arguments: Any, timeout_s: float, **options: Any
    ) -> Any:
        """Run a coroutine function on the client's event loop; TimeoutError after ``timeout_s``."""
        with self.talking():
            return self.client.sync(function, *arguments, callback_timeout=timeout_s, **options)

    def look(self) -> dict[str, WorkerState]:
        """States of all workers by address, at most `LOOK_EVERY_S` old.

        ClusterLostError if the client is closed, or the scheduler has not answered for longer than
        the patience.
        """
        with self._lock:
            if self.is_closed:
                raise ClusterLostError(CLOSED)
            now_s = monotonic()
            if now_s - self._looked_s < LOOK_EVERY_S:
                return dict(self._workers.states)
            try:
                # Not `Client.scheduler_info`: now and then it has no workers.
                ask = self.client.scheduler.identity
                answer = self.sync(ask, n_workers=-1, timeout_s=answer_timeout_s())
            except OSError as error:
                self._unanswered_since_s = self._unanswered_since_s or now_s
                silent_s = monotonic() - self._unanswered_since_s
                if silent_s > patience_s():
                    raise ClusterLostError(
                        f"the Dask scheduler has not answered for {silent_s:.0f} s"
                    ) from error
                return dict(self._workers.states)
            self._unanswered_since_s = None
            self._workers.note(answer["workers"], now_s - self._looked_s)
            self._looked_s = now_s
            return dict(self._workers.states)

    def ask(
        self, function: Callable[..., Any], *arguments: Any, of: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Call a function on the event loop of workers; the answers of those that answer.

        The function is quick, and gets its worker if it has a parameter ``dask_worker``. Of the
        workers, all if no addresses are given, those that are known to be silent are not asked.
        Raises what the function raised on some worker, and what `look` raises.
        """
        states = self.look()
        asked = states if of is None else [address for address in of if address in states]
        answers = self.ask_each(
            function, {address: arguments for address in asked if not states[address].is_silent}
        )
        for address, answer in answers.items():
            if isinstance(answer, Exception) and not isinstance(answer, OSError):
                if _NOT_INSTALLED in str(answer):
                    raise UsageError(
                        f"worker {address} cannot import ooc_graph: install the same version there"
                    ) from answer
                raise answer
        return {a: answer for a, answer in answers.items() if not isinstance(answer, OSError)}

    def asked(
        self, function: Callable[..., Any], *arguments: Any, of: Collection[str] | None = None
    ) -> dict[str, Any]:
        """As `ask`, but as with `look` the answers may be `LOOK_EVERY_S` old."""
        key = arguments, sorted(self.look() if of is None else of)
        asked_s, known, answers = self._answers.get(function, (float("-inf"), None, {}))
        if known != key or monotonic() - asked_s >= LOOK_EVERY_S:
            asked_s, answers = monotonic(), self.ask(function, *arguments, of=of)
            self._answers[function] = asked_s, key, answers
        return answers

    def ask_each(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, tuple[Any, ...]],
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Call a function, or a coroutine function, on the event loops of workers.

        ``arguments`` are positional, by address. The answers are what the function returned, or the
        exception: an OSError of a worker that is gone, a TimeoutError of one that is late.
        """
        limit_s = answer_timeout_s() if timeout_s is None else timeout_s
        client = self.client

        async def ask_one(address: str) -> Any:
            call = client.run(function, *arguments[address], workers=[address])
            try:
                return (await asyncio.wait_for(call, limit_s))[address]
            except Exception as error:  # noqa: BLE001 -- the caller decides by its kind
                return error

        async def ask_all() -> dict[str, Any]:
            answers = await asyncio.gather(*(ask_one(address) for address in arguments))
            return dict(zip(arguments, answers, strict=True))

        answers: dict[str, Any] = self.sync(ask_all, timeout_s=limit_s + _GRACE_S)
        late = [a for a, answer in answers.items() if isinstance(answer, TimeoutError)]
        with self._lock:
            self._workers.note_silent(late)
        return answers

    def wait_for_workers(
        self,
        choose: Callable[[dict[str, WorkerState]], Sequence[str]],
        wait_s: float | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> dict[str, WorkerState]:
        """States of workers that can work, by address, once there are some; empty after the wait.

        ``choose`` chooses among those that can work. The wait is the patience unless it is given;
        ``on_wait`` is called once with its reason.
        """
        deadline_s = monotonic() + (patience_s() if wait_s is None else wait_s)
        while True:
            states = self.look()
            chosen = choose({a: state for a, state in states.items() if state.can_work})
            if chosen or monotonic() >= deadline_s:
                return {address: states[address] for address in chosen}
            if on_wait is not None:
                on_wait(describe(states.values()))
                on_wait = None
            sleep(LOOK_EVERY_S)

    def tasks_at(self, workers: Iterable[str]) -> dict[str, list[str]]:
        """Keys of the tasks that the scheduler has sent to some workers, by address."""
        # All are asked for: one that has just left would be an error there.
        at = self._answer(self.client.scheduler.processing, workers=None)
        return {address: at.get(address, []) for address in workers}

    def holders_of(self, keys: Sequence[str]) -> dict[str, list[str]]:
        """Addresses of the workers that have the results of some tasks, by key."""
        return self._answer(self.client.scheduler.who_has, keys=keys)

    def _answer(self, question: Callable[..., Any], **options: Any) -> dict[str, list[str]]:
        answer: dict[str, list[str]] = self.sync(question, timeout_s=answer_timeout_s(), **options)
        return answer

    def wait(self, futures: Sequence[Any], timeout_s: float) -> None:
        """Wait until one of some futures is done, or the time is up.

        Not by `distributed.wait`, which asks the default client, and that may be another.
        """
        with suppress(TimeoutError, CancelledError):
            self.sync(first_done, futures, timeout_s=timeout_s)

    def fetch(self, future: Any, at: str | None = None, say: Describe | None = None) -> Future[Any]:
        """The value of a future on its way here (see `Outcomes.of`), to be waited for in turns.

        Not `distributed.Future.result`: its worker may freeze, and a look at the workers tells.
        """
        with self.talking():
            loop = self.client.loop.asyncio_loop
            return asyncio.run_coroutine_threadsafe(self.outcomes.of(future, at, say), loop)

    def cancel(self, futures: Sequence[Any]) -> None:
        """Cancel tasks of the client; a closed client has none."""
        if futures and not self.is_closed:
            with suppress(OSError, ClusterLostError):
                self.sync(_cancel, self.client, futures, timeout_s=answer_timeout_s())


async def _cancel(client: Any, futures: Sequence[Any]) -> None:
    await client.cancel(futures, asynchronous=True, force=True)
