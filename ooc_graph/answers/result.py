"""Results, by original id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ooc_graph.answers.frames import Exports, flat_columns, frame_of
from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.errors import CorruptStoreError, NotAStoreError, UsageError
from ooc_graph.layout.names import (
    APSP,
    COMPONENT,
    DISTANCE,
    LEVEL,
    MULTI_SOURCE_BFS,
    PAGERANK,
    PARENT,
    REACHED,
    SOURCE,
    VERTEX,
)
from ooc_graph.layout.stored import Stored
from ooc_graph.types import AnyArray, IntArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result(Exports):
    """What an algorithm found out about every vertex: arrays, or the store they are read from.

    ``root`` is the original id where the search began; None if an algorithm has none. ``elapsed_s``
    are seconds of the search alone, as Graph500 times it; None if opened from a store.

    ``seconds`` has those of ``plan``; ``load``, until the graph is ready; ``search``, which is
    ``elapsed_s``; ``order``, of columns read so far, or ``write``. ``tier_bytes`` has the bytes of
    ``memory``, ``pinned`` and ``device`` reserved, and those ``read`` of the store.
    """

    root: int | None
    elapsed_s: float | None
    columns: Mapping[str, AnyArray] | Stored
    seconds: Mapping[str, float] = field(default_factory=dict)
    tier_bytes: Mapping[str, int] = field(default_factory=dict)

    kernel = ""
    measure = ""

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a stored result, as the class that its kernel has."""
        stored = Stored.open(path, "result")
        name, root = stored.attributes.get("kernel"), stored.attributes.get("root")
        kinds: list[Any] = [BfsResult, SsspResult, ComponentsResult, PairsResult, LevelsResult]
        if name == PAGERANK:
            kinds = [import_module("ooc_graph.answers.pagerank").PagerankResult]
        kind: Any = next((one for one in kinds if one.kernel == name), None)
        if kind is None:
            raise NotAStoreError(f"{path}: holds a result of {name}, unknown to this version")
        if not issubclass(kind, cls):
            wanted = cls.kernel or "a search"
            raise UsageError(f"{path}: holds a result of {kind.kernel}, not of {wanted}")
        count = stored.attributes.get("components", None if kind is ComponentsResult else 0)
        is_own = "graph_sha256" in stored.attributes and isinstance(count, int)
        if not is_own or issubclass(kind, TreeResult) != isinstance(root, int):
            raise CorruptStoreError(
                f"{stored.path}: its attributes are not those of an answer; search again"
            )
        opened: Self = kind(root, None, stored)
        return opened

    def __repr__(self) -> str:
        at = "" if self.root is None else f" root={self.root}"
        return f"<{type(self).__name__}{at}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self._frame_names.values())

    @property
    def vertex(self) -> IntArray:
        """Original ids, ascending: int64 (vertices,)."""
        return self.read(VERTEX)


@dataclass(frozen=True, repr=False)
class TreeResult(Result):
    """Tree of a single-source search."""

    root: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return VERTEX, PARENT, self.measure

    @property
    def parent(self) -> IntArray:
        """Original id of each vertex's parent; the root's is itself, -1 unreached: int64."""
        return self.read(PARENT)

    @property
    def reached(self) -> AnyArray:
        """Whether the search reached each vertex: bool (vertices,)."""
        return self.parent >= 0


@dataclass(frozen=True, repr=False)
class BfsResult(TreeResult):
    """Breadth-first search tree."""

    kernel = "bfs"
    measure = LEVEL
    _frame_names = {"vertex": VERTEX, "distance": LEVEL, "predecessor": PARENT}  # noqa: RUF012

    @property
    def level(self) -> AnyArray:
        """Hops from the root, -1 unreached: int32 (vertices,)."""
        return self.read(LEVEL)


@dataclass(frozen=True, repr=False)
class SsspResult(TreeResult):
    """Single-source shortest paths."""

    kernel = "sssp"
    measure = DISTANCE
    _frame_names = {"vertex": VERTEX, "distance": DISTANCE, "predecessor": PARENT}  # noqa: RUF012

    @property
    def distance(self) -> AnyArray:
        """Distance from the root: float32 or float64 (+inf unreached), or exact int64.

        Unreached vertices of integer graphs have the largest int64.
        """
        return self.read(DISTANCE)


@dataclass(frozen=True, repr=False)
class ComponentsResult(Result):
    """Weakly connected components; `elapsed_s` is the time until they are known by internal id."""

    kernel = "components"
    measure = COMPONENT
    _frame_names = {"vertex": VERTEX, "labels": COMPONENT}  # noqa: RUF012

    @property
    def component(self) -> IntArray:
        """Smallest original id of each vertex's component: int64 (vertices,)."""
        return self.read(COMPONENT)

    @property
    def count(self) -> int:
        """Number of components."""
        if isinstance(self.columns, Stored):
            return int(self.columns.attributes["components"])
        if (unread := self.unread) is not None:
            return int(unread.attributes["components"])
        return int(np.count_nonzero(self.component == self.vertex))


@dataclass(frozen=True, repr=False)
class PairsResult(Result):
    """Distances from many sources to many vertices, or a reduction for each source.

    `elapsed_s` is the time of all searches and of writing what they found.
    """

    kernel = APSP
    measure = DISTANCE

    @property
    def reduced(self) -> str | None:
        """Which reduction there is for each source; None if there are the distances."""
        if isinstance(self.columns, Stored):
            there = {spec.path for spec in self.columns.arrays()}
        else:
            there = set(self.columns)
        return next(iter(there - {SOURCE, REACHED, VERTEX, self.measure, PARENT}), None)

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
        """Parent of each ``vertex`` on its way from each source: int64 (sources, vertices).

        Original ids; a source's is itself, -1 unreached. Only if parents were asked for.
        """
        return self.read(PARENT)

    def to_frame(self) -> pd.DataFrame:
        """Pandas frame: a row for each source, a column for each vertex, or bin of a histogram."""
        if self.reduced is None:
            return frame_of(self.read(self.measure), index=self.source, columns=self.vertex)
        return frame_of(flat_columns({name: self.read(name) for name in self.names}))

    def to_dask_dataframe(self) -> Any:
        """Not there: `to_dask_array` gives the distances."""
        raise UsageError(f"many sources give no table: use to_dask_array('{self.measure}')")


@dataclass(frozen=True, repr=False)
class LevelsResult(PairsResult):
    """Levels of a BFS from each of many sources, or a reduction of them for each."""

    kernel = MULTI_SOURCE_BFS
    measure = LEVEL

    @property
    def level(self) -> AnyArray:
        """Hops from each source to each ``vertex``, -1 unreached: int32 (sources, vertices)."""
        return self.read(LEVEL)
