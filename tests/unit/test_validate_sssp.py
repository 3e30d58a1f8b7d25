"""The validator's rules for SSSP, in the three kinds of distances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import InputError, NegativeWeightError, UsageError
from ooc_graph.types import INT64_UNREACHED, EdgeBlock
from ooc_graph.validate import SsspValidator
from tests.unit.test_validate_oracle import plain_sssp, right_sssp
from tests.validating import validate_sssp

IDS = [0, 1, 2, 3, 4, 5, 6]
# 0 -3- 1 -2- 2 (and 0 -9- 2), a plateau of zeros 2, 3, 4; 5 - 6 apart.
TUPLES = [(0, 1, 3), (2, 1, 2), (0, 2, 9), (2, 3, 0), (3, 4, 0), (4, 2, 0), (1, 1, 0), (5, 6, 1)]
KINDS = [np.float32, np.float64, np.int64]


def edges_of(tuples, kind):
    source, target, weight = zip(*tuples, strict=True) if tuples else ((), (), ())
    return EdgeBlock(
        np.array(source, dtype=np.int64),
        np.array(target, dtype=np.int64),
        np.array(weight, dtype=kind),
    )


def changed(answer, **columns):
    """Copy with single entries replaced: ``distance={3: 5}``."""
    news = {}
    for name, entries in columns.items():
        news[name] = getattr(answer, name).copy()
        for vertex, value in entries.items():
            news[name][vertex] = value
    return replace(answer, **news)


def judge(answer, tuples=TUPLES, *, directed=False):
    block = edges_of(tuples, answer.distance.dtype)
    (verdict,) = validate_sssp([answer], [block], directed=directed)
    return verdict


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def answer(request):
    return plain_sssp(IDS, edges_of(TUPLES, request.param), 0, directed=False)


def test_right_answer_passes_and_counts_its_tuples(answer):
    verdict = judge(answer)
    assert verdict.ok, verdict
    assert (verdict.reached, verdict.edges) == (5, 6)


BROKEN = [
    ({"parent": {0: 1}}, "root", "parent is 1"),
    ({"distance": {0: 1}}, "root", "not 0"),
    ({"parent": {1: 7}}, "parent is a vertex", "vertex 1 has parent 7"),
    ({"parent": {1: -1}}, "reached or not", "vertex 1"),
    ({"distance": {6: 4}}, "reached or not", "vertex 6"),
    ({"distance": {1: -3}}, "reached or not", "vertex 1"),
    ({"parent": {1: 5}}, "distance of parent", "vertex 1"),
    ({"parent": {1: 2}}, "distance of parent", "vertex 1"),
    ({"parent": {2: 3, 3: 4, 4: 2}}, "no cycle", "from vertex 2"),
    ({"parent": {2: 2}}, "no cycle", "from vertex 2"),
    ({"parent": {4: 3, 3: 4}}, "no cycle", "from vertex 3"),
    ({"parent": {3: 3, 4: 3}}, "no cycle", "from vertex 3"),
    ({"parent": {5: 5, 6: 5}, "distance": {5: 0, 6: 1}}, "no cycle", "from vertex 5"),
    ({"parent": {6: 0}, "distance": {6: 4}}, "no unreached neighbour", "unreached 5"),
    (
        {"parent": {5: 0, 6: 5}, "distance": {5: 4, 6: 5}},
        "tree edge in the input",
        "vertex 5 has parent 0",
    ),
    ({"parent": {2: 0}, "distance": {2: 9, 3: 9, 4: 9}}, "distances of an edge", "edge (1, 2)"),
    # Too short: no weight makes up the difference.
    ({"distance": {2: 4, 3: 4, 4: 4}}, "tree edge in the input", "vertex 2 has parent 1"),
    ({"parent": {2: 0}}, "tree edge in the input", "vertex 2 has parent 0"),
    ({"parent": {4: 1}}, "tree edge in the input", "vertex 4 has parent 1"),
]


@pytest.mark.parametrize(("change", "rule", "said"), BROKEN)
def test_each_broken_rule_is_named(answer, change, rule, said):
    verdict = judge(changed(answer, **change))
    assert (verdict.ok, verdict.rule) == (False, rule), verdict
    assert said in verdict.message


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("aim", [0, 100])
def test_one_ulp_either_way_is_found(kind, aim):
    tuples = [(0, 1, 0.1), (1, 2, 0.7), (2, 3, 0.3), (0, 3, 1.9)]
    answer = plain_sssp([0, 1, 2, 3], edges_of(tuples, kind), 0, directed=False)
    assert judge(answer, tuples).ok
    for vertex in (1, 2, 3):
        off = np.nextafter(answer.distance[vertex], kind(aim))
        verdict = judge(changed(answer, distance={vertex: off}), tuples)
        assert verdict.rule in ("distances of an edge", "tree edge in the input")


def test_nan_is_found():
    for kind in (np.float32, np.float64):
        answer = plain_sssp(IDS, edges_of(TUPLES, kind), 0, directed=False)
        assert judge(changed(answer, distance={3: np.nan})).rule == "reached or not"
        assert judge(changed(answer, distance={5: np.nan})).rule == "reached or not"
        assert judge(changed(answer, distance={0: np.nan})).rule == "root"
        assert judge(changed(answer, distance={5: -np.inf})).rule == "reached or not"


def test_integers_are_exact_beyond_two_to_the_53():
    big = 2**53
    tuples = [(0, 1, big), (1, 2, 1)]
    answer = plain_sssp([0, 1, 2], edges_of(tuples, np.int64), 0, directed=False)
    assert answer.distance.tolist() == [0, big, big + 1]
    assert judge(answer, tuples).ok
    assert not judge(changed(answer, distance={2: big}), tuples).ok
    assert not judge(changed(answer, distance={2: big + 2}), tuples).ok


def test_integer_sums_do_not_wrap():
    near_top = INT64_UNREACHED - 5
    tuples = [(0, 1, near_top), (0, 2, 7), (2, 1, near_top)]
    answer = plain_sssp([0, 1, 2], edges_of(tuples[:2], np.int64), 0, directed=True)
    assert judge(answer, tuples).ok
    assert judge(answer, tuples, directed=True).ok


def test_absorbed_weights_may_join_equal_distances():
    tuples = [(0, 1, 2.0**24), (1, 2, 0.5), (2, 3, 0.5)]
    answer = plain_sssp([0, 1, 2, 3], edges_of(tuples, np.float32), 0, directed=False)
    assert answer.distance.tolist() == [0, 2.0**24, 2.0**24, 2.0**24]
    assert judge(answer, tuples).ok
    assert judge(changed(answer, parent={2: 3, 3: 2}), tuples).rule == "no cycle"


def test_the_lightest_of_parallel_tuples_counts_and_all_are_counted(answer):
    tuples = [*TUPLES, (1, 0, 4), (0, 1, 3)]
    verdict = judge(answer, tuples)
    assert verdict.ok
    assert verdict.edges == 8
    assert judge(answer, [*tuples, (1, 0, 2)]).rule == "distances of an edge"


def test_directed_arcs_bind_one_way():
    tuples = [(0, 1, 3), (1, 2, 2), (2, 0, 0), (5, 1, 1), (2, 3, 4)]
    answer = plain_sssp(IDS, edges_of(tuples, np.int64), 0, directed=True)
    verdict = judge(answer, tuples, directed=True)
    assert verdict.ok
    assert (verdict.reached, verdict.edges) == (4, 4)
    assert judge(answer, [*tuples, (3, 4, 1)], directed=True).rule == "no unreached neighbour"
    assert judge(answer, [*tuples, (0, 3, 1)], directed=True).rule == "distances of an edge"
    assert judge(answer, [*tuples, (3, 0, 1)], directed=True).ok
    turned = [*tuples[:4], (3, 2, 4)]
    assert judge(answer, turned, directed=True).rule == "tree edge in the input"


def test_weights_that_cannot_be_meant_are_refused():
    answer = plain_sssp(IDS, edges_of(TUPLES, np.float32), 0, directed=False)
    check = SsspValidator([answer], directed=False)
    whole = edges_of(TUPLES, np.float32)
    with pytest.raises(InputError, match="without weights"):
        check.block(replace(whole, weight=None))
    with pytest.raises(InputError, match="weights are float64"):
        check.block(edges_of(TUPLES, np.float64))
    with pytest.raises(InputError, match="weights are int64"):
        check.block(edges_of(TUPLES, np.int64))
    with pytest.raises(NegativeWeightError, match=r"-9\.0"):
        check.block(replace(whole, weight=-whole.weight))
    for odd in (np.nan, np.inf):
        with pytest.raises(InputError, match="finite"):
            check.block(replace(whole, weight=np.full_like(whole.weight, odd)))
    double = plain_sssp(IDS, edges_of(TUPLES, np.float64), 0, directed=False)
    with pytest.raises(UsageError, match="one dtype"):
        SsspValidator([answer, double], directed=False)


def test_integer_blocks_of_a_float64_column():
    answer = plain_sssp(IDS, edges_of(TUPLES, np.float64), 0, directed=False)
    blocks = [edges_of(TUPLES[:4], np.int64), edges_of(TUPLES[4:], np.float64)]
    assert validate_sssp([answer], blocks, directed=False)[0].ok


@st.composite
def graph_and_damage(draw):
    ids = draw(st.sampled_from([list(range(6)), [3, 4, 9, 2**33, 2**60, 2**63 - 1]]))
    kind = draw(st.sampled_from(KINDS))
    weights = [0, 1, 2] if kind is np.int64 else [0, 0.1, 0.2, 0.7, 2.0**30]
    one = st.tuples(st.sampled_from(ids), st.sampled_from(ids), st.sampled_from(weights))
    tuples = draw(st.lists(one, max_size=12))
    spot = st.tuples(
        st.sampled_from(range(len(ids))),
        st.sampled_from([*ids, -1, 8]),
        st.sampled_from([*weights, 3, -1, "far", "up", "down", "same"]),
    )
    damage = draw(st.lists(spot, max_size=2))
    return ids, edges_of(tuples, kind), draw(st.sampled_from(ids)), draw(st.booleans()), damage


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("offset", [0, 1])
def test_answers_of_any_lengths_are_judged_together_as_alone(kind, offset):
    """A rounding is as large as many of the weights are, and some tuples are as long as a path."""
    rng = np.random.default_rng(offset)
    ids, ends = list(range(60)), rng.integers(offset, 60, (2, 400))
    weight = (10.0 ** rng.uniform(-9, 9, 400)).astype(kind)
    if kind is np.int64:
        weight[::7] = INT64_UNREACHED // 100
    edges = EdgeBlock(ends[0], ends[1], weight)
    answers = [plain_sssp(ids, edges, root, directed=False) for root in range(20)]
    spoiled = [changed(answer, distance={}) for answer in answers]
    for number, answer in enumerate(spoiled):
        near = answer.distance[number + 30]
        answer.distance[number + 30] = near - 1 if kind is np.int64 else np.nextafter(near, kind(0))
    for some in (answers, spoiled, [*answers[:9], *spoiled]):
        together = validate_sssp(some, [edges], directed=False)
        assert together == [validate_sssp([one], [edges], directed=False)[0] for one in some]
    assert not any(verdict.ok for verdict in validate_sssp(spoiled, [edges], directed=False))
    assert all(verdict.ok for verdict in validate_sssp(answers, [edges], directed=False))


def damaged(old, what, kind, far):
    if what == "same":
        return old
    if what == "far":
        return far
    if what in ("up", "down"):
        step = 1 if what == "up" else -1
        if old == far:
            return old
        return old + step if kind == np.int64 else np.nextafter(old, kind.type(step * np.inf))
    return what


@settings(max_examples=500, deadline=None)
@given(graph_and_damage())
def test_a_damaged_answer_passes_only_if_it_is_right(case):
    ids, edges, root, directed, damage = case
    answer = plain_sssp(ids, edges, root, directed=directed)
    assert validate_sssp([answer], [edges], directed=directed)[0].ok
    kind = answer.distance.dtype
    for at, parent, what in damage:
        answer.parent[at] = parent
        answer.distance[at] = damaged(answer.distance[at], what, kind, answer.unreached)
    (verdict,) = validate_sssp([answer], [edges], directed=directed)
    assert verdict.ok == right_sssp(ids, edges, answer, directed=directed), verdict
