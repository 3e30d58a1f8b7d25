"""SSSP on a CUDA device that has the heads of rows alone gives the same bytes as the CPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.kernels.common import decisions as interface
from ooc_graph.kernels.cpu.store import sssp_search as tier_sssp_search
from ooc_graph.kernels.cuda.pinned.sssp import SsspShare
from ooc_graph.kernels.cuda.store import sssp_push as cuda_disk_push
from ooc_graph.kernels.cuda.store.heads import DeviceHeads
from ooc_graph.memory.heads import HeadRule
from tests.gpu.comparison import CPU, graph, light_sides, same_sssp
from tests.gpu.disked import disk_search, disk_side
from tests.gpu.graphs import GRAPHS, flat, path, roots, sparse, star, valued
from tests.gpu.memory import refuse_each_allocation
from tests.oracles import refused_by_both
from tests.strategies import FAR_SEEDS, arcs_of, far_arcs, skewed, small_arcs, too_far_at_first

ALL = 1 << 40
TINY = {"block_bytes": 256, "batch_blocks": 4, "window": 128, "look": 20}
MODEST = {"block_bytes": 8192, "batch_blocks": 8, "window": 4096}
# Arcs of each row within reach, and how many of them stand on the device; the others are pinned.
HOLDS = [
    (SsspShare(1, 63), None),
    (SsspShare(2, 2), 1000),
    (SsspShare(5, 3), 0),
    (SsspShare(ALL, 63), None),
]
NAMES = [
    "kronecker 4",
    "kronecker 14",
    "skewed, directed",
    "dense, directed",
    "star",
    "path, directed",
    "pieces",
    "one edge",
    "zero weights",
    "equal weights",
    "plateaus",
    "plateaus, directed",
    "absorbed weights",
    "grid of plateaus",
]


@pytest.mark.parametrize(("hold", "device_arcs"), HOLDS)
@pytest.mark.parametrize("name", NAMES)
def test_same_bytes_as_the_cpu(name: str, hold: SsspShare, device_arcs: int | None) -> None:
    shard = graph(name)
    search, cpu = disk_search(shard, hold, device_arcs, **MODEST), CPU.sssp(shard)
    for root in roots(GRAPHS[name]())[:4]:
        same_sssp(search.run(root), cpu.run(root))


SMALL = {
    "skewed": lambda: skewed(3000, 15_000, "float32", directed=False, seed=3),
    "skewed, directed": lambda: skewed(3000, 15_000, "float32", directed=True, seed=3),
    "dense, directed": lambda: skewed(300, 20_000, "float32", directed=True, seed=4),
    "star": lambda: star(3000),
    "path": lambda: path(100),
    "flat, directed": lambda: flat(sparse("float32", directed=True)),
    "absorbed": lambda: valued(
        skewed(2000, 9000, "float32", directed=True, seed=6), [1e-9, 0, 0.3, 1e6]
    ),
}


@pytest.mark.parametrize(("hold", "device_arcs"), HOLDS)
@pytest.mark.parametrize("name", SMALL)
def test_batches_windows_and_rounds_are_tiny(
    name: str, hold: SsspShare, device_arcs: int | None
) -> None:
    arcs = SMALL[name]()
    shard = arcs.shards(1)[0]
    search, cpu = disk_search(shard, hold, device_arcs, **TINY), CPU.sssp(shard)
    for root in roots(arcs)[:3]:
        same_sssp(search.run(root), cpu.run(root))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rows are pushed whole also in small graphs, and their last push comes early."""
    monkeypatch.setattr(interface, "ENOUGH_PUSHED", 10)
    monkeypatch.setattr(cuda_disk_push, "ENOUGH_PUSHED", 10)
    monkeypatch.setattr("ooc_graph.kernels.cuda.store.sssp.TAIL_ROWS", 1)
    assert tier_sssp_search.TAIL_ROWS > 1


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("hold", "device_arcs"), HOLDS[:3])
@pytest.mark.parametrize("name", ["skewed", "skewed, directed", "flat, directed", "absorbed"])
def test_rows_that_are_pushed_whole(name: str, hold: SsspShare, device_arcs: int | None) -> None:
    arcs = SMALL[name]()
    shard = arcs.shards(1)[0]
    search, cpu = disk_search(shard, hold, device_arcs, **TINY), CPU.sssp(shard)
    kept, finished = [], 0
    for root in roots(arcs):
        found = search.run(root)
        same_sssp(found, cpu.run(root))
        kept.append(search._state.few)
        finished += found.phase_arcs["finish"]
    assert max(kept) > (1 if "skewed" in name else 0)
    assert finished > 0 or "skewed" not in name


SIZES = st.fixed_dictionaries(
    {
        "block_bytes": st.sampled_from([8, 16, 64]),
        "batch_blocks": st.integers(2, 5),
        "window": st.sampled_from([64, 128]),
        "look": st.sampled_from([1, 3, 1024]),
    }
)


@settings(max_examples=60, deadline=None)
@given(small_arcs(), st.sampled_from(HOLDS), SIZES, st.data())
def test_small_graphs(arcs: Any, hold: Any, sizes: dict[str, int], data: Any) -> None:
    shard, root = arcs.shards(1)[0], data.draw(st.integers(0, arcs.vertices - 1))
    same_sssp(disk_search(shard, *hold, **sizes).run(root), CPU.sssp(shard).run(root))


