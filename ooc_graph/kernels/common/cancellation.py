"""Work of this process that is cancelled, and how its threads notice.

An interrupt is raised in the thread that waits, and the threads that work see nothing of it. They
look at an event between pieces of their work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import TypeVar

from ooc_graph.forked import in_child

Done = TypeVar("Done")

_current = threading.local()


@in_child
def _begin_anew() -> None:
    global _current  # noqa: PLW0603
    _current = threading.local()


def cancelled_by(is_over: threading.Event, function: Callable[..., Done]) -> Callable[..., Done]:
    """Return the function, so that within a call the event cancels the work of its thread."""

    def call(*arguments: object) -> Done:
        before, _current.is_over = current_event(), is_over
        try:
            return function(*arguments)
        finally:
            _current.is_over = before

    return call


def current_event() -> threading.Event | None:
    """Return the event that cancels work of the calling thread; None if there is none."""
    found: threading.Event | None = getattr(_current, "is_over", None)
    return found


def raise_if_cancelled() -> None:
    """End work of the calling thread that is cancelled, by CancelledError."""
    is_over = current_event()
    if is_over is not None and is_over.is_set():
        raise CancelledError
