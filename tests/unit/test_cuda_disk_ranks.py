"""Ranks whose arcs are in the store: plans, loading and refusals; devices are made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.layout import names
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.cuda import disk_ranks as plans
from ooc_graph.memory.cuda.disk_ranks import (
    DiskRankFacts,
    DiskRankPlan,
    least_disk_ranks,
    plan_disk_ranks,
)
from ooc_graph.memory.cuda.pinned_ranks import RankFacts
from ooc_graph.memory.heads import ALL, HeadRule, Lengths
from ooc_graph.model import rank_memory
from ooc_graph.model.request import Job, Request
from ooc_graph.model.reservation import HOST, Refusal, Reservation
from ooc_graph.model.resources import AUTO, CudaLimits, Resources
from ooc_graph.runtime import engine_cache, process
from ooc_graph.search import single
from ooc_graph.search.execute import plan_at
from ooc_graph.search.plan import Plan
from ooc_graph.shards import device_ranks
from ooc_graph.shards.tiers import TierSearch
from ooc_graph.strategies.cuda import disk_ranks
from ooc_graph.strategies.cuda.on_disk import OnDisk
from ooc_graph.strategies.cuda.owned_on_disk import OwnedOnDisk
from ooc_graph.strategies.ranks import RankLoading, Ranks
from ooc_graph.types import Dealing
from tests.made_up_place import CudaHere, TwoWorkers, plan_for
from tests.refused_in_turn import followed
from tests.said import Said
from tests.tiered_graphs import HOST as PLENTY

KERNELS = pytest.mark.parametrize("kernel", ["bfs", "sssp"])
CPU = CpuDevice(1)
SIDE = Lengths(np.array([0, 1, 900_000]), np.array([2, 5, 3]))
FACTS = DiskRankFacts(RankFacts("bfs", (SIDE,), 1000, 4), 1, 4, 4, 1 << 20, packed=False)


@pytest.fixture(autouse=True)
def _a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which nothing is asked but its number, and how much memory is free.

    Graphs are small: so are batches, and what does not depend on the graph.
    """
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (PLENTY, PLENTY))
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    monkeypatch.setattr(plans, "BATCH_BLOCKS", 2)
    monkeypatch.setattr(DiskRankPlan, "batch_blocks", 2)
    monkeypatch.setattr(plans, "WINDOW_ROWS", 64)
    engine_cache.release()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "kronecker.zarr"
    return og.build(og.Kronecker(16), path, rows="both", shards=4)


