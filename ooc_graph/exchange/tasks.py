"""Tasks on a Dask cluster: each is sent to a worker that can do it, and again if that is lost.

Dask moves a task only when its worker leaves the cluster, and not at all if the task is tied to an
address. Here the thread that waits for tasks calls `Tasks.check` every second; it sends again what
waits at a worker that is gone, silent, or paused before the task began. A task may therefore run
twice, and both may end: it must write the same bytes each time, and no file but by a rename.
"""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections.abc import Callable, Collection
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError, wait
from contextlib import suppress
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from dask.utils import funcname

from ooc_graph.errors import ClusterLostError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.outcomes import Describe
from ooc_graph.exchange.task import (
    PREFIX,
    Choose,
    Task,
    carried_out,
    executing,
    shown,
    stuck_tasks,
)
from ooc_graph.exchange.worker_states import WorkerState, describe
from ooc_graph.settings import patience_s
from ooc_graph.threads import CHECK_S

MOST_LOSSES = 3
"""A task is not sent again once it has lost this many workers: it may be what kills them."""

Given = ParamSpec("Given")
Done = TypeVar("Done")


class Tasks(Executor):
    """Executor of one client's cluster.

    ``note`` is called with a line if a worker cannot continue and its tasks are sent elsewhere.
    """

    def __init__(self, cluster: Cluster, note: Callable[[str], None]) -> None:
        self._cluster, self._note = cluster, note
        self._waiting: set[Task] = set()
        self._reported: set[tuple[str, bool]] = set()
        self._present: set[str] = set()
        self._stalled_s: float | None = None
        self._checked_s = float("-inf")

    def submit(
        self, fn: Callable[Given, Done], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Done]:
        """Send a call to any worker."""
        return self._submit(Task(fn, args, kwargs, None, funcname(fn), Future()))

    def submit_to(
        self,
        choose: Choose,
        function: Callable[..., Any],
        *arguments: Any,
        called: str = "",
        describe: Describe | None = None,
    ) -> Future[Any]:
        """Send a call to the worker that ``choose`` names among those that can work.

        ``called`` is the function's name, if that is another than its own. With ``describe`` the
        outcome may stay on the worker (`Outcomes.said`).
        """
        called = called or funcname(function)
        return self._submit(Task(function, arguments, {}, choose, called, Future(), describe))

    def _submit(self, task: Task) -> Future[Any]:
        states = self._cluster.look()
        # Weak: what was promised would keep its task, and that what was promised, until garbage is
        # collected; both may be large, or keep what is large on a worker.
        known = weakref.ref(task)
        task.promised.add_done_callback(lambda _: self._forget(known()))
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
            stuck, is_working = stuck_tasks(self._cluster, self._waiting, states, bad)
        except OSError:
            # The scheduler does not answer: `look` counts that.
            return
        if len(bad) == len(states):
            self._require_patience(bool(stuck) and not is_working, states)
            return
        self._stalled_s = None
        for task, loss in stuck.items():
            self._send_again(task, loss, states)

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

    def _send_again(self, task: Task, loss: str, states: dict[str, WorkerState]) -> None:
        if task.promised.done():
            return
        before = task.sent
        if loss:
            task.losses.append(loss)
        if len(task.losses) < MOST_LOSSES:
            self._send(task, states)
        else:
            task.fail(task.lost_too_often())
        if before is not None:
            self._cluster.cancel([before])

    def _send(self, task: Task, states: dict[str, WorkerState]) -> None:
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
                carried_out,
                task.name,
                task.function,
                *task.arguments,
                **task.options,
                key=f"{task.name}-{uuid.uuid4().hex}",
                workers=None if task.workers is None else sorted(task.workers),
                pure=False,
            )
            self._cluster.client.loop.add_callback(self._follow, task, task.sent)

    async def _follow(self, task: Task, sent: Any) -> None:
        """Hand on how a task ended; on the client's event loop."""
        while task.sent is sent:
            address = min(task.workers) if task.workers and len(task.workers) == 1 else None
            try:
                found = await self._cluster.outcomes.said(sent, address, task.describe)
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
                task.fail(error)
                return
            if task.sent is sent and sent.status == "finished":
                with suppress(InvalidStateError):
                    task.promised.set_result(found)
            elif task.sent is sent and sent.status == "error":
                task.fail(task.error_of(found))
            return

    def _forget(self, task: Task | None) -> None:
        """The caller has what was promised, or wants it no more."""
        if task is None:
            return
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
        ends = tuple(f"-{shown(name)}" for name in names)
        begun = {
            key.rpartition("-")[0] for keys in self._cluster.ask(executing).values() for key in keys
        }
        return not any(name.startswith(PREFIX) and name.endswith(ends) for name in begun)

    def cancel_all(self) -> None:
        """Cancel what is not done; nothing is waited for."""
        for task in list(self._waiting):
            task.promised.cancel()


def _is_cancelled() -> bool:
    """Whether it is the coroutine itself that is stopped, as its event loop is."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
