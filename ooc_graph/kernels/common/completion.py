"""Who hears of sources whose answers are there, and how those who search go along with that.

What hears of sources may record them, and records units of several sources, each once all of them
are found. So that a run which is killed has lost few others, a batch has no sources of two units
but where it has all of both, and what searches for all threads at once waits until earlier ones are
recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from ooc_graph.types import IntArray

_NO_BOUNDS = np.empty(0, np.int64)


class Told:
    """Hears of the places, from one to before another, of sources whose answers are final.

    It is called by the threads that search, once for every source.

    Parameters
    ----------
    tell
        Called with both places.
    bounds
        int64, ascending: places where units begin or end; empty: there are no units.
    most
        Sources that may be found and not recorded; 0: any number.
    make_room
        Called with a number of sources, waits until so many more may be found.
    """

    def __init__(
        self,
        tell: Callable[[int, int], None],
        bounds: IntArray = _NO_BOUNDS,
        most: int = 0,
        make_room: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._tell, self.bounds, self.most, self.make_room = tell, bounds, most, make_room

    def __call__(self, begin: int, end: int) -> None:
        """Hear of the sources from one place to before another."""
        self._tell(begin, end)

    def shifted(self, by: int) -> Told:
        """What hears of places that are counted from ``by``."""
        bounds = self.bounds[np.searchsorted(self.bounds, by) :] - by
        tell = self._tell
        return Told(
            lambda begin, end: tell(by + begin, by + end), bounds, self.most, self.make_room
        )

    def instead(self, tell: Callable[[int, int], None]) -> Told:
        """Something else that hears of the same places."""
        return Told(tell, self.bounds, self.most, self.make_room)


def shifted(told: Told | None, by: int) -> Told | None:
    """Who hears of places that are counted from ``by``, if anybody does."""
    return None if told is None else told.shifted(by)


def starts(count: int, each: int, told: Told | None, most: int = 0, threads: int = 1) -> IntArray:
    """Place of the first source of each batch, and ``count``: int64 (batches + 1,).

    A batch has whole units of who is ``told``, or some of one. It has up to ``most`` sources (0:
    ``each``) to bring a unit to its end. If there are fewer units than ``threads`` they are
    divided. Without units, every batch but the last has ``each`` sources.
    """
    if told is None or not len(told.bounds):
        return np.append(np.arange(0, count, each), count)
    most = max(most, each)
    inner = told.bounds[(told.bounds > 0) & (told.bounds < count)]
    bounds = np.unique(np.concatenate([[0], inner, [count]])).tolist()
    cut = each if len(bounds) - 1 < threads else most
    # The rest of a unit of which others were searched from before is not searched with more.
    rest = 0 if 0 in told.bounds else bounds[1]
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


def stretches(count: int, most: int, told: Told | None) -> Iterator[slice]:
    """Sources that are searched from in turn, each stretch when there is room for it; as `starts`.

    What is told of a stretch is told before the next one.
    """
    for begin, end in pairwise(starts(count, most, told).tolist()):
        if told is not None:
            told.make_room(end - begin)
        yield slice(begin, end)
