"""A thousand answers, each with an entry changed, in batches and alone; memory that this takes."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ooc_graph.edges.arrays import ArraySource
from ooc_graph.edges.interface import SourceDefaults, Unit, ranges, units_of
from ooc_graph.errors import UsageError
from ooc_graph.runtime import validation
from ooc_graph.runtime.validation import TREES, check_edges, check_trees
from ooc_graph.types import EdgeBlock
from ooc_graph.validate import BfsAnswer, BfsValidator, SsspAnswer, SsspValidator, VertexIndex
from ooc_graph.validate.batch import BATCH_ANSWERS, batch_bytes
from ooc_graph.validate.components import (
    ComponentsAnswer,
    ComponentsValidator,
    components_bytes,
)
from ooc_graph.validate.rows import row_bytes
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process
from tests.unit.test_validate_oracle import plain_bfs, plain_sssp, right_bfs, right_sssp
from tests.validating import validate_bfs, validate_sssp

VERTICES, TUPLES = 12, 18
ANSWERS = BATCH_ANSWERS + 7  # a batch and a smaller one
KINDS, NAMES = [None, np.float32, np.int64], ["bfs", "float32", "int64"]
DENSE, SPARSE = list(range(VERTICES)), [3, 7, *(2**33 + 5 * i for i in range(9)), 2**63 - 1]


def graph_of(rng: np.random.Generator, ids: list[int], kind: Any) -> EdgeBlock:
    """A graph with isolated vertices, a self-loop and a duplicate."""
    ends = rng.choice(ids[:-2], (2, TUPLES))
    ends[1, 0] = ends[0, 0]
    ends[:, 1] = ends[:, 2]
    weight = rng.integers(0, 4, TUPLES).astype(kind)
    if kind is np.float32:
        weight *= np.float32(0.1)
    return EdgeBlock(ends[0].copy(), ends[1].copy(), weight)


def change(rng: np.random.Generator, ids: list[int], answer: Any, column: str) -> None:
    entries = getattr(answer, column)
    at = rng.integers(len(entries))
    if column == "parent":
        entries[at] = rng.choice([*ids, -1, -2, 2**40])
    elif column == "level":
        entries[at] += rng.choice([-1, 1, 2])
    else:
        far = entries.dtype.type(answer.unreached)
        other = rng.choice(entries)
        entries[at] = rng.choice([other, far, entries.dtype.type(-1), entries.dtype.type(0.25)])


def changed(
    kind: Any, directed: bool, ids: list[int], graphs: int = 2
) -> Iterator[tuple[EdgeBlock, list[Any], list[bool]]]:
    """Graphs, answers with an entry changed each, and which of these the plain judge finds right.

    ``kind`` is that of the weights; None: of BFS.
    """
    rng = np.random.default_rng([directed, len(str(kind)), len(str(ids))])
    plain, right = (plain_bfs, right_bfs) if kind is None else (plain_sssp, right_sssp)
    for _ in range(graphs):
        edges = graph_of(rng, ids, kind or np.float32)
        answers: list[Any] = []
        for number in range(ANSWERS):
            answer = plain(ids, edges, int(rng.choice(ids)), directed=directed)
            column = "parent" if number % 2 else "level" if kind is None else "distance"
            change(rng, ids, answer, column)
            answers.append(answer)
        yield edges, answers, [right(ids, edges, answer, directed=directed) for answer in answers]


@pytest.mark.parametrize("ids", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_what_breaks_a_rule_is_found_and_nothing_else(
    kind: Any, directed: bool, ids: list[int]
) -> None:
    validate = validate_bfs if kind is None else validate_sssp
    outcomes = []
    for edges, answers, expected in changed(kind, directed, ids):
        together = validate(answers, [edges], directed=directed)
        assert [verdict.ok for verdict in together] == expected
        assert [validate([a], [edges], directed=directed)[0] for a in answers] == together
        outcomes += expected
    assert 0 < sum(outcomes) < len(outcomes) - 50


SIZE, THREADS = 1 << 20, 2


@dataclass(frozen=True)
class Halving(SourceDefaults):
    """Edges (i - 1) // 2 - i of a tree, the root 0; their weights are all ``weight``."""

    weight: float
    directed = False
    weight_dtype = np.dtype(np.float32)
    edges = SIZE - 1

    def units(self, edges_per_unit: int) -> list[Unit]:
        return units_of(ranges(1, SIZE, edges_per_unit))

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        for start, stop in ranges(unit.start, unit.stop, block_edges):
            child = np.arange(start, stop)
            yield EdgeBlock((child - 1) >> 1, child, np.full(len(child), self.weight, np.float32))


