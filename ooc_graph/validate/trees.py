"""Graph500's rules for breadth-first search and for single-source shortest paths.

Specification 3.0, section on validation, and the v3 reference code. BFS: the tree has no cycles;
each tree edge joins levels that differ by one; every edge joins levels that differ by at most one,
or two unreached vertices; the tree spans the root's component; every tree edge is an input edge.
For arcs of a directed graph: none leaves the reached vertices, none goes down by more than one.

SSSP: sums are exact in the distances' own dtype, ``fl`` in the messages. A tree edge (p, v) must be
an input edge of some weight w with ``fl(d(p) + w) == d(v)``; no edge may offer a shorter way;
reached and unreached vertices are never joined. Also asked for, since weights may be zero: that the
parents form no cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ooc_graph.errors import InputError, NegativeWeightError, UsageError
from ooc_graph.types import AnyArray, EdgeBlock
from ooc_graph.validate import wording
from ooc_graph.validate.answers import BfsAnswer, SsspAnswer
from ooc_graph.validate.planes import EIGHT_BITS, FOUR_BITS
from ooc_graph.validate.validator import Validator

_UNREACHED = np.uint32(np.iinfo(np.uint32).max)  # -1 in a column of int32


class BfsValidator(Validator[BfsAnswer]):
    """Checks breadth-first trees in one pass over the edges; see `Validator`."""

    _wording = wording.BFS
    _is_level = True

    def _measured(self, answer: BfsAnswer) -> tuple[AnyArray, Any]:
        return answer.level, np.int32(-1)

    def _column(self, answer: BfsAnswer) -> tuple[AnyArray, Any]:
        return answer.level.view(np.uint32), _UNREACHED

    def _least(self, answer: BfsAnswer) -> Any:
        largest = answer.level.max(initial=0)
        return next((least for least in (FOUR_BITS, EIGHT_BITS) if largest < least), _UNREACHED)

    def _weight(self, edges: EdgeBlock) -> None:
        del edges  # levels count arcs, whatever they weigh


class SsspValidator(Validator[SsspAnswer]):
    """Checks shortest-path trees in one pass over the edges; see `Validator`.

    `block` raises `InputError` for edges without weights, and for weights that are not finite or
    that the distances' dtype cannot hold; `NegativeWeightError` for negative ones.
    """

    _wording = wording.SSSP
    _is_level = False

    def __init__(self, answers: Iterable[SsspAnswer], **options: Any) -> None:
        self._dtype: np.dtype[Any] | None = None
        super().__init__(answers, **options)

    def _measured(self, answer: SsspAnswer) -> tuple[AnyArray, Any]:
        if self._dtype not in (None, answer.distance.dtype):
            raise UsageError("the answers of one validation must have distances of one dtype")
        self._dtype = answer.distance.dtype
        return answer.distance, answer.unreached

    def _weight(self, edges: EdgeBlock) -> AnyArray | None:
        if self._dtype is None:  # no answers
            return edges.weight
        given: Any = edges.weight
        require_weights(given, self._dtype)
        weight: AnyArray = given.astype(self._dtype, copy=False)
        require_lengths(weight)
        return weight


def require_weights(weight: Any, dtype: np.dtype[Any]) -> None:
    """Refuse weights, in host memory or on a device, that distances cannot be sums of."""
    if weight is None:
        raise InputError("SSSP cannot be validated against edges without weights")
    if not np.can_cast(weight.dtype, dtype, casting="safe"):
        raise InputError(f"weights are {weight.dtype}, the distances to validate {dtype}")


def require_lengths(weight: AnyArray) -> None:
    """Refuse weights that are negative or not finite."""
    if len(weight) and not (weight.min() >= 0 and weight.max() < np.inf):
        if np.any(weight < 0):
            raise NegativeWeightError(f"the edges have a negative weight, {weight.min()}")
        raise InputError("the edges have a weight that is not a finite number")
