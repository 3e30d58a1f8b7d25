"""All pairs at once on the CPU: the bytes of searches, and when it is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
from ooc_graph.kernels.common.many.bellman_ford import reweighted
from ooc_graph.kernels.common.sssp.rows import plain_rows
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many import choice as many_choice
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cpu.many import search as many_search
from ooc_graph.kernels.cpu.many.batch import all_wanted
from ooc_graph.kernels.cpu.many.floyd_warshall import TILE
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.types import INT64_UNREACHED
from tests.said import Said
from tests.strategies import Arcs, arcs_of, metric, skewed, small_arcs

TEAM = Team(3)
MIB = 1 << 20


def sides(arcs: Arcs) -> Any:
    shard = arcs.shards(1)[0]
    return shard.out_light, shard.into_light if arcs.directed else shard.out_light


def shifted(arcs: Arcs, most: int = 1000) -> Arcs:
    """The same shortest paths, with weights of both signs."""
    by = np.random.default_rng(2).integers(0, most, arcs.vertices)
    return replace(arcs, weight=arcs.weight + by[arcs.source] - by[arcs.target])


def plain(arcs: Arcs) -> np.ndarray:
    """Floyd-Warshall as it is written in books."""
    n, top = arcs.vertices, 1 << 60
    far = np.full((n, n), top)
    np.minimum.at(far, (arcs.source, arcs.target), arcs.weight)
    np.fill_diagonal(far, 0)
    for k in range(n):
        np.minimum(far, far[:, k : k + 1] + far[k], out=far)
    return np.where(far > top // 2, INT64_UNREACHED, far)


def chooser_of(arcs: Arcs, sources: int | None = None, lanes: int = 16) -> CpuJohnson:
    search = CpuJohnson(*sides(arcs), TEAM, lanes, np.ones(arcs.vertices, np.uint32))
    search.expect(arcs.vertices, arcs.vertices if sources is None else sources)
    return search


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every graph's pairs are found at once."""
    monkeypatch.setattr(floyd_warshall, "FEWEST_ROWS", 0)
    monkeypatch.setattr(floyd_warshall, "SOME_SHARE", 0)
    monkeypatch.setattr(floyd_warshall, "SURE_SHARE", 0)


@pytest.mark.parametrize("vertices", [2, TILE - 1, TILE, TILE + 1, 3 * TILE + 5])
@pytest.mark.parametrize("negative", [False, True])
def test_against_the_book(at_once: None, vertices: int, negative: bool) -> None:
    arcs = skewed(vertices, 4 * vertices, "int64", directed=True, seed=vertices)
    if negative:
        arcs = shifted(arcs)
    search = chooser_of(arcs)
    found = search.run(np.arange(arcs.vertices))
    assert search.has_matrix
    assert found.dtype == np.int64
    assert found.tolist() == plain(arcs).tolist()


@settings(max_examples=40, deadline=None)
@given(small_arcs("int64"), st.booleans(), st.data())
def test_same_bytes_as_searches(arcs: Arcs, negative: bool, data: Any) -> None:
    # Some are too heavy for 32 bits.
    arcs = replace(arcs, weight=arcs.weight % 1000)
    if negative:
        arcs = replace(shifted(arcs), directed=True)
    drawn = st.lists(st.integers(0, arcs.vertices - 1), max_size=2 * TILE)
    sources = np.array(data.draw(drawn), np.int64)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FEWEST_ROWS", "SOME_SHARE", "SURE_SHARE"):
            patch.setattr(floyd_warshall, name, 0)
        search = chooser_of(arcs)
        found, parents = search.run_with_parents(sources)
        again = search.run(sources)
    assert search.has_matrix
    expected, theirs = CpuJohnson(*sides(arcs), TEAM).run_with_parents(sources)
    assert found.tobytes() == again.tobytes() == expected.tobytes()
    assert parents.tobytes() == theirs.tobytes()


@pytest.mark.parametrize(
    ("factor", "fits"),
    [(1, True), (4000, True), (70_000, False), (1 << 20, False)],
    ids=["short", "longer than a bound", "too near to the top", "heavy arcs"],
)
def test_long_paths(factor: int, fits: bool) -> None:
    arcs = metric(300, density=0.5)
    arcs = replace(arcs, weight=arcs.weight * factor)
    assert floyd_warshall.holds_all(int(arcs.weight.max()), 300) == (factor == 1)
    search, sources = chooser_of(arcs), np.arange(300)
    found = search.run(sources)
    assert search.has_matrix == fits
    assert found.tobytes() == CpuJohnson(*sides(arcs), TEAM).run(sources).tobytes()


def test_pairs_without_a_path_are_no_long_ones() -> None:
    """A path of arcs that weigh 2^20 among vertices of which others reach nothing."""
    ends = np.arange(600)
    arcs = arcs_of(ends, ends + 1, np.full(600, 1 << 20), directed=True)
    closed = floyd_warshall.close(plain_rows(sides(arcs)[0]), TEAM)
    assert closed is not None
    found = np.empty((arcs.vertices, arcs.vertices), np.int64)
    closed.run(all_wanted(np.arange(arcs.vertices), found))
    assert (found == INT64_UNREACHED).sum() == 600 * 601 // 2
    assert found[found < INT64_UNREACHED].max() == 600 << 20
    heavier = replace(arcs, weight=arcs.weight * 2)
    assert floyd_warshall.close(plain_rows(sides(heavier)[0]), TEAM) is None


