"""Batches of BFS or single searches where the words of a batch exceed the caches (CPU).

There a look at a neighbour's words is a read of memory, and a batch may take longer than single
searches of as many sources. Neither is known beforehand, so both are timed.
"""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

from ooc_graph.kernels.cpu.many.choice import CACHED_BYTES

WORD_BYTES = 96
"""Bytes of a row that a batch goes through: who has reached it, and who did so last."""
TIMED = 4
"""Single searches of each thread that are timed; one more comes before."""
LANES_TRIED = 64
"""Batches of fewer sources are not tried: what is left of one would say little."""


class Search(Protocol):
    """Searches from some of the sources of a run."""

    def __call__(self, begin: int, end: int, *, singly: bool) -> None:
        """Search from the sources at ``begin`` to ``end``, one by one or in batches."""


class BfsTrial:
    """Whether single searches take less time than batches, once it has been tried.

    Levels that are written, and such that are only counted, are timed apart: a batch writes levels
    to as many places as it has sources.

    Parameters
    ----------
    rows
        Of the graph.
    threads
        That search.
    """

    def __init__(self, rows: int, threads: int) -> None:
        self._threads, self._is_large = threads, rows * WORD_BYTES > CACHED_BYTES
        self._is_singly: dict[bool, bool] = {}

    def is_singly(self, *, counted: bool) -> bool:
        """Whether single searches took less time; False as long as it is not known."""
        return self._is_singly.get(counted, False)

    def sources(self, lanes: int) -> int:
        """How many sources a trial takes: as many as each thread has in a batch of ``lanes``.

        No more, as nobody hears of them before its end.
        """
        return self._threads * lanes

    def is_wanted(self, sources: int, lanes: int, *, counted: bool) -> bool:
        """Whether so many sources are enough for a trial, and one is to be made."""
        is_known = counted in self._is_singly
        is_enough = lanes >= LANES_TRIED and sources >= self.sources(lanes)
        return self._is_large and not is_known and is_enough

    def make(self, search: Search, lanes: int, *, counted: bool) -> int:
        """Time both on the first sources; how many these are."""
        first, batches = self._threads, self._threads * (1 + TIMED)
        # What is called first touches memory, and is perhaps compiled.
        search(0, first, singly=True)
        start = perf_counter()
        search(first, batches, singly=True)
        single_s = (perf_counter() - start) / (batches - first)
        end = self.sources(lanes)
        search(batches, batches, singly=False)
        start = perf_counter()
        search(batches, end, singly=False)
        self._is_singly[counted] = single_s < (perf_counter() - start) / (end - batches)
        return end
