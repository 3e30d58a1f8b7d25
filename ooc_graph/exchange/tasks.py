"""Tasks on a Dask cluster: each is sent to a worker that can do it, and again if that is lost.

Dask moves a task only when its worker leaves the cluster, and not at all if the task is tied to an
address. Here the thread that waits for tasks calls `Tasks.check` every second; it sends again what
waits at a worker that is gone, silent, or paused before the task began. A task may therefore run
twice, and both may end: it must write the same bytes each time, and no file but by a rename.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError, wait
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from dask.utils import funcname
from distributed import KilledWorker

from ooc_graph.errors import ClusterLostError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.time_limits import answer_timeout_s, patience_s
from ooc_graph.exchange.worker_states import WorkerState, describe
from ooc_graph.threads import CHECK_S

MOST_LOSSES = 3
"""A task is not sent again once it has lost this many workers: it may be what kills them."""

Given = ParamSpec("Given")
Done = TypeVar("Done")
Choose = Callable[[Collection[WorkerState]], str]


@dataclass(eq=False)
class _Task:
    """A task that is not done.

    ``choose`` names the worker that is to do it; None: Dask does. The caller waits for what is
    ``promised``. ``sent`` is Dask's future, restricted to ``workers``; None while there is none to
    send it to. Its result, there since ``finished_s``, has not arrived. ``losses`` say which were
    lost.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    choose: Choose | None
    promised: Future[Any]
    sent: Any = None
    workers: frozenset[str] | None = None
    finished_s: float | None = None
    losses: list[str] = field(default_factory=list)


