"""CUDA ranks that own distances and leave arcs in the store: when, and within which memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.errors import DEVICE, HOST, MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.memory.cuda import disk_ranks as plans
from ooc_graph.memory.cuda.disk_ranks import DiskRankPlan, least_disk_ranks, plan_disk_ranks
from ooc_graph.model import rank_memory
from ooc_graph.model.request import Job, Request
from ooc_graph.model.resources import AUTO, CudaLimits, Resources
from ooc_graph.runtime import process
from ooc_graph.search.plan import plan
from ooc_graph.strategies.cuda import owned_on_disk
from ooc_graph.strategies.cuda.on_disk import OnDisk
from ooc_graph.strategies.cuda.owned import PinnedOwned
from ooc_graph.strategies.cuda.owned_on_disk import OwnedOnDisk
from ooc_graph.strategies.owned_lists import (
    LEAST_LISTED,
    MOST_LISTED,
    messages_bytes,
    most_listed,
)
from ooc_graph.strategies.ranks import RankLoading, Ranks
from ooc_graph.types import Dealing
from tests.made_up_place import TwoWorkers
from tests.unit.test_cuda_disk_ranks import Rows

WORKERS, PLENTY = 8, 1 << 40
STRATEGY = Ranks(OwnedOnDisk())


@pytest.fixture(autouse=True)
def _a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are small: so are batches, and what does not depend on the graph."""
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (PLENTY, PLENTY))
    monkeypatch.setattr(cuda_modules, "free_unused", lambda: None)
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    monkeypatch.setattr(plans, "BATCH_BLOCKS", 2)
    monkeypatch.setattr(DiskRankPlan, "batch_blocks", 2)
    monkeypatch.setattr(plans, "WINDOW_ROWS", 64)
    monkeypatch.setattr(rank_memory, "CUDA_FIXED_BYTES", 0)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graph") / "g.zarr"
    return og.build(og.Kronecker(17, edge_factor=8), path, shards=WORKERS)


def job_of(
    graph: og.Graph,
    device_bytes: int,
    host_bytes: int = PLENTY,
    pinned: int | None = 0,
    kernel: str = "sssp",
) -> Job:
    """A search on eight workers with so much memory each."""
    there = TwoWorkers(host_bytes, CudaLimits(device_bytes, pinned)).resources()
    return Job(graph, Request(kernel, "scheduler"), replace(there, processes=WORKERS))


def least_of(graph: og.Graph, strategy: Ranks, kind: str = DEVICE) -> int:
    """The least of one kind of memory that a strategy accepts."""
    memory = (0, PLENTY) if kind == DEVICE else (PLENTY, 0)
    with pytest.raises(MemoryBudgetError) as caught:
        strategy.reserve(job_of(graph, *memory))
    assert caught.value.kind == kind
    return caught.value.least_bytes


def planned(graph: og.Graph, resources: Resources) -> str:
    return plan(graph, Request("sssp", "scheduler"), resources).strategy.name


def test_memory_decides(graph: og.Graph) -> None:
    """They come last: if neither all rows nor the distances of all vertices fit."""
    others, least = least_of(graph, Ranks(OnDisk())), least_of(graph, STRATEGY)
    assert least < others
    assert planned(graph, job_of(graph, others).resources) == "cuda/disk, ranks"
    job = job_of(graph, least)
    assert planned(graph, job.resources) == STRATEGY.name == "cuda/owned disk, ranks"
    with pytest.raises(MemoryBudgetError):
        Ranks(PinnedOwned()).reserve(job)
    with pytest.raises(MemoryBudgetError, match=f"{least:,} bytes of device memory in one worker"):
        STRATEGY.reserve(job_of(graph, least - 1))
    host = least_of(graph, STRATEGY, HOST)
    assert STRATEGY.reserve(job_of(graph, least, host)).host_bytes == host
    with pytest.raises(MemoryBudgetError, match=f"{host:,} bytes of host memory in one worker"):
        STRATEGY.reserve(job_of(graph, least, host - 1))


