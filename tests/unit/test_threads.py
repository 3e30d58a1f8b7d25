"""Threads that the system does not start."""

from __future__ import annotations

import signal
import threading
import time
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
