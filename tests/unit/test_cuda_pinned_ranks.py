"""Ranks with rows in pinned host memory: plans, loading and refusals; devices are made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.bfs.near import BfsShare
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.memory.cuda.device_facts import COLUMNS, FIXED_BYTES
from ooc_graph.memory.cuda.pinned_ranks import (
    RankFacts,
    RankPlan,
    least_plan_of_ranks,
    plan_ranks,
)
from ooc_graph.memory.heads import ALL, HeadRule, Lengths
from ooc_graph.model import rank_memory
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import HOST, Refusal
from ooc_graph.model.resources import CudaLimits
from ooc_graph.runtime import engine_cache, process
from ooc_graph.search import single
from ooc_graph.search.execute import plan_at
from ooc_graph.search.plan import Plan
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.cuda import pinned_ranks
from ooc_graph.strategies.cuda.pinned import Pinned
from ooc_graph.strategies.ranks import RankLoading
from ooc_graph.types import Dealing, Shard
from tests import tiered_graphs
from tests.made_up_place import CudaHere, TwoWorkers, plan_for
from tests.refused_in_turn import followed
from tests.said import Said
from tests.tiered_graphs import HOST as PLENTY

graph, directed, nothing_stays = (
    tiered_graphs.graph,
    tiered_graphs.directed,
    tiered_graphs.nothing_stays,
)
KERNELS = pytest.mark.parametrize("kernel", ["bfs", "sssp"])
CPU = CpuDevice(1)
FACTS = RankFacts("bfs", (Lengths(np.array([0, 1, 9]), np.array([2, 5, 3])),), 1000, 4)


@pytest.fixture(autouse=True)
def _a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which nothing is asked but its number, and how much memory is free."""
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (PLENTY, PLENTY))
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    engine_cache.release()


def least_of(graph: og.Graph, kernel: str, ranks: int) -> int:
    """Least device memory of a worker with so many ranks."""
    return max(map(pinned_ranks.least_bytes, pinned_ranks.facts_of_any(graph, kernel, ranks)))


def test_bytes_on_the_device() -> None:
    # Offsets of 8 bytes, starts of 4, and the first arcs of ten rows.
    assert least_plan_of_ranks(FACTS).bytes == 1000 + 11 * 12 + 4 * (5 + 3)
    whole = RankPlan(FACTS, 0, HeadRule(ALL))
    assert whole.arcs_on_device == FACTS.arcs == 5 + 27
    assert whole.pinned_bytes == 4 * FACTS.arcs
    budgets = range(least_plan_of_ranks(FACTS).bytes, whole.bytes + 1)
    plans = [plan_ranks(FACTS, budget) for budget in budgets]
    assert all(plan.bytes <= plan.budget_bytes for plan in plans)
    held = [plan.arcs_on_device for plan in plans]
    assert held == sorted(held)
    assert (held[0], held[-1]) == (8, FACTS.arcs)
    with pytest.raises(MemoryBudgetError, match=f"needs at least {budgets[0]:,} bytes of device"):
        plan_ranks(FACTS, budgets[0] - 1)


def test_arcs_on_the_device_are_counted_in_32_bits() -> None:
    long = replace(FACTS, sides=(Lengths(np.array([1 << 31]), np.array([4])),))
    assert plan_ranks(long, 1 << 60).arcs_on_device < 1 << 32


@KERNELS
@pytest.mark.parametrize("workers", [CudaHere, TwoWorkers])
def test_they_are_taken_if_the_devices_have_no_room_for_all_rows(
    graph: og.Graph, kernel: str, workers: type[CudaHere], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_alone = workers is CudaHere
    exchange, ranks = ("local", 4) if is_alone else ("scheduler", 2)
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: is_alone)
    whole = rank_memory.ranks_bytes(graph, kernel, range(ranks))
    least = least_of(graph, kernel, ranks)
    assert least < whole

    def found(device_bytes: int, pinned_bytes: int | None = None, host: int = PLENTY) -> Plan:
        resources = workers(host, CudaLimits(device_bytes, pinned_bytes)).resources()
        return plan_for(graph, kernel, resources, exchange="auto" if is_alone else exchange)

    assert found(whole).reserved.strategy == "cuda/memory, ranks"
    plan = found(whole - 1)
    held = plan.reserved
    assert (held.strategy, held.exchange) == ("cuda/pinned, ranks", exchange)
    assert held.device_bytes == whole - 1
    facts = list(pinned_ranks.facts_of_any(graph, kernel, ranks))
    assert held.pinned_bytes == max(one.pinned_bytes for one in facts)
    assert found(least).reserved.device_bytes == least
    with pytest.raises(MemoryBudgetError, match=f"needs {least:,} bytes of device memory"):
        found(least - 1)
    assert found(least, held.pinned_bytes).reserved.device_bytes == least
    with pytest.raises(MemoryBudgetError, match="raise --host-memory"):
        found(least, held.pinned_bytes - 1)
    assert found(least, None, held.host_bytes).reserved.host_bytes == held.host_bytes
    with pytest.raises(MemoryBudgetError, match=f"needs {held.host_bytes:,} bytes of host memory"):
        found(least, None, held.host_bytes - 1)
    told = plan.describe()
    assert (told["kernel"], told["tier"]) == (kernel, "pinned, by ranks")
    assert told["bytes of pinned host memory"] == held.pinned_bytes
    assert told["device bytes: in all"] <= told["device budget"] == whole - 1
    assert 0 < told["share of arcs on the device"] < 1