def answer_of(kernel: str, weight: float) -> Any:
    child = np.arange(SIZE)
    parent, depth = (child - 1) >> 1, np.frexp(child + 1)[1] - 1
    parent[0] = 0
    vertices = VertexIndex.dense(0, SIZE)
    if kernel == "bfs":
        return BfsAnswer(0, parent, depth.astype(np.int32), vertices)
    return SsspAnswer(0, parent, (depth * weight).astype(np.float32), vertices)


def memory_beside(kernel: str, count: int, weight: float, most: int) -> int:
    """Bytes that are held beside the answer, all of ``count`` made one after the other."""
    validation._BLOCK_EDGES = 1 << 12
    answer, source = answer_of(kernel, weight), Halving(weight)
    measure = TREES[kernel][2]

    def copies() -> Iterator[Any]:
        for _ in range(count - 1):
            columns = answer.parent.copy(), getattr(answer, measure).copy()
            yield type(answer)(0, *columns, answer.vertices)
            del columns
        yield answer

    def check() -> None:
        kind = TREES[kernel][1]
        validator = kind(copies(), directed=False, count=count, threads=THREADS)
        for verdict in check_edges(validator, source, THREADS):
            verdict.raise_if_failed()

    check()  # compiled
    return traced_peak(check, most)


@pytest.mark.parametrize("count", [1, 3, 9])
@pytest.mark.parametrize(("kernel", "weight"), [("bfs", 1), ("sssp", 0.5), ("sssp", 0)])
def test_memory_is_what_is_said(kernel: str, count: int, weight: float) -> None:
    dtype = np.dtype(np.uint8 if kernel == "bfs" else np.float32)
    blocks, cycle = 2 << 20, SIZE // 4 if weight == 0 else 0
    copy = 12 * SIZE if count > 1 else 0
    most = batch_bytes(SIZE, count, dtype) + copy + cycle + blocks
    if count == 1:
        assert batch_bytes(SIZE, count, dtype) == 4 * SIZE
    peak = in_own_process(memory_beside, kernel, count, weight, most)
    assert 4 * SIZE < peak <= most


def deep_answer(depth: int) -> BfsAnswer:
    """The tree of a path with ``depth`` vertices, from its first one."""
    level = np.arange(depth, dtype=np.int32)
    return BfsAnswer(0, np.maximum(level - 1, 0).astype(np.int64), level, DENSE_PATH)


DENSE_PATH = VertexIndex.dense(0, 300)
LASTS = 10, 13, 14, 15, 253, 254, 255, 299, 3  # 15, 255: what stands for unreached elsewhere


def test_levels_that_need_more_bits_are_left_to_another_pass() -> None:
    ends = np.arange(299)
    path = EdgeBlock(ends, ends + 1)
    deep = deep_answer(300)
    answers = []
    for last in LASTS:
        level = np.where(deep.level <= last, deep.level, -1).astype(np.int32)
        answers.append(BfsAnswer(0, np.where(level < 0, -1, deep.parent), level, DENSE_PATH))
    validator = BfsValidator(answers, directed=False)
    assert [answer.level.max() for answer in validator.refused] == [15]
    assert validator._batch.taken == 3
    left = iter(answers[3:])
    validator = BfsValidator(left, directed=False, count=6)
    assert validator._batch.taken == 3
    assert validator.refused == [answers[6]]
    together = validate_bfs(answers, [path], directed=False)
    assert together == [validate_bfs([a], [path], directed=False)[0] for a in answers]
    assert [verdict.ok for verdict in together] == [last == 299 for last in LASTS]


def test_a_pass_has_the_memory_of_the_one_before() -> None:
    alive, told = weakref.WeakSet[BfsValidator](), list[float]()

    class Counted(BfsValidator):
        def __init__(self, *answers: Any, **options: Any) -> None:
            assert not alive
            super().__init__(*answers, **options)
            alive.add(self)

    ends, level = np.arange(299), deep_answer(300).level
    source = ArraySource(ends, ends + 1, None, False, None)
    answers = [BfsAnswer(0, np.full(300, -1), level.clip(0, last), DENSE_PATH) for last in LASTS]
    verdicts = check_trees(Counted, iter(answers), len(LASTS), source, told.append)
    assert [verdict.ok for verdict in verdicts] == [False] * len(LASTS)
    assert sum(told) == pytest.approx(299)
    with pytest.raises(UsageError, match="9 answers to validate were promised, 0 came"):
        check_trees(Counted, iter(()), len(LASTS), source)


