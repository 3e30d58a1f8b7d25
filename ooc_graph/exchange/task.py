"""Tasks as they are sent to workers of a Dask cluster, and those that nobody works at."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Any

from distributed import KilledWorker

from ooc_graph.errors import ClusterLostError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.outcomes import Describe
from ooc_graph.exchange.worker_states import WorkerState
from ooc_graph.settings import answer_timeout_s

# Below Dask's own, so that the logs of workers have it without being told.
_LOG = logging.getLogger("distributed.worker.ooc_graph")
PREFIX = "ooc-graph-"
"""How the names of tasks on Dask's dashboard begin."""

Choose = Callable[[Collection[WorkerState]], str]


@dataclass(eq=False)
class Task:
    """A task that is not done.

    ``choose`` names the worker that is to do it; None: Dask does. It is ``called`` as its function.
    The caller waits for what is ``promised``, which is what its worker says of the outcome if it is
    to ``describe`` that, given its key. ``sent`` is Dask's future, restricted to ``workers``;
    None while there is none to send it to. Its result, there since ``finished_s``, has not arrived.
    ``losses`` say which were lost.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    choose: Choose | None
    called: str
    promised: Future[Any]
    describe: Describe | None = None
    sent: Any = None
    workers: frozenset[str] | None = None
    finished_s: float | None = None
    losses: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What Dask's dashboard calls it: the kernel, if there is one, and the function."""
        kernels = [getattr(one, "kernel", None) for one in self.arguments]
        kernel = next((one for one in kernels if isinstance(one, str)), None)
        return PREFIX + (f"{kernel}-" if kernel else "") + shown(self.called)

    @property
    def is_late(self) -> bool:
        """Whether its result has been on the way for long."""
        return self.finished_s is not None and monotonic() - self.finished_s > answer_timeout_s()

    def fail(self, error: BaseException) -> None:
        """Give the caller an error, unless there is an outcome."""
        with suppress(InvalidStateError):
            self.promised.set_exception(error)

    def lost_too_often(self) -> ClusterLostError:
        """The error of a task that is not sent again."""
        losses = "; then ".join(self.losses)
        return ClusterLostError(f"{self.called} was cancelled, as its workers were lost: {losses}")

    def error_of(self, found: Any) -> BaseException:
        """The error that it ended with, with the frames of its worker."""
        _, error, trace = found
        if isinstance(error, KilledWorker):
            self.losses.append(" ".join(str(error).split()))
            return self.lost_too_often()
        raised: BaseException = error.with_traceback(trace)
        return raised


def stuck_tasks(
    cluster: Cluster,
    tasks: Collection[Task],
    states: dict[str, WorkerState],
    bad: dict[str, WorkerState],
) -> tuple[dict[Task, str], bool]:
    """Tasks that nobody works at, and whether a worker that cannot begin more is at another.

    With each task what of its worker was lost; nothing if it only waited there.
    """
    stuck: dict[Task, str] = {}
    sent: dict[str, Task] = {}
    for task in list(tasks):
        # Read once: the event loop forgets it when the task ends.
        future = task.sent
        status = None if future is None else future.status
        if status != "finished":
            task.finished_s = None
        elif task.finished_s is None:
            task.finished_s = monotonic()
        if future is None or status == "cancelled":
            # Not sent yet; or the scheduler forgot it, as when all workers are restarted.
            stuck[task] = ""
        elif task.workers is not None and not task.workers & states.keys():
            stuck[task] = f"{' and '.join(sorted(task.workers))} left the cluster"
        elif not states:
            stuck[task] = ""
        else:
            sent[future.key] = task
    if not bad:
        return stuck, False
    waiting, is_working = _waiting_for(cluster, sent, bad, set(states) - set(bad))
    return stuck | waiting, is_working


def _waiting_for(
    cluster: Cluster, sent: dict[str, Task], bad: dict[str, WorkerState], good: set[str]
) -> tuple[dict[Task, str], bool]:
    """Those of some tasks, or of their results, that wait for workers which cannot continue."""
    # Without those that are just handed on.
    late = [key for key, task in sent.items() if task.is_late]
    at = cluster.tasks_at(bad)
    holders = cluster.holders_of(late)
    begun = cluster.ask(executing, of=list(bad))
    running = {key for keys in begun.values() for key in keys}
    waits_at = {key: bad[address] for address, keys in at.items() for key in keys}
    stuck: dict[Task, str] = {}
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


def shown(function: str) -> str:
    """Name of a function in that of a task."""
    return function.strip("_").replace("_", "-")


def carried_out(name: str, function: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Call a function on a worker, whose log has a line when it begins, and one when it ends."""
    begun_s, end = perf_counter(), "failed"
    _LOG.info("%s begins", name)
    try:
        done = function(*given, **options)
        end = "is done"
        return done
    finally:
        _LOG.info("%s %s after %.3f s", name, end, perf_counter() - begun_s)


def executing(dask_worker: Any) -> list[str]:
    """Keys of the tasks that a worker's threads are at, cancelled or not."""
    state = dask_worker.state
    return [str(task.key) for task in (*state.executing, *state.long_running)]
