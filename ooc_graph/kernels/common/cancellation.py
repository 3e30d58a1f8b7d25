"""Work of this process that nobody waits for any more, and how its threads hear of that.

An interrupt is raised in the thread that waits, and the threads that work see nothing of it. Those
that are told look here between pieces of their work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import TypeVar

from ooc_graph.forked import in_child

Done = TypeVar("Done")

_here = threading.local()


@in_child
def _begin_anew() -> None:
    global _here  # noqa: PLW0603
    _here = threading.local()


def heard_by(is_over: threading.Event, function: Callable[..., Done]) -> Callable[..., Done]:
    """Return the function, so that within a call its thread hears of the event."""

    def call(*arguments: object) -> Done:
        before, _here.is_over = event_here(), is_over
        try:
            return function(*arguments)
        finally:
            _here.is_over = before

    return call


def event_here() -> threading.Event | None:
    """Return what says that nobody waits for the calling thread; None where nobody would say it."""
    found: threading.Event | None = getattr(_here, "is_over", None)
    return found


def leave_if_given_up() -> None:
    """End work of the calling thread that nobody waits for, by CancelledError."""
    is_over = event_here()
    if is_over is not None and is_over.is_set():
        raise CancelledError
