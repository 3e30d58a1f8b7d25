"""Ranks whose rows are in pinned host memory: every step and whole searches give the same bytes."""

from __future__ import annotations

import gc
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.kernels.common.decisions import PULL, PUSH
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout import names
from ooc_graph.memory.cuda.pinned_ranks import RankPlan, plan_ranks
from ooc_graph.memory.heads import ALL
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cuda import pinned_ranks
from tests.gpu import stores
from tests.gpu.graphs import GRAPHS, flat, roots, sparse
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.paired import PairedDevice
from tests.gpu.rank_searches import by_one_process, by_two_workers, within_least
from tests.gpu.ranked import RankedBfs, RankedSssp
from tests.gpu.searching import hub, search
from tests.gpu.test_cuda_wide_ids import WIDE, same_bfs, same_sssp
from tests.gpu.tiered import PinnedRanks
from tests.strategies import WEIGHTS, Arcs, skewed

CPU = CpuDevice(2)
NAMES = ["kronecker 14", "skewed, directed", "star", "pieces"]
FLAT = ["zero weights", "plateaus, directed", "absorbed weights"]
# Of each row the first arc, some, and all.
SHARES = [(1, 63), (2, 2), (ALL, 63)]
KERNELS = ["bfs", "sssp"]
STRATEGY = "cuda/pinned, ranks"


def paired(share: tuple[int, int]) -> PairedDevice:
    return PairedDevice(CPU, PinnedRanks(*share))


@cache
def arcs(name: str, dtype: str = "float32") -> Arcs:
    found = GRAPHS[name]()
    if np.dtype(dtype).kind == "f":
        return replace(found, weight=found.weight.astype(dtype))
    return replace(found, weight=(found.weight * 200).astype(dtype))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", NAMES)
def test_bfs_step_by_step(name: str, share: tuple[int, int]) -> None:
    for shards in (1, 4):
        ranked = RankedBfs(paired(share), arcs(name).shards(shards))
        for root in roots(arcs(name))[:3]:
            ranked.run(root)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", [*NAMES, *FLAT])
def test_sssp_step_by_step(name: str, share: tuple[int, int]) -> None:
    for shards in (1, 4):
        ranked = RankedSssp(paired(share), arcs(name).shards(shards))
        for root in roots(arcs(name))[:2]:
            ranked.run(root)


@pytest.mark.parametrize("dtype", WEIGHTS[1:])
@pytest.mark.parametrize("name", ["skewed, directed", "plateaus"])
def test_sssp_step_by_step_on_other_weights(name: str, dtype: str) -> None:
    for share in SHARES[:2]:
        ranked = RankedSssp(paired(share), arcs(name, dtype).shards(2))
        for root in roots(arcs(name))[:2]:
            ranked.run(root)


def test_every_phase_is_among_these() -> None:
    """What the tests above compare is worth it only if pulling and finishing happen."""
    phases = RankedSssp(paired((1, 63)), arcs("kronecker 14").shards(2)).run(5).phase_arcs
    assert min(phases.values()) > 0
    tree = RankedBfs(paired((1, 63)), arcs("kronecker 14").shards(2)).run(5)
    assert set(tree.level_direction.tolist()) == {PUSH, PULL}


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_ids_of_64_bits(directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "WIDE_VERTICES", 0)
    for dtype in WEIGHTS:
        found = flat(sparse(dtype, directed=directed))
        wide, narrow = found.shards(8, WIDE), found.shards(8)
        for root in (0, found.vertices - 1):
            tree = RankedSssp(paired((2, 2)), wide).run(root)
            same_sssp(tree, RankedSssp(CPU, narrow).run(root))
    same_bfs(RankedBfs(paired((2, 2)), wide).run(0), RankedBfs(CPU, narrow).run(0))


@pytest.mark.parametrize("vertices", [9, 1023, 3000])
def test_ranks_without_rows(vertices: int) -> None:
    found = skewed(vertices, 4 * vertices, "float32", directed=True, seed=1)
    parts = found.shards(4)
    assert min(part.dealing.rows for part in parts) == 0
    RankedBfs(paired((1, 63)), parts).run(0)
    RankedSssp(paired((1, 63)), parts).run(0)


def test_each_allocation_refused() -> None:
    parts = skewed(1500, 6000, "float32", directed=True, seed=3).shards(2)
    for ranked in (RankedBfs, RankedSssp):
        make = partial(ranked, PinnedRanks(2, 2), parts)
        refuse_each_allocation(make, 20)
        assert make().run(5).parent.tobytes() == ranked(CPU, parts).run(5).parent.tobytes()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return stores.kronecker(tmp_path_factory, 14, shards=4)


def plan_with(graph: og.Graph, kernel: str, ranks: int) -> RankPlan:
    """Plan within so little device memory that most arcs are in pinned memory alone."""
    facts = max(pinned_ranks.facts_of_any(graph, kernel, ranks), key=lambda one: one.pinned_bytes)
    least = max(map(pinned_ranks.least_bytes, pinned_ranks.facts_of_any(graph, kernel, ranks)))
    plan = plan_ranks(facts, least + facts.pinned_bytes // 4)
    assert 0 < plan.arcs_on_device < facts.arcs // 2
    return plan


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.usefixtures("only_ranks")
def test_several_ranks_of_one_process(kernel: str, graph: og.Graph, tried: list[str]) -> None:
    budget = plan_with(graph, kernel, 4).budget_bytes
    by_one_process(graph, kernel, tried, STRATEGY, device_memory=budget)


@pytest.mark.parametrize("kernel", KERNELS)
def test_ranks_of_two_workers(
    kernel: str, graph: og.Graph, tried: list[str], workers: Client, tmp_path: Path
) -> None:
    budget = plan_with(graph, kernel, 2).budget_bytes
    options: dict[str, Any] = {"device_memory": budget, "out": tmp_path / "found.zarr"}
    by_two_workers(graph, kernel, tried, STRATEGY, workers, **options)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.usefixtures("only_ranks")
def test_the_least_that_is_said_is_enough(
    kernel: str, directed: bool, tmp_path: Path, tried: list[str]
) -> None:
    found = skewed(20_000, 400_000, "float64", directed=directed, seed=5)
    edges = found.source, found.target, found.weight
    built = og.build(edges, tmp_path / "g.zarr", directed=directed, shards=4, device="cpu")
    least = pinned_ranks.least_bytes(pinned_ranks.facts_of(built, kernel, range(4)))
    within_least(built, kernel, tried, STRATEGY, least)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.usefixtures("only_ranks")
def test_rows_are_pinned_no_longer_than_there_are_ranks(
    kernel: str, graph: og.Graph, pinned: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, most = plan_with(graph, kernel, 4), 0
    plain = pinned_ranks.load

    def noted(*given: Any) -> Any:
        nonlocal most
        made = plain(*given)
        most = sum(pinned.values())
        return made

    monkeypatch.setattr(pinned_ranks, "load", noted)
    options: dict[str, Any] = {"device": "cuda", "device_memory": plan.budget_bytes}
    search(kernel)(graph, hub(graph), **options)
    assert most == plan.pinned_bytes
    engine_cache.release()
    gc.collect()
    assert not pinned
