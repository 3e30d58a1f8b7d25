"""Reductions of levels from what a search from many sources has counted, without the levels."""

from __future__ import annotations

import numpy as np

from ooc_graph.answers.pairs import Asked, PerSource, own_columns, rows_of
from ooc_graph.answers.reductions import HISTOGRAM, Reduced, closeness
from ooc_graph.answers.scatter import Ids
from ooc_graph.types import IntArray

_COLUMNS = 3


class SourceTallies(PerSource):
    """What each source counted.

    Parameters
    ----------
    tallies
        int64 (sources with a row, 3 + bins): targets reached, the sum of their levels, the last
        level with one of them, and how many there are in each bin.
    sources, ids, asked
        As of `SourceRows`.
    """

    of_each = ("_row", "_is_own")

    def __init__(self, tallies: IntArray, sources: IntArray, ids: Ids, asked: Asked) -> None:
        self._is_within = asked.cutoff is None or asked.cutoff >= 0
        self._is_own = own_columns(sources, asked) >= 0
        self._row = rows_of(sources, ids)
        self._tallies = tallies
        self._all_vertices = len(ids.internal_of)

    def reduced(self, reduce: str) -> list[Reduced]:
        """Each source's levels reduced."""
        found = np.zeros((len(self._row), self._tallies.shape[1]), np.int64)
        # A source without arcs reaches itself, too: at level 0, in the first bin.
        found[self._is_own, 0] = 1
        found[self._is_own, _COLUMNS : _COLUMNS + 1] = 1
        has_row = self._row >= 0
        found[has_row] = self._tallies[self._row[has_row]] if self._is_within else 0
        rows = zip(found.tolist(), self._is_own.tolist(), strict=True)
        return [self._reduced(reduce, row, is_own) for row, is_own in rows]

    def _reduced(self, reduce: str, row: list[int], is_own: bool) -> Reduced:
        reached, total, deepest, *counts = row
        if reduce == HISTOGRAM:
            return Reduced(counts, reached)
        if reduce == "eccentricity":
            return Reduced(deepest, reached)
        if reduce == "sum":
            return Reduced(total, reached)
        return Reduced(closeness(total, reached - is_own, self._all_vertices), reached)
