"""Threads of this process whose work nobody waits for any more."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ooc_graph.answers.asked import Asked
from ooc_graph.kernels.common.completion import cancelled_by, current_event, raise_if_cancelled
from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.cpu.many.choice import side_by_side
from ooc_graph.kernels.cpu.store.one_by_one import TierSingly
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.workforce import Workforce, run_all
from ooc_graph.strategies.many import tasks as many_tasks
from ooc_graph.types import NoProgress
from tests.small_pairs import task_of

WAIT_S = 120.0


def test_a_thread_hears_within_the_call_alone() -> None:
    outer, inner = threading.Event(), threading.Event()
    inner.set()

    def both(number: int) -> int:
        assert current_event() is outer
        raise_if_cancelled()
        with pytest.raises(CancelledError):
            cancelled_by(inner, raise_if_cancelled)()
        assert current_event() is outer
        return number

    assert cancelled_by(outer, both)(5) == 5
    assert current_event() is None
    raise_if_cancelled()


def test_searches_side_by_side_end_when_their_task_is_given_up() -> None:
    is_over, done = threading.Event(), []

    def do(thread: int, place: int) -> None:
        if thread == 1:
            assert is_over.wait(WAIT_S)
        done.append(place)
        if len(done) == 5:
            is_over.set()

    with pytest.raises(CancelledError):
        cancelled_by(is_over, side_by_side)(2, 2000, do)
    # The other thread may not even have begun.
    assert 5 <= len(done) <= 6
    assert set(done) <= set(range(6))


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_ends_what_runs(error: type[BaseException]) -> None:
    is_begun, ended = threading.Event(), []

    def task(number: int) -> None:
        if number == 0:
            assert is_begun.wait(WAIT_S)
            raise error
        is_begun.set()
        is_over = current_event()
        assert is_over is not None
        ended.append(is_over.wait(WAIT_S))
        raise_if_cancelled()

    with ThreadPoolExecutor(2) as executor:
        workforce = Workforce(executor, BuildBudget(1 << 30, 1, 2), lambda function: function())
        with pytest.raises(error):
            run_all(workforce, NoProgress(), "working", task, [(0,), (1,), (2,)])
    # The third one may have begun by then.
    assert ended in ([True], [True, True])


def test_an_interrupt_between_tasks_that_are_handed_out_ends_what_runs() -> None:
    ended = []

    class Interrupted(ThreadPoolExecutor):
        def submit(self, *given: Any, **named: Any) -> Any:
            if is_begun.is_set():
                raise KeyboardInterrupt
            future = super().submit(*given, **named)
            assert is_begun.wait(WAIT_S)
            return future

    def task(_: int) -> None:
        is_over = current_event()
        assert is_over is not None
        is_begun.set()
        ended.append(is_over.wait(WAIT_S))

    is_begun = threading.Event()
    with Interrupted(2) as executor:
        workforce = Workforce(executor, BuildBudget(1 << 30, 1, 2), lambda function: function())
        with pytest.raises(KeyboardInterrupt):
            run_all(workforce, NoProgress(), "working", task, [(0,), (1,)])
    assert ended == [True]


def test_sources_out_of_the_store_are_left_when_their_task_is_given_up() -> None:
    searched: list[int] = []

    class Search:
        def run(self, root: int) -> BfsTree:
            searched.append(root)
            if len(searched) == 2:
                is_over.set()
            none = np.zeros(3, np.int64)
            found = np.zeros(3, np.uint32), np.zeros(3, np.int32)
            return BfsTree(*found, 0.0, none, none, np.zeros(3, np.int8))

    is_over = threading.Event()
    singly = TierSingly(Search(), 3, np.dtype(np.int32), np.dtype(np.uint32))
    with pytest.raises(CancelledError):
        cancelled_by(is_over, singly.run)(np.arange(3))
    assert searched == [0, 1]


def test_a_task_that_waited_for_the_graph_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its turn comes when the one before has ended, which an interrupt may have ended."""
    is_over = threading.Event()
    is_over.set()
    held: Any = nullcontext(SimpleNamespace(allocating=nullcontext))
    monkeypatch.setattr(many_tasks.engine_cache, "engine", lambda *_: held)
    with pytest.raises(CancelledError):
        cancelled_by(is_over, many_tasks.solve)(task_of(Asked(hops=True), ()), np.arange(3))
