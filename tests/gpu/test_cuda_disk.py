"""BFS on a CUDA device with arcs in the store: the same bytes, bounded memory, and faults."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import CorruptStoreError
from ooc_graph.layout import chunks, names
from ooc_graph.memory.cuda.disk import DiskFacts
from ooc_graph.memory.cuda.disk_bfs_plan import (
    REQUEST_BYTES,
    DiskDevicePlan,
    least_disk_plan,
    plan_disk_device,
)
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.device_tiers import DeviceTierSearch, PinningRefusedError, load_device_bfs
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from tests.gpu.comparison import CPU
from tests.gpu.comparison import same_bfs as same
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.stores import kronecker
from tests.gpu.test_cuda_tiers import LITTLE
from tests.unit.test_build_oracle import small_steps

UNIT = 256


@pytest.fixture(autouse=True)
def _released():
    yield
    engine_cache.release()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, int], Path]:
    """Stores of a few shards, in chunks and units so small that hubs are cut over many."""
    folder, random, found = tmp_path_factory.mktemp("tiny"), np.random.default_rng(5), {}
    ends = (6000 * random.random((2, 40_000)) ** 3).astype(np.int64)
    with small_steps(chunk=16 * UNIT) as patch:
        patch.setattr(chunks, "SIDECAR_BYTES", UNIT)
        for directed in (False, True):
            for shards in (1, 4):
                path = folder / f"{directed}-{shards}.zarr"
                options: dict[str, Any] = {"directed": directed, "shards": shards, "device": "cpu"}
                og.build((ends[0], ends[1]), path, rows="hub", **options)
                found[directed, shards] = path
    return found


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SIDECAR_BYTES", UNIT)
    monkeypatch.setattr(names, "CHUNK_BYTES", 16 * UNIT)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A store in units as they are."""
    return kronecker(tmp_path_factory, 16, rows="hub")


def facts_of(graph: Graph) -> DiskFacts:
    return DiskFacts("bfs", cuda_pinned.facts_of(graph, "bfs"), graph.shards)


def loaded(
    graph: Graph,
    near: int,
    far: int,
    batch: int,
    kept: int = 0,
    hubs: tuple[int, int] = (0, 0),
    **sizes: int,
) -> Any:
    pins = far > 0 or hubs[1] > 0
    more: dict[str, Any] = {"batch_blocks": batch, "kept_bytes": kept, "pins": pins}
    plan = DiskDevicePlan(facts_of(graph), 0, 0, near, far, *hubs, **more)
    return load_device_bfs(graph, plan, threads=2, **sizes)