@pytest.mark.parametrize(
    ("name", "arcs", "share", "expected"),
    [
        ("dense", metric(300, density=0.5), 1.0, True),
        ("few sources", metric(300, density=0.5), 0.4, False),
        ("small", metric(200, density=0.5), 1.0, False),
        ("sparse", metric(600, density=0.1), 1.0, False),
        ("few rows", metric(300, density=0.1), 1.0, True),
        ("floats", metric(300, density=0.5), 1.0, False),
    ],
)
def test_when_it_is_sure(name: str, arcs: Arcs, share: float, expected: bool) -> None:
    if name == "floats":
        arcs = replace(arcs, weight=arcs.weight.astype(np.float64))
    search = chooser_of(arcs, int(share * arcs.vertices))
    # Too few to look at what batches relax.
    search.run(np.arange(9))
    assert search.has_matrix == expected


@pytest.mark.parametrize(("limit", "expected"), [(8, True), (0, False)])
def test_what_batches_relax_decides(
    monkeypatch: pytest.MonkeyPatch, limit: int, expected: bool
) -> None:
    """Of a graph that is not surely dense; the first batches' answers are kept."""
    arcs, sources = metric(600, density=0.2), np.arange(600)
    monkeypatch.setattr(floyd_warshall, "MINIMA_A_LENGTH", limit)
    monkeypatch.setattr(many_choice, "MANY_RELAXED", 1e9)
    search = chooser_of(arcs)
    expected_bytes = CpuJohnson(*sides(arcs), TEAM).run(sources).tobytes()
    assert search.run(sources).tobytes() == expected_bytes
    assert search.has_matrix == expected
    # Without a place for the matrix it is given up.
    search.expect(600, 0)
    assert not search.has_matrix
    assert search.run(sources).tobytes() == expected_bytes


def test_lengths_are_counted_along_all_arcs(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many threads there are: so many that their batches would pay for dropping arcs."""
    arcs, dropped = metric(600, density=0.1), []
    heavy = np.random.default_rng(1).integers(1, 10**6, len(arcs.weight))
    arcs = replace(arcs, weight=heavy)
    search = CpuJohnson(*sides(arcs), Team(5), 64, np.ones(arcs.vertices, np.uint32))
    search.expect(arcs.vertices, arcs.vertices)

    def pays(_: int, lengths: float) -> bool:
        dropped.append(search.search._pruned is not None)
        assert lengths > 0
        return False

    monkeypatch.setattr(floyd_warshall, "pays", pays)
    search.run(np.arange(arcs.vertices))
    assert dropped == [False]
    assert len(search.search._pruned[0].neighbors) < len(search.search.rows[0].neighbors)
    dropping = CpuJohnson(*sides(arcs), TEAM).search
    dropping.expect(arcs.vertices)
    assert len(dropping._pruned[0].neighbors) < len(dropping.rows[0].neighbors)
    assert not dropping.counts.any()


def test_as_users_ask_for_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arcs = shifted(metric(300, density=0.5))
    edges = arcs.source * 3, arcs.target * 3, arcs.weight
    matrix, searched = (og.from_edges(*edges, directed=True) for _ in range(2))
    said = Said()
    found = og.johnson(matrix, device="cpu", progress=said, out=tmp_path / "d.zarr")
    assert "Floyd-Warshall" in " ".join(said.notes)
    monkeypatch.setattr(floyd_warshall, "FEWEST_ROWS", 1 << 30)
    said = Said()
    expected = og.johnson(searched, device="cpu", progress=said)
    assert not said.notes
    assert found.distance.tobytes() == expected.distance.tobytes()


def test_a_matrix_takes_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is not enough for it, searches are done as before."""
    arcs = metric(300, density=0.5)
    graph = og.from_edges(arcs.source, arcs.target, arcs.weight, directed=True)
    for matrix, told in ((1 << 60, 0), (1, 1)):
        monkeypatch.setattr(floyd_warshall, "matrix_bytes", lambda _, bytes_=matrix: bytes_)
        said = Said()
        og.johnson(graph, reduce="sum", device="cpu", progress=said, memory_limit=256 * MIB)
        assert len(said.notes) == told


@pytest.mark.parametrize("heaviest", [1 << 10, 1 << 60])
def test_new_weights_are_light_first(heaviest: int) -> None:
    """Whether row, weight and neighbour fit one number or not."""
    arcs = skewed(200, 3000, "int64", directed=True, seed=1)
    rows = plain_rows(sides(replace(arcs, weight=arcs.weight % heaviest))[0])
    by = -np.random.default_rng(1).integers(0, heaviest, arcs.vertices)
    found = reweighted(rows, by, into=False)
    row = np.repeat(np.arange(arcs.vertices), np.diff(rows.offsets))
    weight = np.maximum(rows.weights + by[row] - by[rows.neighbors], 0)
    order = np.lexsort((rows.neighbors, weight, row))
    assert found.neighbors.tobytes() == rows.neighbors[order].tobytes()
    assert found.weights.tobytes() == weight[order].tobytes()
    assert many_search.distance_dtype(found.weights) == np.int64
