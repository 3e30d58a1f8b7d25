"""Edges in parts, on several threads or workers, and answers by the batch."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ooc_graph.runtime.validation import check_edges
from ooc_graph.types import EdgeBlock
from ooc_graph.validate import (
    BfsAnswer,
    BfsValidator,
    SsspValidator,
    VertexIndex,
)
from tests.shared_data import need_shared
from tests.unit.test_validate_oracle import plain_bfs, plain_sssp
from tests.validating import validate_bfs, validate_sssp

N, M = 60, 90


@pytest.fixture(scope="module")
def edges():
    rng = np.random.default_rng(11)
    loops = np.arange(0, N, 3)  # at vertices that all, some and no answers reach
    source = np.r_[rng.integers(0, N, M), loops]
    target = np.r_[rng.integers(0, N, M), loops]
    return EdgeBlock(source, target, rng.integers(0, 5, len(source)))


def cut(edges, parts):
    bounds = np.linspace(0, len(edges), parts + 1).astype(int)
    return [
        EdgeBlock(edges.source[a:b], edges.target[a:b], edges.weight[a:b])
        for a, b in itertools.pairwise(bounds)
    ]


def bfs_answers(edges, roots, *, directed=False):
    return [plain_bfs(range(N), edges, root, directed=directed) for root in roots]


def spoil(answers):
    """Break a different rule in each of a few answers."""
    reached = np.flatnonzero(answers[1].level > 1)
    answers[1].parent[reached[0]] = answers[1].root
    answers[1].level[reached[0]] = 1
    answers[3].parent[answers[3].root] = -1
    deepest = int(answers[4].level.argmax())
    answers[4].parent[deepest], answers[4].level[deepest] = -1, -1
    return answers


@pytest.mark.parametrize("directed", [False, True])
def test_parts_in_any_order_say_what_the_whole_says(edges, directed):
    answers = spoil(bfs_answers(edges, range(6), directed=directed))
    whole = validate_bfs(answers, [edges], directed=directed)
    assert [v.ok for v in whole] == [True, False, True, False, False, True]
    check = BfsValidator(answers, directed=directed)
    for order in itertools.permutations(range(4)):
        forks = []
        for block in cut(edges, 4):
            forks.append(check.fork())
            forks[-1].block(block)
        merged = check.fork()
        for number in order:
            merged.merge(forks[number])
        assert merged.finish() == whole
    assert validate_bfs(answers, cut(edges, 7), directed=directed) == whole


def test_a_part_left_out_is_missed(edges):
    (answer,) = bfs_answers(edges, [0])
    blocks = cut(edges, 3)
    assert validate_bfs([answer], blocks, directed=False)[0].ok
    assert not validate_bfs([answer], blocks[1:], directed=False)[0].ok


def test_an_unknown_vertex_seen_by_one_part_fails_the_whole(edges):
    check = BfsValidator(bfs_answers(edges, [0, 1]), directed=False)
    check.block(edges)
    fork = check.fork()
    for stray in (N + 9, N + 2):
        fork.block(EdgeBlock(np.array([0]), np.array([stray])))
    check.merge(fork)
    for verdict in check.finish():
        assert verdict.rule == "known vertices"
        assert f"vertex {N + 2}" in verdict.message


def test_the_largest_id_may_be_unknown(edges):
    answers = bfs_answers(edges, [0])
    stray = EdgeBlock(np.array([0, 1]), np.array([2**63 - 1, 2**63 - 1]))
    (verdict,) = validate_bfs(answers, [edges, stray], directed=False)
    assert verdict.rule == "known vertices"
    assert f"vertex {2**63 - 1}" in verdict.message


def test_threads_with_forks(edges):
    answers = [plain_sssp(range(N), edges, root, directed=False) for root in range(5)]
    check = SsspValidator(answers, directed=False)

    def work(blocks):
        fork = check.fork()
        for block in blocks:
            fork.block(block)
        return fork

    blocks = cut(edges, 20)
    with ThreadPoolExecutor(4) as pool:
        for fork in pool.map(work, (blocks[i::4] for i in range(4))):
            check.merge(fork)
    verdicts = check.finish()
    assert verdicts == validate_sssp(answers, [edges], directed=False)
    assert all(v.ok for v in verdicts)


@pytest.mark.parametrize("count", [0, 1, 9, 17, 33, 63, 64, 65, 130])
def test_any_number_of_answers(edges, count):
    answers = bfs_answers(edges, [i % N for i in range(count)])
    if count > 4:
        spoil(answers)
    if count > 64:
        answers[64].level[answers[64].root] = 5
    wrong = {1, 3, 4} if count > 4 else set()
    wrong |= {64} if count > 64 else set()
    verdicts = validate_bfs((a for a in answers), [edges], directed=False)
    assert {i for i, v in enumerate(verdicts) if not v.ok} == wrong
    alone = [validate_bfs([a], [edges], directed=False)[0] for a in answers]
    assert verdicts == alone


def test_an_unreached_tail_does_not_hide_the_fault_of_the_next_answer():
    """Levels share machine words: a lane must not borrow from its neighbour."""
    right = EdgeBlock(np.array([0, 1, 3]), np.array([1, 2, 2]))
    answers = [plain_bfs(range(4), right, root, directed=True) for root in (2, 0)]
    shortcut = EdgeBlock(np.array([0]), np.array([2]))
    verdicts = validate_bfs(answers, [right, shortcut], directed=True)
    assert [v.rule for v in verdicts] == ["", "levels of an edge"]


def test_rules_without_edges_are_known_before(edges):
    answers = spoil(bfs_answers(edges, range(6)))
    before = BfsValidator(answers, directed=False)._before
    assert [v.ok for v in before] == [True, True, True, False, True, True]
    assert before[0].reached == np.count_nonzero(answers[0].level >= 0)


@pytest.mark.parametrize("ids", [[5, 6, 7], [0, 2**40, 2**63 - 1], [4], []])
def test_positions(ids):
    index = VertexIndex.ascending(np.array(ids, dtype=np.int64))
    asked = sorted({*ids, 0, 1, 4, 8, 2**40 - 1, 2**40 + 1, 2**63 - 2, -1, -(2**63)})
    found = index.positions(np.array(asked, dtype=np.int64)).tolist()
    assert found == [ids.index(i) if i in ids else -1 for i in asked]
    assert [index.id_of(i) for i in range(len(ids))] == ids


def test_same_vertices_however_they_were_given():
    gapped = VertexIndex.ascending(np.array([1, 3, 9], dtype=np.int64))
    assert gapped.same_as(VertexIndex.ascending(np.array([1, 3, 9], dtype=np.int64)))
    assert not gapped.same_as(VertexIndex.ascending(np.array([1, 4, 9], dtype=np.int64)))
    assert not gapped.same_as(VertexIndex.dense(1, 3))
    assert VertexIndex.dense(1, 3).same_as(VertexIndex.ascending(np.array([1, 2, 3])))


def test_nedge_of_the_reference_graph():
    """The specification gives 16239 tuples for every key of scale 10, seeds (2, 3)."""
    stored = np.load(need_shared("spec/golden/scale10.npz"))
    pairs = stored["edges"]
    edges = EdgeBlock(pairs[:, 0].copy(), pairs[:, 1].copy(), stored["weights"])
    joined = [(u, v) for u, v in set(map(tuple, pairs.tolist())) if u != v]
    near: dict[int, set[int]] = {}
    for u, v in joined:
        near.setdefault(u, set()).add(v)
        near.setdefault(v, set()).add(u)
    verdicts = validate_bfs(
        [adjacency_bfs(near, 1024, int(root)) for root in stored["roots"][:8]],
        cut(edges, 3),
        directed=False,
    )
    assert [(v.ok, v.edges) for v in verdicts] == [(True, 16239)] * 8


def adjacency_bfs(near, count, root):
    parent, level = np.full(count, -1), np.full(count, -1, dtype=np.int32)
    parent[root], level[root], queue = root, 0, [root]
    for u in queue:
        for v in near[u]:
            if level[v] < 0:
                parent[v], level[v] = u, level[u] + 1
                queue.append(v)
    return BfsAnswer(root, parent, level, VertexIndex.dense(0, count))


@pytest.mark.parametrize("failing", [1, 2])
def test_after_an_error_no_part_of_the_edges_is_begun(failing: int) -> None:
    begun, has_failed = list[int](), threading.Event()

    class Edges:
        def units(self, _: int) -> list[int]:
            return list(range(10_000))

        def read(self, unit: int, _: int) -> list[tuple[()]]:
            begun.append(unit)
            return [()]

    class Failing:
        forks = 0

        def fork(self) -> Failing:
            self.forks += 1
            twin = Failing()
            twin.forks = self.forks
            return twin

        def block(self, _: object) -> None:
            if self.forks == failing:
                has_failed.set()
                raise ValueError("one of the threads")
            assert has_failed.wait(60)
            time.sleep(0.01)

    with pytest.raises(ValueError, match="one of the threads"):
        check_edges(Failing(), Edges(), 2)
    assert len(begun) < 5_000
