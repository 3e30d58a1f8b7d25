"""Searches of one source each, side by side on threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ooc_graph.kernels.common.cancellation import current_event, raise_if_cancelled
from ooc_graph.threads import Members, raise_first


def side_by_side(threads: int, count: int, do: Callable[[int, int], None]) -> None:
    """Call ``do(thread, index)`` for all indices below ``count``, taken in turn by whoever is free.

    So no thread gets far ahead of another, and what waits for several of them does not wait long.
    Whatever a call raises, or the thread that waits (KeyboardInterrupt), ends all threads after the
    calls that they are in, and is raised. So they end, by CancelledError, if the calling thread's
    own work is cancelled.
    """
    # Not an Event, which an interrupt may leave closed for the threads that set it as well.
    is_ended, cancelled = [False], current_event()
    # Taking one is a step of the interpreter, whose lock is held meanwhile.
    indices = iter(range(count))

    def end() -> None:
        is_ended[0] = True

    def work(thread: int) -> None:
        for index in indices:
            if is_ended[0] or (cancelled is not None and cancelled.is_set()):
                return
            do(thread, index)

    members, is_given = Members(threads, "ooc-graph-side-by-side"), False
    try:
        for thread in range(threads):
            members.give(thread, partial(work, thread), end)
        is_given = True
    finally:
        # What the calls use is the caller's again.
        errors = members.settle(end, at_once=not is_given)
        members.close()
    raise_first(errors)
    # What was left out is not to be taken for done.
    raise_if_cancelled()
