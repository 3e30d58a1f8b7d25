"""PageRank steps on the rows of one shard, or of a whole graph (CPU).

A rank takes 24 bytes a row in addition to its rows; all ranks share 8 bytes a row of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.kernels.common.pagerank import Settled
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.pagerank import steps
from ooc_graph.types import AnyArray, Dealing, IntArray, Rows

LIGHTEST_SUM = 2.0**-900
"""Sums of weights below this are refused: a score divided by one might be no finite number."""


Arcs: TypeAlias = tuple[int, AnyArray, AnyArray | None]
"""Arcs of consecutive rows: the number of the first, neighbours, and weights or None."""


class InArcs(Protocol):
    """In-arcs of a rank's rows, which are gone through once in each iteration.

    ``offsets``, int64 (rows + 1,): where each row begins among all of them.
    """

    offsets: IntArray
    is_weighted: bool

    def parts(self) -> Iterable[Arcs]:
        """All arcs in order; each part is valid until the next."""


class LoadedArcs:
    """Arcs in memory."""

    def __init__(self, rows: Rows) -> None:
        self.offsets, self.is_weighted = rows.offsets.view(np.int64), rows.weights is not None
        self._arcs = 0, rows.neighbors, rows.weights

    def parts(self) -> Iterable[Arcs]:
        """All arcs at once."""
        yield self._arcs


def out_weights(arcs: InArcs) -> AnyArray:
    """Number of the arcs of each row, or the sum of their weights: float64 (rows,).

    InputError: the weights of a row are too small or too large to divide by their sum.
    """
    if not arcs.is_weighted:
        return np.diff(arcs.offsets).astype(np.float64)
    out = np.zeros(len(arcs.offsets) - 1)
    for first, _, weights in arcs.parts():
        steps.add_weights(arcs.offsets, weights, first, out)
    if not ((out == 0) | ((out >= LIGHTEST_SUM) & np.isfinite(out))).all():
        raise InputError(
            "the weights of a vertex's arcs add up to more than float64 holds, or to almost 0",
            advice="scale the weights, or leave them out",
        )
    return out


class CpuPagerankShared:
    """What each vertex of the whole graph sends along its arcs, in host memory."""

    def __init__(self, vertices: int) -> None:
        self._vertices, self.sent = vertices, np.empty(0)

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Put together what the rows of every rank send."""
        if len(payloads) == 1:
            ((self.sent,),) = payloads
            return
        if len(self.sent) != self._vertices:
            self.sent = np.empty(self._vertices, payloads[0][0].dtype)
        for rank, (own,) in enumerate(payloads):
            Dealing(self._vertices, len(payloads), rank).put(own, self.sent)


class CpuPagerankRank:
    """PageRank steps on the rows of one shard.

    ``into`` are in-arcs; ``out`` is as of `out_weights`, of the out-arcs of the same rows.
    """

    def __init__(self, dealing: Dealing, into: InArcs, out: AnyArray, team: Team) -> None:
        self.dealing, self.arcs = dealing, int(into.offsets[-1])
        self._into, self._out, self._team, self._alpha = into, out, team, 0.0
        self._score, self._sums = np.zeros((2, dealing.rows), np.int64)

    def begin(self, start: int, alpha: float) -> Settled:
        """Give each own row the same number of units; a row sends ``alpha`` of its score."""
        self._alpha = alpha
        self._score[:] = self._sums[:] = 0
        return self._settle(start)

    def step(
        self, shared: CpuPagerankShared, every: int, rows: IntArray, extra: IntArray
    ) -> Settled:
        """One iteration; see `ooc_graph.kernels.common.pagerank.PagerankRank`."""
        for first, neighbors, weights in self._into.parts():
            along = (neighbors,) if weights is None else (neighbors, weights)
            gather = steps.gather if weights is None else steps.gather_weighted
            given = self._into.offsets, *along, first, shared.sent, self._sums
            self._team.launch(gather, new_control(), *given)
        self._sums[rows] += extra
        return self._settle(every)

    def scores(self) -> AnyArray:
        """The scores of the own rows, valid until the next `begin`."""
        return self._score

    def _settle(self, every: int) -> Settled:
        # Another array each time: the last one may still be on its way to other processes.
        dtype, half = (np.float64, 0.0) if self._into.is_weighted else (np.int64, 0.5)
        sent, control = np.empty(len(self._score), dtype), new_control()
        given = self._sums, self._score, every, self._alpha, self._out, sent, half
        self._team.launch(steps.settle, control, *given)
        return Settled(int(control[steps.CHANGED]), int(control[steps.DANGLING]), sent)