@KERNELS
def test_workers_come_after_one_device_and_their_devices(graph: og.Graph, kernel: str) -> None:
    """Each worker pins its own rows alone; one worker has no use of ranks."""
    least = least_of(graph, kernel, 2)
    (fewest, *_) = sorted(one.pinned_bytes for one in pinned_ranks.facts_of_any(graph, kernel, 2))
    everything = cuda_pinned.pinned_bytes(graph, kernel)
    assert fewest < everything
    two = TwoWorkers(PLENTY, CudaLimits(least, everything - 1)).resources()
    assert plan_for(graph, kernel, two).strategy.name == "cuda/pinned, ranks"
    one = replace(two, processes=1)
    with pytest.raises(MemoryBudgetError):
        plan_for(graph, kernel, one)
    one_device = cuda_memory.cuda_bytes(graph, kernel)
    for device_bytes in (one_device - 1, one_device):
        roomy = TwoWorkers(PLENTY, CudaLimits(device_bytes, everything)).resources()
        assert not plan_for(graph, kernel, roomy).reserved.is_of_ranks


@KERNELS
def test_refused_memory_goes_from_one_to_the_next(graph: og.Graph, kernel: str) -> None:
    whole = rank_memory.ranks_bytes(graph, kernel, range(2))
    workplace = TwoWorkers(PLENTY, CudaLimits(whole))
    refused = MemoryBudgetError("refused")
    plans = followed(plan_at(workplace, graph, Request(kernel)), workplace, refused, refused)
    tried = [plan.reserved.strategy for plan in plans]
    assert tried == ["cuda/pinned", "cuda/memory, ranks", "cuda/pinned, ranks"]
    said = f"{kernel} is searched by ranks, exchange scheduler, which have their rows in pinned"
    assert plans[-1].why.startswith(f"device memory was refused: {said}")
    # Host memory that rows lack on their way to devices they lack in pinned memory, too.
    of_host = Refusal(plans[1].reserved, HOST, "")
    assert plans[1].after(of_host, workplace.resources) is None
    # They themselves go down to the least when they are loaded; SSSP ranks that own their
    # distances may need less.
    again = plans[2].after(Refusal(plans[2].reserved, "device memory", ""), workplace.resources)
    owned = None if again is None else again.reserved.strategy
    assert owned == (None if kernel == "bfs" else "cuda/owned pinned, ranks")


def test_what_ranks_that_search_together_have_on_the_device(graph: og.Graph) -> None:
    """As much as there is memory for; too little is none."""
    loaded = graph.load("hub", 0)
    facts = pinned_ranks.joined_facts(graph, loaded)
    assert facts is not None
    rows, shares = loaded.dealing.rows, []
    state = FIXED_BYTES + 20 * rows + graph.rows
    for more in (0, 40_000, 80_000, 1 << 30):
        share = pinned_ranks.joined_share(facts, loaded, state + more)
        shares.append((share.columns, share.out_rows, share.in_rows) if share else (0, 0, 0))
    assert shares == sorted(shares)
    assert shares[0] == (0, 0, 0)
    assert shares[-1] == (COLUMNS, rows, rows)
    assert len(set(shares)) > 2
    alone = replace(loaded, dealing=Dealing(graph.rows))
    assert pinned_ranks.joined_facts(graph, alone) is None


class OnCpu:
    """A device whose ranks are the CPU's; what it was asked for, and refuses."""

    bfs_shared, sssp_shared = CPU.bfs_shared, CPU.sssp_shared

    def __init__(self) -> None:
        self.shares: list[tuple[int, int]] = []
        self.joined: list[BfsShare | None] = []
        self.refuses: Callable[[int], bool] = lambda _: False

    def _rank(self, make: Callable[[Shard], Any], shard: Shard, least: int, shift: int) -> Any:
        self.shares.append((least, shift))
        if self.refuses(len(self.shares)):
            raise MemoryBudgetError("refused")
        return make(shard)

    def tier_bfs_rank(self, shard: Shard, _: Any, least: int, shift: int, joined: Any) -> Any:
        self.joined.append(joined)
        return self._rank(CPU.bfs_rank, shard, least, shift)

    def tier_sssp_rank(self, shard: Shard, _: Any, *share: int) -> Any:
        return self._rank(CPU.sssp_rank, shard, *share)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, graph: og.Graph, directed: og.Graph) -> OnCpu:
    del graph, directed  # built before there is a device
    made = OnCpu()
    monkeypatch.setattr(cuda_modules, "free_unused", lambda: None)
    monkeypatch.setitem(process._devices, "cuda", made)
    monkeypatch.setattr(pinned_ranks, "PinnedAllocator", lambda _: np.empty)
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: True)
    return made


