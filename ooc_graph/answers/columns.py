"""Distances or levels that searches have put in order, as rows of the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np

from ooc_graph.answers.asked import Asked
from ooc_graph.answers.many import OrderedRows, unreached_value
from ooc_graph.answers.scatter import Ids
from ooc_graph.ranges import in_ranges
from ooc_graph.types import AnyArray, IntArray


class SourceColumns(OrderedRows):
    """Rows of the answer; all that `SourceRows` gives except parents.

    ``answer`` has (sources with a row, columns) distances as they are asked for; levels are -1 if
    not reached. If it ``is_whole``, `fill_isolated` fills rows of isolated sources there, too.
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
        super().__init__(answer, sources, ids, asked)
        self._isolated = np.empty(0, np.int64)
        if is_whole:
            self._isolated, self._row = np.flatnonzero(self._row < 0), np.arange(len(sources))

    @property
    def width(self) -> int:
        """Distances of a source."""
        return int(self._answer.shape[1])

    @property
    def whole(self) -> AnyArray | None:
        """All rows at once, if every source has one; else None."""
        return self._answer if len(self._row) == len(self._answer) else None

    def part(self, start: int, stop: int) -> Self:
        """Some of the sources; rows of isolated ones are filled in the whole only."""
        part = super().part(start, stop)
        part._isolated = self._isolated[:0]
        return part

    def __iter__(self) -> Iterator[AnyArray]:
        """Distances of each source, as they are stored: (width,)."""
        for own, row in zip(self._own.tolist(), self._row.tolist(), strict=True):
            if row >= 0:
                yield self._answer[row]
                continue
            isolated: AnyArray = np.empty(self.width, self._answer.dtype)
            self._fill_row(isolated, own)
            yield isolated

    def fill_isolated(self, threads: int) -> None:
        """Write the rows of isolated sources, if ``answer`` has them, by so many threads."""

        def fill(low: int, end: int) -> None:
            for source in self._isolated[low:end].tolist():
                self._fill_row(self._answer[source], int(self._own[source]))

        in_ranges(threads, len(self._isolated), fill)

    def _found(self) -> Iterator[AnyArray]:
        # Of levels nothing is reduced here: -1 would be taken for a level.
        return iter(self)

    def _fill_row(self, row: AnyArray, own: int) -> None:
        """Distances of an isolated source: it reaches itself, if that is asked for."""
        row.fill(-1 if self._asked.hops else unreached_value(row.dtype))
        if own >= 0:
            row[own] = 0
