"""SSSP on a CUDA device gives the bytes of SSSP on the CPU."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import InputError, UsageError
from ooc_graph.kernels import cuda_sssp
from ooc_graph.kernels.cpu import CpuDevice
from ooc_graph.kernels.cuda_sssp import CudaSsspSearch
from ooc_graph.kernels.interface import SsspTree
from ooc_graph.types import AnyArray, Rows, Shard
from tests.gpu.graphs import GRAPHS, path, roots
from tests.gpu.memory import assert_refused_without_memory
from tests.strategies import Arcs, arcs_of, small_arcs

CPU = CpuDevice(2)
VARIANTS = {
    "small shared memory": {"UNIT": 1, "ROOM_BYTES": 1408},
    "less shared memory": {"UNIT": 2, "ROOM_BYTES": 2688},
    "pull early": {"ENOUGH_PUSHED": 100000},
    "pull late": {"ENOUGH_PUSHED": 3},
    "short stretches": {"STRETCH": 32},
}


@cache
def graph(name: str) -> Shard:
    return GRAPHS[name]().shards(1)[0]


def sides(shard: Shard) -> tuple[Rows, Rows, AnyArray]:
    into = shard.into_light if shard.directed else shard.out_light
    assert shard.out_light is not None
    assert into is not None
    return shard.out_light, into, shard.tuples


def same(device: SsspTree, cpu: SsspTree) -> None:
    assert device.distance.dtype == cpu.distance.dtype
    assert device.distance.tobytes() == cpu.distance.tobytes()
    assert device.parent.dtype == cpu.parent.dtype
    assert device.parent.tobytes() == cpu.parent.tobytes()
    assert device.phase_arcs.keys() == cpu.phase_arcs.keys()


def compare(shard: Shard, from_: list[int]) -> None:
    search, cpu = CudaSsspSearch(*sides(shard)), CPU.sssp(shard)
    for root in from_:
        same(search.run(root), cpu.run(root))


@pytest.mark.parametrize("name", GRAPHS)
def test_same_bytes_as_the_cpu(name: str) -> None:
    compare(graph(name), roots(GRAPHS[name]()))


@settings(max_examples=150, deadline=None)
@given(small_arcs(), st.data())
def test_small_graphs(arcs: Arcs, data: st.DataObject) -> None:
    compare(arcs.shards(1)[0], [data.draw(st.integers(0, arcs.vertices - 1)) for _ in range(2)])


@pytest.mark.parametrize("pulls", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["kronecker 15", "skewed, directed", "plateaus", "star", "grid"])
def test_every_way_through_the_kernel(
    variant: str, name: str, pulls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = cuda_sssp.constants
    monkeypatch.setattr(
        cuda_sssp, "constants", lambda shared_bytes: {**usual(shared_bytes), **VARIANTS[variant]}
    )
    monkeypatch.setattr(cuda_sssp, "may_pull", lambda _: pulls)
    compare(graph(name), roots(GRAPHS[name]()))


def test_more_stretches_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_sssp, "STRETCH_ROOM", 5)
    for name in ("star", "dense, directed"):
        compare(graph(name), roots(GRAPHS[name]()))


def test_rows_looked_at_by_a_warp_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_sssp, "LONG_ROW", 4)
    for name in ("kronecker 14", "skewed, directed", "plateaus, directed"):
        compare(graph(name), roots(GRAPHS[name]()))


def test_arcs_by_phase() -> None:
    found = CudaSsspSearch(*sides(graph("kronecker 16"))).run(5)
    assert list(found.phase_arcs) == ["push", "pull", "finish", "parents"]
    assert found.phase_arcs["pull"] > 0
    assert found.phase_arcs["parents"] > 0
    arcs = len(sides(graph("kronecker 16"))[0].neighbors)
    assert 0 < sum(found.phase_arcs.values()) < arcs
    pushed = CudaSsspSearch(*sides(graph("grid"))).run(5).phase_arcs
    assert pushed["pull"] == 0 < pushed["push"]
    assert found.elapsed_s > 0


@pytest.mark.parametrize("name", ["kronecker 14", "skewed, directed", "plateaus", "pieces"])
def test_answers_on_the_device_are_named_by_original_ids(name: str) -> None:
    shard = graph(name)
    rows = shard.dealing.rows
    original_of = np.random.default_rng(1).permutation(rows + 17)[:rows]
    search = CudaSsspSearch(*sides(shard), original_of=original_of)
    for root in (0, rows - 1, rows // 3):
        held, tree = search.run_on_device(root), CPU.sssp(shard).run(root)
        parent, reached = held.parent.get(), np.isfinite(tree.distance)
        assert (parent[reached] == original_of[tree.parent[reached]]).all()
        assert (parent[~reached] == np.iinfo(np.uint32).max).all()
        assert held.distance.get().tobytes() == tree.distance.tobytes()
        assert held.elapsed_s > 0
        same(search.run(root), tree)


def test_distances_too_long_for_float32() -> None:
    far = np.full(3, 3e38, np.float32)
    shard = arcs_of(np.arange(3), np.arange(1, 4), far, directed=False).shards(1)[0]
    for search in (CPU.sssp(shard), CudaSsspSearch(*sides(shard))):
        with pytest.raises(InputError, match=r"exceeds the largest float32.*float64"):
            search.run(3)
    # A long arc that no shortest path takes does no harm.
    source, target = np.array([0, 1, 0]), np.array([1, 2, 2])
    weight = np.array([1.0, 1.0, 3e38], np.float32)
    compare(arcs_of(source, target, weight, directed=False).shards(1)[0], [0, 1, 2])


def test_searches_run_on_the_stream_of_the_caller() -> None:
    import cupy

    shard = graph("kronecker 14")
    with cupy.cuda.Stream(non_blocking=True):
        compare(shard, [0, 77])


def test_refusals() -> None:
    out, _, tuples = sides(graph("kronecker 8"))
    assert out.weights is not None
    search = CudaSsspSearch(out, out, tuples)
    for root in (-1, len(tuples)):
        with pytest.raises(UsageError, match="is not one of the graph's"):
            search.run(root)
    for dtype in ("float64", "int32", "int64"):
        other = Rows(out.offsets, out.neighbors, out.weights.astype(dtype))
        with pytest.raises(UsageError, match=f"type float32, not {dtype}"):
            CudaSsspSearch(other, other, tuples)
    bare = Rows(out.offsets, out.neighbors)
    with pytest.raises(UsageError, match="type float32, not none"):
        CudaSsspSearch(bare, bare, tuples)
    wide = Rows(out.offsets, out.neighbors.astype(np.uint64), out.weights)
    with pytest.raises(UsageError, match="uint32, not uint64"):
        CudaSsspSearch(wide, wide, tuples)


def test_too_little_memory_is_said_and_nothing_is_left() -> None:
    given = sides(graph("kronecker 16"))
    assert_refused_without_memory(
        lambda: CudaSsspSearch(*given), 20 << 20, "SSSP on this graph does not fit the device"
    )


def test_a_long_path() -> None:
    compare(path(70_000).shards(1)[0], [0, 69_999])
