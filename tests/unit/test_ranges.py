"""Ranges that threads share: each number once, whatever is refused."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from ooc_graph.ranges import alongside, go_on, in_ranges


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 39])
@pytest.mark.parametrize("count", [0, 1, 2, 29])
@pytest.mark.parametrize("most", [None, 1, 3])
@pytest.mark.parametrize("refused", [False, True])
def test_each_number_is_in_one_range(
    threads: int, count: int, most: int | None, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if refused:
        monkeypatch.setattr(threading.Thread, "start", not_started)
    seen = [0] * count

    def see(first: int, end: int) -> None:
        for number in range(first, end):
            seen[number] += 1

    in_ranges(threads, count, see, most)
    assert seen == [1] * count


def not_started(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("bad", [0, 9])
def test_what_a_range_raises_is_raised_after_the_others(bad: int) -> None:
    done: list[int] = []
    have_begun = threading.Barrier(2)

    def do(first: int, end: int) -> None:
        have_begun.wait(60)
        if first <= bad < end:
            raise IndexError(bad)
        done.append(first)

    with pytest.raises(IndexError):
        in_ranges(2, 10, do)
    assert len(done) == 1


def test_no_range_is_begun_after_an_error() -> None:
    done: list[int] = []

    def do(first: int, _: int) -> None:
        if first == 1:
            raise IndexError(first)
        done.append(first)
        # So that the other thread's error arrives meanwhile.
        threading.Event().wait(0.02)

    with pytest.raises(IndexError):
        in_ranges(2, 2000, do, most=1)
    assert len(done) < 1000


AT_THE_END = """
import threading
from ooc_graph.ranges import in_ranges

def late():
    threading.main_thread().join()
    seen = []
    in_ranges(2, 4, lambda first, end: seen.append((first, end)))
    print(sorted(seen))

threading.Thread(target=late).start()
"""


def test_ranges_are_done_while_the_interpreter_ends() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", AT_THE_END], capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("[(0, 2), (2, 4)]\n", "")


def test_two_things_at_a_time() -> None:
    """Each waits for the other to have begun."""
    begun, other = threading.Event(), threading.Event()

    def aside() -> str:
        begun.set()
        assert other.wait(60)
        return threading.current_thread().name

    def do() -> None:
        assert begun.wait(60)
        other.set()

    assert alongside(aside, do) != threading.current_thread().name


def test_both_are_done_without_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(threading.Thread, "start", not_started)
    alongside(lambda: done.append("aside"), lambda: done.append("do"))
    assert done == ["do", "aside"]


def test_nobody_works_aside_for_whoever_is_not_there() -> None:
    begun, done = threading.Event(), []

    def aside() -> None:
        while len(done) < 10_000:
            go_on()
            done.append("aside")
            begun.set()
            threading.Event().wait(0.01)

    def do() -> None:
        assert begun.wait(60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        alongside(aside, do)
    assert len(done) < 5000
    go_on()


class Held:
    """What the frames of an error hold, as memory that was to be filled."""


@pytest.mark.parametrize("by", [lambda do: alongside(do, list), lambda do: in_ranges(2, 2, do)])
def test_an_error_that_is_forgotten_holds_nothing(by: Callable[[Any], object]) -> None:
    held: list[weakref.ref[Held]] = []

    def do(*_: int) -> None:
        mine = Held()
        held.append(weakref.ref(mine))
        raise IndexError

    gc.disable()
    try:
        with suppress(IndexError):
            by(do)
        assert held
        assert [one() for one in held] == [None] * len(held)
    finally:
        gc.enable()
