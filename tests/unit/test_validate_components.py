"""The validator's rules for components: right answers pass, each rule broken alone is named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import UsageError, ValidationFailedError
from ooc_graph.types import EdgeBlock
from ooc_graph.validate import (
    ComponentsAnswer,
    ComponentsValidator,
    VertexIndex,
)
from tests import oracles
from tests.validating import validate_components

# 10 - 20 - 30 - 40 with a duplicate and a loop; 60 - 70 apart; 80 alone.
IDS = [10, 20, 30, 40, 60, 70, 80]
PAIRS = [(20, 10), (20, 30), (40, 30), (30, 30), (10, 20), (70, 60)]
RIGHT = dict(zip(IDS, [10, 10, 10, 10, 60, 60, 80], strict=True))


def edges_of(pairs):
    pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return EdgeBlock(pairs[:, 0].copy(), pairs[:, 1].copy())


def answer_of(labels):
    ids = np.array(sorted(labels), np.int64)
    component = np.array([labels[int(v)] for v in ids], np.int64)
    return ComponentsAnswer(component, VertexIndex.ascending(ids))


def judge(labels, pairs=PAIRS):
    return validate_components(answer_of(labels), [edges_of(pairs)])


def test_right_answer_passes():
    verdict = judge(RIGHT)
    assert verdict.ok
    # The duplicate counts, the loop does not.
    assert (verdict.reached, verdict.edges, verdict.components) == (7, 5, 3)
    verdict.raise_if_failed()


@pytest.mark.parametrize(
    ("change", "rule", "said"),
    [
        ({20: 11}, "label is a vertex", "vertex 20 has component 11, which is no vertex"),
        ({80: -1}, "label is a vertex", "vertex 80 has component -1"),
        ({80: 2**62}, "label is a vertex", "vertex 80"),
        ({40: 20}, "label of a label", "vertex 40 has component 20, and vertex 20 itself has 10"),
        ({60: 80}, "label of a label", "vertex 70 has component 60, and vertex 60 itself has 80"),
        ({10: 20, 20: 20, 30: 20, 40: 20}, "smallest label", "vertex 10 has component 20"),
        ({60: 70, 70: 70}, "smallest label", "vertex 60 has component 70, which is larger"),
        ({70: 70}, "labels of an edge", "edge (60, 70): vertex 60 has component 60"),
        ({30: 30, 40: 30}, "labels of an edge", "edge (20, 30)"),
        ({40: 40}, "labels of an edge", "edge (30, 40)"),
        ({60: 10, 70: 10}, "no components merged", "vertex 60 has component 10, and no edges"),
        ({80: 60}, "no components merged", "vertex 80 has component 60, and no edges"),
    ],
)
def test_every_rule_broken_alone(change, rule, said):
    verdict = judge({**RIGHT, **change})
    assert not verdict.ok
    assert verdict.rule == rule
    assert said in verdict.message
    with pytest.raises(ValidationFailedError, match=f"the components break rule '{rule}'"):
        verdict.raise_if_failed()


def test_edges_of_vertices_that_the_answer_lacks():
    verdict = judge(RIGHT, [*PAIRS, (90, 10), (85, 90)])
    assert (verdict.rule, verdict.message) == (
        "known vertices",
        "an edge names vertex 85, the answer does not",
    )


def test_a_missing_edge_is_a_merged_component():
    verdict = judge(RIGHT, [pair for pair in PAIRS if pair != (40, 30)])
    assert verdict.rule == "no components merged"
    assert "vertex 40 has component 10" in verdict.message
    assert verdict.components == 4


def test_columns_of_another_shape_or_type_are_refused():
    vertices = VertexIndex.dense(0, 3)
    for column in (np.zeros(2, np.int64), np.zeros(3, np.int32)):
        with pytest.raises(UsageError, match="one for each of 3 vertices"):
            ComponentsAnswer(column, vertices)


def test_no_vertices():
    verdict = validate_components(
        ComponentsAnswer(np.empty(0, np.int64), VertexIndex.dense(0, 0)), []
    )
    assert (verdict.ok, verdict.components) == (True, 0)


pairs_of = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=14)


@settings(max_examples=300, deadline=None)
@given(pairs_of, st.integers(1, 4), st.integers(0, 11), st.integers(0, 11))
def test_only_the_right_answer_passes_however_the_edges_are_dealt(pairs, forks, at, label):
    """Any edit of one label, or of all of a component, is noticed; blocks may come in any split."""
    vertices = [3 * v + 5 for v in range(12)]
    pairs = [(vertices[u], vertices[v]) for u, v in pairs]
    right = dict(zip(vertices, oracles.components(vertices, pairs), strict=True))
    one = {**right, vertices[at]: vertices[label]}
    whole = {v: vertices[label] if c == right[vertices[at]] else c for v, c in right.items()}
    for labels in (right, one, whole):
        validator = ComponentsValidator(answer_of(labels))
        twins = [validator.fork() for _ in range(forks)]
        for number, pair in enumerate(pairs):
            twins[number % forks].block(edges_of([pair]))
        for twin in twins:
            validator.merge(twin)
        (verdict,) = validator.finish()
        assert verdict.ok == (labels == right)
        if verdict.ok:
            assert verdict.components == len(set(right.values()))
            assert verdict.edges == sum(u != v for u, v in pairs)
