"""What a device offers to `traverse.pagerank`; no implementation here, and no numba.

Scores of vertices are integers in units of ``1 / SCALE``. Sums of integers are the same in any
order, so that an answer has the same bits whatever the threads, ranks and tiers (decision 0080).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ooc_graph.kernels.common.decisions import Answer
from ooc_graph.types import AnyArray, Dealing, IntArray

SCALE = 1 << 61
"""Units in 1, which all ranks sum to: they fit int64 with room for what rounding adds, and so does
the sum of all changes, which is 2 at most."""


@dataclass(frozen=True)
class PagerankScores(Answer):
    """PageRank on the rows of one rank, in host memory.

    ``score``, int64 (rows,): in units of ``1 / SCALE``. Without axes, int64, and the same on all
    ranks: ``dangling``, the sum of the scores of all vertices without out-arcs before the last
    iteration, from which the scores of vertices without arcs follow; and ``iterations``.
    ``elapsed_s`` and ``phase_arcs`` are as of `ComponentLabels`.
    """

    score: AnyArray
    dangling: AnyArray
    iterations: AnyArray
    elapsed_s: float
    phase_arcs: dict[str, int]


class Settled(NamedTuple):
    """What came of an iteration on the own rows.

    ``changed`` is the sum of the absolute changes of their scores, ``dangling`` the sum of the
    scores of those without out-arcs, both in units. ``sent`` (rows,) is what each row sends along
    each of its arcs: int64 units; or, with weights, float64 units for a weight of 1.
    """

    changed: int
    dangling: int
    sent: AnyArray


class PagerankShared(Protocol):
    """What every vertex sends along its arcs, one of it in a process; `merge` alone changes it.

    A payload of one array is what the rows of a rank send.
    """

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Take every rank's."""


class PagerankRank(Protocol):
    """Steps on the rows of one shard."""

    dealing: Dealing
    arcs: int
    """In-arcs of its rows."""

    def begin(self, start: int, alpha: float) -> Settled:
        """Give each own row the same number of units; a row sends ``alpha`` of its score."""

    def step(self, shared: PagerankShared, every: int, rows: IntArray, extra: IntArray) -> Settled:
        """One iteration: what arrives along in-arcs, ``every`` units for each row, and ``extra``.

        ``extra`` (k,) are units for some ``rows`` (k,), local and each once.
        """

    def scores(self) -> AnyArray:
        """The scores of the own rows, valid until the next `begin`: int64 (rows,)."""


def scaled(value: AnyArray | float) -> IntArray:
    """Values of 0 to 1 in units, rounded to the nearest."""
    return np.rint(np.multiply(value, float(SCALE))).astype(np.int64)
