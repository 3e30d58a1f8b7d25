"""PageRank by original id, and what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from math import fsum, inf
from typing import Any, TypeAlias

from ooc_graph.answers.result import Result
from ooc_graph.layout.names import PAGERANK, VERTEX
from ooc_graph.types import AnyArray

Chances: TypeAlias = list[Any]
"""Two lists: original ids of some vertices, ascending, and chances, which sum to 1."""


@dataclass(frozen=True)
class Ranking:
    """What was asked of PageRank, as an answer's attributes say it.

    ``tol`` is None if exactly ``iterations`` were asked for; else these were needed. ``weighted``:
    whether arcs counted by their weights. ``personalization`` and ``dangling`` are None of all
    vertices alike.
    """

    alpha: float
    tol: float | None
    iterations: int
    weighted: bool
    personalization: Chances | None
    dangling: Chances | None

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Ranking | None:
        """What attributes say; None if they do not say all of it, or it makes no sense."""
        names = [field.name for field in fields(cls)]
        if any(name not in attributes for name in names):
            return None
        said: dict[str, Any] = {name: attributes[name] for name in names}
        return cls(**said) if _makes_sense(**said) else None


def _makes_sense(
    alpha: Any, tol: Any, iterations: Any, weighted: Any, personalization: Any, dangling: Any
) -> bool:
    has_tol = isinstance(tol, float) and 0 <= tol < inf
    return (
        isinstance(alpha, float)
        and 0 <= alpha <= 1
        and (tol is None or has_tol)
        and type(iterations) is int
        and iterations >= 1
        and isinstance(weighted, bool)
        and _are_chances(personalization)
        and _are_chances(dangling)
    )


def _are_chances(given: Any) -> bool:
    if given is None:
        return True
    is_pair = isinstance(given, list) and [type(one) for one in given] == [list, list]
    if not is_pair or len(given[0]) != len(given[1]):
        return False
    vertex, chance = given
    if any(type(v) is not int for v in vertex) or any(type(c) is not float for c in chance):
        return False
    ascends = all(a < b for a, b in pairwise([-1, *vertex, 1 << 63]))
    return ascends and all(0 <= c <= 1 for c in chance) and abs(fsum(chance) - 1) < 1e-9


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
    def facts(cls, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """What attributes say besides the columns, by field."""
        return {"asked": Ranking.of(attributes)}

    @property
    def pagerank(self) -> AnyArray:
        """Score of each vertex; all of them sum to 1: float64 (vertices,)."""
        return self.read(PAGERANK)
