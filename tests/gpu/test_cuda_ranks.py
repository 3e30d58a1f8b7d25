"""Every step of a rank on a CUDA device finds what the CPU's rank finds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import InputError, UsageError
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.device import CudaDevice
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.types import Dealing, Rows, Shard
from tests.gpu.graphs import GRAPHS, roots
from tests.gpu.paired import PairedDevice
from tests.gpu.ranked import RankedBfs, RankedSssp
from tests.strategies import WEIGHTS, Arcs, arcs_of, small_arcs

CPU = CpuDevice(2)
NAMES = ["kronecker 14", "skewed, directed", "dense, directed", "star", "pieces"]
LONG = ["path", "grid"]
FLAT = ["zero weights", "equal weights", "plateaus", "plateaus, directed", "absorbed weights"]


@cache
def paired() -> PairedDevice:
    return PairedDevice(CPU, CudaDevice())


@cache
def arcs(name: str, dtype: str = "float32") -> Arcs:
    found = GRAPHS[name]()
    if np.dtype(dtype).kind == "f":
        return replace(found, weight=found.weight.astype(dtype))
    return replace(found, weight=(found.weight * 200).astype(dtype))


@pytest.mark.parametrize("shards", [1, 2, 8])
@pytest.mark.parametrize("name", NAMES)
def test_bfs_step_by_step(name: str, shards: int) -> None:
    search = RankedBfs(paired(), arcs(name).shards(shards))
    for root in roots(arcs(name))[:4]:
        search.run(root)


@pytest.mark.parametrize("shards", [1, 2, 8])
@pytest.mark.parametrize("name", [*NAMES, *FLAT])
def test_sssp_step_by_step(name: str, shards: int) -> None:
    search = RankedSssp(paired(), arcs(name).shards(shards))
    for root in roots(arcs(name))[:3]:
        search.run(root)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("name", LONG)
def test_many_supersteps(name: str, shards: int) -> None:
    parts, root = arcs(name).shards(shards), arcs(name).vertices // 2
    RankedBfs(paired(), parts).run(root)
    RankedSssp(paired(), parts).run(root)


@pytest.mark.parametrize("dtype", WEIGHTS[1:])
@pytest.mark.parametrize("name", ["kronecker 14", "skewed, directed", "star", "plateaus"])
def test_sssp_step_by_step_on_other_weights(name: str, dtype: str) -> None:
    search = RankedSssp(paired(), arcs(name, dtype).shards(2))
    for root in roots(arcs(name))[:3]:
        search.run(root)


@settings(max_examples=60, deadline=None)
@given(small_arcs(), st.sampled_from([1, 2]), st.data())
def test_bfs_on_small_graphs(found: Arcs, shards: int, data: st.DataObject) -> None:
    root = data.draw(st.integers(0, found.vertices - 1))
    RankedBfs(paired(), found.shards(shards)).run(root)


@pytest.mark.parametrize("dtype", WEIGHTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_sssp_on_small_graphs(dtype: str, data: st.DataObject) -> None:
    found = data.draw(small_arcs(dtype))
    shards, root = data.draw(st.sampled_from([1, 2])), data.draw(st.integers(0, found.vertices - 1))
    RankedSssp(paired(), found.shards(shards)).run(root)


def test_every_phase_is_among_these() -> None:
    """What the tests above compare is worth it only if pulling and finishing happen."""
    phases = RankedSssp(paired(), arcs("kronecker 14").shards(2)).run(5).phase_arcs
    assert min(phases.values()) > 0
    bfs = RankedBfs(paired(), arcs("kronecker 14").shards(2)).run(5)
    assert set(bfs.level_direction.tolist()) == {0, 1}


def test_a_search_that_broke_off_leaves_no_trace() -> None:
    parts = arcs("kronecker 14").shards(1)
    search = RankedSssp(paired(), parts)
    rank = search._ranks[0]
    rank.start()
    shared = paired().sssp_shared(parts[0].dealing.vertices, np.dtype(np.float32))
    shared.merge([rank.seed(3)])
    shared.merge([rank.push(shared, np.float32(0.1))[0]])
    search.run(7)


def test_a_vertex_named_twice_waits_until_it_leaves() -> None:
    shared = paired().sssp_shared(200, np.dtype(np.float32))
    none = np.empty(0, np.uint32)
    for first, second in (
        ((np.array([70, 3, 70], np.uint32), none), (np.array([3], np.uint32), none)),
        ((none, np.array([3, 3], np.uint32)), (none, none)),
    ):
        shared.merge([first, second])
        waiting = shared.cuda.waiting.get().view(np.uint64)
        assert waiting.tolist() == shared.cpu.waiting.tolist()
    assert waiting.tolist() == [0, 64, 0, 0]


def test_overflow_is_found_and_said() -> None:
    for dtype, far in (("float32", 3e38), ("float64", 1.7e308), ("int64", (1 << 63) - 9)):
        weight = np.full(3, far, dtype)
        whole = arcs_of(np.arange(3), np.arange(1, 4), weight, directed=False)
        search = RankedSssp(paired(), whole.shards(2))
        with pytest.raises(InputError, match="a shortest distance exceeds the largest"):
            search.run(3)


def test_arcs_that_contradict_each_other_are_no_endless_loop() -> None:
    whole = arcs_of([0], [1], np.zeros(1, np.float32), directed=True).shards(1)[0]
    into = whole.into_light
    assert whole.out_light is not None
    assert into is not None
    assert into.weights is not None
    none = Rows(np.zeros_like(into.offsets), into.neighbors[:0], into.weights[:0])
    torn = replace(whole, into_light=none)
    root = int(np.argmax(np.diff(whole.out_light.offsets)))
    with pytest.raises(AssertionError, match="1 reached vertices have no neighbor on a path"):
        RankedSssp(paired(), [torn]).run(root)


def test_ranks_on_a_stream_of_the_caller() -> None:
    import cupy

    with cupy.cuda.Stream(non_blocking=True):
        RankedBfs(paired(), arcs("kronecker 14").shards(2)).run(9)
        RankedSssp(paired(), arcs("kronecker 14").shards(2)).run(9)


def whole(dtype: str = "float32") -> Shard:
    return arcs("kronecker 14", dtype).shards(1)[0]


def test_whole_searches_of_the_device() -> None:
    device = CudaDevice()
    assert isinstance(device.bfs(whole()), CudaBfsSearch)
    for dtype in WEIGHTS:
        assert isinstance(device.sssp(whole(dtype)), CudaSsspSearch)
    device.close()


def test_refusals() -> None:
    device, shard = CudaDevice(), whole()
    part = arcs("kronecker 14").shards(2)[0]
    for search in (device.bfs, device.sssp):
        with pytest.raises(UsageError, match="needs the whole graph, got shard 0 of 2"):
            search(part)
    hub, light = shard.out_hub, shard.out_light
    assert hub is not None
    assert light is not None
    assert light.weights is not None
    with pytest.raises(UsageError, match="hub-first rows"):
        device.bfs_rank(replace(shard, out_hub=None))
    with pytest.raises(UsageError, match="light-first rows"):
        device.sssp_rank(replace(shard, out_light=None))
    wide = Rows(hub.offsets, hub.neighbors.astype(np.uint64))
    with pytest.raises(UsageError, match="uint32, not uint64"):
        device.bfs_rank(replace(shard, out_hub=wide))
    wide = Rows(light.offsets, light.neighbors.astype(np.uint64), light.weights)
    with pytest.raises(UsageError, match="uint32, not uint64"):
        device.sssp_rank(replace(shard, out_light=wide))
    with pytest.raises(UsageError, match="not none"):
        device.sssp_rank(replace(shard, out_light=Rows(light.offsets, light.neighbors)))
    odd = Rows(light.offsets, light.neighbors, light.weights.astype(np.float16))
    with pytest.raises(UsageError, match="float32, float64, int32, int64, not float16"):
        device.sssp_rank(replace(shard, out_light=odd))
    many = (1 << 42) + 1
    with pytest.raises(UsageError, match="4,398,046,511,105 vertices"):
        device.bfs_shared(many, 1)
    with pytest.raises(UsageError, match="4,398,046,511,105 vertices"):
        device.sssp_shared(many, np.dtype(np.float32))
    with pytest.raises(UsageError, match="4,398,046,511,105 vertices"):
        device.bfs_rank(replace(shard, dealing=Dealing(many, 1 << 20, 0)))
    with pytest.raises(UsageError, match="4,398,046,511,105 vertices"):
        device.sssp_rank(replace(shard, dealing=Dealing(many, 1 << 20, 0)))
    with pytest.raises(UsageError, match="4,294,967,295 rows in one piece"):
        device.bfs_rank(replace(shard, dealing=Dealing((1 << 32) - 1)))
    with pytest.raises(UsageError, match="4,294,967,296 rows in one piece"):
        device.sssp_rank(replace(shard, dealing=Dealing(1 << 33, 2, 1)))
    with pytest.raises(UsageError, match="uint64, not uint32"):
        device.bfs_rank(replace(shard, dealing=Dealing(1 << 32, 1 << 20, 0)))
    with pytest.raises(UsageError, match="uint64, not uint32"):
        device.sssp_rank(replace(shard, dealing=Dealing(1 << 32, 1 << 20, 0)))
