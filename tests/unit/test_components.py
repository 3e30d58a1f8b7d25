"""Components: fused on one rank and as coroutines over many, against a stack and a dictionary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import UsageError
from ooc_graph.kernels.common.components import ComponentLabels
from ooc_graph.kernels.cpu.components import search as components_rank
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.traverse.components import components
from tests import local_exchange, oracles
from tests.strategies import Arcs, arcs_of, grid, skewed, small_arcs

DEVICES = {threads: CpuDevice(threads) for threads in (1, 2, 3)}


def ranked(arcs: Arcs, shards: int, ids: str = "uint32") -> tuple[np.ndarray, dict[str, int], int]:
    """Labels by P coroutines in global order, arcs examined, supersteps."""
    device, parts = DEVICES[1], arcs.shards(shards, ids)
    shared = device.components_shared(arcs.vertices)
    found, stats = local_exchange.run(
        [components(device.components_rank(part), shared) for part in parts], shared, shards
    )
    label = np.empty(arcs.vertices, shared.label.dtype)
    for part, one in zip(parts, found, strict=True):
        label[part.dealing.internal_of(np.arange(part.dealing.rows))] = one.label
    assert all(one.phase_arcs == found[0].phase_arcs for one in found)
    return label, found[0].phase_arcs, stats.supersteps


def expected(arcs: Arcs) -> list[int]:
    pairs = list(zip(arcs.source.tolist(), arcs.target.tolist(), strict=True))
    return oracles.components(list(range(arcs.vertices)), pairs)


def line(order: np.ndarray, *, directed: bool) -> Arcs:
    return arcs_of(order[:-1], order[1:], np.ones(len(order) - 1, "f4"), directed=directed)


@settings(max_examples=150, deadline=None)
@given(small_arcs(), st.sampled_from([1, 2, 8]), st.sampled_from([1, 2, 3]))
def test_small_graphs(arcs, shards, threads):
    want = expected(arcs)
    assert DEVICES[threads].components(arcs.shards(1)[0]).run().label.tolist() == want
    assert ranked(arcs, shards)[0].tolist() == want


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("ids", ["uint32", "uint64"])
@pytest.mark.parametrize("edges", [9_000, 30_000])
def test_graphs_of_many_blocks(directed, ids, edges):
    """Few edges: many pieces and no giant; more: a giant and pieces beside it."""
    arcs = skewed(20_000, edges, "float32", directed=directed, seed=3)
    assert arcs.vertices > 4 * 1024
    want = expected(arcs)
    assert len(set(want)) > 10
    for device in DEVICES.values():
        found = device.components(arcs.shards(1, ids)[0]).run()
        assert found.label.dtype == np.dtype(ids)
        assert found.label.tolist() == want
    for shards in (1, 2, 4, 8):
        assert ranked(arcs, shards, ids)[0].tolist() == want


@pytest.mark.parametrize("directed", [False, True])
def test_long_paths_in_orders_good_and_bad(directed):
    """Chains of parents as long as the path, ends that meet in the middle, no order at all."""
    straight = np.arange(20_000)
    zigzag = np.empty_like(straight)
    zigzag[::2], zigzag[1::2] = straight[:10_000], straight[:9_999:-1]
    mixed = np.random.default_rng(5).permutation(straight)
    for order in (straight, straight[::-1].copy(), zigzag, mixed):
        arcs = line(order, directed=directed)
        for device in DEVICES.values():
            assert not device.components(arcs.shards(1)[0]).run().label.any()
        label, _, supersteps = ranked(arcs, 4)
        assert not label.any()
        assert supersteps < 12


def test_two_giants_and_a_hub_outside_of_the_common_one():
    """The arcs of a star beside a denser graph are all looked at, whichever is left out."""
    star = np.zeros(3000, np.int64), np.arange(1, 3001)
    random = np.random.default_rng(2)
    other = random.integers(3001, 9000, (2, 40_000))
    source, target = (np.concatenate([a, b]) for a, b in zip(star, other, strict=True))
    for directed in (False, True):
        arcs = arcs_of(source, target, np.ones(len(source), "f4"), directed=directed)
        want = expected(arcs)
        assert len(set(want)) == 2
        assert DEVICES[2].components(arcs.shards(1)[0]).run().label.tolist() == want
        assert ranked(arcs, 4)[0].tolist() == want


def test_arcs_inside_the_giant_are_left_out():
    arcs = skewed(30_000, 600_000, "float32", directed=False, seed=5)
    for device in (DEVICES[1], DEVICES[2]):
        found = device.components(arcs.shards(1)[0]).run()
        assert sum(found.phase_arcs.values()) < len(arcs.source) / 10
    assert sum(ranked(arcs, 4)[1].values()) < len(arcs.source) / 10


def test_pairs_come_in_parts_where_there_are_many(monkeypatch):
    """A step that fills its room goes on where it stopped, within a row too."""
    arcs = skewed(4_000, 5_000, "float32", directed=True, seed=8)
    want, whole = expected(arcs), ranked(arcs, 2)[2]
    monkeypatch.setattr(components_rank.CpuComponentsRank, "_most_listed", lambda _: 7)
    label, _, supersteps = ranked(arcs, 2)
    assert label.tolist() == want
    assert supersteps > 50 * whole


def test_repeated_searches_leave_nothing_behind():
    search = DEVICES[2].components(
        skewed(2000, 2500, "float32", directed=False, seed=1).shards(1)[0]
    )
    first = search.run().copy()
    assert search.run().label.tolist() == first.label.tolist()
    assert not np.shares_memory(first.label, search.run().label)


def test_no_rows_at_all():
    none = grid(3, "float32").shards(1)[0]
    rows = replace(none.out_hub, offsets=np.zeros(1, np.uint64), neighbors=np.empty(0, np.uint32))
    empty = replace(none, dealing=replace(none.dealing, vertices=0), out_hub=rows)
    found = DEVICES[2].components(empty).run()
    assert isinstance(found, ComponentLabels)
    assert len(found.label) == 0


def test_light_rows_alone_and_a_shard_of_many_are_refused():
    whole = grid(5, "float32").shards(1)[0]
    with pytest.raises(UsageError, match="hub-first"):
        DEVICES[1].components(replace(whole, out_hub=None))
    with pytest.raises(UsageError, match="hub-first"):
        DEVICES[1].components_rank(replace(whole, out_hub=None))
    with pytest.raises(UsageError, match="needs the whole graph"):
        DEVICES[1].components(grid(70, "float32").shards(2)[1])
