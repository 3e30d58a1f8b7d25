"""Who is called when sources have their answers, and how those who search take account of that.

Who is called may record the sources, and records chunks of several, each once all of them are
found. So that a run which is killed has lost few others, a batch has sources of two chunks only if
it has all of both, and what searches for all threads at once waits until earlier ones are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from ooc_graph.types import IntArray


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
