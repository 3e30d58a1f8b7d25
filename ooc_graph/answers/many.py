"""Distances from many sources, by internal id -> rows by original id, or a reduction of each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ooc_graph.answers import reductions
from ooc_graph.answers.asked import Asked, largest_reached, own_columns
from ooc_graph.answers.scatter import Ids
from ooc_graph.layout.chunks import FileEntry, write_chunk
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import PARENT
from ooc_graph.ranges import in_ranges
from ooc_graph.types import AnyArray, IntArray


def unreached_value(dtype: np.dtype[Any]) -> Any:
    """Distance, or level, of what is not reached, while rows are made."""
    return dtype.type(np.inf if dtype.kind == "f" else np.iinfo(dtype).max)


def rows_of(sources: IntArray, ids: Ids) -> IntArray:
    """Row of each source in answers of those with arcs; -1 for a source without."""
    has_row = ids.internal_of[sources] >= 0
    return np.where(has_row, np.cumsum(has_row) - 1, -1)


class PerSource:
    """Answers of some sources, of which a part can be taken."""

    of_each: ClassVar[tuple[str, ...]]
    """Names of the attributes that have an element for each source."""

    def part(self, start: int, stop: int) -> Self:
        """Some of the sources."""
        part = copy(self)
        for name in self.of_each:
            setattr(part, name, getattr(self, name)[start:stop])
        return part


class OrderedRows(PerSource):
    """Answers with a row for each source that has arcs: distances, or levels."""

    of_each = ("_sources", "_own", "_row")

    def __init__(self, answer: AnyArray, sources: IntArray, ids: Ids, asked: Asked) -> None:
        self._answer, self._asked, self._ids = answer, asked, ids
        self._sources, self._own = sources, own_columns(sources, asked)
        self._row = rows_of(sources, ids)

    def reduced(self, reduce: str) -> list[reductions.Reduced]:
        """Each source's distances reduced; InputError if a sum does not fit its column."""
        sources = self._sources.tolist(), (self._own >= 0).tolist()
        how = reduce, self._asked.bins, self._ids
        return [reduce_row(*how, *row) for row in zip(self._found(), *sources, strict=True)]

    @abstractmethod
    def _found(self) -> Iterator[AnyArray]:
        """Distances of each source: (width,), the same array again and again."""


class SourceRows(OrderedRows):
    """Rows of the answer, one source after the other.

    ``answer`` (sources with a row, rows) has distances by internal id; ``sources``, int64, are
    positions among all vertices. ``parents`` are ids of the same shape, all ones if unreached.
    """

    def __init__(
        self,
        answer: AnyArray,
        sources: IntArray,
        ids: Ids,
        asked: Asked,
        parents: AnyArray | None = None,
    ) -> None:
        super().__init__(answer, sources, ids, asked)
        self._parents = parents
        rows = ids.internal_of if asked.targets is None else ids.internal_of[asked.targets]
        self._isolated = rows < 0
        self._positions = np.maximum(rows, 0)

    @property
    def width(self) -> int:
        """Distances of a source."""
        return len(self._positions)

    def __iter__(self) -> Iterator[AnyArray]:
        """Distances or levels of each source, as they are stored: (width,)."""
        if not self._asked.hops:
            yield from self._found()
            return
        for found in self._found():
            found[found == unreached_value(found.dtype)] = -1
            yield found

    def _found(self) -> Iterator[AnyArray]:
        dtype, far = self._answer.dtype, unreached_value(self._answer.dtype)
        found = np.empty(self.width, dtype)
        cutoff = self._asked.cutoff
        most = far if cutoff is None else largest_reached(cutoff, dtype)
        for own, row in zip(self._own.tolist(), self._row.tolist(), strict=True):
            if row < 0:
                found.fill(far)
            else:
                self._answer[row].take(self._positions, out=found, mode="clip")
                found[self._isolated] = far
            if cutoff is not None:
                found[found > most] = far
            if own >= 0:
                # A source without arcs reaches itself, too.
                found[own] = 0
            yield found

    def parents(self) -> Iterator[IntArray]:
        """Original ids of each source's parents: (width,); -1 unreached; the source's its own."""
        assert self._parents is not None
        far, originals = unreached_value(self._answer.dtype), self._ids.original_of
        sources = zip(self._sources.tolist(), self._own.tolist(), self._row.tolist(), strict=True)
        for distances, (source, own, row) in zip(self._found(), sources, strict=True):
            found = np.full(self.width, -1, np.int64)
            reached = (distances < far) & ~self._isolated
            if row >= 0:
                found[reached] = originals[self._parents[row, self._positions[reached]]]
            if own >= 0:
                found[own] = self._ids.original_at(source)
            yield found


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


def reduce_row(
    reduce: str, bins: reductions.Bins, ids: Ids, found: AnyArray, source: int, is_own: bool
) -> reductions.Reduced:
    """One source's distances, (width,), reduced; InputError if a sum does not fit its column.

    Unreached levels are not -1 yet. ``is_own``: one of the columns is the source's own.
    """
    reached = found[found < unreached_value(found.dtype)]
    if reduce == "eccentricity":
        return reductions.Reduced(reached.max().item() if len(reached) else 0, len(reached))
    if reduce == reductions.HISTOGRAM:
        return reductions.Reduced(bins.counts(reached).tolist(), len(reached))
    if reduce == "sum":
        total = reductions.sum_of(reached)
        if not reductions.fits(total):
            raise reductions.sum_error(total, ids.original_at(source))
        return reductions.Reduced(total, len(reached))
    vertices = len(ids.internal_of)
    return reductions.Reduced(
        reductions.closeness_of(reached, len(reached) - is_own, vertices), len(reached)
    )


def write_rows(rows: Any, specs: Sequence[ArraySpec], index: int, folder: Path) -> list[FileEntry]:
    """Write a chunk of sources, of `SourceRows` or the like: distances, and parents if wanted."""
    return [
        write_chunk(
            folder,
            spec,
            index,
            (row[None, :] for row in (rows.parents() if spec.path == PARENT else rows)),
        )
        for spec in specs
    ]
