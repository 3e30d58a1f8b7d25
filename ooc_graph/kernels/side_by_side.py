"""Searches of one source each, side by side on threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ooc_graph.kernels.given_up import event_here, leave_if_given_up
from ooc_graph.threads import Threads


def side_by_side(threads: int, count: int, do: Callable[[int, int], None]) -> None:
    """Call ``do(thread, place)`` for all places below ``count``, those of a thread in turn.

    Whatever a call raises, or the thread that waits (KeyboardInterrupt), ends all threads after the
    calls that they are in, and is raised. So they end, by CancelledError, if the calling thread's
    own work is given up.
    """
    is_over, given_up = threading.Event(), event_here()

    def work(thread: int) -> None:
        for place in range(thread, count, threads):
            if is_over.is_set() or (given_up is not None and given_up.is_set()):
                return
            try:
                do(thread, place)
            except BaseException:
                is_over.set()
                raise

    with Threads(threads) as executor:
        try:
            for future in [executor.submit(work, thread) for thread in range(threads)]:
                future.result()
        except BaseException:
            is_over.set()
            raise
    # What was left out is not to be taken for done.
    leave_if_given_up()
