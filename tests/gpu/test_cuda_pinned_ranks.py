"""Ranks whose rows are in pinned host memory: every step and whole searches give the same bytes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
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
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.layout import names
from ooc_graph.memory.cuda.pinned_ranks import RankPlan, plan_ranks
from ooc_graph.memory.heads import ALL
from ooc_graph.model import rank_memory
from ooc_graph.model.kernel import CUDA_FIXED_BYTES
from ooc_graph.runtime import engine_cache
from ooc_graph.search import single
from ooc_graph.strategies.cuda import pinned_ranks
from tests.gpu import stores
from tests.gpu.graphs import GRAPHS, flat, roots, sparse
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.paired import PairedDevice
from tests.gpu.ranked import RankedBfs, RankedSssp
from tests.gpu.searching import columns, hub, search
from tests.gpu.test_cuda_wide_ids import WIDE, same_bfs, same_sssp
from tests.gpu.tiered import PinnedRanks
from tests.strategies import WEIGHTS, Arcs, skewed

CPU = CpuDevice(2)
NAMES = ["kronecker 14", "skewed, directed", "star", "pieces"]
FLAT = ["zero weights", "plateaus, directed", "absorbed weights"]
# Of each row the first arc, some, and all.
SHARES = [(1, 63), (2, 2), (ALL, 63)]
KERNELS = ["bfs", "sssp"]


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


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Strategies by which searches are carried out."""
    found: list[str] = []
    plain = single.search_by

    def noted(plan: Any, *rest: Any) -> Any:
        found.append(plan.strategy.name)
        return plain(plan, *rest)

    monkeypatch.setattr(single, "search_by", noted)
    engine_cache.release()
    yield found
    engine_cache.release()


@pytest.fixture
def only_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process searches by ranks, as if the graph had ids of 64 bits."""
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: True)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.usefixtures("only_ranks")
def test_several_ranks_of_one_process(kernel: str, graph: og.Graph, tried: list[str]) -> None:
    budget = plan_with(graph, kernel, 4).budget_bytes
    for root in (hub(graph), int(graph.original_of()[-1])):
        right = columns(search(kernel)(graph, root, device="cpu"))
        tried.clear()
        options: dict[str, Any] = {"device": "cuda", "device_memory": budget}
        found = search(kernel)(graph, root, **options)
        assert columns(found) == right
        assert tried == ["cuda/pinned, ranks"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_ranks_of_two_workers(
    kernel: str, graph: og.Graph, tried: list[str], workers: Client, tmp_path: Path
) -> None:
    """They share one device here; the second search is by ranks that they keep."""
    root, budget = hub(graph), plan_with(graph, kernel, 2).budget_bytes
    right = columns(search(kernel)(graph, root, device="cpu"))
    options: dict[str, Any] = {"client": workers, "device": "cuda", "exchange": "scheduler"}
    options["device_memory"] = budget
    tried.clear()
    for out in (None, None, tmp_path / "found.zarr"):
        assert columns(search(kernel)(graph, root, out=out, **options)) == right
    assert tried == 3 * ["cuda/pinned, ranks"]


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.usefixtures("only_ranks")
def test_the_least_that_is_said_is_enough(
    kernel: str, directed: bool, tmp_path: Path, tried: list[str]
) -> None:
    """With an allocator that gives no more, and little for what does not depend on the graph."""
    found = skewed(20_000, 400_000, "float64", directed=directed, seed=5)
    edges = found.source, found.target, found.weight
    built = og.build(edges, tmp_path / "g.zarr", directed=directed, shards=4, device="cpu")
    root = hub(built)
    right = columns(search(kernel)(built, root, device="cpu"))
    tried.clear()
    facts = pinned_ranks.facts_of(built, kernel, range(4))
    least = pinned_ranks.least_bytes(facts)
    options: dict[str, Any] = {"device": "cuda", "device_memory": least}
    pool = cuda_modules.cuda().get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.get_limit()
    pool.set_limit(size=pool.total_bytes() + least - CUDA_FIXED_BYTES + (1 << 18))
    try:
        assert columns(search(kernel)(built, root, **options)) == right
    finally:
        pool.set_limit(size=before)
    assert tried == ["cuda/pinned, ranks"]


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
