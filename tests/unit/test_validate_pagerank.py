"""Rules for PageRank: right answers pass, each mistake is named, and what is proven is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ooc_graph.errors import NegativeWeightError, UsageError, ValidationFailedError
from ooc_graph.runtime.validation import check_edges
from ooc_graph.types import EdgeBlock
from ooc_graph.validate import PagerankAnswer, PagerankValidator, PagerankVerdict, VertexIndex
from tests import oracles
from tests.validating import validate_pagerank

N, IDS = 60, VertexIndex.ascending(np.arange(60) * 3 + 10)
JUMP = np.array([0, 7, 41]), np.array([0.5, 0.25, 0.25])
LANDING = np.array([3, 59]), np.array([0.75, 0.25])
SOME = {"jump": JUMP, "landing": JUMP}
ASKED: list[dict[str, Any]] = [
    {"tol": 1e-12},
    {"tol": 1e-12, "alpha": 0.5, **SOME},
    {"tol": 1e-6, "landing": LANDING},
    {"iterations": 1},
    {"iterations": 9, "jump": JUMP, "landing": LANDING},
    {"iterations": 4, "alpha": 1.0},
    {"tol": 1e-12, "alpha": 0.0, **SOME},
    {"tol": 0.04, "iterations": 1},
]


def edges(*, directed: bool) -> EdgeBlock:
    """Pairs by original id, each once; some vertices have no out-arcs, and the last has none."""
    draw = np.random.default_rng(5)
    ends = draw.integers(0, N - 1, (2, 150))
    ends = ends[:, (ends[0] != ends[1]) & (ends[0] % 5 > 0)]
    source, target = np.unique(ends if directed else np.sort(ends, axis=0), axis=1) * 3 + 10
    return EdgeBlock(source, target, draw.integers(0, 9, len(source)) / 4)


def ranked(block: EdgeBlock, asked: dict[str, Any], *, directed: bool, weighted: bool) -> Any:
    """The answer of plain floats, and the true ranks."""
    given: dict[str, Any] = {"alpha": 0.85, "tol": None, "iterations": 250} | asked
    rows: list[list[tuple[int, float]]] = [[] for _ in range(N)]
    weights = block.weight if weighted else np.ones(len(block))
    ends = IDS.positions(block.source), IDS.positions(block.target), weights
    for u, v, w in zip(*(one.tolist() for one in ends), strict=True):
        rows[u].append((v, w))
        if not directed:
            rows[v].append((u, w))
    chances = [given.get(name) for name in ("jump", "landing")]
    plain = [None if one is None else dict(zip(*one, strict=True)) for one in chances]
    score, true = (
        np.array(oracles.pagerank(rows, given["alpha"], done, *plain))
        for done in (given["iterations"], 400)
    )
    return PagerankAnswer(score, IDS, **given), true


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_right_answers_pass_and_are_as_near_as_is_said(
    asked: dict[str, Any], *, directed: bool, weighted: bool
) -> None:
    block, ways = edges(directed=directed), {"directed": directed, "weighted": weighted}
    answer, true = ranked(block, asked, **ways)
    verdict = validate_pagerank(answer, [block], **ways)
    assert (verdict.ok, verdict.rule, verdict.message) == (True, "", "")
    assert (verdict.root, verdict.reached, verdict.edges) == (-1, N, len(block))
    bound: Any = verdict.error_bound
    if answer.alpha == 1:
        assert bound == 2
        return
    assert np.abs(answer.score - true).sum() <= bound
    # After so many iterations two neighbours are no farther apart.
    last = answer.alpha**answer.iterations * 2 / (1 - answer.alpha)
    assert bound <= last + 2e-12
    verdict.raise_if_failed()


def swapped(score: np.ndarray) -> np.ndarray:
    ends = [score.argmin(), score.argmax()]
    score[ends] = score[ends[::-1]]
    return score


def with_one(vertex: int, value: float, other: int | None = None) -> Any:
    """A change of one score; what it loses goes to another."""

    def change(score: np.ndarray) -> np.ndarray:
        if other is not None:
            score[other] += score[vertex] - value
        score[vertex] = value
        return score

    return change


TO_TOL: dict[str, Any] = {"tol": 1e-12, "landing": LANDING}
BY_NUMBER: dict[str, Any] = {"iterations": 12, "landing": LANDING}
TO_ANYTHING: dict[str, Any] = {"tol": 0.04, "iterations": 1}
MISTAKES: list[tuple[dict[str, Any], dict[str, Any], Any, str, str]] = [
    (TO_TOL, {}, with_one(7, np.nan), "score from 0 to 1", "vertex 31 has score nan"),
    (TO_TOL, {}, with_one(7, -1e-9), "score from 0 to 1", "vertex 31 has score -1e-09"),
    (TO_TOL, {}, with_one(7, 1.5), "score from 0 to 1", "vertex 31 has score 1.5"),
    (TO_TOL, {}, with_one(7, np.inf), "score from 0 to 1", "vertex 31 has score inf"),
    (TO_TOL, {}, lambda score: score * (1 + 1e-9), "sum of the scores", "sum to 1.0000000"),
    (TO_TOL, {}, np.ones_like, "sum of the scores", "sum to 60.0, not 1"),
    (TO_TOL, {}, swapped, "change by another iteration", ", tol 1e-12 allows 5.1e-11; vertex"),
    (TO_TOL, {}, with_one(7, 0.0, 8), "change by another iteration", "has score 0.0, and then"),
    (TO_TOL, {"alpha": 0.84}, None, "change by another iteration", "all scores together change by"),
    (TO_TOL, {"jump": JUMP}, None, "change by another iteration", "all scores together change by"),
    (
        TO_TOL,
        {"landing": None},
        None,
        "change by another iteration",
        "all scores together change by",
    ),
    (
        BY_NUMBER,
        {"tol": 1e-12},
        None,
        "change by another iteration",
        "all scores together change by",
    ),
    (BY_NUMBER, {}, swapped, "scores of as many iterations", ", and 12 iterations give"),
    (BY_NUMBER, {}, with_one(7, 0.0, 8), "scores of as many iterations", "has score 0.0, and 12"),
    (BY_NUMBER, {"alpha": 0.84}, None, "scores of as many iterations", "12 iterations give"),
    (BY_NUMBER, {"iterations": 13}, None, "scores of as many iterations", "13 iterations give"),
    (BY_NUMBER, {"jump": JUMP}, None, "scores of as many iterations", "12 iterations give"),
    (TO_ANYTHING, {}, swapped, "scores of as many iterations", ", and 1 iteration gives"),
    (TO_ANYTHING, {"iterations": 2}, None, "scores of as many iterations", "2 iterations give"),
]


@pytest.mark.parametrize(("asked", "said_of_it", "change", "rule", "said"), MISTAKES)
def test_every_mistake_is_named(
    asked: dict[str, Any], said_of_it: dict[str, Any], change: Any, rule: str, said: str
) -> None:
    block = edges(directed=True)
    right, true = ranked(block, asked, directed=True, weighted=False)
    score = right.score.copy()
    answer = replace(right, **said_of_it, **({"score": change(score)} if change else {}))
    verdict = validate_pagerank(answer, [block], directed=True)
    assert (verdict.ok, verdict.rule) == (False, rule)
    assert said in verdict.message
    if change is not None and verdict.error_bound is not None:
        assert np.abs(answer.score - true).sum() <= verdict.error_bound
        assert verdict.message.endswith(f" at most {verdict.error_bound:g}")
    with pytest.raises(ValidationFailedError, match=f"the PageRank breaks rule '{rule}'"):
        verdict.raise_if_failed()


@pytest.mark.parametrize("asked", [TO_TOL, BY_NUMBER], ids=["tol", "iterations"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_answer_of_another_graph(asked: dict[str, Any], *, weighted: bool) -> None:
    """An arc is missing, or goes the other way, or weighs more, or weights do not count."""
    block, ways = edges(directed=True), {"directed": True, "weighted": weighted}
    answer, _ = ranked(block, asked, **ways)
    ends, weight = (block.source, block.target), block.weight
    assert weight is not None
    is_one = np.arange(len(block)) == weight.argmax()
    turned = [np.where(is_one, *both) for both in (ends[::-1], ends)]
    others = [EdgeBlock(*(one[~is_one] for one in (*ends, weight))), EdgeBlock(*turned, weight)]
    if weighted:
        others.append(EdgeBlock(*ends, weight + is_one))
    verdicts = [validate_pagerank(answer, [other], **ways) for other in others]
    verdicts.append(validate_pagerank(answer, [block], directed=True, weighted=False))
    verdicts.append(validate_pagerank(answer, [block], directed=False, weighted=weighted))
    rule = "change by another iteration" if "tol" in asked else "scores of as many iterations"
    wanted = [rule] * len(others) + [rule if weighted else "", rule]
    assert [one.rule for one in verdicts] == wanted


def test_edges_that_do_not_fit() -> None:
    block = edges(directed=True)
    answer, _ = ranked(block, TO_TOL, directed=True, weighted=False)
    stray = EdgeBlock(np.array([11, 10]), np.array([13, 12]))
    verdict = validate_pagerank(answer, [block, stray], directed=True)
    assert (verdict.rule, verdict.error_bound) == ("known vertices", None)
    assert verdict.message == "an edge names vertex 11, the answer does not"
    negative = EdgeBlock(np.array([10]), np.array([13]), np.array([-1.0]))
    with pytest.raises(NegativeWeightError):
        validate_pagerank(answer, [negative], directed=True, weighted=True)


def test_what_is_no_pagerank_is_refused() -> None:
    right, _ = ranked(edges(directed=True), TO_TOL, directed=True, weighted=False)
    for score in (right.score[1:], right.score.astype(np.float32), right.score[None]):
        with pytest.raises(UsageError, match=r"for 60 vertices|are float64, not float32"):
            replace(right, score=score)
    half = np.full(2, 0.5)
    for vertex, chance in (
        ([-1, 3], half),
        ([3, 3], half),
        ([4, 3], half),
        ([3, N], half),
        ([3, 4, 5], half),
        ([3, 4], np.array([1.5, -0.5])),
        ([3, 4], np.array([0.5, np.nan])),
        ([3, 4], half / 2),
        ([3, 4], half.astype(np.float32)),
        ([], half[:0]),
    ):
        for name in ("jump", "landing"):
            with pytest.raises(UsageError, match="vertices in ascending order, and their chances"):
                replace(right, **{name: (np.array(vertex), chance)})


def test_iterations_that_nobody_did_are_refused() -> None:
    """If they moved scores as they may, any would be right."""
    asked = {"alpha": 1.0, "iterations": 10**18}
    answer = PagerankAnswer(np.ones(N), IDS, tol=1e-12, **asked)
    with pytest.raises(UsageError, match="of 1,000,000,000,000,000,000 iterations, whose"):
        validate_pagerank(answer, [edges(directed=True)], directed=True)


def test_iterations_that_change_nothing_are_not_repeated() -> None:
    block = edges(directed=True)
    answer, _ = ranked(block, {"iterations": 300}, directed=True, weighted=False)
    answer = replace(answer, iterations=10**18)
    assert answer.passes < 300
    assert validate_pagerank(answer, [block], directed=True).ok


def test_roundings_are_those_of_the_arcs_that_a_vertex_has() -> None:
    block, ways = edges(directed=True), {"directed": True, "weighted": True}
    answer, _ = ranked(block, {"iterations": 40}, **ways)
    assert validate_pagerank(answer, [block], **ways).ok
    answer.score[[3, 4]] += 3e-14, -3e-14
    assert validate_pagerank(answer, [block], **ways).rule == "scores of as many iterations"


def test_threads_and_parts_say_what_the_whole_says() -> None:
    draw = np.random.default_rng(2)
    source, target = draw.integers(0, 500, (2, 100_000))
    weight = draw.integers(1, 100, len(source)).astype(np.float32)
    block, vertices = EdgeBlock(source, target, weight), VertexIndex.dense(0, 500)
    cuts = np.arange(0, len(block) + 1, 1_000)

    class Source:
        def units(self, _: int) -> list[tuple[int, int]]:
            return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))

        def read(self, unit: tuple[int, int], _: int) -> list[EdgeBlock]:
            part = slice(*unit)
            return [EdgeBlock(source[part], target[part], weight[part])]

    answer = PagerankAnswer(np.full(500, 1 / 500), vertices, 0.85, 1e-12, 1)
    ways = {"directed": False, "weighted": True}
    validator = PagerankValidator(answer, lambda arcs: check_edges(arcs, Source(), 3), **ways)
    found: PagerankVerdict = validator.verdict()
    whole = validate_pagerank(answer, [block], **ways)
    assert found == whole
    assert found.rule == "change by another iteration"
    assert found.edges == len(block)
