"""Searches on a CUDA device that are refused memory go one tier down; no device."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers import scatter
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.store import rows as tier_rows
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.store import bfs_search as disk_bfs_search
from ooc_graph.layout import stored
from ooc_graph.memory.cpu import disk
from ooc_graph.model import rank_memory
from ooc_graph.model.request import Request
from ooc_graph.model.resources import CudaLimits
from ooc_graph.model.task import SearchTask, Trace, Written
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.engine_keys import Kept
from ooc_graph.search import single
from ooc_graph.search.algorithm import Algorithm
from ooc_graph.search.execute import execute, key_of, plan_at
from ooc_graph.search.plan import Plan
from ooc_graph.search.trees import ALGORITHMS
from ooc_graph.shards import cuda_disk_sssp, device_tiers, load, row_loader
from ooc_graph.shards import tiers as shard_tiers
from ooc_graph.shards.device_tiers import DeviceTierSearch, HostAllocator
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned as pinned_strategy
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from tests.disk_steps import PlainSteps
from tests.made_up_place import CudaHere, TwoWorkers
from tests.refused_in_turn import InTurn, followed
from tests.said import Said
from tests.unit.test_tier_memory import Scarce

KERNELS = pytest.mark.parametrize("kernel", ["bfs", "sssp"])
FREE = 1 << 40


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "kronecker.zarr"
    return og.build(og.Kronecker(9), path, rows="both", shards=4, device="cpu")


@pytest.fixture(autouse=True)
def _a_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of which nothing is asked but its number, and how much memory is free."""
    # As on large graphs, where what is small beside the vertices does not matter.
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", 0)
    monkeypatch.setattr("ooc_graph.memory.cuda.pinned_plan._SSSP_PIECES", 0)
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (FREE, FREE))
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    engine_cache.release()
    yield
    engine_cache.release()


def there(device_bytes: int, pinned_bytes: int | None = None) -> CudaHere:
    """A process whose device has so much memory, and that may pin so much."""
    return CudaHere(FREE, CudaLimits(device_bytes, pinned_bytes))


def held_by(plan: Plan) -> tuple[str, int, int]:
    """The strategy, device memory, and what is held in host memory if arcs are in the store."""
    reserved = plan.reserved
    in_store = reserved.strategy == "cuda/disk"
    return reserved.strategy, reserved.device_bytes, reserved.host_bytes if in_store else -1


@KERNELS
def test_refused_host_memory_leaves_arcs_in_the_store(
    kernel: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cuda_memory.cuda_bytes(graph, kernel)
    pinned, device = whole // 8 * 7, MemoryBudgetError("the device's")
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (whole, whole))
    on_device, alone = ("cuda/memory", whole, -1), ("cuda/disk", pinned, 0)
    for workplace, errors, expected in (
        # Pinned rows are passed over: they take as much of the host's.
        (there(whole), [MemoryError()], [on_device, alone]),
        (there(whole), [device, MemoryError()], [on_device, ("cuda/pinned", pinned, -1), alone]),
        (there(whole, 7000), [MemoryError()], [on_device, alone]),
        (there(pinned, 7000), [MemoryError()], [("cuda/disk", pinned, 7000), alone]),
    ):
        said = Said()
        plans = followed(
            plan_at(workplace, graph, Request(kernel)), workplace, *errors, progress=said
        )
        assert [held_by(one) for one in plans] == expected
        assert len(said.notes) == len(errors)
        last = said.notes[-1]
        assert last.startswith(f"host memory was refused: {kernel} leaves arcs in the store")
        assert f"within {pinned:,} bytes of the device's, and 0 of the host's" in last


