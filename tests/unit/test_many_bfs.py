"""BFS from many sources at once: levels and tallies against breadth-first search in Python."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ooc_graph.kernels.common.completion import OnDone
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many import bfs_search as many_bfs_search
from ooc_graph.kernels.cpu.many.bfs_search import CpuManyBfs
from ooc_graph.types import INT32_UNREACHED, AnyArray
from tests.strategies import Arcs, arcs_of, grid, skewed, small_arcs

WORTH = many_bfs_search.WORTH


@pytest.fixture(autouse=True)
def batches_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are never given up, as most of these graphs would have it."""
    monkeypatch.setattr(many_bfs_search, "FEW_SOURCES", 1)
    monkeypatch.setattr(many_bfs_search, "FEW_AT_HUBS", 1)
    monkeypatch.setattr(many_bfs_search, "WORTH", 0)


def search_of(arcs: Arcs, threads: int = 1, ids: str = "uint32") -> CpuManyBfs:
    shard = arcs.shards(1, ids)[0]
    into = shard.into_hub if arcs.directed else shard.out_hub
    return CpuManyBfs(shard.out_hub, into, Team(threads))


def levels(arcs: Arcs, sources: list[int]) -> AnyArray:
    near = [[v for v, _ in row] for row in arcs.lists()]
    found = np.full((len(sources), arcs.vertices), INT32_UNREACHED, np.int32)
    for row, source in zip(found, sources, strict=True):
        row[source], waiting = 0, deque([source])
        while waiting:
            u = waiting.popleft()
            for v in near[u]:
                if row[v] == INT32_UNREACHED:
                    row[v] = row[u] + 1
                    waiting.append(v)
    return found


def check(
    search: CpuManyBfs, expected: AnyArray, sources: list[int], batch_size: int = 256
) -> None:
    got = search.run(np.array(sources), batch_size=batch_size)
    assert got.dtype == np.int32
    assert np.array_equal(got, expected)


def check_tallies(
    search: CpuManyBfs,
    expected: AnyArray,
    sources: list[int],
    wanted: AnyArray | None = None,
    most: int | None = None,
    batch_size: int = 256,
) -> None:
    bins, width = 3, 2
    got = search.tally(
        np.array(sources), wanted=wanted, most=most, bins=bins, width=width, batch_size=batch_size
    )
    chosen = np.ones(search.vertices, bool) if wanted is None else wanted
    limit = INT32_UNREACHED - 1 if most is None else most
    for row, counted in zip(expected, got.tolist(), strict=True):
        inside = row[chosen & (row <= limit)]
        counts = [0] * bins
        for level in inside.tolist():
            counts[min(level // width, bins - 1)] += 1
        deepest = int(inside.max(initial=0))
        assert counted == [len(inside), int(inside.sum(dtype=np.int64)), deepest, *counts]


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(small_arcs(), st.sampled_from([1, 2]), st.booleans(), st.data())
def test_small_graphs(arcs, threads, singly, data):
    vertex = st.integers(0, arcs.vertices - 1)
    sources = data.draw(st.lists(vertex, min_size=1, max_size=300))
    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=arcs.vertices)))[: arcs.vertices]
    most = data.draw(st.none() | st.integers(0, 4))
    search, expected = search_of(arcs, threads), levels(arcs, sources)
    search.is_one_by_one = singly
    check(search, expected, sources)
    check_tallies(search, expected, sources, wanted, most)
    limited = search.run(np.array(sources), most=most)
    beyond = expected > (INT32_UNREACHED if most is None else most)
    assert np.array_equal(limited, np.where(beyond, INT32_UNREACHED, expected))


@pytest.mark.parametrize("batch_size", [1, 64, 100, 256])
@pytest.mark.parametrize("directed", [True, False])
def test_hubs_leaves_and_pieces_apart(directed, batch_size):
    """Levels that are pulled, and more sources than a batch of each thread has."""
    arcs = skewed(700, 4000, "float32", directed=directed, seed=4)
    sources = np.random.default_rng(2).integers(0, arcs.vertices, 600).tolist()
    search, expected = search_of(arcs, 2), levels(arcs, sources)
    check(search, expected, sources, batch_size)
    check_tallies(search, expected, sources, batch_size=batch_size)


