"""Work shared out among threads: ranges of numbers; two things at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ooc_graph.threads import Members, Threads, raise_first

Done = TypeVar("Done")

_aside = threading.local()


def in_ranges(
    threads: int, count: int, do: Callable[[int, int], None], most: int | None = None
) -> None:
    """Divide 0 to ``count`` into equal ranges, and call ``do(first, end)`` with each on a thread.

    Ranges have ``most`` numbers at most; None: there is one for each thread. The calling thread is
    one of them. It does all if the system starts no other, or if the interpreter is about to end.
    After an error, or an interrupt of the calling thread, no further range is begun.
    """
    share = max(1, -(-count // max(1, threads)))
    share = share if most is None else min(share, most)
    ranges = [(first, min(first + share, count)) for first in range(0, count, share)]
    helpers = min(threads, len(ranges)) - 1
    if helpers < 1:
        do(0, count)
        return
    left = deque(ranges)

    def work() -> None:
        try:
            while left:
                try:
                    first, end = left.popleft()
                except IndexError:
                    return
                do(first, end)
        except BaseException:
            left.clear()
            raise

    with Threads(helpers) as executor:
        others = []
        for _ in range(helpers):
            with suppress(MemoryError, RuntimeError):
                others.append(executor.submit(work))
        work()
        # An error knows these frames, and would live as long as what they know of it.
        while others:
            others.pop().result()


class Unwanted(BaseException):
    """Nobody waits any more for what a thread does aside."""


def alongside(aside: Callable[[], Done], do: Callable[[], object]) -> Done:
    """Call ``do`` while another thread calls ``aside``, and give what that gives.

    The calling thread does both, one after the other, if the system starts no other. If ``do``
    raises, or the calling thread is interrupted, ``aside`` ends at its next `go_on`.
    """
    found: list[Done] = []
    unwanted: list[bool] = []

    def call() -> None:
        _aside.unwanted = unwanted
        found.append(aside())

    try:
        members = Members(1, "ooc-graph-aside")
    except MemoryError:
        do()
        return aside()
    is_done = False
    try:
        members.give(0, call)
        do()
        is_done = True
    finally:
        errors = members.settle(lambda: unwanted.append(True), at_once=not is_done)
        members.close()
    raise_first(errors)
    return found.pop()


def is_aside() -> bool:
    """Whether the calling thread is one that `alongside` has started."""
    return hasattr(_aside, "unwanted")


def go_on() -> None:
    """Raise `Unwanted` in a thread that works aside, if nobody waits for it any more."""
    if getattr(_aside, "unwanted", False):
        raise Unwanted
