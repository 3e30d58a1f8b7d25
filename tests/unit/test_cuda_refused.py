"""Searches on a CUDA device that are refused memory go one tier down; no device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
from ooc_graph.model.resources import CudaLimits
from ooc_graph.model.task import SearchTask, Written
from ooc_graph.model.trace import Course
from ooc_graph.runtime import engine_cache, process
from ooc_graph.search import refused, single
from ooc_graph.search import whole as search_whole
from ooc_graph.shards import cuda_disk_sssp, device_tiers, load, row_loader
from ooc_graph.shards import tiers as shard_tiers
from ooc_graph.shards.device_tiers import DeviceTierSearch, HostRoom
from ooc_graph.strategies import loading
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.types import NoProgress
from tests.disk_steps import PlainSteps
from tests.made_up_place import CudaHere, TwoWorkers
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
    monkeypatch.setattr("ooc_graph.memory.cuda.pinned_plan.FIXED_BYTES", 0)
    monkeypatch.setattr("ooc_graph.memory.cuda.pinned_plan._SSSP_STRETCHES", 0)
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (FREE, FREE))
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    engine_cache.release()
    yield
    engine_cache.release()


def task_of(graph: og.Graph, kernel: str, **given: Any) -> SearchTask:
    root = int(graph.original_of()[0])
    return SearchTask(str(graph.path), graph.identity, kernel, root, None, device="cuda", **given)


Tried = list[tuple[int, int | None]]


def refuse_in_turn(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> Tried:
    """Have searches refused so, and the last one done; budgets that were tried."""
    tried, waiting = [], list(errors)

    def held(task: SearchTask) -> Written:
        tried.append((task.budget_bytes, task.host_bytes))
        if waiting:
            raise waiting.pop(0)
        return Written(Course(0.0, ()), notes=("done",))

    monkeypatch.setattr(search_whole, "_search_held", held)
    return tried


@KERNELS
def test_refused_host_memory_leaves_arcs_in_the_store(
    kernel: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cuda_memory.cuda_bytes(graph, kernel)
    pinned, device = whole // 8 * 7, MemoryBudgetError("the device's")
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (whole, whole))
    plain = task_of(graph, kernel)
    alone = (pinned, 0)
    for asked, errors, expected in (
        # Pinned rows are passed over: they take as much of the host's.
        (plain, [MemoryError()], [(0, None), alone]),
        (plain, [device, MemoryError()], [(0, None), (pinned, None), alone]),
        (replace(plain, pinned_bytes=7000), [MemoryError()], [(0, None), alone]),
        (
            replace(plain, budget_bytes=pinned, host_bytes=7000),
            [MemoryError()],
            [(pinned, 7000), alone],
        ),
    ):
        tried = refuse_in_turn(monkeypatch, *errors)
        *notes, last = search_whole.search_whole(asked).notes
        assert (tried, last) == (expected, "done")
        assert len(notes) == len(errors)
        assert notes[-1].startswith(f"host memory was refused: {kernel} leaves arcs in the store")
        assert f"within {pinned:,} bytes of the device's, and 0 of the host's" in notes[-1]


@KERNELS
def test_where_nothing_takes_less_of_the_host_the_refusal_is_raised(
    kernel: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    least = cuda_disk.least_device_bytes(graph, kernel)
    for given in ({"budget_bytes": least, "host_bytes": 0}, {"may_stay": False}):
        tried = refuse_in_turn(monkeypatch, MemoryError("no more"), MemoryError("and again"))
        with pytest.raises(MemoryError, match="no more"):
            search_whole.search_whole(task_of(graph, kernel, **given))
        assert len(tried) == 1


def test_refused_host_memory_goes_to_ranks_where_there_are_some(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def carry_out(_: object, __: SearchTask, exchange: str, ___: object) -> Written:
        tried.append(exchange)
        if exchange == "one":
            raise MemoryError
        return Written(Course(0.0, ()), columns={})

    monkeypatch.setattr(single, "_carry_out", carry_out)
    noted: list[str] = []
    progress = NoProgress()
    monkeypatch.setattr(progress, "note", noted.append)
    root, whole = int(graph.original_of()[0]), cuda_memory.cuda_bytes(graph, "bfs")
    assert rank_memory.ranks_bytes(graph, "bfs", range(2)) < whole
    workers = TwoWorkers(FREE, CudaLimits(whole))
    single.search(graph, "bfs", root, place=workers, progress=progress)
    assert tried == ["one", "scheduler"]
    assert noted == ["bfs by ranks, exchange scheduler: host memory was refused"]
    alone = CudaHere(FREE, CudaLimits(whole))
    with pytest.raises(MemoryBudgetError, match="host memory was refused; use --device cpu"):
        single.search(graph, "bfs", root, place=alone, progress=progress)


@KERNELS
def test_what_is_refused_to_a_loaded_search_in_the_store_is_done_within_less(
    kernel: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As to an answer that stays on the device; what loading is refused it does without itself."""
    facts = cuda_disk.known_facts(graph, kernel)
    least = cuda_disk.least_plan(facts).device_bytes
    task = task_of(graph, kernel, budget_bytes=2 * least, host_bytes=0)
    assert cuda_disk.plan_within(facts, 2 * least, 0).device_bytes > least
    tried: list[int] = []

    def held(task: SearchTask) -> Written:
        tried.append(task.budget_bytes)
        key = engine_cache._key(*search_whole._searched(task))
        if is_loaded:
            engine_cache._held[key] = SimpleNamespace(search=None, close=lambda: None)  # type: ignore[assignment]
        raise MemoryBudgetError("the answer does not fit")

    monkeypatch.setattr(search_whole, "_search_held", held)
    for is_loaded in (False, True):
        tried.clear()
        with pytest.raises(MemoryBudgetError, match="does not fit"):
            search_whole.search_whole(task)
        assert tried[0] == 2 * least
        assert tried == sorted(set(tried), reverse=True)
        assert (len(tried) > 1) == is_loaded
        engine_cache.release()
    # Nothing is left that could be given up.
    assert cuda_disk.plan_within(facts, max(tried[-1], least), 0).device_bytes == least
    less, note = refused.less_in_store(task)
    assert less == {"budget_bytes": tried[1]}
    assert note.startswith(f"device memory was refused: {kernel} goes on with arcs in the store")


