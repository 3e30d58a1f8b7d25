"""Ranks whose arcs are in the store: every step of BFS and whole searches give the same bytes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.errors import CorruptStoreError, InputError
from ooc_graph.kernels.common.decisions import PULL, PUSH
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout import names
from ooc_graph.memory.cpu import columns as stored_columns
from ooc_graph.memory.cuda.disk_ranks import DiskRankPlan, least_disk_ranks, plan_disk_ranks
from ooc_graph.memory.heads import ALL
from ooc_graph.shards import device_ranks
from ooc_graph.strategies.cuda import disk_ranks
from tests.gpu import stores
from tests.gpu.graphs import flat, roots, sparse
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.paired import PairedDevice
from tests.gpu.rank_searches import by_one_process, by_two_workers, within_least
from tests.gpu.ranked import RankedBfs, RankedSssp
from tests.gpu.searching import hub, search
from tests.gpu.test_cuda_pinned_ranks import FLAT, KERNELS, NAMES, SHARES, arcs
from tests.gpu.test_cuda_wide_ids import WIDE, widened
from tests.gpu.tiered import StoreRanks
from tests.strategies import WEIGHTS, Arcs, arcs_of, skewed

CPU = CpuDevice(2)
STRATEGY = "cuda/disk, ranks"
# Batches end within rows, windows within words, and looks before rows do; tables are full soon.
SIZES = [
    {"block_bytes": 1024, "batch_blocks": 64},
    {"block_bytes": 64, "batch_blocks": 5, "window": 128, "look": 20, "entries": 40},
]


def paired(share: tuple[int, int], **sizes: int) -> PairedDevice:
    return PairedDevice(CPU, StoreRanks(*share, **sizes))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", NAMES)
def test_bfs_step_by_step(name: str, share: tuple[int, int], sizes: dict[str, int]) -> None:
    for shards in (1, 4):
        ranked = RankedBfs(paired(share, **sizes), arcs(name).shards(shards))
        for root in roots(arcs(name))[:3]:
            ranked.run(root)


def same_sssp(found: Arcs, share: tuple[int, int], shards: int, **sizes: int) -> None:
    """Parents and distances of a few searches; how many arcs are looked at may differ."""
    parts = found.shards(shards)
    cpu, cuda = RankedSssp(CPU, parts), RankedSssp(StoreRanks(*share, **sizes), parts)
    for root in roots(found)[:2]:
        right, tree = cpu.run(root), cuda.run(root)
        assert tree.parent.tobytes() == right.parent.tobytes()
        assert tree.distance.tobytes() == right.distance.tobytes()


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", [*NAMES, *FLAT])
def test_sssp(name: str, share: tuple[int, int], sizes: dict[str, int]) -> None:
    for shards in (1, 4):
        same_sssp(arcs(name), share, shards, **sizes)


@pytest.mark.parametrize("dtype", WEIGHTS[1:])
@pytest.mark.parametrize("name", ["skewed, directed", "plateaus"])
def test_sssp_on_other_weights(name: str, dtype: str) -> None:
    for share, sizes in zip(SHARES, SIZES, strict=False):
        same_sssp(arcs(name, dtype), share, 2, **sizes)


def test_every_phase_is_among_these() -> None:
    """What the tests above compare is worth it only if pulling and finishing happen."""
    parts = arcs("kronecker 14").shards(2)
    phases = RankedSssp(StoreRanks(1, 63), parts).run(5).phase_arcs
    assert min(phases.values()) > 0
    tree = RankedBfs(StoreRanks(1, 63), parts).run(5)
    assert set(tree.level_direction.tolist()) == {PUSH, PULL}


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_ids_of_64_bits(directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "WIDE_VERTICES", 0)
    for dtype in WEIGHTS:
        found = flat(sparse(dtype, directed=directed))
        wide, narrow = found.shards(8, WIDE), found.shards(8)
        ranks = StoreRanks(2, 2, **SIZES[1])
        for kind in (RankedSssp, RankedBfs):
            for root in (0, found.vertices - 1):
                tree, right = kind(ranks, wide).run(root), kind(CPU, narrow).run(root)
                assert tree.parent.tobytes() == widened(right.parent).tobytes()
                for name in ("level", "distance"):
                    if hasattr(tree, name):
                        assert getattr(tree, name).tobytes() == getattr(right, name).tobytes()


@pytest.mark.parametrize("vertices", [9, 1023, 3000])
def test_ranks_without_rows(vertices: int) -> None:
    found = skewed(vertices, 4 * vertices, "float32", directed=True, seed=1)
    parts = found.shards(4)
    assert min(part.dealing.rows for part in parts) == 0
    RankedBfs(paired((1, 63)), parts).run(0)
    same_sssp(found, (1, 63), 4)


def test_sums_that_overflow_in_a_tail() -> None:
    """The row whose path is too long has it beyond its head."""
    leaves = np.arange(2, 60)
    source, target = np.r_[0, np.ones(len(leaves), np.int64)], np.r_[1, leaves]
    weight = np.r_[2e38, np.linspace(1e37, 3e38, len(leaves))].astype(np.float32)
    # The row with most arcs is renumbered to 0, and the other one that has any to 1.
    found = arcs_of(source, target, weight, directed=True)
    for device in (CPU, StoreRanks(1, 63, **SIZES[1]), StoreRanks(ALL, 63)):
        with pytest.raises(InputError, match="exceeds"):
            RankedSssp(device, found.shards(2)).run(1)
    half = replace(found, weight=found.weight / 2)
    same_sssp(half, (1, 63), 2, **SIZES[1])


def test_each_allocation_refused() -> None:
    parts = skewed(1500, 6000, "float32", directed=True, seed=3).shards(2)
    for ranked in (RankedBfs, RankedSssp):
        make = partial(ranked, StoreRanks(2, 2), parts)
        refuse_each_allocation(make, 20)
        assert make().run(5).parent.tobytes() == ranked(CPU, parts).run(5).parent.tobytes()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return stores.kronecker(tmp_path_factory, 18, shards=4)


def plan_of(graph: og.Graph, kernel: str, ranks: int) -> DiskRankPlan:
    """Plan of ranks for a quarter of the arcs on the device."""
    every = [
        disk_ranks.facts_of(graph, kernel, range(first, first + ranks))
        for first in range(graph.shards - ranks + 1)
    ]
    least = max(least_disk_ranks(facts).device_bytes for facts in every)
    most = max(every, key=lambda facts: facts.ranks.arcs)
    plan = plan_disk_ranks(most, least + most.ranks.pinned_bytes // 4, 1 << 34)
    assert 0 < plan.arcs_on_device < plan.arcs // 2
    return plan


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.usefixtures("only_ranks")
def test_several_ranks_of_one_process(kernel: str, graph: og.Graph, tried: list[str]) -> None:
    budget = plan_of(graph, kernel, 4).device_budget_bytes
    by_one_process(graph, kernel, tried, STRATEGY, device_memory=budget, host_memory=0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_ranks_of_two_workers(
    kernel: str, graph: og.Graph, tried: list[str], workers: Client, tmp_path: Path
) -> None:
    budget = plan_of(graph, kernel, 2).device_budget_bytes
    options: dict[str, Any] = {
        "device_memory": budget,
        "host_memory": 0,
        "out": tmp_path / "found.zarr",
    }
    by_two_workers(graph, kernel, tried, STRATEGY, workers, **options)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.usefixtures("only_ranks")
def test_the_least_that_is_said_is_enough(
    kernel: str, directed: bool, tmp_path: Path, tried: list[str]
) -> None:
    found = skewed(60_000, 4_000_000, "float64", directed=directed, seed=5)
    edges = found.source, found.target, found.weight
    options: dict[str, Any] = {"directed": directed, "shards": 4, "device": "cpu", "rows": "both"}
    built = og.build(edges, tmp_path / "g.zarr", **options)
    least = least_disk_ranks(disk_ranks.facts_of(built, kernel, range(4))).device_bytes
    within_least(built, kernel, tried, STRATEGY, least, host_memory=0)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.usefixtures("only_ranks", "tried")
def test_damage_is_named(kernel: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it is found while ranks search: all of them were loaded before."""
    plan, loaded = plan_of(graph, kernel, 4), []
    plain = device_ranks.load_disk_rank

    def noted(*given: Any, **more: Any) -> Any:
        loaded.append(plain(*given, **more))
        if len(loaded) == graph.shards:
            monkeypatch.setattr(stored_columns, "google_crc32c", SimpleNamespace(value=lambda _: 0))
        return loaded[-1]

    monkeypatch.setattr(disk_ranks, "load_disk_rank", noted)
    options: dict[str, Any] = {"device": "cuda", "device_memory": plan.device_budget_bytes}
    options["host_memory"] = 0
    with pytest.raises(CorruptStoreError, match="is damaged from byte"):
        search(kernel)(graph, hub(graph), **options)
    assert len(loaded) == graph.shards
