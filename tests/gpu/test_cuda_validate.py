"""Verdicts of the device's validator are those of the CPU's, on right answers and on wrong ones."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ooc_graph.errors import NegativeWeightError
from ooc_graph.types import INT64_UNREACHED, EdgeBlock
from ooc_graph.validate import BfsAnswer, SsspAnswer, VertexIndex
from ooc_graph.validate import wording as rules
from ooc_graph.validate.cuda_validator import CudaSsspValidator
from tests.gpu.validated import agreed, cut, ends_of, on_device
from tests.unit import test_validate_bfs as bfs_cases
from tests.unit import test_validate_changed as changed_cases
from tests.unit import test_validate_sssp as sssp_cases
from tests.unit.test_validate_oracle import plain_bfs, plain_sssp

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
TYPES = list(itertools.product(("uint32", "int64"), ("uint8", "int32"), ("uint32", "int64")))
RULES = {getattr(rules, name) for name in dir(rules) if name.startswith("RULE_")}


def edited(answer, change, place=int):
    columns = {name: getattr(answer, name).copy() for name in change}
    for name, entries in change.items():
        for vertex, value in entries.items():
            columns[name][place(vertex)] = value
    return replace(answer, **columns)


@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_broken_breadth_first_trees(types) -> None:
    """The CPU's cases, with ids 10 to 80 among 90 vertices."""
    edges = ends_of(bfs_cases.PAIRS)
    right = plain_bfs(range(90), edges, 10, directed=False)
    wrong = [edited(right, change) for change, _, _ in bfs_cases.BROKEN]
    answers = [right, *wrong, replace(right, root=90), replace(right, root=-1), right]
    verdicts = agreed(answers, [edges], types=types)
    assert [v.ok for v in verdicts] == [True, *[False] * (len(answers) - 2), True]
    assert (verdicts[0].reached, verdicts[0].edges) == (5, 6)
    for extra in ([(10, 40)], [(40, 10)], [(10, 40), (60, 30), (20, 60)], [(99, 98), (5, 10)]):
        for order in (1, -1):
            agreed(answers, [ends_of([*bfs_cases.PAIRS, *extra][::order])], types=types)
    agreed(answers, [ends_of([(-3, 10), (2**40, -1), *bfs_cases.PAIRS])], types=types)


