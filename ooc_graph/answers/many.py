"""Distances from many sources, by internal id -> rows by original id, or a reduction of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ooc_graph.answers.reductions import (
    HISTOGRAM,
    REDUCTIONS,
    Bins,
    Reduced,
    closeness_of,
    finite,
    fits,
    sum_error,
    sum_of,
)
from ooc_graph.answers.scatter import Ids
from ooc_graph.errors import UsageError
from ooc_graph.layout.chunks import FileEntry, write_chunk
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import APSP, DISTANCE, LEVEL, MULTI_SOURCE_BFS, PARENT
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray

TOGETHER = {False: 64, True: 256}
"""Sources of a unit, by whether hops are counted: as many as search together."""


@dataclass(frozen=True)
class Asked:
    """What is asked of every source.

    ``targets``, int64, are positions among all vertices that distances are wanted to; None: all.
    The ``cutoff`` is the largest distance that counts as reached; None: any. ``reduce``, one of
    `REDUCTIONS`, is instead of the distances, ``bins`` those of histograms. With ``hops`` distances
    are levels of a BFS. ``has_array``: they go to memory of the caller, so that an answer needs
    none.
    """

    targets: IntArray | None = None
    cutoff: float | None = None
    reduce: str | None = None
    parents: bool = False
    bins: Bins = field(default_factory=Bins)
    hops: bool = False
    has_array: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be carried out, with a UsageError."""
        if self.reduce is not None and self.reduce not in REDUCTIONS:
            raise UsageError(f"reduce {self.reduce!r}: choose {', '.join(REDUCTIONS)}")
        if self.reduce is not None and self.parents:
            raise UsageError("a reduction has no parents: ask for one of them")
        if self.hops and self.parents:
            raise UsageError("BFS from many sources gives no parents")
        if self.has_array and (self.parents or self.reduce is not None):
            what = "parents" if self.parents else "what a reduction gives"
            raise UsageError(f"into= has room for distances, not for {what}: ask for one of them")
        # Python's own truth value and number, which go into the key and the attributes as JSON.
        object.__setattr__(self, "parents", bool(self.parents))
        if self.cutoff is not None:
            cutoff = finite(self.cutoff, "cutoff: give a finite distance, a number")
            object.__setattr__(self, "cutoff", cutoff)

    @property
    def kernel(self) -> str:
        """Name of the search."""
        return MULTI_SOURCE_BFS if self.hops else APSP


def unreached_value(dtype: np.dtype[Any]) -> Any:
    """Distance, or level, of what is not reached, while rows are made."""
    return dtype.type(np.inf if dtype.kind == "f" else np.iinfo(dtype).max)


def largest_reached(cutoff: float, dtype: np.dtype[Any]) -> Any:
    """The cutoff as a distance of this type, or the nearest that there is."""
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)
        return dtype.type(min(max(cutoff, -most), most))
    bounds = np.iinfo(dtype)
    return dtype.type(min(max(math.floor(cutoff), int(bounds.min)), int(bounds.max)))


def own_columns(sources: IntArray, asked: Asked) -> IntArray:
    """Column of each source, given by its position among all vertices; -1 if it has none.

    None has one if a cutoff below 0 leaves out the sources, too.
    """
    if asked.cutoff is not None and asked.cutoff < 0:
        return np.full(len(sources), -1)
    if asked.targets is None:
        return sources
    # Sources are few at times, targets are not.
    order = np.argsort(sources, kind="stable")
    nearest = np.minimum(np.searchsorted(sources, asked.targets, sorter=order), len(sources) - 1)
    columns = (
        np.flatnonzero(sources[order[nearest]] == asked.targets) if len(sources) else nearest[:0]
    )
    found = np.full(len(sources), -1)
    found[order[nearest[columns]]] = columns
    return found


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