def test_deep_levels():
    """Pushed from word to word; every source finds others in hundreds of levels."""
    arcs = arcs_of(np.arange(700), np.arange(1, 701), np.ones(700), directed=False)
    sources = list(range(0, arcs.vertices, 9))
    search, expected = search_of(arcs, 2), levels(arcs, sources)
    assert expected.max() > 600
    check(search, expected, sources)
    check_tallies(search, expected, sources)


def test_batches_are_given_up_where_sources_do_not_meet(monkeypatch):
    monkeypatch.setattr(many_bfs_search, "WORTH", 12)
    arcs = arcs_of(np.arange(700), np.arange(1, 701), np.ones(700), directed=False)
    sources = list(range(0, arcs.vertices, 3))
    search, expected = search_of(arcs, 2), levels(arcs, sources)
    check_tallies(search, expected, sources)
    assert search.is_one_by_one
    check(search, expected, sources)
    dense = skewed(700, 9000, "float32", directed=False, seed=4)
    search, expected = search_of(dense, 2), levels(dense, sources)
    check(search, expected, sources)
    assert not search.is_one_by_one


def test_counts_of_many_vertices():
    """Planes carry: a level of a star has all its leaves."""
    leaves = 5000
    arcs = arcs_of(np.zeros(leaves, int), np.arange(1, leaves + 1), np.ones(leaves), directed=False)
    got = search_of(arcs).tally(np.array([0, 1, 2]), bins=4)
    assert got.tolist() == [
        [leaves + 1, leaves, 1, 1, leaves, 0, 0],
        *[[leaves + 1, 1 + 2 * (leaves - 1), 2, 1, 1, leaves - 1, 0]] * 2,
    ]


@pytest.mark.slow  # compiled for itself
def test_wide_ids():
    arcs = skewed(300, 2000, "float32", directed=True, seed=3)
    sources = list(range(arcs.vertices))
    search, expected = search_of(arcs, 2, "uint64"), levels(arcs, sources)
    check(search, expected, sources)


def test_no_sources():
    search = search_of(grid(4, "float32"))
    assert search.run(np.empty(0, np.int64)).shape == (0, search.vertices)
    assert search.tally(np.empty(0, np.int64), bins=2).shape == (0, 5)


def test_answer_is_written_in_place():
    search = search_of(grid(5, "float32"))
    answer = np.full((3, search.vertices), -7, np.int32)
    assert search.run(np.array([0, 1, 2]), answer) is answer
    assert (answer >= 0).all()


def test_few_sources_that_are_left_end_no_batches(monkeypatch):
    """A batch of what is left of a unit finds few sources in a visit, however well others pay."""
    monkeypatch.setattr(many_bfs_search, "WORTH", WORTH)
    random = np.random.default_rng(3)
    ends = random.integers(0, 4000, (2, 20_000))
    arcs = arcs_of(*ends, np.ones(20_000, np.float32), directed=False)
    search = search_of(arcs, 2)
    sources = random.integers(0, arcs.vertices, 520)
    on_done = OnDone(lambda *_: None, np.array([0, 256, 512, 520]))
    counted = search.tally(sources, on_done=on_done)
    assert not search.is_one_by_one
    assert counted.tolist() == search_of(arcs, 2).tally(sources).tolist()


@pytest.mark.parametrize("at_hubs", [False, True])
def test_few_sources_at_hubs_are_searched_from_one_by_one(monkeypatch, at_hubs):
    monkeypatch.setattr(many_bfs_search, "FEW_AT_HUBS", many_bfs_search.FEW_SOURCES + 20)
    monkeypatch.setattr(many_bfs_search, "hubs_are_large", lambda _: at_hubs)
    begun: list[Any] = []
    monkeypatch.setattr(many_bfs_search, "run_batches", lambda *given: begun.append(given))
    arcs = skewed(400, 4000, "float32", directed=False, seed=3)
    search = search_of(arcs)
    search.run(np.arange(20))
    assert bool(begun) != at_hubs
    search.run(np.arange(21))
    assert begun
