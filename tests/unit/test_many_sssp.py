"""Many sources at once: each row against Dijkstra, and against the single search's bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import InputError
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.many import search as many_search
from ooc_graph.kernels.cpu.many.batch import RELAXED, all_wanted
from ooc_graph.kernels.cpu.many.search import CpuManySearch
from ooc_graph.types import INT64_UNREACHED, AnyArray
from tests import oracles
from tests.strategies import WEIGHTS, Arcs, arcs_of, grid, skewed, small_arcs


class AllDistances(CpuManySearch):
    """A search whose answers are all distances."""

    def run(self, sources: AnyArray, answer: AnyArray | None = None) -> AnyArray:
        if answer is None:
            answer = np.empty((len(sources), self.vertices), self.dtype)
        self.search(all_wanted(sources, answer))
        return answer


def search_of(arcs: Arcs, threads: int = 1, lanes: int = 64, ids: str = "uint32") -> AllDistances:
    shard = arcs.shards(1, ids)[0]
    into = shard.into_light if arcs.directed else shard.out_light
    return AllDistances(shard.out_light, into, Team(threads), lanes)


def expected(arcs: Arcs, sources: AnyArray, dtype: np.dtype) -> AnyArray:
    graph, far = arcs.lists(), np.inf if dtype.kind == "f" else INT64_UNREACHED
    rows = (oracles.distances(graph, source, dtype) for source in sources.tolist())
    return np.array([[far if d is None else d for d in row] for row in rows], dtype)


# Each type is compiled anew, for seconds to half a minute.
OFTEN = [
    pytest.param(dtype, marks=() if dtype in {"float32", "int64"} else pytest.mark.slow)
    for dtype in WEIGHTS
]


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("dtype", OFTEN)
def test_small_graphs(monkeypatch, dtype, pruned):
    monkeypatch.setattr(many_search, "PRUNED_FROM", 1 if pruned else 1 << 30)

    @settings(max_examples=25, deadline=None)
    @given(small_arcs(dtype), st.sampled_from([1, 2]), st.data())
    def run(arcs, threads, data):
        vertex = st.integers(0, arcs.vertices - 1)
        sources = np.array(data.draw(st.lists(vertex, min_size=1, max_size=90)), np.int64)
        search = search_of(arcs, threads)
        got = search.run(sources)
        assert got.tobytes() == expected(arcs, sources, search.dtype).tobytes()

    run()


@pytest.mark.parametrize("lanes", [1, 32, 64])
@pytest.mark.parametrize(
    ("dtype", "directed", "ids"),
    [
        ("float32", False, "uint32"),
        ("float32", True, "uint32"),
        pytest.param("float64", True, "uint32", marks=pytest.mark.slow),
        pytest.param("int32", False, "uint32", marks=pytest.mark.slow),
        pytest.param("int64", True, "uint64", marks=pytest.mark.slow),
    ],
)
def test_rows_are_those_of_single_searches(dtype, directed, ids, lanes):
    """Hubs, leaves and pieces apart; so many sources that arcs are dropped before."""
    arcs = skewed(900, 6000, dtype, directed=directed, seed=4)
    sources = np.random.default_rng(2).integers(0, arcs.vertices, 300)
    search = search_of(arcs, 2, lanes, ids)
    got = search.run(sources)
    assert 0 < len(search._pruned[0].neighbors) < len(search.rows[0].neighbors)
    single = CpuDevice(1).sssp(arcs.shards(1, ids)[0])
    for row, source in zip(got, sources.tolist(), strict=True):
        assert row.tobytes() == single.run(source).distance.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_long_ways_keep_their_bits_without_the_dropped_arcs(monkeypatch, dtype):
    """On a grid a way has many arcs, each rounded; landmarks are far from most of them."""
    monkeypatch.setattr(many_search, "PRUNED_FROM", 1)
    arcs = grid(40, dtype)
    sources = np.arange(0, arcs.vertices, 41)
    search = search_of(arcs)
    assert search.run(sources).tobytes() == expected(arcs, sources, search.dtype).tobytes()


def test_sources_that_reach_little_do_not_make_others_look_at_whole_rows():
    """A source in a piece apart shares its batch with one in the large piece."""
    arcs = skewed(900, 6000, "float32", directed=False, seed=4)
    last = arcs.vertices
    apart = arcs_of(
        np.concatenate([arcs.source, [last]]),
        np.concatenate([arcs.target, [last + 1]]),
        np.concatenate([arcs.weight, [0.5]]).astype(np.float32),
        directed=True,
    )
    alone, together = search_of(apart), search_of(apart)
    away = int(np.flatnonzero(apart.source == apart.vertices - 2)[0])
    assert apart.target[away] == apart.vertices - 1
    alone.run(np.array([3]))
    together.run(np.array([3, apart.vertices - 2]))
    assert together.counts[0, 2] <= alone.counts[0, 2] + 2


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_lanes_are_level_by_their_distances_to_landmarks(monkeypatch, dtype):
    """Sources at the end of long arcs are as far from everything as these are long."""
    arcs = skewed(900, 6000, dtype, directed=False, seed=4)
    ends = arcs.vertices + np.arange(300)
    at = np.random.default_rng(6).integers(0, arcs.vertices, 300)
    long = np.random.default_rng(5).random(300) * 10 * float(arcs.weight.max())
    arcs = arcs_of(
        np.concatenate([arcs.source, ends]),
        np.concatenate([arcs.target, at]),
        np.concatenate([arcs.weight, long.astype(arcs.weight.dtype)]),
        directed=False,
    )
    sources = np.flatnonzero(np.bincount(arcs.source, minlength=arcs.vertices) == 1)[-300:]
    level, plain = search_of(arcs), search_of(arcs)
    monkeypatch.setattr(many_search, "floors_of", lambda *given: np.empty(0, given[-1]))
    want = plain.run(sources)
    monkeypatch.undo()
    assert level.run(sources).tobytes() == want.tobytes()
    assert 3 * level.counts[0, RELAXED] < 2 * plain.counts[0, RELAXED]


@pytest.mark.parametrize(
    ("dtype", "longest"), [("int64", many_search.INTEGER_TOP // 4), ("float32", 2.0**126)]
)
def test_lanes_have_no_floors_where_these_have_no_room(dtype, longest):
    """Distances of up to the bound stay below what is not reached, above their floors, too."""
    ends = np.arange(300)
    for part, has_floors in ((1, False), (2, True)):
        weight = np.full(300, longest // (part * 301) + 1).astype(dtype)
        arcs = arcs_of(ends, ends + 1, weight, directed=True)
        search = search_of(arcs)
        got = search.run(ends)
        assert bool(len(search._floors)) == has_floors
        single = CpuDevice(1).sssp(arcs.shards(1)[0])
        for row, source in zip(got, ends.tolist(), strict=True):
            assert row.tobytes() == single.run(source).distance.tobytes()


@pytest.mark.parametrize("part", [4.05, 5.0, 8.0])
def test_landmarks_far_away_have_means_that_floats_hold(part):
    """Sixteen of their distances, added up, would not."""
    ends = np.arange(399)
    weight = np.full(399, np.finfo(np.float64).max / (part * 400))
    arcs = arcs_of(ends, ends + 1, weight, directed=False)
    search, sources = search_of(arcs), np.arange(300)
    got = search.run(sources)
    assert search._floors.min() < 0
    single = CpuDevice(1).sssp(arcs.shards(1)[0])
    for row, source in zip(got, sources.tolist(), strict=True):
        assert row.tobytes() == single.run(source).distance.tobytes()


@pytest.mark.parametrize("far", [1e4, 1e5, 1e7])
def test_one_source_far_away_costs_others_nothing(monkeypatch, far):
    """Differences that a float32 has no room for would tell nobody which arcs matter."""
    arcs = skewed(900, 6000, "float32", directed=False, seed=4)
    arcs = arcs_of(
        np.append(arcs.source, arcs.vertices),
        np.append(arcs.target, 0),
        np.append(arcs.weight, np.float32(far)),
        directed=False,
    )
    sources = np.random.default_rng(2).integers(0, arcs.vertices, 300)
    level, plain = search_of(arcs), search_of(arcs)
    got = level.run(sources)
    monkeypatch.setattr(many_search, "floors_of", lambda *given: np.empty(0, given[-1]))
    assert plain.run(sources).tobytes() == got.tobytes()
    assert level.counts[0, RELAXED] <= plain.counts[0, RELAXED]


def test_no_sources():
    search = search_of(grid(4, "float32"))
    assert search.run(np.empty(0, np.int64)).shape == (0, search.vertices)


def test_answer_is_written_in_place():
    search = search_of(grid(5, "float32"))
    answer = np.full((3, search.vertices), -1, np.float32)
    assert search.run(np.array([0, 1, 2]), answer) is answer
    assert (answer >= 0).all()


@pytest.mark.parametrize(
    ("dtype", "heavy"), [("int64", 2**60), ("float32", 3e38), ("float64", 1e308)]
)
def test_sums_that_might_overflow_are_refused(dtype, heavy):
    weight = np.array([heavy, heavy], dtype)
    with pytest.raises(InputError, match=r"bound|largest"):
        search_of(arcs_of([0, 1], [1, 2], weight, directed=True))


def test_weights_that_add_up_to_infinity_though_no_path_does():
    """There are more arcs than a path has."""
    source, target = np.nonzero(~np.eye(20, dtype=bool))
    weight = np.full(len(source), np.finfo("f8").max / 60)
    arcs = arcs_of(source, target, weight, directed=True)
    sources = np.arange(arcs.vertices)
    found = search_of(arcs).run(sources)
    assert found.tobytes() == expected(arcs, sources, found.dtype).tobytes()
