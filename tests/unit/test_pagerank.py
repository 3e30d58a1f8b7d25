"""PageRank: by any threads, ranks and shards the same bits, against plain floats and networkx."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
from ooc_graph.errors import ConvergenceError, InputError, NegativeWeightError, UsageError
from ooc_graph.kernels.common.pagerank import SCALE
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.runtime import engine_cache
from ooc_graph.traverse.pagerank import Isolated, Listed, Problem, pagerank
from ooc_graph.types import distinct
from tests import local_exchange, oracles
from tests.local_ranks import by_ranks
from tests.strategies import Arcs, skewed, small_arcs

DEVICES = {threads: CpuDevice(threads) for threads in (1, 2, 3)}
FEW = Problem(0.85, 12)


def ranked(
    arcs: Arcs, shards: int = 1, threads: int = 1, problem: Problem = FEW, *, weighted: bool = False
) -> np.ndarray:
    """Scores of all rows by so many coroutines, in units."""
    device, parts = DEVICES[threads], arcs.shards(shards)
    steps = device.weighted_pagerank_rank if weighted else device.pagerank_rank
    shared, listed = device.pagerank_shared(arcs.vertices), problem.listed()
    coroutines = []
    for part in parts:
        own = listed.vertex % (1024 * shards) // 1024 == part.dealing.shard
        mine = listed.those(own, part.dealing.local_of(listed.vertex[own]))
        alone = Isolated(0, Listed(*(one[:0] for one in listed)))
        coroutines.append(pagerank(steps(part), shared, problem, arcs.vertices, mine, alone))
    found, _ = local_exchange.run(coroutines, shared, shards)
    score = np.empty(arcs.vertices, np.int64)
    for part, one in zip(parts, found, strict=True):
        part.dealing.put(one.score, score)
    return score


def expected(arcs: Arcs, problem: Problem = FEW, *, weighted: bool = False) -> list[float]:
    rows = arcs.lists()
    if not weighted:
        rows = [[(v, 1.0) for v, _ in row] for row in rows]
    asked = problem.jump, problem.landing
    chances = [None if one is None else dict(zip(*one, strict=True)) for one in asked]
    return oracles.pagerank(rows, problem.alpha, problem.most, *chances)


@settings(max_examples=100, deadline=None)
@given(small_arcs(), st.booleans(), st.sampled_from([1, 2, 8]), st.sampled_from([1, 2, 3]))
def test_small_graphs(arcs, weighted, shards, threads):
    score = ranked(arcs, weighted=weighted)
    assert (score / SCALE).tolist() == pytest.approx(expected(arcs, weighted=weighted), rel=1e-12)
    assert ranked(arcs, shards, threads, weighted=weighted).tolist() == score.tolist()


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_graphs_of_many_blocks(directed, weighted):
    arcs = skewed(6_000, 90_000, "float32", directed=directed, seed=3)
    assert len(arcs.source) > 4 * (1 << 14)
    landing = (5, 1030, 4000), (0.5, 0.25, 0.25)
    problem = replace(FEW, jump=((0, 1, 5000), (0.5, 0.2, 0.3)), landing=landing)
    score = ranked(arcs, problem=problem, weighted=weighted)
    wanted = expected(arcs, problem, weighted=weighted)
    assert (score / SCALE).tolist() == pytest.approx(wanted, rel=1e-9, abs=1e-15)
    for shards, threads in ((1, 2), (1, 3), (2, 2), (8, 1)):
        again = ranked(arcs, shards, threads, problem, weighted=weighted)
        assert again.tobytes() == score.tobytes()


def test_scores_add_up():
    arcs = skewed(6_000, 90_000, "float32", directed=True, seed=3)
    assert sum(ranked(arcs, problem=replace(FEW, most=50)).tolist()) == pytest.approx(
        SCALE, rel=1e-12
    )


def edges(*, directed: bool, weighted: bool, vertices: int = 200) -> tuple[np.ndarray, ...]:
    """Random pairs, each once, some vertices of which have no out-arcs; ids have gaps."""
    draw = np.random.RandomState(7)
    ends = draw.randint(0, vertices, (2, 5 * vertices))
    ends = ends[:, (ends[0] != ends[1]) & (ends[0] % 7 > 0)]
    pairs = np.unique(ends if directed else np.sort(ends, axis=0), axis=1) * 3 + 10
    weights = (draw.random_sample(pairs.shape[1]) * 9,) if weighted else ()
    return *pairs, *weights


ASKED: list[dict[str, Any]] = [
    {},
    {"alpha": 0.5, "tol": 1e-13, "max_iter": 500},
    {"personalization": {10: 1.0, 40: 2.5, 31: 0.0}, "tol": 1e-12},
    {"dangling": {13: 1.0, 100: 4.0}},
    {"personalization": {10: 1.0}, "dangling": {100: 4.0}, "alpha": 0.9},
]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("asked", ASKED)
def test_networkx_has_the_same(directed, weighted, asked):
    nx = pytest.importorskip("networkx", reason="the peer of this comparison is not installed")
    columns = edges(directed=directed, weighted=weighted)
    other = (nx.DiGraph if directed else nx.Graph)()
    ones = np.ones(len(columns[0]))
    rows = zip(*(one.tolist() for one in (*columns, ones)[:3]), strict=True)
    other.add_weighted_edges_from(rows)
    found = og.pagerank(og.from_edges(*columns, directed=directed), **asked)
    wanted = nx.pagerank(other, **asked)
    scores = dict(zip(found.vertex.tolist(), found.pagerank.tolist(), strict=True))
    assert scores.keys() == wanted.keys()
    assert [scores[v] for v in wanted] == pytest.approx(list(wanted.values()), rel=1e-9)


def test_vertices_without_arcs():
    """Listed or not, and in a graph that has no others; self-loops are no arcs."""
    ends = np.array([2, 1, 3, 5]), np.array([4, 1, 3, 5])
    graph = og.from_edges(*ends, directed=True)
    lists = [[], [(3, 1.0)], [], [], []]
    for asked in ({}, {"personalization": {1: 1, 4: 1}, "dangling": {1: 1, 5: 3}}):
        chances = [
            {v - 1: w / sum(one.values()) for v, w in one.items()} if one else None
            for one in (asked.get("personalization"), asked.get("dangling"))
        ]
        found = og.pagerank(graph, iterations=9, **asked).pagerank.tolist()
        assert found == pytest.approx(oracles.pagerank(lists, 0.85, 9, *chances), rel=1e-14)
    empty = og.from_edges(np.array([7, 8, 9]), np.array([7, 8, 9]))
    assert og.pagerank(empty).pagerank.tolist() == pytest.approx([1 / 3] * 3)
    jumps = og.pagerank(empty, personalization={8: 2}).pagerank.tolist()
    assert jumps == pytest.approx([0, 1, 0])


@pytest.fixture(scope="module")
def graph(tmp_path_factory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "g.zarr"
    return og.build(og.Kronecker(11), path, rows="both", shards=4)


@pytest.mark.parametrize("kernel", ["pagerank", "weighted_pagerank"])
def test_ranks_find_the_same_bits(graph, kernel):
    listed = int(np.flatnonzero(graph.internal_of() < 0)[0]), 5, 700
    jump = tuple(sorted(listed)), (0.5, 0.25, 0.25)
    problem = Problem(0.85, 20, None, jump, jump)
    asked = {graph.original_ids()[v]: w for v, w in zip(*jump, strict=True)}
    one = og.pagerank(graph, weight=kernel != "pagerank", iterations=20, personalization=asked)
    several = by_ranks(graph, kernel, given=problem)
    assert several.pagerank.tobytes() == one.pagerank.tobytes()
    assert several.asked == one.asked
    engine_cache.release()


def test_one_that_does_not_converge_writes_nothing(graph, tmp_path):
    with pytest.raises(ConvergenceError, match="did not converge in 3 iterations") as caught:
        og.pagerank(graph, tol=1e-12, max_iter=3, out=tmp_path / "r.zarr")
    assert (caught.value.exit_code, caught.value.iterations) == (3, 3)
    assert list(tmp_path.iterdir()) == []


def test_stored_answers_and_frames(graph, tmp_path):
    one = og.pagerank(graph, iterations=5)
    stored = og.pagerank(graph, iterations=5, out=tmp_path / "r.zarr")
    assert type(og.Result.open(tmp_path / "r.zarr")) is type(stored) is og.PagerankResult
    assert stored.pagerank.tobytes() == one.pagerank.tobytes()
    assert stored.columns.attributes["kernel"] == "pagerank"
    assert list(stored.to_frame().columns) == ["vertex", "pagerank"]
    with pytest.raises(UsageError, match=r"use validate\(graph, answer\)"):
        og.validate(stored, og.Kronecker(11))


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"alpha": 1.5}, UsageError, "alpha 1.5"),
        ({"alpha": float("nan")}, UsageError, "alpha nan"),
        ({"tol": -1}, UsageError, "tol -1"),
        ({"tol": float("inf")}, UsageError, "tol inf: give a finite number"),
        ({"tol": 10**400}, UsageError, "give a finite number"),
        ({"max_iter": 0}, UsageError, "max_iter 0"),
        ({"iterations": 0}, UsageError, "iterations 0"),
        ({"iterations": 2.5}, UsageError, "iterations 2.5: give an integer"),
        ({"alpha": "x"}, UsageError, "alpha 'x': give a number"),
        ({"personalization": {}}, UsageError, "personalization: give a dict"),
        ({"personalization": [10]}, UsageError, "personalization: give a dict"),
        ({"personalization": {10: 0}}, InputError, "not all of them zero"),
        ({"personalization": {10: np.inf, 13: -np.inf}}, InputError, "finite"),
        ({"dangling": {10: -1, 13: 5}}, InputError, "zero or more"),
        ({"dangling": {10: -1e308, 13: -1e308}}, InputError, "zero or more"),
        ({"dangling": {10: "x"}}, UsageError, "a number for each vertex"),
        ({"dangling": {10: 10**400}}, UsageError, "of 64 bits"),
        ({"dangling": {11: 1}}, og.errors.UnknownVertexError, "vertex 11"),
        ({"device": "cuda"}, UsageError, "on the CPU only"),
    ],
)
def test_what_makes_no_sense_is_refused(asked, error, said):
    graph = og.from_edges(*edges(directed=True, weighted=False), directed=True)
    with pytest.raises(error, match=said):
        og.pagerank(graph, **asked)


def test_a_tolerance_may_be_any_float():
    """NumPy would compare a narrow one with the largest float64 as that of its own type."""
    graph = og.from_edges(*edges(directed=True, weighted=False), directed=True)
    found, expected = (og.pagerank(graph, tol=tol) for tol in (np.float32(2.0**-20), 2.0**-20))
    assert found.pagerank.tobytes() == expected.pagerank.tobytes()


@pytest.mark.parametrize("what", ["personalization", "dangling"])
def test_chances_follow_from_weights_whose_sum_is_no_float64(what):
    graph = og.from_edges(*edges(directed=True, weighted=False), directed=True)
    found, expected = (
        og.pagerank(graph, iterations=7, **{what: {10: weight, 13: weight}})
        for weight in (2.0**1023, 1.0)
    )
    assert found.pagerank.tobytes() == expected.pagerank.tobytes()


def test_weights_that_cannot_be_divided_by():
    ends = np.array([1, 2, 3]), np.array([2, 3, 1])
    negative = og.from_edges(*ends, np.array([1.0, -1.0, 1.0]), directed=True)
    with pytest.raises(NegativeWeightError, match="weight=False counts every arc alike"):
        og.pagerank(negative)
    assert og.pagerank(negative, weight=False).pagerank.tolist() == pytest.approx([1 / 3] * 3)
    for weight in (1e-300, 1e308):
        both = np.array([1, 1]), np.array([2, 3]), np.array([weight, weight])
        extreme = og.from_edges(*both, directed=True)
        with pytest.raises(InputError, match="scale the weights"):
            og.pagerank(extreme)
    # Zeros alone make a vertex one without out-arcs.
    zeros = og.from_edges(np.array([1, 2]), np.array([2, 3]), np.array([0.0, 1.0]), directed=True)
    ends = [[], [(2, 1.0)], []]
    assert og.pagerank(zeros, iterations=7).pagerank.tolist() == pytest.approx(
        oracles.pagerank(ends, 0.85, 7, None, None), rel=1e-14
    )


@pytest.mark.parametrize("length", [0, 1, 1000])
def test_distinct_values(length: int) -> None:
    values = np.random.default_rng(1).integers(0, 300, length)
    np.testing.assert_array_equal(distinct(values), np.unique(values))