@pytest.fixture(scope="module")
def directed(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "directed.zarr"
    rng = np.random.default_rng(4)
    ends = rng.integers(0, 20_000, (2, 600_000)) * rng.integers(0, 2, (2, 600_000))
    weight = rng.integers(1, 9, 600_000)
    return og.build((*ends, weight), path, rows="both", directed=True, shards=2)


def test_bytes_on_the_device() -> None:
    least = least_disk_ranks(FACTS)
    staged = 2 * names.SIDECAR_BYTES + 64 * plans.REQUEST_BYTES
    # Offsets of heads and of all arcs, of 8 bytes; four sets of rows; the first arcs of ten rows.
    assert least.device_bytes == 1000 + 8 * (11 + 11) + 4 * 8 + 4 * (5 + 3) + staged
    whole = replace(least, share=HeadRule(ALL))
    assert whole.arcs_on_device == whole.arcs == 5 + 2_700_000
    budgets = range(least.device_bytes, whole.device_bytes + 1, 100_003)
    found = [plan_disk_ranks(FACTS, budget, PLENTY) for budget in budgets]
    assert all(plan.device_bytes <= plan.device_budget_bytes for plan in found)
    held = [plan.arcs_on_device for plan in found]
    assert held == sorted(held)
    assert held[0] == 8
    assert plan_disk_ranks(FACTS, whole.device_bytes, PLENTY).arcs_on_device == whole.arcs


def test_bytes_in_host_memory() -> None:
    """All that is beyond the least keeps units, no more than there are."""
    least = least_disk_ranks(FACTS)
    for more in (0, 1 << 20, 1 << 22, 1 << 30):
        plan = plan_disk_ranks(FACTS, least.device_bytes, least.host_bytes + more)
        assert plan.host_bytes <= plan.host_budget_bytes
        assert plan.kept_bytes <= FACTS.ranks.pinned_bytes
        assert (plan.kept_bytes > 0) == (more > 0)
    whole = replace(least, share=HeadRule(ALL)).device_bytes
    assert plan_disk_ranks(FACTS, whole, PLENTY).kept_bytes == 0
    with pytest.raises(MemoryBudgetError, match=f"{least.device_bytes:,} bytes of device memory"):
        plan_disk_ranks(FACTS, least.device_bytes - 1, PLENTY)
    with pytest.raises(MemoryBudgetError, match=f"{least.host_bytes:,} bytes of host memory"):
        plan_disk_ranks(FACTS, least.device_bytes, least.host_bytes - 1)


def test_rows_are_counted_in_31_bits() -> None:
    sides = (Lengths(np.array([1 << 31]), np.array([1])),)
    long = replace(FACTS, ranks=replace(FACTS.ranks, sides=sides))
    with pytest.raises(MemoryBudgetError, match="has a row of 2,147,483,648 arcs"):
        plan_disk_ranks(long, 1 << 60, 1 << 60)


def least_of(graph: og.Graph, kernel: str, resources: Resources, exchange: str) -> tuple[int, int]:
    """Least device and host memory of the workers that need most of each."""
    job = Job(graph, Request(kernel), resources)
    found = list(disk_ranks.facts_of_any(job, exchange))
    least = [least_disk_ranks(facts) for facts in found]
    return max(one.device_bytes for one in least), max(one.host_bytes for one in least)


@KERNELS
@pytest.mark.parametrize("workers", [CudaHere, TwoWorkers])
def test_they_are_taken_if_rows_cannot_be_pinned(
    graph: og.Graph, kernel: str, workers: type[CudaHere], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_alone = workers is CudaHere
    exchange = "local" if is_alone else "scheduler"
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: is_alone)
    monkeypatch.setattr(rank_memory, "CUDA_FIXED_BYTES", 0)

    def resources(device_bytes: int, host: int = PLENTY, limit: int = 0) -> Resources:
        return workers(host, CudaLimits(device_bytes, limit)).resources()

    def found(*given: int) -> Plan:
        asked = "auto" if is_alone else exchange
        return plan_for(graph, kernel, resources(*given), exchange=asked)

    least, host = least_of(graph, kernel, resources(1), exchange)
    plan = found(least)
    held = plan.reserved
    assert (held.strategy, held.exchange) == ("cuda/disk, ranks", exchange)
    assert (held.device_bytes, held.pinned_bytes) == (least, 0)
    assert held.host_bytes == host
    assert found(least, PLENTY, 1 << 20).reserved.host_bytes == host + (1 << 20)
    assert found(least, host).reserved.host_bytes == host
    # SSSP may be searched by other ranks then.
    for said, given in (
        (f"{least:,} bytes of device memory in one worker", (least - 1,)),
        (f"{host:,} bytes of host memory in one worker", (least, host - 1)),
    ):
        with pytest.raises(MemoryBudgetError, match=said):
            Ranks(OnDisk()).reserve(Job(graph, Request(kernel, exchange), resources(*given)))
    described = plan.describe()
    assert (described["kernel"], described["tier"]) == (kernel, "disk, by ranks")
    assert described["device bytes: in all"] <= described["device budget"] == least
    assert described["host bytes: in all"] <= described["host budget"] == host
    assert 0 < described["share of arcs on the device"] < 1
    assert described["bytes that stay in the store"] > 0


@KERNELS
def test_one_device_with_arcs_in_the_store_comes_first(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker has no use of ranks; ``auto`` leaves to the CPU what reads much."""
    roomy = TwoWorkers(PLENTY, CudaLimits(rank_memory.ranks_bytes(graph, kernel, [0]), 0))
    assert plan_for(graph, kernel, roomy.resources()).reserved.strategy == "cuda/disk"
    monkeypatch.setattr(disk_ranks.cuda_pinned, "reads_little", lambda *_: False)
    resources = replace(roomy.resources(), wanted=AUTO)
    held = og.from_edges(np.array([0, 1]), np.array([1, 2]), np.ones(2, np.float32))
    for job, why in (
        (Job(graph, Request(kernel), resources), "it does not pay"),
        (Job(graph, Request(kernel), roomy.resources()), ""),
        (Job(held, Request(kernel), resources), "arcs cannot stay in the store"),
    ):
        assert OnDisk().lacks_rank(job, "scheduler") == why


@KERNELS
def test_refused_memory_goes_from_one_to_the_next(graph: og.Graph, kernel: str) -> None:
    whole = rank_memory.ranks_bytes(graph, kernel, range(2))
    place = TwoWorkers(PLENTY, CudaLimits(whole))
    asked = Request(kernel, "scheduler")
    wanted = ["cuda/memory, ranks", "cuda/pinned, ranks", "cuda/disk, ranks"]
    what, how = "memory", "which leave arcs in the store"
    if kernel == "sssp":
        wanted[2:2] = ["cuda/owned, ranks", "cuda/owned pinned, ranks"]
        wanted.append("cuda/owned disk, ranks")
        what, how = "device memory", OwnedOnDisk.rank_rows.removeprefix(", ")
    refused = (len(wanted) - 1) * [MemoryBudgetError("refused")]
    plans_of = followed(plan_at(place, graph, asked), place, *refused)
    assert [plan.reserved.strategy for plan in plans_of] == wanted
    said = f"{kernel} is searched by ranks, exchange scheduler, {how}"
    assert plans_of[-1].why == f"{what} was refused: {said}"
    # Host memory that rows lack on their way to devices is not lacking here.
    of_host = plans_of[0].after(Refusal(plans_of[0].reserved, HOST, ""), place.resources)
    assert of_host is not None
    assert of_host.reserved.strategy == "cuda/disk, ranks"
    # They themselves go down to the least when they are loaded.
    again = Refusal(plans_of[-1].reserved, "device memory", "")
    assert plans_of[-1].after(again, place.resources) is None


class Rows:
    """Rows that are filled from the store, and of which nothing else is asked."""

    def __init__(self, bare: Any, share: HeadRule) -> None:
        self.lengths, self._share = bare.heads.lengths, share

    def fill(self, rows: Any) -> Any:
        assert len(rows.heads.lengths) == len(self.lengths)
        return rows.dtypes[-1].type(0)


class OnCpu:
    """A device whose ranks are the CPU's, of rows in memory; what it was asked for, and refuses."""

    bfs_shared, sssp_shared = CPU.bfs_shared, CPU.sssp_shared

    def __init__(self) -> None:
        self.graph: Any = None
        self.shares: list[HeadRule] = []
        self.refuses: Callable[[int], bool] = lambda _: False

    def store_rows(self, rows: Any, least: int, shift: int) -> Rows:
        self.shares.append(HeadRule(least, shift))
        if self.refuses(len(self.shares)):
            raise MemoryBudgetError("refused")
        return Rows(rows, self.shares[-1])

    def store_bfs_rank(self, dealing: Dealing, *_: Rows) -> Any:
        return CPU.bfs_rank(self.graph.load(ORDER_OF["bfs"], dealing.shard))

    def store_sssp_rank(self, dealing: Dealing, *_: Any) -> Any:
        return CPU.sssp_rank(self.graph.load(ORDER_OF["sssp"], dealing.shard))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, graph: og.Graph, directed: og.Graph) -> OnCpu:
    del graph, directed  # built before there is a device
    made = OnCpu()
    monkeypatch.setattr(cuda_modules, "free_unused", lambda: None)
    monkeypatch.setitem(process._devices, "cuda", made)
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: True)
    monkeypatch.setattr(rank_memory, "CUDA_FIXED_BYTES", 0)
    return made


