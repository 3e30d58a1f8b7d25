"""Searches of one source each, side by side on threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ooc_graph.kernels.common.cancellation import event_here, leave_if_given_up
from ooc_graph.threads import Members, raise_first


def side_by_side(threads: int, count: int, do: Callable[[int, int], None]) -> None:
    """Call ``do(thread, place)`` for all places below ``count``, taken in turn by whoever is free.

    So no thread gets far ahead of another, and what waits for several places does not wait long.
    Whatever a call raises, or the thread that waits (KeyboardInterrupt), ends all threads after the
    calls that they are in, and is raised. So they end, by CancelledError, if the calling thread's
    own work is given up.
    """
    # Not an Event, which an interrupt may leave closed for the threads that set it as well.
    is_over, given_up = [False], event_here()
    # Taking one is a step of the interpreter, whose lock is held meanwhile.
    places = iter(range(count))

    def end() -> None:
        is_over[0] = True

    def work(thread: int) -> None:
        for place in places:
            if is_over[0] or (given_up is not None and given_up.is_set()):
                return
            do(thread, place)

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
    leave_if_given_up()
