"""Work shared out among threads: ranges of numbers; two things at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ooc_graph.threads import Threads

Done = TypeVar("Done")


def in_ranges(threads: int, count: int, do: Callable[[int, int], None]) -> None:
    """Divide 0 to ``count`` into equal ranges, and call ``do(first, end)`` with each on a thread.

    The calling thread is one of them. It does all if the system starts no other, or if the
    interpreter is about to end.
    """
    share = max(1, -(-count // max(1, threads)))
    ranges = [(first, min(first + share, count)) for first in range(0, count, share)]
    if len(ranges) <= 1:
        do(0, count)
        return
    left = deque(ranges)

    def work() -> None:
        while left:
            try:
                first, end = left.popleft()
            except IndexError:
                return
            do(first, end)

    with Threads(len(ranges) - 1) as executor:
        others = []
        for _ in ranges[1:]:
            with suppress(MemoryError, RuntimeError):
                others.append(executor.submit(work))
        work()
        # An error knows these frames, and would live as long as what they know of it.
        while others:
            others.pop().result()


def alongside(aside: Callable[[], Done], do: Callable[[], object]) -> Done:
    """Call ``do`` while another thread calls ``aside``, and give what that gives.

    The calling thread does both, one after the other, if the system starts no other.
    """
    with Threads(1) as executor:
        found = []
        with suppress(MemoryError, RuntimeError):
            found.append(executor.submit(aside))
        do()
        return found.pop().result() if found else aside()
