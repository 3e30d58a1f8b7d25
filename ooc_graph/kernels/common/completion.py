"""Who is called when sources have their answers; and work that is cancelled.

Who is called may record the sources, and records chunks of several, each once all of them are
found. So that a run which is killed has lost few others, a batch has sources of two chunks only if
it has all of both, and what searches for all threads at once waits until earlier ones are recorded.

An interrupt is raised in the thread that waits, and the threads that work see nothing of it. They
look at an event between pieces of their work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from ooc_graph.forked import in_child
from ooc_graph.types import IntArray

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


@dataclass(frozen=True, eq=False)
class OnDone:
    """Is called with the positions, from one to before another, of sources with final answers.

    The threads that search call it, once for every source, and it calls ``tell`` with both
    positions. ``bounds`` int64 ascend: positions at which chunks begin or end; empty: there are no
    chunks. At most ``most`` sources may be found and not recorded; 0: any number. ``wait_for``,
    called with a number of sources, waits until so many more may be found.
    """

    tell: Callable[[int, int], None]
    bounds: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    most: int = 0
    wait_for: Callable[[int], None] = lambda _: None

    def __call__(self, begin: int, end: int) -> None:
        """Report the sources from one position to before another."""
        self.tell(begin, end)


def counted_from(on_done: OnDone | None, by: int) -> OnDone | None:
    """What is called with positions that are counted from ``by``, if anything is."""
    if on_done is None:
        return None
    tell, bounds = on_done.tell, on_done.bounds[np.searchsorted(on_done.bounds, by) :] - by
    return replace(on_done, tell=lambda begin, end: tell(by + begin, by + end), bounds=bounds)


def starts(
    count: int, each: int, on_done: OnDone | None, most: int = 0, threads: int = 1
) -> IntArray:
    """Position of the first source of each batch, and ``count``: int64 (batches + 1,).

    A batch has whole chunks of ``on_done``, or some of one. It has up to ``most`` sources (0:
    ``each``) to bring a chunk to its end. If there are fewer chunks than ``threads`` they are
    divided. Without chunks, every batch except the last has ``each`` sources.
    """
    if on_done is None or not len(on_done.bounds):
        return np.append(np.arange(0, count, each), count)
    most = max(most, each)
    inner = on_done.bounds[(on_done.bounds > 0) & (on_done.bounds < count)]
    bounds = np.unique(np.concatenate([[0], inner, [count]])).tolist()
    cut = each if len(bounds) - 1 < threads else most
    # The rest of a chunk of which others were searched from before is not searched with more.
    rest = 0 if 0 in on_done.bounds else bounds[1]
    found = [0]
    for begin, end in pairwise(bounds):
        length = begin - found[-1]
        if length and (length >= each or end - found[-1] > most or begin == rest):
            found.append(begin)
        if end - begin > cut:
            # None of them much smaller than others.
            pieces = -(-(end - begin) // cut)
            step = -(-(end - begin) // pieces)
            found += [first for first in range(begin, end, step) if first > found[-1]]
            found.append(end)
    return np.array(found if found[-1] == count else [*found, count])


def batches_of(count: int, most: int, on_done: OnDone | None) -> Iterator[slice]:
    """Sources that are searched from in turn, each batch once it may be found; as `starts`.

    A batch is reported when the next one is asked for.
    """
    for begin, end in pairwise(starts(count, most, on_done).tolist()):
        if on_done is not None:
            on_done.wait_for(end - begin)
        yield slice(begin, end)
        if on_done is not None:
            on_done(begin, end)
