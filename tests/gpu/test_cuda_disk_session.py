"""Searches with arcs in the store on a CUDA device, from Python and by the command."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.result import TreeResult
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.layout import names
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from tests.command_line import command
from tests.gpu import stores
from tests.gpu.searching import hub, search
from tests.gpu.test_cuda_disk import refuse_pinning
from tests.said import Said

pytestmark = pytest.mark.usefixtures("released")
KERNELS = pytest.mark.parametrize("kernel", ["bfs", "sssp"])


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return stores.kronecker(tmp_path_factory, 15)


def limits(graph: og.Graph, kernel: str, host_memory: str | int = 0) -> dict[str, Any]:
    budget = cuda_disk.least_device_bytes(graph, kernel) + 8 * graph.rows
    return {"device": "cuda", "device_memory": budget, "host_memory": host_memory}


def searched(graph: og.Graph, kernel: str, root: int, **options: Any) -> Any:
    return search(kernel)(graph, root, **options)


def same(graph: og.Graph, kernel: str, found: og.Result, root: int) -> None:
    right = searched(graph, kernel, root, device="cpu")
    for name in right.names:
        column = np.asarray(found.read(name))
        assert column.tobytes() == right.read(name).tobytes(), name


def host_bytes(graph: og.Graph, kernel: str) -> int:
    """Fewer than pinning all rows takes, and enough for columns, or heads."""
    facts = cuda_disk.known_facts(graph, kernel)
    return cuda_disk.least_plan(facts).host_bytes + 48 * graph.rows


@KERNELS
def test_arcs_stay_in_the_store(
    kernel: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that the graph is too large for it, as small as it is.
    monkeypatch.setattr(cuda_pinned, "may_pin", lambda *_: False)
    for host, pins in ((0, False), (host_bytes(graph, kernel), True)):
        said = Said()
        for root in (hub(graph), int(graph.original_of()[-1])):
            found = searched(graph, kernel, root, progress=said, **limits(graph, kernel, host))
            same(graph, kernel, found, root)
        assert len(said.notes) == 2
        for note in said.notes:
            assert "bytes of the store for" in note
            assert ("and 0 bytes of pinned memory" in note) == (not pins)
        engine_cache.release()


@KERNELS
def test_the_search_is_held_for_the_next(
    kernel: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, load = [], cuda_disk.load_within

    def noted(*arguments: Any) -> Any:
        loaded.append(arguments[2:4])
        return load(*arguments)

    monkeypatch.setattr(cuda_disk, "load_within", noted)
    monkeypatch.setattr(cuda_pinned, "may_pin", lambda *_: False)
    wanted = {"device": "cuda", "device_memory": limits(graph, kernel)["device_memory"]}
    for _ in range(3):
        found = searched(graph, kernel, hub(graph), **wanted)
    assert len(loaded) == 1
    # With another limit it is made anew.
    searched(graph, kernel, hub(graph), host_memory=0, **wanted)
    assert [host for _, host in loaded][1:] == [0]
    same(graph, kernel, found, hub(graph))


@KERNELS
def test_an_answer_stays_on_the_device(kernel: str, graph: og.Graph) -> None:
    cupy = cuda_modules.cuda()
    wanted = limits(graph, kernel)
    wanted["device_memory"] += cuda_disk.answer_device_bytes(graph)
    root, said = hub(graph), Said()
    found = searched(graph, kernel, root, arrays="cupy", progress=said, **wanted)
    assert isinstance(found.read("parent"), cupy.ndarray)
    assert "bytes of the store for" in said.notes[-1]
    on_host = {name: found.on_host(name) for name in found.names}
    right = searched(graph, kernel, root, device="cpu")
    for name in right.names:
        assert on_host[name].tobytes() == right.read(name).tobytes(), name


@KERNELS
def test_refused_pinning_leaves_arcs_in_the_store(
    kernel: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_pinning(monkeypatch)
    said, root = Said(), hub(graph)
    # Rows that were to be pinned, and then columns that were.
    small = cuda_memory.cuda_bytes(graph, kernel) - 1
    found = searched(graph, kernel, root, device="cuda", device_memory=small, progress=said)
    same(graph, kernel, found, root)
    assert "leaves arcs in the store" in said.notes[0]
    said.notes.clear()
    monkeypatch.setattr(cuda_pinned, "may_pin", lambda *_: False)
    found = searched(
        graph, kernel, root, progress=said, **limits(graph, kernel, host_bytes(graph, kernel))
    )
    same(graph, kernel, found, root)
    assert "pinned host memory are refused" in said.notes[-1]


@KERNELS
def test_refused_device_memory_goes_on_with_less(
    kernel: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy = cuda_modules.cuda()
    monkeypatch.setattr(cuda_pinned, "may_pin", lambda *_: False)
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", 256 << 10)
    least, root = cuda_disk.least_device_bytes(graph, kernel), hub(graph)
    # So much more that what is used of it is more than the least, which is what there is.
    more = {"bfs": 64, "sssp": 16}[kernel] * graph.rows
    wanted = {"device_memory": least + more, "host_memory": 0}
    pool = cupy.get_default_memory_pool()
    gc.collect()
    pool.free_all_blocks()
    before, limit = pool.total_bytes(), pool.get_limit()
    pool.set_limit(size=before + least)
    try:
        found = searched(graph, kernel, root, device="cuda", **wanted)
        assert pool.total_bytes() <= before + least
        (held,) = engine_cache._engines.values()
        # A plan is what is used at most: one above the least may do.
        assert least <= held.search.plan.device_bytes < wanted["device_memory"]
    finally:
        pool.set_limit(size=limit)
    same(graph, kernel, found, root)


@KERNELS
def test_the_command(kernel: str, graph: og.Graph, tmp_path: Path) -> None:
    budget, root = limits(graph, kernel)["device_memory"], hub(graph)
    options = ["--source", root, "--device", "cuda", "--device-memory", budget]
    out = tmp_path / "hops.zarr"
    done = command(kernel, graph.path, "--out", out, *options, "--host-memory", 0)
    assert done.code == 0, done.err
    assert "bytes of the store for" in done.err
    same(graph, kernel, TreeResult.open(out), root)
    done = command("plan", graph.path, "--kernel", kernel, *options[2:], "--host-memory", 0)
    assert done.code == 0, done.err
    assert "bytes of pinned host memory" in done.out


@KERNELS
def test_a_damaged_chunk_leaves_no_result(kernel: str, tmp_path: Path) -> None:
    graph = og.build(og.Kronecker(15), tmp_path / "g.zarr", rows="both", device="cpu")
    order = names.HUB if kernel == "bfs" else names.LIGHT
    spec = graph.stored.spec(f"{names.rows_path(0, 'out', order)}/neighbors")
    path = graph.path / spec.chunk_path(0)
    good = bytearray(path.read_bytes())
    middle = len(good) // 2
    good[middle : middle + 100] = bytes(100)
    path.write_bytes(good)
    out, budget = tmp_path / "hops.zarr", limits(graph, kernel)["device_memory"]
    options = ["--source", hub(graph), "--device", "cuda", "--device-memory", budget]
    done = command(kernel, graph.path, "--out", out, *options, "--host-memory", 0)
    assert done.code == 1
    assert str(path) in done.err
    assert not out.exists()