@pytest.mark.parametrize("kind", sssp_cases.KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("types", TYPES[::2], ids="-".join)
def test_broken_shortest_path_trees(kind, types) -> None:
    edges = sssp_cases.edges_of(sssp_cases.TUPLES, kind)
    right = plain_sssp(range(7), edges, 0, directed=False)
    wrong = [edited(right, change) for change, _, _ in sssp_cases.BROKEN]
    if kind is not np.int64:
        odd = [{3: np.nan}, {5: np.nan}, {0: np.nan}, {5: -np.inf}]
        wrong += [edited(right, {"distance": entries}) for entries in odd]
    verdicts = agreed([right, *wrong, right], [edges], types=types)
    assert [v.ok for v in verdicts] == [True, *[False] * len(wrong), True]
    lighter = sssp_cases.edges_of([*sssp_cases.TUPLES, (1, 0, 2), (7, 1, 1)], kind)
    agreed([right, *wrong], [lighter], types=types)


def test_every_rule_is_among_the_cases() -> None:
    cases = [*bfs_cases.BROKEN, *sssp_cases.BROKEN]
    assert {rule for _, rule, _ in cases} | {rules.RULE_KNOWN} == RULES


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_one_ulp_either_way_is_found(kind) -> None:
    tuples = [(0, 1, 0.1), (1, 2, 0.7), (2, 3, 0.3), (0, 3, 1.9)]
    edges = sssp_cases.edges_of(tuples, kind)
    right = plain_sssp(range(4), edges, 0, directed=False)
    wrong = [
        edited(right, {"distance": {v: np.nextafter(right.distance[v], kind(aim))}})
        for v, aim in itertools.product((1, 2, 3), (0, 100))
    ]
    assert [v.ok for v in agreed([right, *wrong], [edges])] == [True, *[False] * 6]


def test_integers_are_exact_and_do_not_wrap() -> None:
    big = 2**53
    edges = sssp_cases.edges_of([(0, 1, big), (1, 2, 1)], np.int64)
    right = plain_sssp(range(3), edges, 0, directed=False)
    wrong = [edited(right, {"distance": {2: big + off}}) for off in (0, 2)]
    assert [v.ok for v in agreed([right, *wrong], [edges])] == [True, False, False]
    top = INT64_UNREACHED - 5
    tuples = [(0, 1, top), (0, 2, 7), (2, 1, top)]
    right = plain_sssp(range(3), sssp_cases.edges_of(tuples[:2], np.int64), 0, directed=True)
    for directed in (False, True):
        blocks = [sssp_cases.edges_of(tuples, np.int64)]
        assert agreed([right], blocks, directed=directed)[0].ok


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_subnormal_numbers_are_not_zero(kind) -> None:
    tiny = np.finfo(kind).smallest_subnormal
    tuples = [(0, 1, tiny), (1, 2, 3 * tiny), (2, 3, 0), (0, 3, 5 * tiny)]
    edges = sssp_cases.edges_of(tuples, kind)
    right = plain_sssp(range(5), edges, 0, directed=False)
    assert right.distance[3] == 4 * tiny > 0
    changes = [{v: n * tiny} for v, n in ((1, 0), (1, 2), (2, 5), (3, 3), (3, 5), (4, -1), (3, -1))]
    wrong = [edited(right, {"distance": change}) for change in changes]
    wrong.append(edited(right, {"parent": {1: 2}, "distance": {1: 4 * tiny}}))
    found = agreed([right, *wrong], [edges])
    assert [v.ok for v in found] == [True, *[False] * len(wrong)]
    check = CudaSsspValidator(5, 1)
    check.add(0, cupy.asarray(right.parent), cupy.asarray(right.distance))
    ends, weight = [cupy.asarray(ids) for ids in (edges.source, edges.target)], edges.weight.copy()
    weight[2] = -0.0
    check.block(*ends, cupy.asarray(weight))
    assert check.finish()[0].ok
    weight[2] = -tiny
    with pytest.raises(NegativeWeightError, match=f"{-tiny}"):
        check.block(*ends, cupy.asarray(weight))


def test_subnormal_weights_of_wider_distances() -> None:
    tiny = np.finfo(np.float32).smallest_subnormal
    edges = sssp_cases.edges_of([(0, 1, tiny), (1, 2, 3 * tiny)], np.float32)
    wide = replace(edges, weight=edges.weight.astype(np.float64))
    right = plain_sssp(range(3), wide, 0, directed=False)
    assert right.distance[2] == 4 * np.float64(tiny) > 0
    assert agreed([right], [edges])[0].ok
    assert not agreed([edited(right, {"distance": {2: 0}})], [edges])[0].ok


def random_case(rng, kernel):
    """A graph with duplicates and loops, and its ids as answers know them."""
    vertices, tuples = int(rng.integers(1, 22)), int(rng.integers(0, 40))
    source, target = rng.integers(0, vertices, (2, tuples))
    if rng.random() < 0.1:
        target[rng.random(tuples) < 0.1] = rng.choice([-4, vertices, vertices + 3, 2**50])
    if kernel == "bfs":
        return vertices, EdgeBlock(source, target)
    kind = sssp_cases.KINDS[rng.integers(3)]
    values = np.array([0, 1, 2, 3] if kind is np.int64 else [0, 0.1, 0.2, 0.7, 2.0**30], kind)
    return vertices, EdgeBlock(source, target, rng.choice(values, tuples))


def damage(rng, answer):
    """Change up to three entries; often an answer stays right."""
    name = "level" if isinstance(answer, BfsAnswer) else "distance"
    measure = getattr(answer, name)
    for _ in range(rng.integers(0, 4)):
        at, other = rng.integers(0, len(measure), 2)
        what = rng.integers(7)
        if what < 2:
            answer.parent[at] = rng.choice([other, -1, len(measure), -2])
        elif what == 2:
            measure[at] = measure[other]
        elif what == 3:
            answer.parent[at], measure[at] = answer.parent[other], measure[other]
        elif what == 4:
            answer.parent[at], measure[at] = -1, measure.dtype.type(-1)
            if name == "distance":
                measure[at] = answer.unreached
        elif what == 5 and measure[at] == measure[at] and abs(measure[at]) < 2**40:
            measure[at] += measure.dtype.type(rng.choice([-1, 1, 2]))
        elif measure.dtype.kind == "f":
            measure[at] = np.nextafter(measure[at], measure.dtype.type(rng.choice([0, 9])))


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_and_damage(kernel, seed) -> None:
    """Batches of every size, edges in blocks of every size, in all types, directed and not."""
    rng = np.random.default_rng([seed, kernel == "bfs"])
    plain = plain_bfs if kernel == "bfs" else plain_sssp
    said: Counter[str] = Counter()
    for number in range(30):
        vertices, edges = random_case(rng, kernel)
        directed = bool(rng.integers(2))
        known = (edges.target >= 0) & (edges.target < vertices)
        weight = None if edges.weight is None else edges.weight[known]
        inner = EdgeBlock(edges.source[known], edges.target[known], weight)
        answers = []
        for _ in range([1, 7, 64, 3][number % 4] if number < 8 else rng.integers(1, 12)):
            root = int(rng.integers(0, vertices))
            answers.append(plain(range(vertices), inner, root, directed=directed))
            damage(rng, answers[-1])
        blocks = cut(edges, sorted(rng.integers(0, len(edges) + 1, rng.integers(0, 4))))
        types = TYPES[rng.integers(len(TYPES))]
        room = min(64, len(answers) + int(rng.integers(0, 9)))
        found = agreed(answers, blocks, directed=directed, room=room, types=types)
        said.update(verdict.rule for verdict in found)
    assert said[""] > 10
    assert len(said) > 6


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", changed_cases.KINDS, ids=changed_cases.NAMES)
def test_what_breaks_a_rule_is_found_and_nothing_else(kind, directed) -> None:
    """The CPU's changed answers, in batches and alone, in all types."""
    outcomes = []
    cases = changed_cases.changed(kind, directed, changed_cases.DENSE, 4)
    for number, (edges, answers, expected) in enumerate(cases):
        given = {"directed": directed, "types": TYPES[2 * number + directed]}
        batches, blocks = (answers[:40], answers[40:]), cut(edges, [7])
        together = [verdict for some in batches for verdict in agreed(some, blocks, **given)]
        assert [verdict.ok for verdict in together] == expected
        assert [on_device([a], [edges], **given)[0] for a in answers] == together
        outcomes += expected
    assert 0 < sum(outcomes) < len(outcomes) - 100


@pytest.mark.parametrize("length", [126, 127, 128, 253, 254, 255, 256, 300])
def test_levels_that_outgrow_a_byte(length) -> None:
    pairs = [(i, i + 1) for i in range(length)]
    ids, edges = range(length + 2), ends_of(pairs)
    deep, shallow = (plain_bfs(ids, edges, root, directed=False) for root in (0, length + 1))
    middle = plain_bfs(ids, edges, length // 2, directed=False)
    shortcut, leaving = ends_of([*pairs, (0, length)]), ends_of([*pairs, (length + 1, length)])
    for types in TYPES[:4:2]:
        for answers in ([shallow, deep, shallow, middle, middle], [deep, middle, shallow]):
            assert all(verdict.ok for verdict in agreed(answers, [edges], types=types))
            agreed(answers, [shortcut], types=types)
            agreed(answers, [leaving], types=types)


@pytest.mark.parametrize("vertices", [2, 3, 64, 65, 50_000])
def test_long_chains_of_equal_distances(vertices) -> None:
    """A path of no weight; and its far half closed to a circle."""
    at = np.arange(vertices)
    edges = EdgeBlock(at[:-1], at[1:], np.zeros(vertices - 1, np.float32))
    index = VertexIndex.dense(0, vertices)
    distance = np.zeros(vertices, np.float32)
    right = SsspAnswer(0, np.maximum(at - 1, 0), distance, index)
    circle, loop = right.parent.copy(), right.parent.copy()
    circle[vertices // 2] = vertices - 1
    loop[-1] = vertices - 1
    answers = [right, SsspAnswer(0, circle, distance, index), SsspAnswer(0, loop, distance, index)]
    verdicts = agreed(answers, [edges])
    assert [v.rule for v in verdicts] == ["", rules.RULE_CYCLE, rules.RULE_CYCLE]
