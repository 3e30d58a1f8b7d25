"""Many sources with the heads of rows alone in memory: the bits of the search in memory."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import InputError, NegativeCycleError
from ooc_graph.kernels.common.completion import OnDone, cancelled_by
from ooc_graph.kernels.common.many import bellman_ford_search
from ooc_graph.kernels.common.many.bellman_ford_search import potentials
from ooc_graph.kernels.common.sssp.rows import plain_rows
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.kernels.cpu.store import bellman_ford as tier_falling
from ooc_graph.kernels.cpu.store.bellman_ford import TierFalling
from ooc_graph.kernels.cpu.store.johnson import TierJohnson
from ooc_graph.memory.heads import ALL, HeadRule
from ooc_graph.shards.tiny_tiers import bind_rows
from tests.strategies import Arcs, arcs_of, skewed
from tests.unit.test_johnson import johnson_of, signed_arcs, tall
from tests.unit.test_tier_searches import RULES, SIZES

# Each type compiles the kernels for itself.
TYPES = [
    "int32",
    *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("float64", "float32", "int64")),
]


def bound(arcs: Arcs, rule: HeadRule, **sizes):
    """The search, and its rows."""
    rows = arcs.shards(1)[0].out_light
    out = bind_rows(rows, rule, **sizes)
    return TierJohnson(out, rows.weights.max(initial=0)), out


def shifted(dtype: str, vertices: int = 1500, edges: int = 12_000) -> Arcs:
    """Hubs, pieces apart, weights of both signs, no negative cycle but for floats' rounding."""
    arcs = skewed(vertices, edges, dtype, directed=True, seed=4)
    by = np.random.default_rng(5).integers(0, 90, arcs.vertices)
    scale = 1 if dtype.startswith("int") else 1 / 64
    weight = (arcs.weight + (by[arcs.source] - by[arcs.target]) * scale).astype(dtype)
    return arcs_of(arcs.source, arcs.target, weight, directed=True)


def same(found, wanted) -> None:
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.tobytes() == theirs.tobytes()


def made_or_cycle(make):
    """A search, or what is said of the negative cycle that it meets."""
    try:
        return make()
    except NegativeCycleError as error:
        return error.cycle, error.weight


@pytest.mark.parametrize("dtype", TYPES)
def test_small_graphs(dtype):
    """With their negative cycles, which are the same ones, too."""

    @settings(max_examples=150, deadline=None)
    @given(signed_arcs(dtype), st.sampled_from(RULES), SIZES, st.sampled_from([2, 64]))
    def check(arcs, rule, sizes, lanes):
        sources = np.arange(arcs.vertices)
        ways = (lambda: johnson_of(arcs), lambda: bound(arcs, rule, **sizes)[0])
        reference, search = map(made_or_cycle, ways)
        if isinstance(reference, tuple):
            assert search == reference
            return
        wanted = reference.run_with_parents(sources)
        same(search.run_with_parents(sources, batch_size=lanes), wanted)
        same([search.run(sources[::-1], batch_size=lanes)], [wanted[0][::-1]])

    check()


@pytest.mark.parametrize("rule", [HeadRule(1), HeadRule(2, 2), HeadRule(ALL)])
@pytest.mark.parametrize("dtype", TYPES)
def test_hubs_cut_over_many_units(dtype, rule, monkeypatch):
    # Rows of more arcs than a stretch has room for, and stretches that end within a word.
    monkeypatch.setattr(tier_falling, "MOST_GATHERED", 100)
    arcs = shifted(dtype)
    sources = np.random.default_rng(6).choice(arcs.vertices, 40, replace=False)
    reference = johnson_of(arcs)
    wanted = reference.run_with_parents(sources)
    search, out = bound(arcs, rule, block_bytes=512, batch_blocks=3, window=192)
    assert out.heads.lengths.max() > 100
    assert reference.potentials is not None
    assert search.potentials is not None
    assert search.potentials.potential.tobytes() == reference.potentials.potential.tobytes()
    assert search.potentials.improvements == reference.potentials.improvements
    same(search.run_with_parents(sources, batch_size=16), wanted)
    assert (out._blocks.given > 0) == (rule.least != ALL)


