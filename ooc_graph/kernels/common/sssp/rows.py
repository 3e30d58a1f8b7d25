"""Rows as SSSP kernels on the host take them, and what is known of their weights on any device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import decisions
from ooc_graph.kernels.common.tuning import WEIGHT_SPREAD
from ooc_graph.types import AnyArray, Rows

if TYPE_CHECKING:
    from ooc_graph.kernels.common.dealt import Dealt


class LightRows(NamedTuple):
    """Rows whose arcs ascend by weight, ties by id; offsets as int64.

    ``lightest`` (rows,) holds each row's first weight, the largest number of its dtype for a row
    without arcs: whether a row has anything to push is seen without touching the row.
    """

    offsets: AnyArray
    neighbors: AnyArray
    weights: AnyArray
    lightest: AnyArray


class Wave(NamedTuple):
    """State of a push over (rows,) vertices.

    ``distance`` is by internal id, everything else by row; ``dealt`` says which rows these are.
    ``taken`` counts, in all but its two lowest bits, the arcs of a row that were relaxed since
    its distance improved last. ``queue`` is a ring, every vertex at most once in it (bit `QUEUED`
    of ``taken``); ``pending`` lists the rows that wait above the bound (bit `WAITING`). ``first``
    holds the vertices reached first, as many as fit. ``top`` and ``bound`` are arrays
    (1,) of the distances' dtype: the distance of what is not reached, and scratch; ``step`` (1,)
    float64 says how far the bound rises.
    """

    distance: AnyArray
    taken: AnyArray
    queue: AnyArray
    pending: AnyArray
    first: AnyArray
    top: AnyArray
    bound: AnyArray
    step: AnyArray
    dealt: Dealt


def plain_rows(rows: Rows) -> LightRows:
    """Rows as kernels take them; no weight is kept apart."""
    assert rows.weights is not None
    return LightRows(rows.offsets.view(np.int64), rows.neighbors, rows.weights, rows.weights[:0])


SAMPLED_ROWS = 4096
"""At most this many of the first 1 % of the rows are looked at to choose a strategy."""


MOST_FIRST = 4096
"""Vertices that are pushed whole, with all of their arcs, are among this many reached first."""


@dataclass(frozen=True)
class Survey:
    """What the first 1 % of some rows are like: the ground for the strategy."""

    head_tuples: int
    tuples: int
    spread_rows: int
    sampled_rows: int
    step: float

    @property
    def head_share(self) -> float:
        """Share of the input tuples at the first 1 % of the rows."""
        return self.head_tuples / max(self.tuples, 1)


def survey(rows: LightRows | Rows, tuples: AnyArray) -> Survey:
    """Look at the first 1 % of the rows (`SAMPLED_ROWS` at most for the weights)."""
    assert rows.weights is not None
    sampled = sampled_rows(len(tuples))
    begin, end = rows.offsets[:sampled], rows.offsets[1 : sampled + 1]
    begin, end = begin[begin < end], end[begin < end]
    head = int(tuples[: first_rows(len(tuples))].sum(dtype=np.uint64))
    total = int(tuples.sum(dtype=np.uint64))
    return survey_of(head, total, rows.weights[begin], rows.weights[(begin + end) // 2])


def first_rows(rows: int) -> int:
    """The first 1 % of so many rows, one at least."""
    return max(1, rows // 100)


def sampled_rows(rows: int) -> int:
    """Rows whose weights a survey looks at, of so many."""
    return min(SAMPLED_ROWS, first_rows(rows), rows)


def survey_of(head: int, total: int, lightest: AnyArray, typical: AnyArray) -> Survey:
    """What follows from the tuples at the `first_rows` and at all, and from two weights a row.

    These are the first and the middle weight of each of the `sampled_rows` that has arcs.
    """
    light, middle = lightest.astype(np.float64), typical.astype(np.float64)
    # The mean of two in the middle may overflow. An infinite step is right, too.
    with np.errstate(over="ignore"):
        medians = [float(np.median(w)) if len(w) else 0.0 for w in (light, middle)]
    spread_rows = int((light <= middle / WEIGHT_SPREAD).sum())
    return Survey(head, total, spread_rows, len(light), decisions.first_step(*medians))


def may_pull(found: Survey) -> bool:
    """`pull_pays` of what a survey found."""
    return decisions.pull_pays(found.head_share, found.spread_rows / max(found.sampled_rows, 1))


@dataclass(frozen=True)
class Known:
    """What is known of all weights when the heads are loaded; ``heaviest`` is the largest."""

    survey: Survey
    heaviest: Any