class SourceRows(PerSource):
    """Rows of the answer, one source after the other.

    ``answer`` (sources with a row, rows) has distances by internal id; ``sources``, int64, are
    positions among all vertices. ``parents`` are ids of the same shape, all ones if unreached.
    """

    of_each = ("_sources", "_own", "_row")

    def __init__(
        self,
        answer: AnyArray,
        sources: IntArray,
        ids: Ids,
        asked: Asked,
        parents: AnyArray | None = None,
    ) -> None:
        self._answer, self._asked, self._parents, self._ids = answer, asked, parents, ids
        rows = ids.internal_of if asked.targets is None else ids.internal_of[asked.targets]
        self._isolated = rows < 0
        self._positions = np.maximum(rows, 0)
        self._sources, self._own = sources, own_columns(sources, asked)
        self._row = rows_of(sources, ids)

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
        """Distances of each source: (width,), the same array again and again."""
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

    def reduced(self, reduce: str) -> list[Reduced]:
        """Each source's distances reduced; InputError if a sum does not fit its column."""
        sources = self._sources.tolist(), (self._own >= 0).tolist()
        how = reduce, self._asked.bins, self._ids
        return [reduce_row(*how, *row) for row in zip(self._found(), *sources, strict=True)]


def reduce_row(
    reduce: str, bins: Bins, ids: Ids, found: AnyArray, source: int, is_own: bool
) -> Reduced:
    """One source's distances, (width,), reduced; InputError if a sum does not fit its column.

    Unreached levels are not -1 yet. ``is_own``: one of the columns is the source's own.
    """
    reached = found[found < unreached_value(found.dtype)]
    if reduce == "eccentricity":
        return Reduced(reached.max().item() if len(reached) else 0, len(reached))
    if reduce == HISTOGRAM:
        return Reduced(bins.counts(reached).tolist(), len(reached))
    if reduce == "sum":
        total = sum_of(reached)
        if not fits(total):
            raise sum_error(total, ids.original_at(source))
        return Reduced(total, len(reached))
    vertices = len(ids.internal_of)
    return Reduced(closeness_of(reached, len(reached) - is_own, vertices), len(reached))


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


def answer_specs(
    asked: Asked, sources: int, width: int, dtype: np.dtype[Any]
) -> tuple[ArraySpec, ...]:
    """How distances are stored, and parents if wanted: chunks of the same whole sources.

    None has more sources than search together if memory is ample, so that a run which is killed
    has lost no other batch.
    """
    together = TOGETHER[asked.hops]
    distance = ArraySpec(LEVEL if asked.hops else DISTANCE, sources, dtype, width)
    if asked.hops and asked.reduce is not None:
        # Nothing is written but records, and what they record takes little time.
        return (replace(distance, chunk_rows=together),)
    if not asked.parents:
        return (replace(distance, chunk_rows=_sources_a_chunk(distance.chunk, asked, sources)),)
    parent = ArraySpec(PARENT, sources, np.dtype(np.int64), width)
    rows = _sources_a_chunk(min(distance.chunk, parent.chunk), asked, sources)
    return replace(distance, chunk_rows=rows), replace(parent, chunk_rows=rows)


def _sources_a_chunk(most: int, asked: Asked, sources: int) -> int:
    """As many as search together; if fewer, so many that a batch still has whole chunks."""
    together = TOGETHER[asked.hops]
    if most >= min(together, sources):
        return min(most, together)
    return max(1, together >> (-(-together // most) - 1).bit_length())


def is_narrow(asked: Asked) -> bool:
    """Whether answers are distances to some targets alone, so that they may be few for a source."""
    return asked.targets is not None and asked.reduce is None and not asked.parents


def answer_attributes(asked: Asked, graph: str, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Canonical attributes of a stored result."""
    facts: dict[str, Any] = {"kernel": asked.kernel, "graph_sha256": graph, "cutoff": asked.cutoff}
    if asked.reduce is None:
        far = "+inf" if dtype.kind == "f" else INT64_UNREACHED
        return facts | {"unreached": -1 if asked.hops else far}
    facts |= {"reduce": asked.reduce, "targets": "some" if asked.targets is not None else "all"}
    if asked.reduce == HISTOGRAM:
        facts["bin_width"] = asked.bins.width_for(dtype)
    return facts
