"""PageRank over many ranks by power iteration; each iteration is one superstep [1]_.

A vertex v with arcs gets the sum of what arrives along its in-arcs, and a share of what is spread:

    score(v) = sum of alpha * score(u) * w(u, v) / W(u) over all arcs (u, v)
               + (1 - alpha) * jump(v) + alpha * D * landing(v)

W(u) is the sum of the weights of u's out-arcs, or their number. D is the sum of the scores of the
vertices without. The chances ``jump`` and ``landing`` each sum to 1 over all vertices. Vertices
without arcs have scores, too, but no rows: every rank keeps account of all of them, which are alike
unless they are listed in the chances.

Scores are integers (`ooc_graph.kernels.common.pagerank`), so ranks find what one rank finds.

References
----------
.. [1] L. Page, S. Brin, R. Motwani, T. Winograd, "The PageRank citation ranking: bringing order to
   the Web", 1999.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.errors import ConvergenceError
from ooc_graph.exchange.interface import Share, Superstep, World
from ooc_graph.kernels.common.pagerank import (
    SCALE,
    PagerankRank,
    PagerankScores,
    PagerankShared,
    Settled,
    scaled,
)
from ooc_graph.types import AnyArray, IntArray, distinct

Chances = tuple[tuple[int, ...], tuple[float, ...]]
"""Positions of some vertices among all, ascending, and chances, which sum to 1."""


@dataclass(frozen=True)
class Problem:
    """What is asked for.

    ``jump`` and ``landing`` are chances; None: the same for every vertex. If there is a ``tol``,
    iterations end once the scores have changed by less than this for each vertex, and
    ConvergenceError says so if ``most`` were not enough. Else there are so many.
    """

    alpha: float
    most: int
    tol: float | None = None
    jump: Chances | None = None
    landing: Chances | None = None

    def arriving(self, jump: Any, landing: Any, dangling: int) -> IntArray:
        """Units that vertices of these chances get, if so many are at those without out-arcs."""
        share = self.alpha * (dangling / SCALE)
        return scaled((1 - self.alpha) * np.asarray(jump) + share * np.asarray(landing))

    def every(self, vertices: int, dangling: int) -> int:
        """Units that every vertex gets."""
        equal = 1 / vertices
        alike = equal if self.jump is None else 0.0, equal if self.landing is None else 0.0
        return int(self.arriving(*alike, dangling))

    def listed(self) -> Listed:
        """The vertices that are listed in the chances."""
        both, chances = (self.jump, self.landing), []
        listed = [np.asarray(one[0], np.int64) for one in both if one is not None]
        position = distinct(np.concatenate([np.empty(0, np.int64), *listed]))
        for one in both:
            chance = np.zeros(len(position))
            if one is not None:
                chance[np.searchsorted(position, one[0])] = one[1]
            chances.append(chance)
        return Listed(position, *chances)


class Listed(NamedTuple):
    """Some vertices, by position or local row, int64 (k,), and their chances, float64 (k,)."""

    vertex: IntArray
    jump: AnyArray
    landing: AnyArray

    def those(self, chosen: AnyArray, vertex: IntArray) -> Listed:
        """Some of them, by other names."""
        return Listed(vertex, self.jump[chosen], self.landing[chosen])


class Isolated:
    """Scores of the vertices without arcs: of those that are listed, and of each of the others."""

    def __init__(self, count: int, listed: Listed) -> None:
        self._count, self.listed = count - len(listed.vertex), listed
        self._every, self._scores = 0, np.zeros(len(listed.vertex), np.int64)
        self.changed = 0

    @property
    def mass(self) -> int:
        """Sum of their scores, in units."""
        return self._count * self._every + int(self._scores.sum())

    def settle(self, every: int, extra: IntArray | int) -> None:
        """Give each so many units, and ``extra`` to those that are listed."""
        scores = np.zeros_like(self._scores) + every + extra
        self.changed = self._count * abs(every - self._every)
        self.changed += int(np.abs(scores - self._scores).sum())
        self._every, self._scores = every, scores


def pagerank(
    rank: PagerankRank,
    shared: PagerankShared,
    problem: Problem,
    vertices: int,
    own: Listed,
    isolated: Isolated,
) -> Superstep[PagerankScores]:
    """Find the PageRank of the rows of one rank of many, in a graph of so many ``vertices``.

    ``shared`` is this process's account of what vertices send along their arcs, made new for each
    search. Ranks `Share` how much their rows have changed, what those without out-arcs have, and
    what each row sends. ``own`` are the listed ones of the own rows, by local row; ``isolated`` is
    this rank's account of the vertices without arcs.
    """
    start, dangling, done = int(scaled(1 / vertices)), 0, 0
    isolated.settle(start, 0)
    settled: Settled = rank.begin(start, problem.alpha)
    while problem.tol is not None or done < problem.most:
        world: World = yield Share((settled.changed, settled.dangling), (settled.sent,))
        change = (world.counts[0] + isolated.changed) / SCALE
        if problem.tol is not None and done:
            if change < vertices * problem.tol:
                break
            if done == problem.most:
                raise ConvergenceError(done, change, vertices * problem.tol)
        dangling = world.counts[1] + isolated.mass
        every = problem.every(vertices, dangling)
        extra = problem.arriving(own.jump, own.landing, dangling)
        elsewhere = isolated.listed
        isolated.settle(every, problem.arriving(elsewhere.jump, elsewhere.landing, dangling))
        settled = rank.step(shared, every, own.vertex, extra)
        done += 1
    arcs = {"gather": done * rank.arcs}
    return PagerankScores(rank.scores(), np.array(dangling), np.array(done), 0.0, arcs)


def warming(rank: PagerankRank, shared: PagerankShared) -> Superstep[PagerankScores]:
    """As `pagerank`, two iterations on two vertices."""
    problem = Problem(0.5, 2)
    none = problem.listed()
    return pagerank(rank, shared, problem, 2, none, Isolated(0, none))