@pytest.mark.parametrize("depth", [1, 20])
@pytest.mark.parametrize("directed", [True, False])
def test_nothing_is_below_an_unreached_vertex(depth: int, directed: bool) -> None:
    """Levels are subtracted modulo a power of two: 0 is not one more than what is unreached."""
    ids = range(depth + 3)
    path = np.arange(depth)
    edges = EdgeBlock(np.append(path, depth + 1), np.append(path + 1, depth + 2))
    right = [plain_bfs(ids, edges, root, directed=directed) for root in (0, 0, 0)]
    right[1].parent[-1], right[1].level[-1] = depth + 1, 0
    together = validate_bfs(right, [edges], directed=directed)
    assert [verdict.rule for verdict in together] == ["", "level of parent", ""]
    assert together == [validate_bfs([a], [edges], directed=directed)[0] for a in right]


@pytest.mark.parametrize("is_hop", [True, False])
def test_answers_with_many_parents_take_more_than_one_pass(is_hop: bool) -> None:
    """Every answer has other parents than all before it: no batch has room for 64 such."""
    roots, middle = 64, 64
    size = 1 + middle + 1000
    source = np.r_[np.zeros(middle, int), np.repeat(np.arange(1, middle + 1), 1000)]
    target = np.r_[np.arange(1, middle + 1), np.tile(np.arange(middle + 1, size), middle)]
    edges = EdgeBlock(source, target, np.ones(len(source), np.float32))
    vertices = VertexIndex.dense(0, size)
    far = np.r_[0, np.ones(middle, int), np.full(1000, 2)]
    answers: list[Any] = []
    for number in range(roots):
        parent = np.r_[np.zeros(middle + 1, int), np.full(1000, 1 + number)]
        if is_hop:
            answers.append(BfsAnswer(0, parent, far.astype(np.int32), vertices))
        else:
            answers.append(SsspAnswer(0, parent, far.astype(np.float32), vertices))
    kind, validate = (BfsValidator, validate_bfs) if is_hop else (SsspValidator, validate_sssp)
    first = kind(iter(answers), directed=False, count=roots)
    assert 8 <= first._batch.taken < 15
    assert not first.refused
    answers[40].parent[-1] = size - 2
    verdicts = validate(answers, [edges], directed=False)
    assert [v.ok for v in verdicts] == [number != 40 for number in range(roots)]
    assert verdicts == [validate([a], [edges], directed=False)[0] for a in answers]


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_answers_over_several_ranges_of_vertices(kernel: str) -> None:
    """A tree, and a comb behind it: no answer reaches both, and both have faults."""
    tree, size = 69_000, 140_000
    child = np.arange(1, size)
    above = np.where(child < tree, (child - 1) >> 1, (child - 1) // 2 * 2)
    child, above = child[child != tree], above[child != tree]
    edges = EdgeBlock(above, child, np.full(len(child), 0.5, np.float32))
    vertices, depth = VertexIndex.dense(0, size), np.zeros(size, np.int32)
    for v, p in zip(child.tolist(), above.tolist(), strict=True):
        depth[v] = depth[p] + 1
    parent = np.arange(size)
    parent[child] = above

    def answer(root: int, is_tree: bool, fault: int | None = None) -> Any:
        reached = (np.arange(size) < tree) == is_tree
        found, far = np.where(reached, parent, -1), np.where(reached, depth, -1)
        if fault is not None:
            found[fault] -= 1
        if kernel == "bfs":
            return BfsAnswer(root, found, far.astype(np.int32), vertices)
        distance = np.where(far < 0, np.inf, far / 2).astype(np.float32)
        return SsspAnswer(root, found, distance, vertices)

    faults = [None, None, 68_001, 139_999, None, 3]
    answers = [answer(tree * (i % 2), i % 2 == 0, fault) for i, fault in enumerate(faults)]
    validate = validate_bfs if kernel == "bfs" else validate_sssp
    together = validate(answers, [edges], directed=False)
    assert [verdict.ok for verdict in together] == [fault is None for fault in faults]
    assert together == [validate([a], [edges], directed=False)[0] for a in answers]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_rows_of_a_batch_are_as_short_as_lines_allow(dtype: Any) -> None:
    for count in range(1, BATCH_ANSWERS + 1):
        least, width = max(8, count * np.dtype(dtype).itemsize), row_bytes(count, np.dtype(dtype))
        assert least <= width < min(2 * least, least + 64)
        assert 64 % width == 0 or width % 64 == 0


def memory_of_components(most: int) -> int:
    source, vertices = Halving(1), VertexIndex.dense(0, SIZE)
    component = np.zeros(SIZE, np.int64)
    validation._BLOCK_EDGES = 1 << 12

    def check() -> None:
        validator = ComponentsValidator(ComponentsAnswer(component, vertices))
        (verdict,) = check_edges(validator, source, THREADS)
        verdict.raise_if_failed()

    check()  # compiled
    return traced_peak(check, most)


def test_memory_of_components_is_what_is_said() -> None:
    most = components_bytes(VertexIndex.dense(0, SIZE), THREADS) + (2 << 20)
    assert in_own_process(memory_of_components, most) <= most
