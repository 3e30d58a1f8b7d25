"""Reductions that searches from many sources made without rows of distances, for each source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.answers.asked import Asked, own_columns
from ooc_graph.answers.many import PerSource, rows_of
from ooc_graph.answers.reductions import HISTOGRAM, Reduced, closeness, exact_sum, fits, sum_error
from ooc_graph.answers.scatter import Ids
from ooc_graph.types import AnyArray, IntArray

_COLUMNS = 3


class SourceNumbers(PerSource):
    """Reductions of some sources; None for those that are put there later."""

    of_each = ("_found",)

    def __init__(self, found: Sequence[Reduced | None]) -> None:
        self._found = list(found)

    def put(self, begin: int, found: Sequence[Reduced]) -> None:
        """Fill in what the sources from one on reduced to."""
        self._found[begin : begin + len(found)] = found

    def reduced(self, reduce: str) -> list[Reduced]:  # noqa: ARG002
        """What each source's distances reduced to, by the reduction they were made for."""
        found = [one for one in self._found if one is not None]
        if len(found) < len(self._found):
            raise AssertionError(f"{len(self._found) - len(found)} sources are not reduced yet")
        return found


class SourceParts(PerSource):
    """What a CUDA device found of each source.

    ``parts`` (sources with a row,) have the fields ``reached``, ``largest``, ``sum`` and, of
    integers, ``exact``; zeros if they are put there later.
    """

    of_each = ("_found", "_is_own", "_sources")

    def __init__(self, parts: AnyArray, sources: IntArray, ids: Ids, asked: Asked) -> None:
        is_own = own_columns(sources, asked) >= 0
        found = np.zeros(len(sources), parts.dtype)
        # A source without arcs reaches itself, too.
        found["reached"] = is_own
        self._found, self._is_own = found, is_own
        self._sources, self._ids = sources, ids
        self._with_row = np.flatnonzero(ids.internal_of[sources] >= 0)
        self._instead: dict[int, Reduced] = {}
        self.put(0, parts)

    def put(self, begin: int, parts: AnyArray) -> None:
        """Fill in what is known of sources from one on, counted among those that have a row."""
        self._found[self._with_row[begin : begin + len(parts)]] = parts

    def put_instead(self, sources: IntArray, found: Sequence[Reduced]) -> None:
        """Fill in what distances reduced to of some sources, given by their positions."""
        self._instead.update(zip(sources.tolist(), found, strict=True))

    def beyond(self, begin: int, end: int) -> IntArray:
        """Positions of sources in a range of those with a row, whose sum is beyond float64."""
        some = self._with_row[begin:end]
        beyond: IntArray = self._sources[some[~np.isfinite(self._found["sum"][some])]]
        return beyond

    def reduced(self, reduce: str) -> list[Reduced]:
        """Each source's distances reduced; InputError if a sum does not fit its column.

        Closeness needs a sum that fits float64: other sources are reduced from distances
        (`beyond`).
        """
        rows = zip(self._found, self._is_own.tolist(), self._sources.tolist(), strict=True)
        return [self._reduced(reduce, *row) for row in rows]

    def _reduced(self, reduce: str, part: Any, is_own: bool, source: int) -> Reduced:
        if source in self._instead:
            return self._instead[source]
        reached = int(part["reached"])
        if reduce == "eccentricity":
            return Reduced(part["largest"].item() if reached else 0, reached)
        total = part["sum"].item()
        if "exact" in (self._found.dtype.names or ()):
            total = exact_sum(part["exact"].item(), total)
        # Of what float64 does not hold there is no closeness without the distances.
        if not fits(total) and (reduce == "sum" or isinstance(total, float)):
            raise sum_error(total, self._ids.original_at(source))
        if reduce == "sum":
            return Reduced(total, reached)
        return Reduced(closeness(total, reached - is_own, len(self._ids.internal_of)), reached)


class SourceTallies(PerSource):
    """What a BFS counted for each source: ``tallies``, int64 (sources with a row, 3 + bins).

    Targets reached, the sum of their levels, the last level with one, and how many each bin has.
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
