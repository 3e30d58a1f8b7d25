"""Threads that the system does not start."""

from __future__ import annotations

import signal
import threading
import time
import weakref
from functools import partial
from typing import Any

import pytest

from ooc_graph.threads import Members, Threads
from tests.own_process import in_own_process


def test_a_thread_that_is_refused_is_memory_that_is_refused() -> None:
    in_own_process(refused)


def refused() -> None:
    """Where nobody else starts a thread: a stack of this size has no room in any address space."""
    before = threading.stack_size(1 << 46)
    try:
        with Threads(1) as pool, pytest.raises(MemoryError, match="no further thread"):
            pool.submit(int)
    finally:
        threading.stack_size(before)


def test_other_errors_stay_what_they_are() -> None:
    pool = Threads(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(int)


class Odd(BaseException):
    """Neither an `Exception` nor an interrupt."""


@pytest.mark.parametrize("kind", [ValueError, SystemExit, Odd])
def test_what_a_call_raises_reaches_who_waits_and_ends_no_thread(kind: type[BaseException]) -> None:
    members, done = Members(2, "test"), []

    def fail() -> None:
        raise kind("of the call")

    for _ in range(2):
        members.give(0, fail)
        members.give(0, partial(done.append, "after it"))
        members.give(1, partial(done.append, "beside it"))
        with pytest.raises(kind, match="of the call"):
            members.wait()
        assert sorted(done) == ["after it", "beside it"]
        done.clear()
        # Raised once; and all threads are there for the next calls.
        members.wait()
    members.close()


def test_errors_come_in_their_order_and_others_are_told() -> None:
    members, told = Members(2, "test"), threading.Event()

    def fail_first() -> None:
        raise Odd("first")

    def fail_second() -> None:
        assert told.wait(120)
        raise ValueError("second")

    members.give(0, fail_second)
    members.give(1, fail_first, told.set)
    assert list(map(str, members.settle())) == ["first", "second"]
    assert members.settle() == []
    members.close()


def test_an_error_that_was_raised_leaves_nothing_of_its_call() -> None:
    members = Members(1, "test")

    class Large:
        pass

    large = Large()
    seen = weakref.ref(large)

    def fail(_: Large) -> None:
        raise Odd

    members.give(0, partial(fail, large))
    del large
    with pytest.raises(Odd) as raised:
        members.wait()
    del raised
    # The thread may yet have to let its call go.
    members.give(0, int)
    members.wait()
    assert seen() is None
    members.close()


def test_an_interrupt_wins_over_what_calls_raise() -> None:
    members, came = Seen(1), []
    main = threading.main_thread().ident
    assert main is not None

    def work() -> None:
        for tick in range(12_000):
            if came:
                break
            if members.waits and tick % 100 == 10:
                signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.01)
        raise Odd

    members.give(0, work)
    with pytest.raises(KeyboardInterrupt):
        members.wait(partial(came.append, True))
    assert came == [True]
    members.wait()
    members.close()


def test_an_interrupt_while_the_end_is_told_is_waited_for_as_well() -> None:
    """The second comes as the first is dealt with."""
    members, has_ended, calls = Seen(1), threading.Event(), []

    def work() -> None:
        assert has_ended.wait(120)
        calls.append("work")

    def end() -> None:
        calls.append("end")
        if len(calls) < 3:
            raise KeyboardInterrupt(f"number {len(calls)}")
        has_ended.set()

    members.give(0, work)
    with pytest.raises(KeyboardInterrupt, match="number 1"):
        members.settle(end, at_once=True)
    assert calls == ["end", "end", "end", "work"]
    members.close()


class Seen(Members):
    """Members that tell that somebody begins to wait for them."""

    def __init__(self, count: int) -> None:
        super().__init__(count, "test")
        self.waits: list[bool] = []

    def _pass(self, has_passed: list[bool], *meanwhile: Any) -> None:
        self.waits.append(True)
        super()._pass(has_passed, *meanwhile)


@pytest.mark.parametrize("where", [0, 1])
def test_members_are_waited_for_whatever_interrupts(where: int) -> None:
    members, done, came = Seen(2), [], []
    main = threading.main_thread().ident
    assert main is not None

    def work() -> None:
        for number in range(3):
            for tick in range(12_000):
                if len(came) > number:
                    break
                # Once; and each second again, should one have come just before the lock was shut.
                if len(members.waits) > number and tick % 100 == 10:
                    signal.pthread_kill(main, signal.SIGINT)
                time.sleep(0.01)
        done.append(True)

    members.give(where, work)
    with pytest.raises(KeyboardInterrupt):
        members.wait(partial(came.append, True))
    assert (done, came) == ([True], [True] * 3)
    members.wait()
    members.close()


def test_members_end_with_who_has_them() -> None:
    before = threading.active_count()
    members = Members(3, "test-ending")
    del members
    gone = [t for t in threading.enumerate() if t.name.startswith("test-ending")]
    for thread in gone:
        thread.join(120)
        assert not thread.is_alive()
    assert threading.active_count() <= before


def test_members_that_are_refused_are_memory_that_is_refused() -> None:
    in_own_process(members_refused)


def members_refused() -> None:
    """As `refused`."""
    before = threading.stack_size(1 << 46)
    try:
        with pytest.raises(MemoryError, match="no further thread"):
            Members(2, "test")
    finally:
        threading.stack_size(before)