# Columns on the device and in host memory, units in a batch, bytes for units that are kept, and
# arcs of hubs on the device and in host memory.
CASES = [
    (0, 0, 2, 0, (0, 0)),
    (1, 0, 5, 40 * UNIT, (0, 0)),
    (1, 2, 3, 0, (0, 2000)),
    (0, 2, 4, 0, (2000, 1000)),
    (7, 0, 9, 0, (1, 1)),
]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("directed", [False, True])
def test_same_bytes_as_the_cpu(
    directed: bool, shards: int, stores: dict[tuple[bool, int], Path]
) -> None:
    graph = Graph.open(stores[directed, shards])
    reference = CPU.bfs(graph.load("hub"))
    for near, far, batch, kept, hubs in CASES:
        search = loaded(graph, near, far, batch, kept, hubs, window=128, look=20)
        before = search.io_stats
        for root in (0, 5, graph.rows // 2, graph.rows - 1):
            same(search.run(root), reference.run(root))
        io_stats = search.io_stats.since(before)
        # So small a graph may be at hand with its hubs.
        assert io_stats.blocks > 0 or any(hubs)
        # Of a directed graph's sides little is kept, and none of it need be asked for again.
        if not kept:
            assert io_stats.kept_blocks == 0
        elif not directed:
            assert io_stats.kept_blocks > 0
        search.close()


def test_units_and_windows_as_they_are(plain: og.Graph) -> None:
    reference = CPU.bfs(plain.load("hub"))
    for near, far, hubs in ((0, 0, (0, 0)), (1, 2, (100_000, 200_000))):
        search = loaded(plain, near, far, 16, hubs=hubs)
        for root in (0, 1000, plain.rows - 1):
            same(search.run(root), reference.run(root))
            tree, wanted = search.run_on_device(root), reference.run(root)
            assert tree.parent.get().tobytes() == wanted.parent.tobytes()
            assert tree.level.get().tobytes() == wanted.level.tobytes()
        search.close()


def test_compressed_stores(tmp_path: Path) -> None:
    graph = og.build(og.Kronecker(14), tmp_path / "g.zarr", rows="hub", compress=True, device="cpu")
    reference, search = CPU.bfs(graph.load("hub")), loaded(graph, 1, 1, 16)
    for root in (0, graph.rows - 1):
        same(search.run(root), reference.run(root))
    search.close()


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("directed", [False, True])
def test_memory_stays_within_the_plan(
    directed: bool, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    # Less than any part of the plan, so that none can be forgotten.
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", LITTLE)
    ends = (60_000 * np.random.default_rng(1).random((2, 600_000)) ** 2).astype(np.int64)
    graph = og.build(
        (ends[0], ends[1]), tmp_path / "g.zarr", rows="hub", directed=directed, device="cpu"
    )
    facts = facts_of(graph)
    least = least_disk_plan(facts)
    plan = plan_disk_device(
        facts,
        least.device_bytes + int(share * 4 * graph.stored_arcs),
        least.host_bytes + int(share * 8 * graph.stored_arcs),
    )
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=plan.device_bytes)
    reference = CPU.bfs(graph.load("hub"))
    with cupy.cuda.using_allocator(pool.malloc):
        search = load_device_bfs(graph, plan, threads=2)
        for root in (0, graph.rows - 1):
            same(search.run(root), reference.run(root))
        search.close()
    # A window has whole words of rows, and of the hubs no row is held in part.
    longest = max(int(side.length.max()) for side in facts.device.sides)
    left = 64 * REQUEST_BYTES + 4 * longest + 8 * facts.rows
    least_bytes = plan.device_bytes - LITTLE - left
    assert least_bytes <= pool.total_bytes() <= plan.device_bytes


def test_refused_memory_is_said(plain: og.Graph) -> None:
    def make() -> None:
        search = loaded(plain, 2, 0, 16, hubs=(100_000, 0))
        search.run(3)
        search.close()

    refuse_each_allocation(make, 15)


def refuse_pinning(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    def refuse(*_: object) -> None:
        raise cupy.cuda.runtime.CUDARuntimeError(2)

    monkeypatch.setattr(cupy.cuda.runtime, "hostRegister", refuse)


def test_refused_pinning_is_told_apart(plain: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_pinning(monkeypatch)
    with pytest.raises(PinningRefusedError, match="pinned host memory are refused"):
        loaded(plain, 0, 1, 16)
    search: DeviceTierSearch = loaded(plain, 1, 0, 16)
    same(search.run(3), CPU.bfs(plain.load("hub")).run(3))
    search.close()


def test_what_is_pinned_is_as_planned(plain: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    runtime = cupy.cuda.runtime
    register, unregister = runtime.hostRegister, runtime.hostUnregister
    held: dict[int, int] = {}

    def noted(begin: int, size: int, flags: int) -> None:
        register(begin, size, flags)
        held[begin] = size

    def forgotten(begin: int) -> None:
        unregister(begin)
        del held[begin]

    monkeypatch.setattr(runtime, "hostRegister", noted)
    monkeypatch.setattr(runtime, "hostUnregister", forgotten)
    longest = int(facts_of(plain).device.sides[0].length.max())
    for hub_arcs in (0, 2 * longest):
        search = loaded(plain, 1, 2, 16, hubs=(0, hub_arcs))
        planned = search.plan.pinned_bytes
        # Of the hubs no row is held in part.
        assert planned - (4 * longest if hub_arcs else 0) <= sum(held.values()) <= planned
        search.close()
        del search
        gc.collect()
        assert not held


def search_from(search: DeviceTierSearch, roots: range) -> None:
    for root in roots:
        search.run(root)


@pytest.mark.usefixtures("tiny")
def test_a_damaged_chunk_is_named(stores: dict[tuple[bool, int], Path]) -> None:
    graph = Graph.open(stores[False, 1])
    search = loaded(graph, 0, 0, 2, window=128, look=20)
    wanted = search.run(0).copy()
    spec = graph.stored.spec(f"{names.rows_path(0, 'out', names.HUB)}/neighbors")
    path = graph.path / spec.chunk_path(spec.chunks // 3)
    good = path.read_bytes()
    try:
        path.write_bytes(bytes(len(good)))
        with pytest.raises(CorruptStoreError, match=str(path)):
            search_from(search, range(0, graph.rows, 50))
    finally:
        path.write_bytes(good)
    same(search.run(0), wanted)
    search.close()
