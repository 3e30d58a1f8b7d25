"""Results of searches from many sources: a row for each source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ooc_graph.answers.frames import flat_columns, frame_of
from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.answers.result import Result
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import (
    APSP,
    DISTANCE,
    LEVEL,
    MULTI_SOURCE_BFS,
    PARENT,
    REACHED,
    SOURCE,
    VERTEX,
)
from ooc_graph.layout.stored import Stored
from ooc_graph.types import AnyArray, IntArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False, eq=False)
class PairsResult(Result):
    """Distances from many sources to many vertices, or a reduction for each source.

    `elapsed_s` is the time of all searches and of writing their results.
    """

    kernel = APSP
    measure = DISTANCE

    @property
    def reduced(self) -> str | None:
        """The reduction that there is for each source; None for distances."""
        if isinstance(self.columns, Stored):
            there = {spec.path for spec in self.columns.arrays()}
        else:
            there = set(self.columns)
        return next(iter(there - {SOURCE, REACHED, VERTEX, self.measure, PARENT}), None)

    def _size(self) -> tuple[int, ...]:
        sources = self._length(SOURCE)
        return (sources,) if self.reduced else (sources, self._length(VERTEX))

    def _shown(self) -> str:
        where = self.columns.path if isinstance(self.columns, Stored) else "in memory"
        sources, *vertices = self._size()
        what = f"{self.measure} to {vertices[0]:,} vertices" if vertices else self.reduced
        return f"{what} from {sources:,} sources, {where}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays, in order."""
        reduced = self.reduced
        if reduced is not None:
            return SOURCE, REACHED, reduced
        return SOURCE, VERTEX, self.measure, *([PARENT] if PARENT in self.columns else [])

    def read(self, name: str) -> AnyArray:
        """One array, in host memory."""
        if name not in self.names:
            raise UsageError(f"this result has no {name}: it has {', '.join(self.names)}")
        return super().read(name)

    @property
    def source(self) -> IntArray:
        """Original ids of the sources, in the order they were given: int64 (sources,)."""
        return self.read(SOURCE)

    @property
    def distance(self) -> AnyArray:
        """Distance from each source to each ``vertex``: (sources, vertices).

        float32 or float64 (+inf unreached), or exact int64 (unreached: the largest int64).
        """
        return self.read(DISTANCE)

    @property
    def histogram(self) -> IntArray:
        """How many targets are how far from each source: int64 (sources, bins)."""
        return self.read(HISTOGRAM)

    @property
    def parent(self) -> IntArray:
        """Parent of each ``vertex`` on its path from each source: int64 (sources, vertices).

        Original ids; a source's parent is itself, -1 unreached. Only if parents were requested.
        """
        return self.read(PARENT)

    def to_frame(self) -> pd.DataFrame:
        """Pandas frame with a row for each source; distances have a column for each vertex.

        Histograms have a column for each bin.
        """
        if self.reduced is None:
            return frame_of(self.read(self.measure), index=self.source, columns=self.vertex)
        return frame_of(flat_columns({name: self.read(name) for name in self.names}))

    def to_dask_dataframe(self) -> Any:
        """Not supported: `to_dask_array` gives the distances."""
        raise UsageError(f"many sources give no table: use to_dask_array('{self.measure}')")


@dataclass(frozen=True, repr=False, eq=False)
class LevelsResult(PairsResult):
    """Levels of a BFS from each of many sources, or a reduction of them for each."""

    kernel = MULTI_SOURCE_BFS
    measure = LEVEL

    @property
    def level(self) -> AnyArray:
        """Hops from each source to each ``vertex``, -1 unreached: int32 (sources, vertices)."""
        return self.read(LEVEL)