def test_a_search_that_has_less_than_planned_says_so() -> None:
    assert cuda_disk.with_shortfall("bfs had", 5000, 5000, "of the host's") == "bfs had"
    said = cuda_disk.with_shortfall("bfs had", 5000, 4000, "of the host's")
    assert said.startswith("bfs had; it went on within 4,000 bytes of the host's where 5,000 were")


CPU = CpuDevice(1)


class Searching:
    """A search of the CPU's in the place of a device's, with what notes ask of it."""

    asked_bytes = None

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

    def hold_whole(self, *_: Any) -> None:
        raise AssertionError("there are no hubs")


class Pinned:
    """Ordinary memory in the place of pinned memory."""

    def __init__(self, count: int, dtype: Any, *, threads: int) -> None:
        del threads
        self.host = self.device = np.zeros(count, dtype)


def load_sssp(graph: og.Graph, plan: Any, *, threads: int) -> DeviceTierSearch:
    """The CPU's search with arcs in the store, in the place of a device's."""
    found = cpu_disk.load_within(graph, "sssp", 1 << 30, CPU)
    return DeviceTierSearch(found.search, found.sides, plan, HostRoom(False, threads))


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> Scarce:
    """Where the host's part of searches on a device allocates."""
    monkeypatch.setitem(process._devices, "cuda", OnCpu())
    monkeypatch.setattr(cuda_modules, "free_unused", lambda: None)
    monkeypatch.setattr(cuda_pinned, "link_rate", lambda: None)
    monkeypatch.setattr(device_tiers, "CudaDiskBfsSteps", Steps)
    monkeypatch.setattr(device_tiers, "PinnedArray", Pinned)
    monkeypatch.setitem(cuda_disk.LOADERS, "sssp", load_sssp)
    made = Scarce()
    monkeypatch.setattr(loading, "PinnedRoom", lambda _: made.empty)
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
    task = task_of(graph, kernel)
    wanted = getattr(og, kernel)(graph, task.root, device="cpu").parent.tobytes()
    least = cuda_disk.least_plan(cuda_disk.known_facts(graph, kernel))
    if begun == "pinned":
        task = replace(task, budget_bytes=cuda_memory.cuda_bytes(graph, kernel))
    elif begun == "in the store":
        budgets = least.device_bytes + 64 * graph.rows, least.host_bytes + 48 * graph.rows
        task = replace(task, budget_bytes=budgets[0], host_bytes=budgets[1])
    # What is compiled, and remembered of a graph, is so without what stands in for numpy.
    alone = replace(task, budget_bytes=least.device_bytes, host_bytes=0)
    for one in (task, alone):
        assert search_whole.search_whole(one).columns["parent"].tobytes() == wanted  # type: ignore[index]
    for module in ALLOCATE:
        monkeypatch.setattr(module, "np", scarce)
    said: set[str] = set()
    while True:
        engine_cache.release()
        scarce.has_refused = False
        written = search_whole.search_whole(task)
        assert written.columns is not None
        assert written.columns["parent"].tobytes() == wanted
        if not scarce.has_refused:
            break
        assert any("memory was refused" in note for note in written.notes)
        said.add(written.notes[0].partition(":")[0])
    assert not any("refused" in note for note in written.notes)
    assert "host memory was refused" in said
    assert len(scarce.places) > 5
