"""Distances from many sources that a CUDA device has put in order, as rows of the answer."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np

from ooc_graph.answers.pairs import Asked, Reducing, own_columns, unreached_value
from ooc_graph.answers.reductions import Reduced
from ooc_graph.answers.scatter import Ids
from ooc_graph.types import AnyArray, IntArray


class SourceColumns:
    """Rows of the answer; all that `SourceRows` gives but parents.

    Parameters
    ----------
    answer
        (sources with a row, columns): distances as they are asked for.
    sources
        int64 (sources,): their places among all vertices.
    ids
        Id tables of the graph.
    asked
        What is asked of every source.
    """

    def __init__(self, answer: AnyArray, sources: IntArray, ids: Ids, asked: Asked) -> None:
        self._asked, self._own = asked, own_columns(sources, asked)
        self._sources, self._ids = sources, ids
        has_row = ids.internal_of[sources] >= 0
        self._row = np.where(has_row, np.cumsum(has_row) - 1, -1)
        self._answer = answer

    @property
    def width(self) -> int:
        """Distances of a source."""
        return int(self._answer.shape[1])

    @property
    def whole(self) -> AnyArray | None:
        """All rows at once, where every source has arcs; else None."""
        return self._answer if len(self._row) == len(self._answer) else None

    def part(self, start: int, stop: int) -> SourceColumns:
        """Some of the sources."""
        part = copy(self)
        part._own, part._row = self._own[start:stop], self._row[start:stop]
        part._sources = self._sources[start:stop]
        return part

    def __iter__(self) -> Iterator[AnyArray]:
        """Distances of each source, as they are stored: (width,)."""
        for own, row in zip(self._own.tolist(), self._row.tolist(), strict=True):
            if row >= 0:
                yield self._answer[row]
                continue
            dtype = self._answer.dtype
            lonely: AnyArray = np.full(self.width, unreached_value(dtype), dtype)
            if own >= 0:
                # A source without arcs reaches itself.
                lonely[own] = 0
            yield lonely

    def reduced(self, reduce: str) -> list[Reduced]:
        """Each source's distances reduced, with the bits of `SourceRows`.

        Raises
        ------
        InputError
            A sum does not fit its column.
        """
        reducing = Reducing(reduce, self._asked.bins, self._ids)
        sources = self._sources.tolist(), (self._own >= 0).tolist()
        return [reducing.of(*row) for row in zip(self, *sources, strict=True)]
