"""The validator's rules for BFS: right answers pass, each rule broken alone is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import UsageError, ValidationFailedError
from ooc_graph.types import EdgeBlock
from ooc_graph.validate import BfsAnswer, BfsValidator, VertexIndex
from tests.unit.test_validate_oracle import plain_bfs, right_bfs
from tests.validating import validate_bfs

# 10 - 20 - 30 - 40, 10 - 25 - 30, a loop and a duplicate; 60 - 70 apart; 80 alone.
IDS = [10, 20, 25, 30, 40, 60, 70, 80]
PAIRS = [(10, 20), (20, 30), (30, 40), (25, 10), (25, 30), (30, 30), (20, 10), (60, 70)]


def edges_of(pairs):
    pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return EdgeBlock(pairs[:, 0].copy(), pairs[:, 1].copy())


def changed(answer, **columns):
    """Copy with single entries replaced: ``level={30: 5}``."""
    news = {}
    for name, entries in columns.items():
        news[name] = getattr(answer, name).copy()
        for vertex, value in entries.items():
            news[name][IDS.index(vertex)] = value
    return replace(answer, **news)


def judge(answer, pairs=PAIRS, *, directed=False):
    (verdict,) = validate_bfs([answer], [edges_of(pairs)], directed=directed)
    return verdict


@pytest.fixture
def answer():
    return plain_bfs(IDS, edges_of(PAIRS), 10, directed=False)


def test_right_answer_passes_and_counts_its_tuples(answer):
    verdict = judge(answer)
    assert verdict.ok
    # The duplicate counts, the loop and the other component do not.
    assert (verdict.reached, verdict.edges) == (5, 6)
    verdict.raise_if_failed()


BROKEN = [
    ({"parent": {10: 20}}, "root", "parent is 20"),
    ({"parent": {10: -1}}, "root", "parent is -1"),
    ({"level": {10: 1}}, "root", "level 1"),
    ({"parent": {30: 31}}, "parent is a vertex", "vertex 30 has parent 31"),
    ({"parent": {30: -2}}, "parent is a vertex", "vertex 30 has parent -2"),
    ({"parent": {30: 2**62}}, "parent is a vertex", "vertex 30"),
    ({"parent": {40: -1}}, "reached or not", "vertex 40"),
    ({"level": {40: -1}}, "reached or not", "vertex 40"),
    ({"level": {40: -7}}, "reached or not", "level -7"),
    ({"parent": {80: -1}, "level": {80: -2}}, "reached or not", "vertex 80"),
    ({"level": {40: 2}}, "level of parent", "vertex 40"),
    ({"level": {40: 4}}, "level of parent", "vertex 40 has parent 30 of level 2 and level 4"),
    ({"parent": {40: 40}}, "level of parent", "vertex 40"),
    ({"parent": {80: 60}, "level": {80: 0}}, "level of parent", "vertex 80"),
    ({"parent": {60: 60}, "level": {60: 0}}, "level of parent", "vertex 60"),
    # 30 <-> 40 point at each other: no levels can fit that.
    ({"parent": {30: 40}, "level": {30: 4}}, "level of parent", "vertex 40"),
    ({"parent": {40: -1}, "level": {40: -1}}, "no unreached neighbour", "unreached 40"),
    ({"parent": {60: 20}, "level": {60: 2}}, "no unreached neighbour", "edge (60, 70)"),
    # One level too deep, but consistent with a parent that is not a neighbour.
    ({"parent": {25: 20, 30: 20}, "level": {25: 2}}, "levels of an edge", "edge (10, 25)"),
    ({"parent": {40: 20}, "level": {40: 2}}, "tree edge in the input", "parent 20"),
    ({"parent": {80: 40}, "level": {80: 4}}, "tree edge in the input", "vertex 80"),
    (
        {"parent": {60: 40, 70: 60}, "level": {60: 4, 70: 5}},
        "tree edge in the input",
        "vertex 60 has parent 40",
    ),
]


@pytest.mark.parametrize(("change", "rule", "said"), BROKEN)
def test_each_broken_rule_is_named(answer, change, rule, said):
    verdict = judge(changed(answer, **change))
    assert (verdict.ok, verdict.rule) == (False, rule)
    assert said in verdict.message
    with pytest.raises(ValidationFailedError, match=f"root 10 breaks rule '{rule}'"):
        verdict.raise_if_failed()


def test_either_of_two_right_parents_passes(answer):
    assert judge(changed(answer, parent={30: 20})).ok
    assert judge(changed(answer, parent={30: 25})).ok


def test_levels_two_apart_are_found_in_either_direction(answer):
    shortcut = [*PAIRS, (10, 40)]
    for pairs in (shortcut, [(v, u) for u, v in shortcut]):
        verdict = judge(answer, pairs)
        assert verdict.rule == "levels of an edge"
        assert "edge (10, 40) joins 10 with level 0 and 40 with level 3" in verdict.message


def test_the_smallest_culprit_is_named_whatever_the_order(answer):
    pairs = [*PAIRS, (30, 60), (60, 20), (80, 25), (10, 80)]
    for order in (pairs, pairs[::-1]):
        assert "edge (10, 80)" in judge(answer, order).message


def test_tree_edge_taken_out_of_the_input_is_missed(answer):
    verdict = judge(answer, [p for p in PAIRS if p != (25, 10)])
    assert verdict.rule == "tree edge in the input"
    assert "vertex 25 has parent 10" in verdict.message


def test_a_loop_confirms_no_tree_edge():
    ids = np.array([1, 2], dtype=np.int64)
    answer = BfsAnswer(
        1, np.array([1, 1]), np.array([0, 1], dtype=np.int32), VertexIndex.ascending(ids)
    )
    (verdict,) = validate_bfs([answer], [edges_of([(2, 2), (1, 1)])], directed=False)
    assert verdict.rule == "tree edge in the input"


def test_edges_of_unknown_vertices_fail_every_answer(answer):
    verdict = judge(answer, [*PAIRS, (99, 98), (5, 10)])
    assert (verdict.ok, verdict.rule) == (False, "known vertices")
    assert "vertex 5" in verdict.message


def test_root_that_is_no_vertex(answer):
    assert judge(replace(answer, root=11)).rule == "root"


def test_directed_arcs_bind_one_way():
    arcs = [(10, 20), (20, 30), (30, 10), (30, 40), (60, 10), (40, 25), (25, 10)]
    answer = plain_bfs(IDS, edges_of(arcs), 10, directed=True)
    verdict = judge(answer, arcs, directed=True)
    # (60, 10) comes from an unreached vertex and (30, 10), (25, 10) go up: all are fine.
    assert verdict.ok
    assert (verdict.reached, verdict.edges) == (5, 6)
    assert judge(answer, [*arcs, (40, 70)], directed=True).rule == "no unreached neighbour"
    assert judge(answer, [*arcs, (10, 30)], directed=True).rule == "levels of an edge"
    turned = [*arcs[:3], (40, 30), *arcs[4:]]
    assert judge(answer, turned, directed=True).rule == "tree edge in the input"
    assert judge(answer, arcs, directed=False).rule != ""


@pytest.mark.parametrize("length", [13, 14, 15, 16, 127, 128, 254, 255, 300])
def test_levels_that_outgrow_their_bits(length):
    ids = list(range(length + 2))  # a path of `length` arcs and one vertex apart
    pairs = [(i, i + 1) for i in range(length)]
    answer = plain_bfs(ids, edges_of(pairs), 0, directed=False)
    assert judge(answer, pairs).ok
    assert judge(answer, [*pairs, (0, length)]).rule == "levels of an edge"
    assert judge(answer, [*pairs, (length + 1, length)]).rule == "no unreached neighbour"
    shallow = plain_bfs(ids, edges_of(pairs), length + 1, directed=False)
    verdicts = validate_bfs([shallow, answer, shallow], [edges_of(pairs)], directed=False)
    assert [(v.ok, v.reached, v.edges) for v in verdicts] == [
        (True, 1, 0),
        (True, length + 1, length),
        (True, 1, 0),
    ]


def test_wrong_shapes_and_types_are_refused(answer):
    with pytest.raises(UsageError, match="shape"):
        replace(answer, level=answer.level[:-1])
    with pytest.raises(UsageError, match="int32"):
        replace(answer, level=answer.level.astype(np.int64))
    other = plain_bfs(range(8), edges_of([]), 0, directed=False)
    with pytest.raises(UsageError, match="same vertices"):
        BfsValidator([answer, other], directed=False)
    with pytest.raises(UsageError, match="ascend"):
        VertexIndex.ascending(np.array([1, 3, 3], dtype=np.int64))
    with pytest.raises(UsageError, match="ascend"):
        VertexIndex.ascending(np.array([-1, 3], dtype=np.int64))


@st.composite
def graph_and_damage(draw):
    ids = draw(st.sampled_from([list(range(7)), [3, 4, 9, 2**33, 2**60, 2**62, 2**63 - 1]]))
    pairs = draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=14))
    vertex, value = st.sampled_from(range(len(ids))), st.integers(-2, 6)
    damage = draw(st.lists(st.tuples(vertex, st.sampled_from([*ids, -1, 8]), value), max_size=2))
    return ids, pairs, draw(st.sampled_from(ids)), draw(st.booleans()), damage


@settings(max_examples=400, deadline=None)
@given(graph_and_damage())
def test_a_damaged_answer_passes_only_if_it_is_right(case):
    ids, pairs, root, directed, damage = case
    edges = edges_of(pairs)
    answer = plain_bfs(ids, edges, root, directed=directed)
    assert validate_bfs([answer], [edges], directed=directed)[0].ok
    for at, parent, level in damage:
        answer.parent[at], answer.level[at] = parent, level
    (verdict,) = validate_bfs([answer], [edges], directed=directed)
    assert verdict.ok == right_bfs(ids, edges, answer, directed=directed), verdict