class Tasks(Executor):
    """Executor of one client's cluster.

    ``note`` is called with a line if a worker cannot continue and its tasks are sent elsewhere.
    """

    def __init__(self, cluster: Cluster, note: Callable[[str], None]) -> None:
        self._cluster, self._note = cluster, note
        self._waiting: set[_Task] = set()
        self._reported: set[tuple[str, bool]] = set()
        self._present: set[str] = set()
        self._stalled_s: float | None = None
        self._checked_s = float("-inf")

    def submit(
        self, fn: Callable[Given, Done], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Done]:
        """Send a call to any worker."""
        return self._submit(_Task(fn, args, kwargs, None, Future()))

    def submit_to(
        self, choose: Choose, function: Callable[..., Done], *arguments: Any
    ) -> Future[Done]:
        """Send a call to the worker that ``choose`` names among those that can work."""
        return self._submit(_Task(function, arguments, {}, choose, Future()))

    def _submit(self, task: _Task) -> Future[Any]:
        states = self._cluster.look()
        task.promised.add_done_callback(lambda _: self._forget(task))
        self._waiting.add(task)
        try:
            self._send(task, states)
        except BaseException:
            task.promised.cancel()
            raise
        return task.promised

    def result(self, promised: Future[Done]) -> Done:
        """Wait for one task; raises as `check` does."""
        try:
            while wait([promised], timeout=CHECK_S).not_done:
                self.check()
            return promised.result()
        finally:
            promised.cancel()

    def check(self) -> None:
        """Send again what waits for a worker that cannot do it; once in `CHECK_S` seconds at most.

        ClusterLostError if the client is closed, the scheduler does not answer, or for longer than
        the patience no worker could do a task; the message names the workers and their states.
        """
        if monotonic() - self._checked_s < CHECK_S:
            return
        states = self._cluster.look()
        self._checked_s = monotonic()
        bad = {address: state for address, state in states.items() if not state.can_work}
        self._say(states, bad)
        try:
            stuck, is_working = self._stuck(states, bad)
        except OSError:
            # The scheduler does not answer: `look` counts that.
            return
        if len(bad) == len(states):
            self._require_patience(bool(stuck) and not is_working, states)
            return
        self._stalled_s = None
        for task, loss in stuck.items():
            self._send_again(task, loss, states)

    def _stuck(
        self, states: dict[str, WorkerState], bad: dict[str, WorkerState]
    ) -> tuple[dict[_Task, str], bool]:
        """Tasks that nobody works at, and whether a worker that cannot begin more is at another.

        With each task what of its worker was lost; nothing if it only waited there.
        """
        stuck: dict[_Task, str] = {}
        sent: dict[str, _Task] = {}
        for task in list(self._waiting):
            # Read once: the event loop forgets it when the task ends.
            future = task.sent
            status = None if future is None else future.status
            if status != "finished":
                task.finished_s = None
            elif task.finished_s is None:
                task.finished_s = monotonic()
            if future is None:
                stuck[task] = ""
            elif status == "cancelled":
                # The scheduler forgot it, as when all workers are restarted.
                stuck[task] = ""
            elif task.workers is not None and not task.workers & states.keys():
                stuck[task] = f"{' and '.join(sorted(task.workers))} left the cluster"
            elif not states:
                stuck[task] = ""
            else:
                sent[future.key] = task
        if not bad:
            return stuck, False
        waiting, is_working = self._waiting_for(sent, bad, set(states) - set(bad))
        return stuck | waiting, is_working

    def _waiting_for(
        self, sent: dict[str, _Task], bad: dict[str, WorkerState], good: set[str]
    ) -> tuple[dict[_Task, str], bool]:
        """Those of some tasks, or of their results, that wait for workers which cannot continue."""
        # Without those that are just handed on.
        late = [key for key, task in sent.items() if _is_late(task)]
        at = self._cluster.tasks_at(bad)
        holders = self._cluster.holders_of(late)
        begun = self._cluster.ask(executing, of=list(bad))
        running = {key for keys in begun.values() for key in keys}
        waits_at = {key: bad[address] for address, keys in at.items() for key in keys}
        stuck: dict[_Task, str] = {}
        for key, task in sent.items():
            if key in late:
                if all(address in bad and bad[address].is_silent for address in holders[key]):
                    stuck[task] = "the worker that has its result does not answer"
            elif key in running or task.finished_s is not None:
                continue
            elif key in waits_at:
                stuck[task] = str(waits_at[key]) if waits_at[key].is_silent else ""
            elif not (good if task.workers is None else task.workers & good):
                # Dask keeps it to itself while all workers that may do it are paused.
                stuck[task] = ""
        return stuck, not running.isdisjoint(sent)

    def _say(self, states: dict[str, WorkerState], bad: dict[str, WorkerState]) -> None:
        """One line for each worker that cannot continue, whenever it falls into that state."""
        reported = {(a, state.is_silent) for a, state in bad.items() if state.is_hindered}
        for address, _ in sorted(reported - self._reported):
            self._note(f"{bad[address]}; other workers do its work, or it is waited for")
        for address in sorted(self._present - states.keys()):
            self._note(f"worker {address} left the cluster; other workers do its work")
        self._reported, self._present = reported, set(states)

    def _require_patience(self, is_stalled: bool, states: dict[str, WorkerState]) -> None:
        """Raise if for longer than the patience nobody could do a task."""
        now_s = monotonic()
        if not is_stalled or self._stalled_s is None:
            self._stalled_s = now_s if is_stalled else None
        elif now_s - self._stalled_s > patience_s():
            raise ClusterLostError(
                f"no worker could continue for {now_s - self._stalled_s:.0f} s: "
                f"{describe(states.values())}; run the same again"
            )

    def _send_again(self, task: _Task, loss: str, states: dict[str, WorkerState]) -> None:
        if task.promised.done():
            return
        before = task.sent
        if loss:
            task.losses.append(loss)
        if len(task.losses) < MOST_LOSSES:
            self._send(task, states)
        else:
            _fail(task, ClusterLostError(_lost_too_often(task)))
        if before is not None:
            self._cluster.cancel([before])

    def _send(self, task: _Task, states: dict[str, WorkerState]) -> None:
        """Send a task to a worker that can work; leave it if there is none."""
        good = [state for state in states.values() if state.can_work]
        task.sent = task.workers = task.finished_s = None
        if not good:
            return
        if task.choose is not None:
            task.workers = frozenset([task.choose(good)])
        elif len(good) < len(states):
            task.workers = frozenset(state.address for state in good)
        with self._cluster.talking():
            task.sent = self._cluster.client.submit(
                task.function,
                *task.arguments,
                **task.options,
                key=f"{funcname(task.function)}-{uuid.uuid4().hex}",
                workers=None if task.workers is None else sorted(task.workers),
                pure=False,
            )
            self._cluster.client.loop.add_callback(self._follow, task, task.sent)

    async def _follow(self, task: _Task, sent: Any) -> None:
        """Hand on how a task ended; on the client's event loop."""
        while task.sent is sent:
            try:
                found = await sent._result(raiseit=False)
            except (CancelledError, asyncio.CancelledError):
                if _is_cancelled():
                    raise
                # A request for several results was stopped, and this was one of them.
                continue
            except OSError as error:
                # Its worker is gone, or the client is closed: `check` finds out.
                task.losses.append(f"its result could not be fetched ({error})")
                task.sent = None
                return
            except Exception as error:  # noqa: BLE001 -- to whoever waits
                # It cannot be read here.
                _fail(task, error)
                return
            if task.sent is sent and sent.status == "finished":
                with suppress(InvalidStateError):
                    task.promised.set_result(found)
            elif task.sent is sent and sent.status == "error":
                _fail(task, _error_of(found, task))
            return

    def _forget(self, task: _Task) -> None:
        """The caller has what was promised, or wants it no more."""
        self._waiting.discard(task)
        sent, task.sent = task.sent, None
        if sent is not None and task.promised.cancelled():
            task.promised.set_running_or_notify_cancel()
            self._cluster.cancel([sent])

    def is_quiet(self, names: Collection[str]) -> bool:
        """Whether no worker that answers executes a task of one of these functions.

        To Dask a cancelled task is gone at once, while its thread runs on to the end.
        """
        if self._cluster.is_closed:
            return True
        begun = self._cluster.ask(executing).values()
        return not any(key.rpartition("-")[0] in names for keys in begun for key in keys)

    def cancel_all(self) -> None:
        """Cancel what is not done; nothing is waited for."""
        for task in list(self._waiting):
            task.promised.cancel()


def executing(dask_worker: Any) -> list[str]:
    """Keys of the tasks that a worker's threads are at, cancelled or not."""
    state = dask_worker.state
    return [str(task.key) for task in (*state.executing, *state.long_running)]


def _error_of(found: Any, task: _Task) -> BaseException:
    """The error of a task, with the frames of its worker."""
    _, error, trace = found
    if isinstance(error, KilledWorker):
        task.losses.append(" ".join(str(error).split()))
        return ClusterLostError(_lost_too_often(task))
    raised: BaseException = error.with_traceback(trace)
    return raised


def _lost_too_often(task: _Task) -> str:
    name, losses = funcname(task.function), "; then ".join(task.losses)
    return f"{name} was cancelled, as its workers were lost: {losses}"


def _fail(task: _Task, error: BaseException) -> None:
    with suppress(InvalidStateError):
        task.promised.set_exception(error)


def _is_late(task: _Task) -> bool:
    """Whether its result has been on the way for long."""
    return task.finished_s is not None and monotonic() - task.finished_s > answer_timeout_s()


def _is_cancelled() -> bool:
    """Whether it is the coroutine itself that is stopped, as its event loop is."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
