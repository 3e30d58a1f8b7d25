"""SSSP on a CUDA device that has the heads of rows alone gives the same bytes as the CPU."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
from ooc_graph.errors import CorruptStoreError, InputError, MemoryBudgetError, UsageError
from ooc_graph.kernels import cuda_disk_push, interface, tier_sssp_search
from ooc_graph.kernels.cuda_disk_heads import DeviceHeads
from ooc_graph.kernels.cuda_tier_sssp import SsspHold
from ooc_graph.layout import chunks, names
from ooc_graph.memory.device_disk_plan import DiskFacts
from ooc_graph.memory.device_disk_sssp_plan import (
    REQUEST_BYTES,
    DiskSsspPlan,
    least_disk_sssp,
    plan_disk_sssp,
)
from ooc_graph.memory.plan import HeadRule
from ooc_graph.session import cuda_tiers
from ooc_graph.shards.cuda_disk_sssp import CudaDiskSssp, DiskHold, load_disk_sssp
from ooc_graph.shards.device_tiers_sssp import load_device_sssp
from ooc_graph.shards.load import Graph
from ooc_graph.types import Rows
from tests.gpu.comparison import CPU, graph, light_sides, same_sssp
from tests.gpu.disked import disk_search, disk_side
from tests.gpu.graphs import GRAPHS, flat, path, roots, sparse, star, valued
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.test_cuda_tiers import LITTLE
from tests.strategies import arcs_of, skewed, small_arcs
from tests.unit.test_build_oracle import small_steps

ALL = 1 << 40
UNIT = 512
TINY = {"unit_bytes": 256, "batch_units": 4, "window": 128, "look": 20}
MODEST = {"unit_bytes": 8192, "batch_units": 8, "window": 4096}
# Arcs of each row within reach, and how many of them stand on the device; the others are pinned.
HOLDS = [
    (SsspHold(1, 63), None),
    (SsspHold(2, 2), 1000),
    (SsspHold(5, 3), 0),
    (SsspHold(ALL, 63), None),
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
def test_same_bytes_as_the_cpu(name: str, hold: SsspHold, device_arcs: int | None) -> None:
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
    name: str, hold: SsspHold, device_arcs: int | None
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
    monkeypatch.setattr("ooc_graph.kernels.cuda_disk_sssp.TAIL_ROWS", 1)
    assert tier_sssp_search.TAIL_ROWS > 1


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("hold", "device_arcs"), HOLDS[:3])
@pytest.mark.parametrize("name", ["skewed", "skewed, directed", "flat, directed", "absorbed"])
def test_rows_that_are_pushed_whole(name: str, hold: SsspHold, device_arcs: int | None) -> None:
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
        "unit_bytes": st.sampled_from([8, 16, 64]),
        "batch_units": st.integers(2, 5),
        "window": st.sampled_from([64, 128]),
        "look": st.sampled_from([1, 3, 1024]),
    }
)


@settings(max_examples=60, deadline=None)
@given(small_arcs(), st.sampled_from(HOLDS), SIZES, st.data())
def test_small_graphs(arcs: Any, hold: Any, sizes: dict[str, int], data: Any) -> None:
    shard, root = arcs.shards(1)[0], data.draw(st.integers(0, arcs.vertices - 1))
    same_sssp(disk_search(shard, *hold, **sizes).run(root), CPU.sssp(shard).run(root))


@pytest.mark.parametrize("hold", [SsspHold(1, 63), SsspHold(3, 2), SsspHold(ALL, 63)])
@pytest.mark.parametrize("device_arcs", [None, 0, 1, 5000])
def test_heads_are_the_first_arcs(hold: SsspHold, device_arcs: int | None) -> None:
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


@pytest.mark.parametrize("hold", [SsspHold(1, 63), SsspHold(ALL, 63)])
def test_sums_that_overflow_are_refused(hold: SsspHold) -> None:
    at = np.arange(6)
    # The arcs that overflow come last in the row of the middle vertex, behind its head.
    ends = np.concatenate([at, np.full(3, 6)]), np.concatenate([at + 1, [10, 11, 12]])
    weight = np.concatenate([np.full(6, 5e37), [1, 2, 1e38]]).astype(np.float32)
    shard = arcs_of(*ends, weight, directed=True).shards(1)[0]
    search, cpu = disk_search(shard, hold, **TINY), CPU.sssp(shard)
    ways = 0
    for root in range(shard.dealing.rows):
        try:
            wanted = cpu.run(root)
        except InputError:
            with pytest.raises(InputError, match="exceeds the largest float32"):
                search.run(root)
            ways |= 1
        else:
            same_sssp(search.run(root), wanted)
            ways |= 2
    assert ways == 3


def test_what_it_does_not_take_is_refused() -> None:
    for weights in ("float64", "int32"):
        shard = graph("kronecker 4", weights)
        with pytest.raises(UsageError, match="float32"):
            disk_search(shard, SsspHold(1, 63), **MODEST)
    search = disk_search(graph("kronecker 4"), SsspHold(1, 63), **MODEST)
    with pytest.raises(UsageError, match="internal id"):
        search.run(10**6)


def test_refused_memory_is_said() -> None:
    shard = graph("kronecker 14")

    def search() -> None:
        disk_search(shard, SsspHold(4, 3), **MODEST).run(1)

    refuse_each_allocation(search, 15)


def test_refused_pinning_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    def refuse(*_: object) -> None:
        raise cupy.cuda.runtime.CUDARuntimeError(2)

    monkeypatch.setattr(cupy.cuda.runtime, "hostRegister", refuse)
    lengths = np.full(1000, 7, np.uint32)
    with pytest.raises(MemoryBudgetError, match="pinned host memory are refused"):
        DeviceHeads(lengths, SsspHold(3, 63), 100)
    assert DeviceHeads(lengths, SsspHold(3, 63)).pinned_bytes == 0


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, int, bool], Path]:
    """Stores of a few shards, packed or not, in units so small that hubs are cut over many."""
    folder = tmp_path_factory.mktemp("tiny")
    random = np.random.default_rng(5)
    ends = (6000 * random.random((2, 30_000)) ** 3).astype(np.int64)
    weights = random.random(30_000).astype(np.float32)
    found = {}
    with small_steps(chunk=16 * UNIT) as patch:
        patch.setattr(names, "SIDECAR_BYTES", UNIT)
        patch.setattr(chunks, "SIDECAR_BYTES", UNIT)
        for form in ((False, 1, False), (False, 4, True), (True, 4, False), (True, 1, True)):
            directed, shards, compress = form
            path = folder / f"{directed}-{shards}-{compress}.zarr"
            given = (ends[0], ends[1], weights)
            options = {"directed": directed, "shards": shards, "compress": compress}
            og.build(given, path, device="cpu", **options)
            found[form] = path
    return found


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SIDECAR_BYTES", UNIT)
    monkeypatch.setattr(names, "CHUNK_BYTES", 16 * UNIT)


def loaded(opened: Graph, held: DiskHold) -> CudaDiskSssp:
    return load_disk_sssp(opened, held, 0.5, window=128, look=20)


STORED = [
    DiskHold(SsspHold(1, 63), 2),
    DiskHold(SsspHold(2, 3), 5, 3000, 40 * UNIT),
    DiskHold(SsspHold(ALL, 63), 4, 0, pins=False),
]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("held", STORED)
@pytest.mark.parametrize(
    ("directed", "shards", "compress"),
    [(False, 1, False), (False, 4, True), (True, 4, False), (True, 1, True)],
)
def test_the_same_bytes_from_stores_of_any_form(
    directed: bool, shards: int, compress: bool, held: DiskHold, stores: Any
) -> None:
    opened = Graph.open(stores[directed, shards, compress])
    assert opened.shards == shards
    shard = opened.load(names.LIGHT)
    reference, whole = CPU.sssp(shard), shard.out_light
    assert isinstance(whole, Rows)
    assert whole.weights is not None
    search = loaded(opened, held)
    bound = search.sides[0].rows.heads
    assert bound.lengths.tolist() == np.diff(whole.offsets).tolist()
    assert search.sides[0].heaviest == whole.weights.max()
    assert len(bound.neighbors) == len(bound.starts) == 0
    before = search.moved
    for root in (0, 5, opened.rows - 1):
        same_sssp(search.run(root), reference.run(root))
    moved = search.moved.since(before)
    assert (moved.units == 0) == (held.hold.least == ALL)
    assert (moved.kept_units > 0) == (held.kept_bytes > 0)
    search.close()


def search_from_some(search: CudaDiskSssp) -> None:
    for root in range(20):
        search.run(root)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_chunk_harmed_during_searches_stops_them_by_name(harm: str, stores: Any) -> None:
    opened = Graph.open(stores[False, 1, False])
    wanted = CPU.sssp(opened.load(names.LIGHT)).run(1).copy()
    search = loaded(opened, DiskHold(SsspHold(1, 63), 4))
    file = opened.path / names.rows_path(0, "out", names.LIGHT) / "weights" / "c" / "1"
    content = file.read_bytes()
    try:
        if harm == "flip":
            units = np.frombuffer(content, np.uint8).copy()
            units[10::UNIT] ^= 1
            file.write_bytes(units.tobytes())
        elif harm == "cut":
            file.write_bytes(content[:100])
        else:
            file.unlink()
        with pytest.raises(CorruptStoreError, match=r"c/1: chunk 1 of shards/00000/out"):
            search_from_some(search)
    finally:
        file.write_bytes(content)
    same_sssp(search.run(1), wanted)
    search.close()


@pytest.mark.usefixtures("tiny")
def test_a_damaged_store_is_named_while_it_is_loaded(stores: Any) -> None:
    opened = Graph.open(stores[False, 1, False])
    file = opened.path / names.rows_path(0, "out", names.LIGHT) / "neighbors" / "c" / "1"
    content = file.read_bytes()
    try:
        units = np.frombuffer(content, np.uint8).copy()
        units[10::UNIT] ^= 1
        file.write_bytes(units.tobytes())
        with pytest.raises(CorruptStoreError, match=r"c/1: chunk 1 of shards/00000/out"):
            loaded(opened, DiskHold(SsspHold(1, 63), 4))
    finally:
        file.write_bytes(content)


def test_stores_of_other_weights_are_refused(tmp_path: Path) -> None:
    edges = np.array([1, 2]), np.array([2, 3]), np.array([0.5, 0.25])
    built = og.build(edges, tmp_path / "g.zarr", device="cpu")
    with pytest.raises(UsageError, match="float64"):
        load_disk_sssp(Graph.open(built.path), DiskHold(SsspHold(1, 63), 2), 0.5)


def test_nothing_is_pinned_where_nothing_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    built = og.build(og.Kronecker(10), tmp_path / "g.zarr", rows="both", device="cpu")
    opened = Graph.open(built.path)
    reference = CPU.sssp(opened.load(names.LIGHT))

    def refuse(*_: object) -> None:
        raise AssertionError("memory is pinned")

    monkeypatch.setattr(cupy.cuda.runtime, "hostRegister", refuse)
    monkeypatch.setattr("ooc_graph.kernels.cuda_staged.pinned_buffer", refuse)
    search = load_disk_sssp(opened, DiskHold(SsspHold(2, 4), 2, pins=False), 0.5)
    same_sssp(search.run(3), reference.run(3))
    search.close()


def test_memory_is_that_of_rows_heads_and_batches() -> None:
    import cupy

    shard = graph("kronecker 16")
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        search = disk_search(shard, SsspHold(2, 4), **MODEST)
        same_sssp(search.run(1), CPU.sssp(shard).run(1))
    rows, heads = shard.dealing.rows, search._state.out.heads
    batches = 2 * MODEST["unit_bytes"] * MODEST["batch_units"] + 21 * MODEST["window"]
    # Distance, parent, where a head begins, and five bitmaps; then heads.
    planned = 12 * rows + 5 * rows // 8 + 8 * heads.arcs + batches
    assert planned <= pool.used_bytes() <= planned + (64 << 10)
    # While heads are made room for, lengths and counts are there too.
    assert pool.total_bytes() <= planned + 8 * rows + (64 << 10)


def test_every_allocation_is_made_before_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    shard = graph("skewed, directed")
    search = disk_search(shard, SsspHold(2, 2), **MODEST)
    wanted = search.run(1)

    def refuse(size: int) -> Any:
        raise AssertionError(f"{size} bytes are asked for")

    with cupy.cuda.using_allocator(refuse):
        for root in (1, 1):
            same_sssp(search.run(root), wanted)
    refused = partial(DeviceHeads, np.full(1000, 7, np.uint32), SsspHold(3, 63))
    with cupy.cuda.using_allocator(refuse), pytest.raises(AssertionError):
        refused()


def planned_store(path: Path, directed: bool, share: float) -> tuple[Graph, DiskSsspPlan]:
    """A store, and a plan for the least of either memory and a share of what its arcs take."""
    random = np.random.default_rng(1)
    ends = (60_000 * random.random((2, 600_000)) ** 2).astype(np.int64)
    given = ends[0], ends[1], random.random(600_000).astype(np.float32)
    graph = og.build(given, path, rows="light", directed=directed, device="cpu")
    facts = DiskFacts("sssp", cuda_tiers.facts_of(graph, "sssp"), graph.shards)
    least, more = least_disk_sssp(facts), int(share * 4 * graph.arcs)
    return graph, plan_disk_sssp(facts, least.device_bytes + more, least.host_bytes + more)


@pytest.mark.parametrize("share", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("directed", [False, True])
def test_memory_stays_within_the_plan(
    directed: bool, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    # Less than any part of the plan, so that none can be forgotten.
    monkeypatch.setattr("ooc_graph.memory.device_plan.FIXED_BYTES", LITTLE)
    opened, plan = planned_store(tmp_path / "g.zarr", directed, share)
    assert (plan.arcs_in_host > 0) == (share == 0.3)
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=plan.device_bytes)
    reference = CPU.sssp(opened.load(names.LIGHT))
    with cupy.cuda.using_allocator(pool.malloc):
        search = load_device_sssp(opened, plan, threads=2)
        for root in (0, opened.rows - 1):
            same_sssp(search.run(root), reference.run(root))
            there, wanted = search.run_on_device(root), reference.run(root)
            assert there.parent.get().tobytes() == wanted.parent.tobytes()
            assert there.distance.get().tobytes() == wanted.distance.tobytes()
        search.close()
    # A window has whole words of rows, and no head is cut in two.
    left = 64 * REQUEST_BYTES + 8 * plan.facts.sides * longest_head(plan) + 4096
    assert plan.device_bytes - LITTLE - left <= pool.total_bytes() <= plan.device_bytes


def longest_head(plan: DiskSsspPlan) -> int:
    return max(int(plan.share.of(side.length).max()) for side in plan.facts.device.sides)


def test_what_is_pinned_is_as_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    register, sizes = cupy.cuda.runtime.hostRegister, []

    def noted(begin: int, size: int, flags: int) -> None:
        register(begin, size, flags)
        sizes.append(size)

    monkeypatch.setattr(cupy.cuda.runtime, "hostRegister", noted)
    opened, plan = planned_store(tmp_path / "g.zarr", False, 0.3)
    load_device_sssp(opened, plan, threads=2).close()
    # What windows and bitmaps are copied to is not registered, but allocated as pinned.
    copied = REQUEST_BYTES * (opened.rows + 64) + plan.facts.device.padded // 8
    least = plan.pinned_bytes - copied - 16 * longest_head(plan)
    assert plan.arcs_in_host > 0
    assert least <= sum(sizes) <= plan.pinned_bytes - copied + 16