def test_rows_that_do_not_change_are_not_read():
    """A source whose rows are few fetches few units."""
    path = np.arange(400)
    weight = np.where(path % 2, 5, -2).astype(np.int32)
    arcs = arcs_of(path[:-1], path[1:], weight[:-1], directed=True)
    # Arcs beside the path, so that heads leave some: none is on a shortest way.
    arcs = arcs_of(
        np.concatenate([arcs.source, arcs.source[:-1]]),
        np.concatenate([arcs.target, arcs.target[1:]]),
        np.concatenate([arcs.weight, np.full(398, 900, np.int32)]),
        directed=True,
    )
    search, out = bound(arcs, HeadRule(1), window=64)
    last = int(np.flatnonzero(johnson_of(arcs).run(np.arange(3)).max(axis=1) >= 0)[0])
    before = out._blocks.given
    found = search.run(np.array([last]))
    same([found], [johnson_of(arcs).run(np.array([last]))])
    sink = int(np.flatnonzero(np.bincount(arcs.source, minlength=arcs.vertices) == 0)[0])
    read = out._blocks.given
    assert read > before
    search.run(np.array([sink]))
    assert out._blocks.given == read


def test_potentials_read_no_tails_that_lead_no_lower():
    arcs = shifted("int32")
    rows = arcs.shards(1)[0].out_light
    light = replace(rows, weights=np.maximum(rows.weights, 2))
    light.weights[int(rows.offsets[0])] = -1
    out = bind_rows(light, HeadRule(1))
    found = TierFalling(out, light.weights.max())
    whole = potentials(plain_rows(light))
    assert found.ends == (-1, int(light.weights.max()))
    search = TierJohnson(out, light.weights.max())
    assert search.potentials is not None
    assert search.potentials.potential.tolist() == whole.potential.tolist()
    # Of all rows the one whose first arc is negative, and a stretch around where that leads.
    units = len(light.neighbors) * (light.neighbors.itemsize + light.weights.itemsize) // 16
    assert 0 < out._blocks.given < units / 4


def test_passes_are_counted_as_in_memory(monkeypatch):
    """With one pass for each tolerance, and stretches of few rows, the bits are the same."""
    arcs = tall("float64", 1e3)
    rows = arcs.shards(1)[0].out_light
    monkeypatch.setattr(bellman_ford_search, "PASSES", 1 / arcs.vertices)
    monkeypatch.setattr(tier_falling, "MOST_GATHERED", 16)
    whole = potentials(plain_rows(rows))
    assert whole.tolerance > 4 * np.finfo(np.float64).eps
    found = bound(arcs, HeadRule(1))[0].potentials
    assert found is not None
    same([found.potential], [whole.potential])
    assert (found.tolerance, found.improvements) == (whole.tolerance, whole.improvements)
    monkeypatch.setattr(bellman_ford_search, "MORE_DOUBLINGS", -arcs.vertices.bit_length())
    with pytest.raises(InputError, match="do not settle"):
        bound(arcs, HeadRule(1))


def test_bounds_are_those_of_searches_in_memory():
    arcs = arcs_of([0, 1], [1, 2], np.array([-(2**60), 2**60]), directed=True)
    for search in (johnson_of, lambda given: bound(given, HeadRule(1))):
        with pytest.raises(InputError, match="bound of"):
            search(arcs)
    heavy = arcs_of([0, 1], [1, 2], np.array([1, 2**60]), directed=True)
    rows = heavy.shards(1)[0]
    for make in (
        lambda: CpuJohnson(rows.out_light, rows.into_light, Team(1)),
        lambda: bound(heavy, HeadRule(1)),
    ):
        with pytest.raises(InputError, match="bound of"):
            make()


@pytest.mark.parametrize("with_parents", [False, True])
def test_batches_are_told_of_until_their_task_is_given_up(with_parents):
    search, _ = bound(shifted("int32"), HeadRule(2, 2))
    sources, is_over, reported = np.arange(40), threading.Event(), []
    wanted = search.run_with_parents(sources)
    answers = search.empty(len(sources))

    def hear(begin, end):
        same([each[begin:end] for each in answers], [each[begin:end] for each in wanted])
        reported.append((begin, end))
        if end == 32:
            is_over.set()

    def run():
        if with_parents:
            search.run_with_parents(sources, answers, batch_size=16, on_done=OnDone(hear))
        else:
            answers[1][:] = wanted[1]
            search.run(sources, answers[0], batch_size=16, on_done=OnDone(hear))

    with pytest.raises(CancelledError):
        cancelled_by(is_over, run)()
    assert reported == [(0, 16), (16, 32)]
    run()
    assert reported[2:] == [(0, 16), (16, 32), (32, 40)]
    same(answers, wanted)