@KERNELS
@pytest.mark.parametrize("name", ["graph", "directed"])
def test_searches_by_the_ranks_of_one_process(
    name: str, kernel: str, device: OnCpu, request: pytest.FixtureRequest
) -> None:
    device.graph = graph = request.getfixturevalue(name)
    root = int(graph.original_of()[0])
    right = getattr(og, kernel)(graph, root, device="cpu")
    resources = CudaHere(PLENTY, CudaLimits(1, 0)).resources()
    least, _ = least_of(graph, kernel, resources, "local")
    place = CudaHere(PLENTY, CudaLimits(least, 0))
    result = single.search(graph, kernel, root, workplace=place, progress=Said())
    for column in right.names:
        assert np.asarray(result.read(column)).tobytes() == np.asarray(right.read(column)).tobytes()
    assert device.shares == graph.shards * len(graph.sides) * [HeadRule(1, 63)]


@KERNELS
def test_what_the_device_refuses_is_loaded_with_less(
    graph: og.Graph, kernel: str, device: OnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.graph = graph
    shards = range(graph.shards)
    facts = disk_ranks.facts_of(graph, kernel, shards)
    whole = replace(least_disk_ranks(facts), share=HeadRule(ALL))
    budgets = whole.device_bytes - 1, PLENTY
    most = plan_disk_ranks(facts, *budgets)
    loaded: list[TierSearch] = []
    plain, closed = device_ranks.load_disk_rank, []

    def noted(*given: Any) -> TierSearch:
        loaded.append(plain(*given))
        return loaded[-1]

    def close(rank: TierSearch) -> None:
        closed.append(rank)

    monkeypatch.setattr(disk_ranks, "load_disk_rank", noted)
    monkeypatch.setattr(TierSearch, "close", close)
    device.refuses = lambda count: count == 3
    reserved = Reservation("cuda/disk", budgets[1], budgets[0])
    loading = RankLoading(graph, kernel, shards, shards, reserved)
    ranks = disk_ranks.load(loading, device)
    assert sorted(ranks) == list(shards)
    # Two were loaded before the third was refused; their files are closed.
    assert closed == loaded[1::-1]
    assert device.shares[0] == most.share
    less = plan_disk_ranks(facts, most.device_bytes // 4 * 3, PLENTY)
    assert device.shares[-1] == less.share
    assert less.arcs_on_device < most.arcs_on_device
    # Down to the least, and no further.
    device.refuses = lambda _: True
    device.shares.clear()
    with pytest.raises(MemoryBudgetError, match="refused"):
        disk_ranks.load(loading, device)
    held = [replace(whole, share=share).arcs_on_device for share in device.shares]
    assert held == sorted(held, reverse=True)
    assert device.shares[-1] == HeadRule(1, 63)


@KERNELS
def test_ranks_of_a_worker_share_its_budgets(
    graph: og.Graph, kernel: str, device: OnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within what others leave of the device."""
    device.graph = graph
    least, _ = least_of(graph, kernel, CudaHere(PLENTY, CudaLimits(1, 0)).resources(), "local")
    facts = disk_ranks.facts_of(graph, kernel, range(4))
    budget = least + facts.ranks.pinned_bytes // 3
    resources = CudaHere(PLENTY, CudaLimits(budget, 0)).resources()
    reserved = plan_for(graph, kernel, resources).reserved
    strategy = OnDisk()
    planned = plan_disk_ranks(facts, budget, PLENTY).share
    loading = RankLoading(graph, kernel, range(4), range(4), reserved)
    assert sorted(strategy.load_ranks(loading)) == [0, 1, 2, 3]
    assert set(device.shares) == {planned}
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (least, PLENTY))
    device.shares.clear()
    strategy.load_ranks(loading)
    assert set(device.shares) == {HeadRule(1, 63)}
