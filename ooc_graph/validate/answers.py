"""What is validated: vertices, and for each root their parents, and levels or distances; scores."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.errors import UsageError
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray
from ooc_graph.validate import loops


@dataclass(frozen=True)
class VertexIndex:
    """The vertices of an answer in ascending order; their rank here is their *position*.

    Make one with `dense` or `ascending`. ``ids``, int64 (count,), are in host memory, strictly
    ascending; None if they are exactly ``first … first + count - 1``.
    """

    first: int
    count: int
    ids: IntArray | None = None

    @classmethod
    def dense(cls, first: int, count: int) -> VertexIndex:
        """Ids ``first … first + count - 1``; takes no memory."""
        if first < 0 or count < 0:
            raise UsageError(f"a dense range of ids cannot be ({first}, {count})")
        return cls(first, count)

    @classmethod
    def ascending(cls, ids: IntArray) -> VertexIndex:
        """Any strictly ascending non-negative ids (dense if they have no gap)."""
        if len(ids) == 0:
            return cls(0, 0)
        if ids[0] < 0 or not bool(np.all(ids[:-1] < ids[1:])):
            raise UsageError("the vertices of an answer must be non-negative and ascend strictly")
        first, last = int(ids[0]), int(ids[-1])
        if last - first + 1 == len(ids):
            return cls(first, len(ids))
        return cls(first, len(ids), np.ascontiguousarray(ids, dtype=np.int64))

    @property
    def position_dtype(self) -> np.dtype[Any]:
        """int32 if it holds every position, else int64."""
        return np.dtype(np.int32 if self.count <= np.iinfo(np.int32).max else np.int64)

    def positions(self, ids: IntArray) -> AnyArray:
        """Position of each id (m,), -1 for ids that the answer does not have."""
        out = np.empty(len(ids), dtype=self.position_dtype)
        if self.ids is None:
            loops.dense_positions(ids, self.first, self.count, out)
        else:
            loops.sorted_positions(ids, self.ids, out)
        return out

    def id_of(self, position: int) -> int:
        """Original id of one position."""
        return self.first + position if self.ids is None else int(self.ids[position])

    def ids_of(self, start: int, stop: int) -> IntArray:
        """Original ids of a range of positions, int64 (stop - start,)."""
        if self.ids is None:
            return np.arange(self.first + start, self.first + stop)
        return self.ids[start:stop]

    def same_as(self, other: VertexIndex) -> bool:
        """Whether both hold the same ids."""
        if (self.first, self.count) != (other.first, other.count):
            return False
        if self.ids is None or other.ids is None or self.ids is other.ids:
            return self.ids is other.ids
        return bool(np.array_equal(self.ids, other.ids))


DISTANCE_TYPES = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64))


def unreached_distance(kind: np.dtype[Any]) -> Any:
    """Distance that stands for unreached, as a scalar of the given dtype."""
    return np.asarray(INT64_UNREACHED if kind == np.int64 else np.inf, dtype=kind)[()]


def _check_columns(vertices: VertexIndex, **columns: AnyArray) -> None:
    for name, column in columns.items():
        if column.shape != (vertices.count,):
            raise UsageError(f"{name} has shape {column.shape} for {vertices.count} vertices")


@dataclass(frozen=True)
class BfsAnswer:
    """A breadth-first tree, by position: ``parent``, int64 (V,), and ``level``, int32 (V,).

    Parents are original ids, the root its own parent; unreached vertices have -1 in both.
    """

    root: int
    parent: IntArray
    level: NDArray[np.int32]
    vertices: VertexIndex

    def __post_init__(self) -> None:
        _check_columns(self.vertices, parent=self.parent, level=self.level)
        if self.parent.dtype != np.int64 or self.level.dtype != np.int32:
            raise UsageError("a BFS answer has int64 parents and int32 levels")


@dataclass(frozen=True)
class SsspAnswer:
    """A tree of shortest paths; as `BfsAnswer`, with distances.

    They are float32 or float64 (V,), +inf unreached; or int64 (V,), ``INT64_UNREACHED`` unreached.
    """

    root: int
    parent: IntArray
    distance: AnyArray
    vertices: VertexIndex

    def __post_init__(self) -> None:
        _check_columns(self.vertices, parent=self.parent, distance=self.distance)
        if self.parent.dtype != np.int64 or self.distance.dtype not in DISTANCE_TYPES:
            raise UsageError(
                "an SSSP answer has int64 parents and float32, float64 or int64 distances"
            )

    @property
    def unreached(self) -> Any:
        """Distance of vertices that the root does not reach, as a scalar of the same dtype."""
        return unreached_distance(self.distance.dtype)


MOST_ALLOWED = 0.01
"""A rule that allows the scores to differ by more than this, all together, finds few mistakes.

No two vectors of scores differ by more than 2.
"""
Chances = tuple[IntArray, AnyArray]
"""Positions of some vertices, ascending, and chances, float64, which sum to 1."""


def _are_chances(positions: IntArray, chance: AnyArray, count: int) -> bool:
    ascend = len(positions) and bool((positions[1:] > positions[:-1]).all())
    if not ascend or positions[0] < 0 or positions[-1] >= count or chance.dtype != np.float64:
        return False
    is_like = chance.shape == positions.shape and bool((chance >= 0).all())
    return is_like and abs(float(chance.sum()) - 1) < 1e-9


@dataclass(frozen=True)
class PagerankAnswer:
    """PageRank by vertex, float64 (V,), and what was asked.

    ``tol`` is None if exactly ``iterations`` were asked for. Scores jump to vertices by chances,
    and from those without out-arcs land on them by chances; None: all vertices alike.
    """

    score: AnyArray
    vertices: VertexIndex
    alpha: float
    tol: float | None
    iterations: int
    jump: Chances | None = None
    landing: Chances | None = None

    def __post_init__(self) -> None:
        _check_columns(self.vertices, score=self.score)
        if self.score.dtype != np.float64:
            raise UsageError(f"scores are float64, not {self.score.dtype}")
        for chances in (self.jump, self.landing):
            if chances is not None and not _are_chances(*chances, self.vertices.count):
                raise UsageError(
                    "what scores jump to, or land on, are vertices in ascending order, and their "
                    "chances, which sum to 1"
                )

    @property
    def allowed(self) -> float:
        """By how much another iteration may change all scores together, as far as ``tol`` says."""
        return inf if self.tol is None else self.alpha * self.vertices.count * self.tol

    @property
    def repeated(self) -> int:
        """How many iterations are done again: all of them, unless the tolerance says enough.

        But no more than change anything: the k-th changes scores by at most
        ``2 * alpha**(k - 1)``, and from 2**-61 on they stay as they are.
        """
        if self.allowed <= MOST_ALLOWED:
            return 0
        if self.alpha == 1:
            return self.iterations
        return min(self.iterations, ceil(62 / -log2(self.alpha)) + 1 if self.alpha else 1)

    @property
    def passes(self) -> int:
        """How many passes over the arcs are made of a right answer."""
        return self.repeated + 2
