"""Rules for PageRank, from the arcs and the answer alone.

An iteration makes ``A(x) = alpha P x + (1 - alpha) jump`` of scores x. P moves the score of each
vertex along its out-arcs, or to where it lands if there are none, so that its columns sum to 1. So
A brings any two vectors closer by the factor ``alpha``, in the sum of absolute differences (L1).
For the true ranks t, which A leaves as they are,

    |x - t| <= |x - A(x)| / (1 - alpha)

follows for any x: one iteration proves how far an answer is from them, however it was found.

If iterations ended once they changed the scores by less than ``vertices * tol``, one more changes
them by less than ``alpha * vertices * tol``. If that is much, or a number of iterations was asked
for, they are done again. Few are, in the first case: the k-th changes scores by at most
``2 * alpha**(k - 1)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_UP, Context
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError, ValidationFailedError
from ooc_graph.types import AnyArray
from ooc_graph.validate import pagerank_loops as loops
from ooc_graph.validate.answers import MOST_ALLOWED, PagerankAnswer, VertexIndex
from ooc_graph.validate.arc_pass import ArcPass
from ooc_graph.validate.tally import NO_ID
from ooc_graph.validate.trees import require_lengths
from ooc_graph.validate.wording import RULE_KNOWN, Problem, Verdict

RULE_SCORE = "score from 0 to 1"
RULE_SUM = "sum of the scores"
RULE_CONVERGED = "change by another iteration"
RULE_ITERATIONS = "scores of as many iterations"

_SCALE = 2.0**61
"""Units in 1. Answers are in the same, up to the rounding to float64; twice this fits int64."""
_EPS = 2.0**-53
_PIECE = 1 << 16
"""Scores jump to this many vertices at a time, so that few chances are in memory twice."""
_ROUNDINGS = 20
"""More than the operations in float64 that make a term of an iteration."""


@dataclass(frozen=True)
class PagerankVerdict(Verdict):
    """What the rules say about PageRank, which has no root: it is -1.

    ``reached`` counts all vertices, and ``edges`` those of the graph. ``error_bound`` is a proven
    upper bound on the L1 distance from the true ranks, rounded up to three digits; a wrong answer
    has one, too. None if a broken rule makes the scores useless for it.
    """

    error_bound: float | None = None

    @property
    def found(self) -> str:
        """What an answer that holds is said to have."""
        return f"{self.reached:,} vertices, {self.edges:,} edges; {_proven(self.error_bound)}"

    def raise_if_failed(self) -> None:
        """Raise `ValidationFailedError` naming rule and culprit unless the answer holds."""
        if not self.ok:
            raise ValidationFailedError(f"the PageRank breaks rule '{self.rule}': {self.message}")


def _proven(bound: float | None) -> str:
    return f"L1 distance from the true ranks at most {bound:g}"


class PagerankValidator:
    """Checks one answer in some passes over the arcs, each of which is there once.

    ``show`` makes a pass. Arcs go one way if they are ``directed``, and count by their weights if
    they are ``weighted``. Memory: `pagerank_bytes`.
    """

    def __init__(
        self,
        answer: PagerankAnswer,
        show: Callable[[ArcPass], object],
        *,
        directed: bool,
        weighted: bool,
    ) -> None:
        self.answer, self._show, self._directed = answer, show, directed
        self._weighted, self._count = weighted, answer.vertices.count
        self._out = np.zeros(self._count)
        self._score, self._sums = np.zeros((2, self._count), np.int64)
        self._tuples = self._most_added = 0

    def verdict(self) -> PagerankVerdict:
        """Outcome of all rules."""
        if (unfit := loops.first_unfit(self.answer.score)) >= 0:
            return self._verdict((RULE_SCORE, self._of(unfit)))
        arcs = ArcPass(self.answer.vertices, self._add_out_weights, is_first=True)
        self._show(arcs)
        self._tuples, self._most_added = arcs.tuples, int(self._sums.max())
        if arcs.unknown != NO_ID:
            said = f"an edge names vertex {arcs.unknown}, the answer does not"
            return self._verdict((RULE_KNOWN, said))
        total, off = self.answer.score.sum(), self._off(self.answer.iterations + 1)
        if off > MOST_ALLOWED:
            raise UsageError(
                f"is said to be of {self.answer.iterations:,} iterations, whose roundings alone "
                f"may change all scores together by {off:.3g}"
            )
        if abs(total - 1) > off:
            return self._verdict((RULE_SUM, f"the scores sum to {total}, not 1"))
        problem = self._iterations_problem() if self.answer.repeated else None
        loops.round_scores(self.answer.score, _SCALE, self._score)
        self._step()
        changed, most = self._apart()
        problem = problem or self._change_problem(changed, most)
        return self._verdict(problem, self._bound(changed))

    def _verdict(self, problem: Problem | None, bound: float | None = None) -> PagerankVerdict:
        seen = (0, 0) if bound is None else (self._count, self._tuples)
        rule, said = problem or ("", "")
        if problem is not None and bound is not None:
            said += f"; {_proven(bound)}"
        return PagerankVerdict(-1, problem is None, rule, said, *seen, bound)

    def _change_problem(self, changed: float, most: int) -> Problem | None:
        allowed, tol = self.answer.allowed, self.answer.tol
        if changed <= allowed + self._off(1):
            return None
        return RULE_CONVERGED, (
            f"all scores together change by {changed:.3g}, tol {tol:g} allows {allowed:.3g}; "
            f"{self._of(most)}, and then {self._sums[most] / _SCALE}"
        )

    def _iterations_problem(self) -> Problem | None:
        done = self.answer.repeated
        self._score.fill(round(_SCALE / self._count))
        for _ in range(done):
            self._step()
            self._score, self._sums = self._sums, self._score
        loops.round_scores(self.answer.score, _SCALE, self._sums)
        off, most = self._apart()
        if off <= self._off(done + 1):
            return None
        right = self._score[most] / _SCALE
        iterations = f"{done} iterations give" if done > 1 else "1 iteration gives"
        return RULE_ITERATIONS, f"{self._of(most)}, and {iterations} {right}"

    def _of(self, position: int) -> str:
        vertex = self.answer.vertices.id_of(position)
        return f"vertex {vertex} has score {self.answer.score[position]}"

    def _bound(self, changed: float) -> float:
        """How far the scores are from the true ranks, at most; none that sum to 1 are over 2."""
        rest = 1 - self.answer.alpha
        bound = (changed + self._off(1)) / rest if rest else 2.0
        upward = Context(prec=3, rounding=ROUND_UP)
        return min(2.0, float(upward.create_decimal_from_float(bound)))

    def _off(self, iterations: int) -> float:
        """How much so many iterations may be off by rounding, there and here, all scores together.

        An iteration rounds each arc and, twice, each vertex to a unit there and here, and passes
        the share ``alpha`` of what was off before on. A sum of weights has a rounding for each arc
        of its vertex.
        """
        arcs = self._tuples * (1 if self._directed else 2)
        each = (arcs + 2 * self._count) / _SCALE + 2 * (_ROUNDINGS + self._most_added) * _EPS
        rest = 1 - self.answer.alpha
        return each * (min(iterations, 1 / rest) if rest else iterations)

    def _add_out_weights(self, source: AnyArray, target: AnyArray, weight: Any) -> None:
        """Sum the weights of each vertex; the sums of the iterations count them meanwhile."""
        if self._weighted:
            require_lengths(weight)
        how = self._weights(weight), self._directed
        loops.add_out_weights(source, target, *how, self._out, self._sums)

    def _add_arriving(self, source: AnyArray, target: AnyArray, weight: Any) -> None:
        how, state = (self._weights(weight), self._directed), (self._score, self._out)
        loops.add_arriving(source, target, *how, state, self.answer.alpha, self._sums)

    def _weights(self, given: Any) -> AnyArray | None:
        """Weights as the loops take them: of one type, for which these are compiled."""
        return given.astype(np.float64, copy=False) if self._weighted else None

    def _step(self) -> None:
        """Make the sums what an iteration makes of the scores."""
        asked = self.answer
        self._sums.fill(0)
        self._show(ArcPass(asked.vertices, self._add_arriving))
        spread = asked.alpha * loops.sum_without_arcs(self._score, self._out)
        for units, chances in (
            ((1 - asked.alpha) * _SCALE, asked.jump),
            (spread, asked.landing),
        ):
            if chances is None:
                self._sums += round(units / self._count)
                continue
            for first in range(0, len(chances[0]), _PIECE):
                where, chance = (one[first : first + _PIECE] for one in chances)
                self._sums[where] += np.rint(units * chance).astype(np.int64)

    def _apart(self) -> tuple[float, int]:
        """How far scores and sums are apart, and the position where most."""
        most = np.zeros(1, np.int64)
        return loops.apart(self._score, self._sums, most) / _SCALE, int(most[0])


LISTED_BYTES = 24
"""Memory of a vertex in a list of chances: its id, or position, and its chance."""


def pagerank_bytes(vertices: VertexIndex, _: int) -> int:
    """Memory of a validation without the answer: sums of weights, scores, and what arrives."""
    return 24 * vertices.count