@KERNELS
def test_where_nothing_takes_less_of_the_host_the_refusal_is_raised(
    kernel: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, least = (
        cuda_memory.cuda_bytes(graph, kernel),
        cuda_disk.least_device_bytes(graph, kernel),
    )
    for workplace, may_stay in ((there(least, 0), True), (there(whole), False)):
        if not may_stay:
            monkeypatch.setattr(cuda_disk, "LOADERS", {})
        in_turn = InTurn([MemoryError("no more"), MemoryError("and again")])
        first = plan_at(workplace, graph, Request(kernel))
        with pytest.raises(MemoryBudgetError, match="no more; use --device cpu"):
            execute(first, workplace, Said(), in_turn.run)
        assert in_turn.plans == [first]


def test_refused_host_memory_goes_to_ranks_where_there_are_some(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def carry_out(_: object, __: object, task: SearchTask, ___: object) -> Written:
        tried.append(task.reserved.strategy)
        if not task.reserved.is_of_ranks:
            raise MemoryError
        return Written(Trace(0.0, ()), columns={})

    monkeypatch.setattr(Algorithm, "carry_out", carry_out)
    said, root = Said(), int(graph.original_of()[0])
    whole = cuda_memory.cuda_bytes(graph, "bfs")
    assert rank_memory.ranks_bytes(graph, "bfs", range(2)) < whole
    workers = TwoWorkers(FREE, CudaLimits(whole))
    single.search(graph, "bfs", root, workplace=workers, progress=said)
    assert tried == ["cuda/memory", "cuda/memory, ranks"]
    assert said.notes == ["host memory was refused: bfs is searched by ranks, exchange scheduler"]
    with pytest.raises(MemoryBudgetError, match="host memory was refused; use --device cpu"):
        single.search(graph, "bfs", root, workplace=there(whole), progress=said)
    assert tried[2:] == ["cuda/memory", "cuda/disk"]


@KERNELS
def test_what_is_refused_to_a_loaded_search_in_the_store_is_done_within_less(
    kernel: str, graph: og.Graph
) -> None:
    """As to an answer that stays on the device; what loading is refused it does without itself."""
    facts = cuda_disk.known_facts(graph, kernel)
    least = cuda_disk.least_plan(facts).device_bytes
    workplace = there(2 * least, 0)
    assert cuda_disk.plan_within(facts, 2 * least, 0).device_bytes > least
    plans: list[Plan] = []

    def run(found: Plan) -> None:
        plans.append(found)
        if is_loaded:
            kept = Kept(key_of(found), "0")
            engine_cache._engines[kept] = SimpleNamespace(search=None, close=lambda: None)  # type: ignore[assignment]
        raise MemoryBudgetError("the answer does not fit")

    for is_loaded in (False, True):
        plans.clear()
        with pytest.raises(MemoryBudgetError, match="does not fit"):
            execute(plan_at(workplace, graph, Request(kernel)), workplace, Said(), run)
        tried = [one.reserved.device_bytes for one in plans]
        assert tried[0] == 2 * least
        assert tried == sorted(set(tried), reverse=True)
        assert (len(tried) > 1) == is_loaded
        assert {one.strategy.name for one in plans} == {"cuda/disk"}
        engine_cache.release()
    # Nothing is left that could be given up.
    assert cuda_disk.plan_within(facts, max(tried[-1], least), 0).device_bytes == least
    said = f"{kernel} leaves arcs in the store and goes on within {tried[1]:,} bytes of the device"
    assert plans[1].why.startswith(f"device memory was refused: {said}")


def test_a_search_that_has_less_than_planned_says_so() -> None:
    assert cuda_pinned.with_shortfall("bfs had", 5000, 5000, "of the host's") == "bfs had"
    said = cuda_pinned.with_shortfall("bfs had", 5000, 4000, "of the host's")
    assert said.startswith("bfs had; it went on within 4,000 bytes of the host's where 5,000 were")


CPU = CpuDevice(1)


class Searching:
    """A search of the CPU's in the place of a device's."""

    def __init__(self, held: Any) -> None:
        self.run = held.run


class OnCpu:
    """A device whose searches are the CPU's; rows are where they were loaded."""

    def bfs(self, shard: Any, **_: Any) -> Searching:
        return Searching(CPU.bfs(shard))

    def sssp(self, shard: Any, **_: Any) -> Searching:
        return Searching(CPU.sssp(shard))

    def tier_bfs(self, shard: Any, *_: Any, **__: Any) -> Searching:
        return self.bfs(shard)

    def tier_sssp(self, shard: Any, *_: Any, **__: Any) -> Searching:
        return self.sssp(shard)


class Steps(PlainSteps):
    """Steps of `ooc_graph.kernels.cuda.store.bfs.CudaDiskBfsSteps`, in NumPy; no hubs are whole."""

    hubs = 0

    def __init__(self, out: Any, into: Any, held: Any, **_: int) -> None:
        super().__init__(out, into, len(held.near) + len(held.far))

    def take_whole(self, *_: Any) -> None:
        raise AssertionError("there are no hubs")


class Pinned:
    """Ordinary memory in the place of pinned memory."""

    def __init__(self, count: int, dtype: Any, *, threads: int) -> None:
        del threads
        self.host = self.device = np.zeros(count, dtype)


def load_sssp(graph: og.Graph, plan: Any, *, threads: int) -> DeviceTierSearch:
    """The CPU's search with arcs in the store, in the place of a device's."""
    found = cpu_disk.load_within(graph, "sssp", 1 << 30, CPU)
    return DeviceTierSearch(found.search, found.sides, plan, HostAllocator(False, threads))


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> Scarce:
    """Where the host's part of searches on a device allocates."""
    monkeypatch.setitem(process._devices, "cuda", OnCpu())
    monkeypatch.setattr(cuda_modules, "free_unused", lambda: None)
    monkeypatch.setattr(device_tiers, "CudaDiskBfsSteps", Steps)
    monkeypatch.setattr(device_tiers, "PinnedArray", Pinned)
    monkeypatch.setitem(cuda_disk.LOADERS, "sssp", load_sssp)
    made = Scarce()
    monkeypatch.setattr(pinned_strategy, "PinnedAllocator", lambda _: made.empty)
    return made


ALLOCATE = (
    *(disk, shard_tiers, cuda_disk_sssp, device_tiers, load, row_loader),
    *(scatter, stored, tier_rows, disk_bfs_search),
)


@KERNELS
@pytest.mark.parametrize("begun", ["on the device", "pinned", "in the store"])
def test_host_memory_refused_at_any_allocation_is_done_without(
    begun: str, kernel: str, graph: og.Graph, scarce: Scarce, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, whole = int(graph.original_of()[0]), cuda_memory.cuda_bytes(graph, kernel)
    wanted = getattr(og, kernel)(graph, root, device="cpu").parent.tobytes()
    least = cuda_disk.least_plan(cuda_disk.known_facts(graph, kernel))
    workplace = there(whole - (begun == "pinned"))
    if begun == "in the store":
        # So that the graph is too large for pinned memory, as small as it is.
        monkeypatch.setattr(cuda_pinned, "may_pin", lambda *_: False)
        workplace = there(least.device_bytes + 64 * graph.rows, least.host_bytes + 48 * graph.rows)

    def search(workplace: CudaHere) -> list[str]:
        """Notes of a search that ends well."""
        said = Said()
        first = plan_at(workplace, graph, Request(kernel))
        of_one = ALGORITHMS[kernel].whole
        written = execute(first, workplace, said, lambda found: of_one(found.task(root)))
        assert written.columns is not None
        assert written.columns["parent"].tobytes() == wanted
        return [*said.notes, *written.notes]

    strategies = {"on the device": "memory", "pinned": "pinned", "in the store": "disk"}
    assert plan_at(workplace, graph, Request(kernel)).strategy.name == f"cuda/{strategies[begun]}"
    # What is compiled, and remembered of a graph, is so without what stands in for numpy.
    for one in (workplace, there(least.device_bytes, 0)):
        search(one)
    for module in ALLOCATE:
        monkeypatch.setattr(module, "np", scarce)
    said: set[str] = set()
    while True:
        engine_cache.release()
        scarce.has_refused = False
        notes = search(workplace)
        if not scarce.has_refused:
            break
        assert any("memory was refused" in note for note in notes)
        said.add(notes[0].partition(":")[0])
    assert not any("refused" in note for note in notes)
    assert "host memory was refused" in said
    assert len(scarce.places) > 5
