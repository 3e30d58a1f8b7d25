"""Searches of rows in pinned host memory, from Python: memory, and what is given back."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError, UnexpectedError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from tests.gpu import stores
from tests.gpu.searching import hub, search
from tests.gpu.test_cuda_tiers import LITTLE
from tests.said import Said


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return stores.kronecker(tmp_path_factory, 16, device="auto")


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_an_answer_on_the_device_stays_within_the_budget(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy = cuda_modules.cuda()
    # Less than what is of vertices, so that none of it can be forgotten.
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", LITTLE)
    monkeypatch.setattr("ooc_graph.memory.cuda.pinned_plan._TRACE_BYTES", {1: 10_240, 4: 10_240})
    least = cuda_pinned.least_device_bytes(graph, kernel, original_parents=True)
    budget = least + cuda_pinned.answer_device_bytes(graph)
    root, pool = hub(graph), cupy.cuda.MemoryPool()
    pool.set_limit(size=budget)
    engine_cache.release()
    with cupy.cuda.using_allocator(pool.malloc):
        found = search(kernel)(graph, root, device="cuda", arrays="cupy", device_memory=budget)
        on_host = {name: found.on_host(name) for name in found.names}
        del found
        engine_cache.release()
    right = search(kernel)(graph, root, device="cpu")
    for name in right.names:
        assert on_host[name].tobytes() == right.read(name).tobytes(), name


def limits(graph: og.Graph, kernel: str) -> dict[str, Any]:
    return {"device": "cuda", "device_memory": cuda_memory.cuda_bytes(graph, kernel) - 1}


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_released_rows_are_pinned_no_longer(
    graph: og.Graph, kernel: str, pinned: dict[int, int]
) -> None:
    said = Said()
    for arrays in ("numpy", "cupy"):
        search(kernel)(graph, hub(graph), arrays=arrays, progress=said, **limits(graph, kernel))
        assert sum(pinned.values()) == cuda_pinned.pinned_bytes(graph, kernel)
    assert all("in pinned host memory" in note for note in said.notes)
    engine_cache.release()
    gc.collect()
    assert not pinned


def test_rows_that_are_refused_half_way_are_pinned_no_longer(
    graph: og.Graph, pinned: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = cuda_modules.cuda().cuda.runtime
    register, sizes = runtime.hostRegister, []

    def refuse_the_second(begin: int, size: int, flags: int) -> None:
        sizes.append(size)
        if len(sizes) > 1:
            raise runtime.CUDARuntimeError(2)
        register(begin, size, flags)

    monkeypatch.setattr(runtime, "hostRegister", refuse_the_second)
    # Where arcs cannot stay in the store.
    monkeypatch.setattr(cuda_disk, "may_stay", lambda *_: False)
    said = ""
    try:
        og.sssp(graph, hub(graph), **limits(graph, "sssp"))
    except MemoryBudgetError as error:
        said = str(error)
    assert "pinned host memory are refused" in said
    assert len(sizes) == 2
    gc.collect()
    assert not pinned


def test_an_error_in_a_search_leaves_nothing_pinned(
    graph: og.Graph, pinned: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        assert pinned
        raise LookupError

    monkeypatch.setattr(cuda_pinned, "_made", fail)
    for _ in range(2):
        with suppress(UnexpectedError):
            og.bfs(graph, hub(graph), **limits(graph, "bfs"))
        gc.collect()
        assert not pinned
