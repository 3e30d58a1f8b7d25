"""SSSP by near-far: against Dijkstra, and against the general search's bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import InputError
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.sssp.near_far_search import CpuNearFarSearch, paired_bytes
from ooc_graph.kernels.cpu.sssp.search import CpuSsspSearch
from ooc_graph.runtime import warmup
from ooc_graph.runtime.compile_ahead import Part
from tests.strategies import Arcs, arcs_of, grid, skewed, small_arcs
from tests.unit.test_sssp import check, same

DEVICES = {threads: CpuDevice(threads) for threads in (1, 2, 3)}


def positive(arcs: Arcs) -> Arcs:
    least = 1 if arcs.weight.dtype.kind != "f" else 1e-3
    return replace(arcs, weight=np.maximum(arcs.weight, arcs.weight.dtype.type(least)))


def near_far(arcs: Arcs) -> CpuNearFarSearch:
    """Search by near-far, also where the device would choose to pull."""
    shard = arcs.shards(1)[0]
    into = shard.into_light if arcs.directed else shard.out_light
    return CpuNearFarSearch(shard.out_light, into, shard.tuples, Team(1))


def general_search(arcs: Arcs) -> CpuSsspSearch:
    """Search by pushing and pulling, whatever the device would choose."""
    shard = arcs.shards(1)[0]
    into = shard.into_light if arcs.directed else shard.out_light
    return CpuSsspSearch(shard.out_light, into, shard.tuples, Team(1))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_small_graphs(dtype):
    @settings(max_examples=60, deadline=None)
    @given(small_arcs(dtype), st.data())
    def run(arcs, data):
        arcs = positive(arcs)
        search = near_far(arcs)
        for root in data.draw(st.lists(st.integers(0, arcs.vertices - 1), min_size=1)):
            check(search.run(root), arcs, root)

    run()


@pytest.mark.parametrize("heaviest", [1, 3, 255])
def test_grids_on_any_number_of_threads(heaviest):
    """Few different weights make many ways of the same length, and parents to choose from."""
    arcs = grid(130, "int32")
    arcs = replace(arcs, weight=np.clip(arcs.weight, 1, heaviest))
    searches = {t: device.sssp(arcs.shards(1)[0]) for t, device in DEVICES.items()}
    assert all(isinstance(search, CpuNearFarSearch) for search in searches.values())
    for root in (0, arcs.vertices // 2, arcs.vertices - 1):
        tree = searches[1].run(root)
        check(tree, arcs, root)
        same(searches[2].run(root), tree)
        same(searches[3].run(root), tree)
        assert tree.phase_arcs["push"] >= len(arcs.source)
        assert tree.phase_arcs["parents"] == 0


@pytest.mark.parametrize(("queue", "listed"), [(1, 0), (1, 5), (40, 0), (40, 5)])
def test_queue_and_lists_may_be_full(queue, listed):
    arcs = positive(grid(40, "int32"))
    search, roomy = near_far(arcs), near_far(arcs)
    state = search._state
    search._state = state._replace(near=state.near[:queue], far=state.far[:, :listed])
    for root in (123, arcs.vertices - 1):
        same(search.run(root), roomy.run(root))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("last", [2**31 - 5, 2**31 - 4, 2**32 - 2])
def test_around_the_largest_32_bit_distance(directed, last):
    """Lengths past 32 bits are found the general way, whatever came before."""
    weight = np.array([2, 2**31, last, 7], np.int64)
    arcs = arcs_of([0, 1, 2, 3], [1, 2, 3, 4], weight, directed=directed)
    search = near_far(arcs)
    for root in range(arcs.vertices):
        check(search.run(root), arcs, root)


def test_distances_as_long_as_32_bits_allow():
    """2^32 - 2 - heaviest is the farthest vertex whose arcs are sure to fit."""
    weight = np.array([2**31 - 1, 2**31 - 1, 1], np.int64)
    for last, general in ((0, False), (2**31, True)):
        weight[2] = max(last, 1)
        arcs = arcs_of([0, 1, 2], [1, 2, 3], weight, directed=True)
        search = near_far(arcs)
        for root in range(arcs.vertices):
            check(search.run(root), arcs, root)
        assert (search._general is not None) >= general


@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        (np.zeros(5, np.int32), "weights of zero make plateaus"),
        (np.zeros(5, np.float32), "weights of zero make plateaus"),
        (np.ones(5), "distances of 64 bits"),
        (np.full(5, 2**32, np.int64), "weights of more than 32 bits"),
    ],
)
def test_what_does_not_suit_is_searched_the_general_way(weight, reason):
    arcs = arcs_of(np.arange(5), np.arange(1, 6), weight, directed=False)
    shard = arcs.shards(1)[0]
    assert isinstance(DEVICES[1].sssp(shard), CpuSsspSearch), reason
    check(DEVICES[1].sssp(shard).run(2), arcs, 2)


def test_wide_ids_and_hubs_with_spread_weights_are_searched_the_general_way():
    hubs = positive(skewed(5_000, 60_000, "int32", directed=False, seed=1))
    assert isinstance(DEVICES[1].sssp(hubs.shards(1)[0]), CpuSsspSearch)
    ties = replace(hubs, weight=np.ones_like(hubs.weight))
    assert isinstance(DEVICES[1].sssp(ties.shards(1)[0]), CpuNearFarSearch)
    path = arcs_of(np.arange(5), np.arange(1, 6), np.arange(1, 6), directed=False)
    assert isinstance(DEVICES[1].sssp(path.shards(1, "uint64")[0]), CpuSsspSearch)
    assert isinstance(DEVICES[1].sssp(path.shards(1)[0]), CpuNearFarSearch)


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize("heaviest", [1, 2, 100])
@pytest.mark.parametrize("directed", [False, True])
def test_hubs_with_ties(directed, heaviest, dtype):
    """Rows of thousands of arcs beside rows of one, and hardly two ways of different length."""
    arcs = skewed(10_000, 75_000, "int64", directed=directed, seed=heaviest)
    arcs = replace(arcs, weight=(1 + arcs.weight % heaviest).astype(dtype))
    search, general = near_far(arcs), general_search(arcs)
    for root in (0, 17, arcs.vertices - 1):
        tree = search.run(root)
        check(tree, arcs, root)
        same(tree, general.run(root))


@pytest.mark.parametrize("side", [40, 130])
def test_floats_round_as_in_the_general_search(side):
    """Sums of floats depend on their order; every way must be summed from its source on."""
    arcs = grid(side, "float32")
    weight = arcs.weight * 30.0 ** (np.arange(len(arcs.weight)) % 3) + 0.1
    arcs = arcs_of(arcs.source, arcs.target, weight.astype(np.float32), directed=True)
    shard = arcs.shards(1)[0]
    searches = [device.sssp(shard) for device in DEVICES.values()]
    assert all(isinstance(search, CpuNearFarSearch) for search in searches)
    for root in (0, arcs.vertices // 2, arcs.vertices - 1):
        tree = general_search(arcs).run(root)
        assert tree.distance.dtype == np.float32
        for search in searches:
            same(search.run(root), tree)


@pytest.mark.parametrize("tiny", [1e-9, 0.1])
def test_weights_that_a_sum_absorbs_are_searched_the_general_way(tiny):
    """A path of two long arcs, then one so short that it may make no difference."""
    weight = np.array([1, 1, tiny, 1], np.float32)
    arcs = arcs_of(np.arange(4), np.arange(1, 5), weight, directed=True)
    search = near_far(arcs)
    for root in range(arcs.vertices):
        check(search.run(root), arcs, root)
        same(search.run(root), general_search(arcs).run(root))
    assert (search._general is not None) == (tiny < 1e-6)


def test_float_distances_beyond_float32_are_refused():
    weight = np.full(5, 1.5e38, np.float32)
    arcs = arcs_of(np.arange(5), np.arange(1, 6), weight, directed=True)
    for search in (near_far(arcs), general_search(arcs)):
        with pytest.raises(InputError, match="exceeds the largest float32"):
            search.run(0)


def test_weights_of_which_two_exceed_float32_are_searched_the_general_way():
    arcs = arcs_of([0], [1], np.full(1, 3e38, np.float32), directed=True)
    assert isinstance(DEVICES[1].sssp(arcs.shards(1)[0]), CpuSsspSearch)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weights", ["int32", "int64", "float32"])
def test_what_is_compiled_ahead_is_what_searches(weights, directed):
    for variant, kind in ((warmup.NEAR_FAR, CpuNearFarSearch), ("", CpuSsspSearch)):
        part = Part("sssp", directed, "uint32", weights, variant)
        assert isinstance(DEVICES[1].sssp(warmup.pair_of(part)), kind)


def test_bytes_of_copied_rows():
    """Arcs with their weights and offsets; of the general search four heads of each row."""
    arcs = positive(grid(30, "float32"))
    own = 8 * len(arcs.source) + 4 * (arcs.vertices + 1)
    assert own == paired_bytes(arcs.vertices, len(arcs.source))
    assert own == sum(array.nbytes for array in near_far(arcs).paired)
    general = general_search(arcs)
    heads, weights = general._into.head_neighbors, general._into.head_weights
    assert heads.nbytes + weights.nbytes == 4 * (4 + 4) * arcs.vertices
    assert np.shares_memory(weights, general._out.lightest)
