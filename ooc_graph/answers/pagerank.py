"""PageRank by original id, and what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any

import numpy as np

from ooc_graph.answers.frames import Arrays
from ooc_graph.answers.result import Result
from ooc_graph.errors import CorruptStoreError
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import PAGERANK, VERTEX
from ooc_graph.layout.stored import Stored
from ooc_graph.types import AnyArray, IntArray

PERSONALIZATION, DANGLING = "personalization", "dangling"


@dataclass(frozen=True, eq=False)
class Chances:
    """Vertices and their chances, which sum to 1; other vertices have none.

    ``arrays`` has both, by the names of `array_names`, in memory or in a store. A store is read
    whenever they are asked for.
    """

    name: str
    count: int
    arrays: Arrays = field(repr=False)

    @property
    def vertex(self) -> IntArray:
        """Original ids, ascending: int64 (count,)."""
        return self._read(0)

    @property
    def chance(self) -> AnyArray:
        """Chances: float64 (count,)."""
        return self._read(1)

    def _read(self, index: int) -> AnyArray:
        name = array_names(self.name)[index]
        return self.arrays.read(name) if isinstance(self.arrays, Stored) else self.arrays[name]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chances) or hash(self) != hash(other):
            return False
        return all(np.array_equal(self._read(i), other._read(i)) for i in range(2))

    def __hash__(self) -> int:
        return hash((self.name, self.count))


def array_names(chances: str) -> tuple[str, str]:
    """Names of the arrays of vertices and of chances."""
    return f"{chances}_{VERTEX}", chances


@dataclass(frozen=True)
class Ranking:
    """What was asked of PageRank.

    ``tol`` is None if exactly ``iterations`` were asked for; else these were needed. ``weighted``:
    whether arcs counted by their weights. ``personalization``: None means all vertices alike;
    ``dangling``: None means as ``personalization``.
    """

    alpha: float
    tol: float | None
    iterations: int
    weighted: bool
    personalization: Chances | None
    dangling: Chances | None

    @property
    def listed(self) -> int:
        """Number of vertices in both lists of chances."""
        return sum(one.count for one in (self.personalization, self.dangling) if one is not None)


@dataclass(frozen=True, repr=False, eq=False)
class PagerankResult(Result):
    """PageRank; `elapsed_s` is the time until it is known by internal id.

    ``asked`` has the parameters; None if the answer is of a version that did not keep them.
    """

    asked: Ranking | None = None

    kernel = PAGERANK
    measure = PAGERANK
    frame_names = {"vertex": VERTEX, "pagerank": PAGERANK}  # noqa: RUF012

    @classmethod
    def facts(cls, attributes: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
        """What attributes say besides the columns, by field."""
        names = [field.name for field in fields(Ranking)]
        if any(name not in attributes for name in names):
            return {"asked": None}
        said = {name: attributes[name] for name in names}
        if isinstance(arrays, Stored) and not _makes_sense(arrays, **said):
            raise CorruptStoreError(
                f"{arrays.path}: what its attributes say was asked makes no sense; rank again"
            )
        for name in (PERSONALIZATION, DANGLING):
            if said[name] is not None:
                said[name] = Chances(name, said[name], arrays)
        return {"asked": Ranking(**said)}

    @property
    def pagerank(self) -> AnyArray:
        """Score of each vertex; all of them sum to 1: float64 (vertices,)."""
        return self.read(PAGERANK)


def _makes_sense(
    stored: Stored, alpha: Any, tol: Any, iterations: Any, weighted: Any, **chances: Any
) -> bool:
    has_tol = isinstance(tol, float) and 0 <= tol < inf
    return (
        isinstance(alpha, float)
        and 0 <= alpha <= 1
        and (tol is None or has_tol)
        and type(iterations) is int
        and 1 <= iterations < 1 << 63
        and isinstance(weighted, bool)
        and all(_are_there(stored, name, count) for name, count in chances.items())
    )


def _are_there(stored: Stored, name: str, count: Any) -> bool:
    """Whether a store has so many vertices and their chances."""
    if count is None:
        return True
    if type(count) is not int or count < 1:
        return False
    kinds = zip(array_names(name), (np.int64, np.float64), strict=True)
    return all(stored.spec(one) == ArraySpec(one, count, np.dtype(kind)) for one, kind in kinds)
