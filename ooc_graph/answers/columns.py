"""Distances or levels that searches have put in order, as rows of the answer."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np

from ooc_graph.answers.pairs import Asked, Reducing, own_columns, unreached_value
from ooc_graph.answers.reductions import Reduced
from ooc_graph.answers.scatter import Ids
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray, IntArray


class SourceColumns:
    """Rows of the answer; all that `SourceRows` gives but parents.

    Parameters
    ----------
    answer
        (sources with a row, columns): distances as they are asked for; levels with -1 where they
        are not reached.
    sources
        int64 (sources,): their places among all vertices.
    ids
        Id tables of the graph.
    asked
        What is asked of every source.
    is_whole
        Whether ``answer`` has rows of sources without arcs, too, in the order of all; they are as
        asked for after `fill_lonely`.
    """

    def __init__(
        self,
        answer: AnyArray,
        sources: IntArray,
        ids: Ids,
        asked: Asked,
        *,
        is_whole: bool = False,
    ) -> None:
        self._asked, self._own = asked, own_columns(sources, asked)
        self._sources, self._ids = sources, ids
        has_row = ids.internal_of[sources] >= 0
        if is_whole:
            self._lonely, self._row = np.flatnonzero(~has_row), np.arange(len(sources))
        else:
            self._lonely = np.empty(0, np.int64)
            self._row = np.where(has_row, np.cumsum(has_row) - 1, -1)
        self._answer = answer

    @property
    def width(self) -> int:
        """Distances of a source."""
        return int(self._answer.shape[1])

    @property
    def whole(self) -> AnyArray | None:
        """All rows at once, where every source has one; else None."""
        return self._answer if len(self._row) == len(self._answer) else None

    def part(self, start: int, stop: int) -> SourceColumns:
        """Some of the sources."""
        part = copy(self)
        part._own, part._row = self._own[start:stop], self._row[start:stop]
        part._sources = self._sources[start:stop]
        # Of all of them only, while they are together.
        part._lonely = self._lonely[:0]
        return part

    def __iter__(self) -> Iterator[AnyArray]:
        """Distances of each source, as they are stored: (width,)."""
        for own, row in zip(self._own.tolist(), self._row.tolist(), strict=True):
            if row >= 0:
                yield self._answer[row]
                continue
            lonely: AnyArray = np.empty(self.width, self._answer.dtype)
            self._fill_lonely(lonely, own)
            yield lonely

    def fill_lonely(self, threads: int) -> None:
        """Write the rows of sources without arcs where ``answer`` has them, by so many threads.

        Raises
        ------
        MemoryError
            A thread was refused.
        """
        lonely = self._lonely
        if not len(lonely):
            return
        share = -(-len(lonely) // threads)

        def fill(low: int) -> None:
            for place in lonely[low : low + share].tolist():
                self._fill_lonely(self._answer[place], int(self._own[place]))

        with Threads(threads) as executor:
            list(executor.map(fill, range(0, len(lonely), share)))

    def reduced(self, reduce: str) -> list[Reduced]:
        """Each source's distances reduced, with the bits of `SourceRows`; not levels.

        Raises
        ------
        InputError
            A sum does not fit its column.
        """
        reducing = Reducing(reduce, self._asked.bins, self._ids)
        sources = self._sources.tolist(), (self._own >= 0).tolist()
        return [reducing.of(*row) for row in zip(self, *sources, strict=True)]

    def _fill_lonely(self, row: AnyArray, own: int) -> None:
        """Distances of a source without arcs: it reaches itself, where that is asked for."""
        row.fill(-1 if self._asked.hops else unreached_value(row.dtype))
        if own >= 0:
            row[own] = 0
