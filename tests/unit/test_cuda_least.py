"""The least memory that errors of CUDA devices name; the devices are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ooc_graph as og
from ooc_graph.errors import DEVICE, HOST, PINNED, MemoryBudgetError
from ooc_graph.memory.cuda.disk_ranks import least_disk_ranks
from ooc_graph.model.request import Job, Request
from ooc_graph.model.resources import CUDA, CudaLimits, Device, Resources
from ooc_graph.runtime import engine_cache, process
from ooc_graph.search.plan import plan
from ooc_graph.strategies.cuda import disk_ranks, in_memory
from tests import choices
from tests.made_up_place import CudaHere, TwoWorkers

GIB = 1 << 30


@pytest.fixture(autouse=True)
def _a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    engine_cache.release()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "kronecker.zarr"
    return og.build(og.Kronecker(10), path, rows="both", shards=4)


def error_of(graph: og.Graph, request: Request, resources: Resources) -> MemoryBudgetError | None:
    """What a search lacks; None if it can be planned."""
    try:
        plan(graph, request, resources)
    except MemoryBudgetError as error:
        return error
    return None


def with_memory(resources: Resources, kind: str, size: int) -> Resources:
    """Processes that have so much of one kind of memory."""
    limits = resources.cuda_limits
    if kind == PINNED:
        return replace(resources, cuda_limits=replace(limits, pinned_bytes=size))
    if kind == DEVICE:
        limits = replace(limits, device_bytes=size)
        return replace(resources, device=Device(CUDA, size), cuda_limits=limits)
    return replace(resources, process_limit_bytes=size, least_limit_bytes=size)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_it_is_enough_and_no_less_is(graph: og.Graph, kernel: str) -> None:
    """An error names one kind of memory: one after another, each once."""
    followed = set()
    asked = [case for case in choices.cases(graph) if case.kernel == kernel]
    for case in asked[::3]:
        place = case.resources
        has_ranks = case.exchange != "scheduler" or place.has_client
        if place.wanted != CUDA or case.method != "rows" or not has_ranks:
            continue
        request = Request(kernel, case.exchange, case.method, 0, case.on_device)
        named: list[str] = []
        while error := error_of(graph, request, place):
            named.append(error.kind)
            assert f"{error.least_bytes:,} bytes of {error.kind} memory" in str(error)
            less = with_memory(place, error.kind, error.least_bytes - 1)
            assert error_of(graph, request, less) is not None
            place = with_memory(place, error.kind, error.least_bytes)
        assert named == [kind for kind in (PINNED, DEVICE, HOST) if kind in named]
        followed.add(tuple(named))
    assert {(), (DEVICE,), (HOST,), (DEVICE, HOST)} <= followed


def test_all_rows_may_take_less_of_the_host_than_arcs_in_the_store(graph: og.Graph) -> None:
    needed = in_memory.host_bytes(graph, graph.resident_bytes("hub"))
    error = error_of(graph, Request("bfs"), CudaHere(1 << 16, CudaLimits(80 * GIB)).resources())
    assert error is not None
    assert (error.least_bytes, error.kind) == (needed, HOST)


def test_an_answer_on_the_device_is_part_of_it(graph: og.Graph) -> None:
    request, there = Request("bfs", on_device=True), CudaHere(GIB, CudaLimits(1)).resources()
    error = error_of(graph, request, there)
    assert error is not None
    assert error.kind == DEVICE
    for less in (0, 1):
        enough = with_memory(there, DEVICE, error.least_bytes - less)
        assert (error_of(graph, request, enough) is None) == (less == 0)


def test_it_is_of_the_worker_whose_ranks_need_most(graph: og.Graph) -> None:
    job = Job(graph, Request("bfs", "scheduler"), TwoWorkers(GIB, CudaLimits(1, 0)).resources())
    one = next(disk_ranks.facts_of_any(job, "scheduler"))
    larger = replace(one, ranks=replace(one.ranks, state_bytes=one.ranks.state_bytes + 1))
    with pytest.raises(MemoryBudgetError) as refused:
        disk_ranks.budgets(job, "scheduler", [one, larger])
    assert refused.value.least_bytes == least_disk_ranks(one).device_bytes + 1
