"""Who does the work of a build: any `concurrent.futures.Executor`, and what it may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, as_completed, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from ooc_graph.shards.plan import BuildBudget
from ooc_graph.types import Progress

Item = TypeVar("Item")
Done = TypeVar("Done")


@dataclass(frozen=True)
class Workforce:
    """Executor and budget of a build.

    Parameters
    ----------
    executor
        Threads of this process, or a Dask client's executor.
    budget
        Memory, processes and slots.
    everywhere
        Calls a function once in every process of the executor.
    """

    executor: Executor
    budget: BuildBudget
    everywhere: Callable[[Callable[[], None]], None]


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

    The first error stops the stage: what has not begun is cancelled and what runs is waited for,
    so that nothing writes any more when the error is raised.
    """
    futures = [workforce.executor.submit(function, *item) for item in items]
    with progress.stage(stage, len(futures) if total is None else total, unit) as bar:
        try:
            for future in as_completed(futures):
                bar.advance(amount(future.result()))
        except BaseException:
            stop_all(futures)
            raise
    return [future.result() for future in futures]


def stop_all(futures: Iterable[Future[Any]]) -> None:
    """Cancel what has not begun and wait for what runs, so that nothing writes any more."""
    running = [future for future in futures if not future.cancel()]
    wait(running)
