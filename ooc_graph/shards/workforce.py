"""Who does the work of a build: any `concurrent.futures.Executor`, and what it may use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from threading import Event
from time import monotonic, sleep
from typing import Any, TypeVar

from ooc_graph.kernels.common.completion import cancelled_by
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.threads import CHECK_S
from ooc_graph.types import Progress

# A task is a few seconds of work; on a lost worker it never ends.
STOP_S = 60.0
POLL_S = 0.05

Done = TypeVar("Done")


@dataclass(frozen=True)
class Workforce:
    """Executor and budget of a build.

    ``everywhere`` calls a function once in every process of the executor; if it is ``remote``,
    tasks travel to other processes. ``check`` is called at least every `CHECK_S` seconds while
    tasks are waited for, and raises if they cannot be done. ``quiet`` says whether no task of
    functions of these names is at work, for futures that do not know. ``on_error`` is called when a
    stage has failed, before its tasks that run are waited for, and may have them end early.
    """

    executor: Executor
    budget: BuildBudget
    everywhere: Callable[[Callable[[], None]], None]
    remote: bool = False
    check: Callable[[], None] = lambda: None
    quiet: Callable[[Collection[str]], bool] = lambda _: True
    on_error: Callable[[], None] = lambda: None


def run_all(
    workforce: Workforce,
    progress: Progress,
    stage: str,
    function: Callable[..., Done],
    items: Sequence[Iterable[Any]],
    *,
    total: int | None = None,
    unit: str = "",
    amount: Callable[[Done], int] = lambda _: 1,
) -> list[Done]:
    """Call ``function(*item)`` for every item on the executor; results in the items' order.

    The first error stops the stage: what has not begun is cancelled and what runs is waited for, so
    that nothing writes any more. Threads of this process notice it.
    """
    is_over = Event()
    # What travels to other processes cannot be notified.
    called = function if workforce.remote else cancelled_by(is_over, function)
    futures: list[Future[Done]] = []
    with progress.stage(stage, len(items) if total is None else total, unit) as bar:
        try:
            for item in items:
                futures.append(workforce.executor.submit(called, *item))  # noqa: PERF401 -- kept if interrupted
            for future in in_turn(workforce, futures):
                bar.advance(amount(future.result()))
        except BaseException:
            is_over.set()
            workforce.on_error()
            stop_all(workforce, futures, [function.__name__])
            raise
    return [future.result() for future in futures]


def in_turn(workforce: Workforce, futures: Collection[Future[Done]]) -> Iterator[Future[Done]]:
    """Futures as they are done; meanwhile the workforce is checked."""
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, timeout=CHECK_S, return_when=FIRST_COMPLETED)
        workforce.check()
        yield from done


def stop_all(workforce: Workforce, futures: Iterable[Future[Any]], names: Collection[str]) -> None:
    """Cancel what has not begun and wait for what runs, so that nothing writes any more.

    ``names`` are those of the functions that were submitted.
    """
    running = [future for future in futures if not future.cancel()]
    wait(running, timeout=STOP_S)
    begun = monotonic()
    while not workforce.quiet(names) and monotonic() - begun < STOP_S:
        sleep(POLL_S)