def searched(graph: og.Graph, kernel: str, workplace: CudaHere) -> dict[str, bytes]:
    root = int(graph.original_of()[0])
    result = single.search(graph, kernel, root, workplace=workplace, progress=Said())
    return {name: np.asarray(result.read(name)).tobytes() for name in result.names}


@KERNELS
@pytest.mark.parametrize("name", ["graph", "directed"])
def test_searches_by_the_ranks_of_one_process(
    name: str, kernel: str, device: OnCpu, request: pytest.FixtureRequest
) -> None:
    graph: og.Graph = request.getfixturevalue(name)
    least = least_of(graph, kernel, graph.shards)
    right = getattr(og, kernel)(graph, int(graph.original_of()[0]), device="cpu")
    expected = {name: np.asarray(right.read(name)).tobytes() for name in right.names}
    workplace = CudaHere(PLENTY, CudaLimits(least))
    assert searched(graph, kernel, workplace) == expected
    assert device.shares == graph.shards * [(1, 63)]


@KERNELS
def test_what_the_device_refuses_is_loaded_with_less(
    graph: og.Graph, kernel: str, device: OnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on large graphs, where what is small beside the vertices does not matter.
    monkeypatch.setattr(rank_memory, "CUDA_FIXED_BYTES", 0)
    facts = pinned_ranks.facts_of(graph, kernel, range(4))
    most = plan_ranks(facts, rank_memory.ranks_bytes(graph, kernel, range(4)) - 1)
    device.refuses = lambda count: count == 3
    ranks = pinned_ranks.load(graph, kernel, range(4), device, most)
    assert sorted(ranks) == [0, 1, 2, 3]
    first, last = (HeadRule(*device.shares[at]) for at in (0, -1))
    assert first == most.share
    less = plan_ranks(facts, most.bytes // 4 * 3)
    assert last == less.share
    assert less.arcs_on_device < most.arcs_on_device
    # Down to the least, and no further.
    device.refuses = lambda _: True
    device.shares.clear()
    with pytest.raises(MemoryBudgetError, match="refused"):
        pinned_ranks.load(graph, kernel, range(4), device, most)
    held = [RankPlan(facts, 0, HeadRule(*share)).arcs_on_device for share in device.shares]
    assert held == sorted(set(held), reverse=True)
    assert held[-1] == least_plan_of_ranks(facts).arcs_on_device


def test_ranks_that_search_together_share_what_is_left(
    graph: og.Graph, device: OnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its own share beside the least for that, and its part of what no share takes."""
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: False)
    facts = pinned_ranks.facts_of(graph, "bfs", range(4))
    for more, has_some in ((facts.pinned_bytes // 4, False), (1 << 30, True)):
        plan = plan_ranks(facts, least_plan_of_ranks(facts).bytes + more)
        each = [plan.joined_bytes(facts.sides[rank : rank + 1], 4) for rank in range(4)]
        assert 0 <= more - sum(each) < 8
        device.joined.clear()
        pinned_ranks.load(graph, "bfs", range(4), device, plan)
        assert [share is not None for share in device.joined] == 4 * [has_some]


@KERNELS
def test_ranks_of_a_worker_share_its_budget(
    graph: og.Graph, kernel: str, device: OnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within what others leave of the device."""
    least, facts = least_of(graph, kernel, 4), pinned_ranks.facts_of(graph, kernel, range(4))
    budget = least + facts.pinned_bytes // 3
    resources = CudaHere(PLENTY, CudaLimits(budget)).resources()
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: True)
    reserved = plan_for(graph, kernel, resources).reserved
    loading = RankLoading(graph, kernel, range(4), range(4), reserved)
    for free, planned in ((PLENTY, plan_ranks(facts, budget)), (least, least_plan_of_ranks(facts))):
        monkeypatch.setattr(cuda_modules, "device_bytes", lambda n=free: (n, PLENTY))
        device.shares.clear()
        assert sorted(Pinned().load_ranks(loading)) == [0, 1, 2, 3]
        (share,) = set(device.shares)
        assert HeadRule(*share) == planned.share