def test_bytes_on_the_device(graph: og.Graph) -> None:
    """State is of own rows, and of everyone's two bits a vertex, which are counted as a byte."""
    facts = owned_on_disk.facts_of(graph, [1], LEAST_LISTED)
    least, rows = least_disk_ranks(facts), Dealing(graph.rows, WORKERS, 1).rows
    state = rank_memory.owned_bytes(graph, [1])
    state += rank_memory.listed_bytes(graph, [1], LEAST_LISTED)
    # Where a row goes on, and what comes next there.
    assert least.device_parts["vertex state"] == state + rows * (4 + 4)
    assert least.device_parts["row tables"] == 8 * 2 * (rows + 1) + 4 * 8 * -(-rows // 64)
    # Batches of neighbours and of weights; requests, and what of them is pushed.
    staged = 2 * 2 * plans.names.SIDECAR_BYTES
    assert least.device_parts["staging"] == staged + 64 * (plans.REQUEST_BYTES + 4 + 4 * 8)


@pytest.mark.parametrize("kind", [DEVICE, HOST])
def test_tables_are_as_large_as_there_is_room_for(graph: og.Graph, kind: str) -> None:
    """Heads and kept blocks have most of what is beyond the least."""
    least, found = least_of(graph, STRATEGY, kind), []
    for more in (0, 1 << 20, 1 << 24, PLENTY):
        memory = (least + more, PLENTY) if kind == DEVICE else (PLENTY, least + more)
        job = job_of(graph, *memory, pinned=None)
        reserved = STRATEGY.reserve(job)
        listed = most_listed(reserved, graph, WORKERS)
        assert reserved.messages_bytes == messages_bytes(graph, WORKERS, listed)
        facts = owned_on_disk.facts_of(graph, [0], listed)
        within = plan_disk_ranks(facts, reserved.device_bytes, reserved.host_bytes)
        assert within.device_bytes <= memory[0]
        assert within.host_bytes <= memory[1]
        said = STRATEGY.describe(job, reserved)
        assert said["tier"] == "disk, by ranks, each with the distances of its own rows"
        assert said["device bytes: in all"] <= memory[0]
        found.append(listed)
    assert (found[0], found[-1]) == (LEAST_LISTED, MOST_LISTED)
    assert found == sorted(found)


def test_others_do_not_own_distances(graph: og.Graph) -> None:
    job = job_of(graph, PLENTY)
    assert STRATEGY.lacks(job) == ""
    assert STRATEGY.lacks(job_of(graph, PLENTY, kernel="bfs"))
    assert STRATEGY.lacks(replace(job, resources=replace(job.resources, processes=1)))


def test_the_device_does_not_always_pay(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ooc_graph.strategies.cuda.disk_budgets.pays", lambda *_: False)
    job = job_of(graph, PLENTY)
    job = replace(job, resources=replace(job.resources, wanted=AUTO))
    assert STRATEGY.lacks(job) == "it does not pay"


class Owning:
    """A device that is asked for out-rows, and for ranks on them."""

    def __init__(self) -> None:
        self.shares: list[tuple[int, int]] = []

    def store_rows(self, rows: Any, least: int, shift: int) -> Rows:
        self.shares.append((least, shift))
        return Rows(rows, plans.HeadRule(least, shift))

    def store_owned_sssp_rank(
        self, dealing: Dealing, out: Rows, known: Any, *, directed: bool
    ) -> Any:
        assert len(out.lengths) == dealing.rows
        assert known.heaviest <= 1
        return dealing.shard, directed


def test_ranks_of_a_worker_share_its_budgets(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Owning()
    monkeypatch.setitem(process._devices, "cuda", device)
    shards = range(2)
    job = job_of(graph, PLENTY)
    job = replace(job, resources=replace(job.resources, processes=4))
    facts = owned_on_disk.facts_of(graph, shards, LEAST_LISTED)
    budget = least_disk_ranks(facts).device_bytes + facts.ranks.pinned_bytes // 2
    there = replace(job.resources.device, memory_bytes=budget)
    job = replace(job, resources=replace(job.resources, device=there))
    reserved = STRATEGY.reserve(job)
    ranks = OwnedOnDisk().load_ranks(RankLoading(graph, "sssp", shards, shards, reserved))
    assert [ranks[shard].search for shard in shards] == [(0, False), (1, False)]
    listed = most_listed(reserved, graph, WORKERS)
    facts = owned_on_disk.facts_of(graph, shards, listed)
    share = plan_disk_ranks(facts, reserved.device_bytes, reserved.host_bytes).share
    assert device.shares == 2 * [(share.least, share.shift)]
    assert share != least_disk_ranks(facts).share