@pytest.mark.parametrize("hold", [SsspShare(1, 63), SsspShare(3, 2), SsspShare(ALL, 63)])
@pytest.mark.parametrize("device_arcs", [None, 0, 1, 5000])
def test_heads_are_the_first_arcs(hold: SsspShare, device_arcs: int | None) -> None:
    rows, _, _ = light_sides(graph("skewed, directed"))
    assert rows.weights is not None
    heads = disk_side(rows, hold, device_arcs, **MODEST).heads
    offsets = rows.offsets.astype(np.int64)
    lengths = np.diff(offsets)
    kept = HeadRule(hold.least, hold.shift).of(lengths)
    starts = np.concatenate([[0], np.cumsum(kept)])
    places = np.repeat(offsets[:-1] - starts[:-1], kept) + np.arange(starts[-1])
    assert heads._starts.get().tolist() == starts.tolist()
    for near, far, column in zip(
        heads._near, heads._far or [None, None], (rows.neighbors, rows.weights), strict=True
    ):
        behind = np.empty(0, column.dtype) if far is None else far.host
        assert np.concatenate([near.get(), behind]).tobytes() == column[places].tobytes()
    assert heads.arcs == starts[-1]
    if device_arcs is not None and device_arcs < heads.arcs:
        assert heads.device_arcs in starts
        assert device_arcs - int(kept.max()) < heads.device_arcs <= device_arcs
    assert heads.pinned_bytes == 8 * (heads.arcs - heads.device_arcs)
    bits = np.unpackbits(heads.longer.get().view(np.uint8), bitorder="little")
    assert np.flatnonzero(bits).tolist() == np.flatnonzero(kept < lengths).tolist()


@pytest.mark.parametrize("hold", [SsspShare(1, 63), SsspShare(ALL, 63)])
def test_sums_that_overflow_are_refused(hold: SsspShare) -> None:
    at = np.arange(6)
    # The arcs that overflow come last in the row of the middle vertex, behind its head.
    ends = np.concatenate([at, np.full(3, 6)]), np.concatenate([at + 1, [10, 11, 12]])
    weight = np.concatenate([np.full(6, 5e37), [1, 2, 1e38]]).astype(np.float32)
    shard = arcs_of(*ends, weight, directed=True).shards(1)[0]
    search, cpu = disk_search(shard, hold, **TINY), CPU.sssp(shard)
    assert 0 < refused_by_both(search, cpu, same_sssp, shard.dealing.rows) < shard.dealing.rows


def test_a_vertex_that_is_too_far_on_one_way_is_reached_on_another() -> None:
    arcs = too_far_at_first("float32")
    shard = arcs.shards(1)[0]
    search, cpu = disk_search(shard, SsspShare(1, 63), None, **MODEST), CPU.sssp(shard)
    for root in range(arcs.vertices):
        same_sssp(search.run(root), cpu.run(root))


def test_sums_that_are_too_long_on_many_ways() -> None:
    for seed in FAR_SEEDS:
        arcs = far_arcs("float32", seed)
        shard = arcs.shards(1)[0]
        search, cpu = disk_search(shard, SsspShare(1, 63), None, **MODEST), CPU.sssp(shard)
        refused_by_both(search, cpu, same_sssp, arcs.vertices)


def test_what_it_does_not_take_is_refused() -> None:
    for weights in ("float64", "int32"):
        shard = graph("kronecker 4", weights)
        with pytest.raises(UsageError, match="float32"):
            disk_search(shard, SsspShare(1, 63), **MODEST)
    search = disk_search(graph("kronecker 4"), SsspShare(1, 63), **MODEST)
    with pytest.raises(UsageError, match="internal id"):
        search.run(10**6)


def test_refused_memory_is_said() -> None:
    shard = graph("kronecker 14")

    def search() -> None:
        disk_search(shard, SsspShare(4, 3), **MODEST).run(1)

    refuse_each_allocation(search, 15)


def test_refused_pinning_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    def refuse(*_: object) -> None:
        raise cupy.cuda.runtime.CUDARuntimeError(2)

    monkeypatch.setattr(cupy.cuda.runtime, "hostRegister", refuse)
    lengths = np.full(1000, 7, np.uint32)
    with pytest.raises(MemoryBudgetError, match="pinned host memory are refused"):
        DeviceHeads(lengths, SsspShare(3, 63), 100)
    assert DeviceHeads(lengths, SsspShare(3, 63)).pinned_bytes == 0


def test_memory_is_that_of_rows_heads_and_batches() -> None:
    import cupy

    shard = graph("kronecker 16")
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        search = disk_search(shard, SsspShare(2, 4), **MODEST)
        same_sssp(search.run(1), CPU.sssp(shard).run(1))
    rows, heads = shard.dealing.rows, search._state.out.heads
    batches = 2 * MODEST["block_bytes"] * MODEST["batch_blocks"] + 21 * MODEST["window"]
    # Distance, parent, where a head begins, and five bitmaps; then heads.
    planned = 12 * rows + 5 * rows // 8 + 8 * heads.arcs + batches
    assert planned <= pool.used_bytes() <= planned + (64 << 10)
    # While heads are made room for, lengths and counts are there too.
    assert pool.total_bytes() <= planned + 8 * rows + (64 << 10)


def test_every_allocation_is_made_before_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    shard = graph("skewed, directed")
    search = disk_search(shard, SsspShare(2, 2), **MODEST)
    wanted = search.run(1)

    def refuse(size: int) -> Any:
        raise AssertionError(f"{size} bytes are asked for")

    with cupy.cuda.using_allocator(refuse):
        for root in (1, 1):
            same_sssp(search.run(root), wanted)
    refused = partial(DeviceHeads, np.full(1000, 7, np.uint32), SsspShare(3, 63))
    with cupy.cuda.using_allocator(refuse), pytest.raises(AssertionError):
        refused()
