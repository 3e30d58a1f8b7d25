"""What a search does whose CUDA device has little memory left, or refuses some."""

from __future__ import annotations

import gc

import pytest

import ooc_graph as og
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from tests.gpu.cases import Case
from tests.gpu.searching import columns, search
from tests.said import Said

pytestmark = pytest.mark.usefixtures("released")


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_rows_that_do_not_fit_are_in_pinned_memory(plain: Case, kernel: str) -> None:
    said, root = Said(), plain.roots[0]
    limits = {"device_memory": cuda_memory.cuda_bytes(plain.graph, kernel) - 1}
    found = search(kernel)(plain.graph, root, device="cuda", progress=said, **limits)
    assert columns(found) == columns(search(kernel)(plain.graph, root, device="cpu"))
    assert ["in pinned host memory" in note for note in said.notes] == [True]
    on_device = search(kernel)(plain.graph, root, device="cuda", arrays="cupy", **limits)
    for name in found.names:
        assert on_device.on_host(name).tobytes() == found.read(name).tobytes(), name


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9])
def test_device_memory_that_is_refused_moves_rows_to_the_host(plain: Case, share: float) -> None:
    pool = cuda_modules.cuda().get_default_memory_pool()
    engine_cache.release()
    gc.collect()  # what other tests left would count as this search's
    pool.free_all_blocks()
    root, said = plain.roots[0], Said()
    og.bfs(plain.graph, root, device="cuda")
    whole = pool.total_bytes()
    engine_cache.release()
    pool.free_all_blocks()
    try:
        pool.set_limit(size=int(share * whole))
        found = og.bfs(plain.graph, root, device="cuda", progress=said)
    finally:
        pool.set_limit(size=0)
    assert columns(found) == columns(og.bfs(plain.graph, root, device="cpu"))
    assert "device memory was refused" in said.notes[0]
    assert "in pinned host memory" in said.notes[1]
    engine_cache.release()


def test_refused_pinning_leaves_it_to_the_cpu(plain: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = cuda_modules.cuda().cuda.runtime

    def refuse(*_: object) -> None:
        raise runtime.CUDARuntimeError(2)

    monkeypatch.setattr(runtime, "hostRegister", refuse)
    # Where arcs cannot stay in the store.
    monkeypatch.setattr(cuda_disk, "may_stay", lambda *_: False)
    engine_cache.release()
    root, limits = (
        plain.roots[0],
        {"device_memory": cuda_memory.cuda_bytes(plain.graph, "bfs") - 1},
    )
    with pytest.raises(MemoryBudgetError, match="pinned host memory are refused"):
        og.bfs(plain.graph, root, device="cuda", **limits)
    said = Said()
    found = og.bfs(plain.graph, root, progress=said, **limits)
    assert columns(found) == columns(og.bfs(plain.graph, root, device="cpu"))
    assert "bfs on the CPU" in said.notes[0]


def test_a_device_that_others_use(plain: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """``cuda`` says so with the bytes, ``auto`` searches on the CPU; nothing stays allocated."""
    needed = cuda_memory.cuda_bytes(plain.graph, "bfs")
    least = min(tier.least_device_bytes(plain.graph, "bfs") for tier in (cuda_pinned, cuda_disk))
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (least - 1, 2 * needed))
    engine_cache.release()
    root = plain.roots[0]
    with pytest.raises(DeviceBusyError, match=r"needs [\d,]+ bytes of device memory"):
        og.bfs(plain.graph, root, device="cuda")
    assert cuda_modules.cuda().get_default_memory_pool().used_bytes() == 0
    right = columns(og.bfs(plain.graph, root, device="cpu"))
    assert columns(og.bfs(plain.graph, root)) == right


def test_a_device_that_others_use_in_part(plain: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all rows do not fit what is free, ``cuda`` pins them, and ``auto`` leaves it."""
    needed, root = cuda_memory.cuda_bytes(plain.graph, "bfs"), plain.roots[0]
    right = columns(og.bfs(plain.graph, root, device="cpu"))
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (needed - 1, 2 * needed))
    engine_cache.release()
    said = Said()
    assert columns(og.bfs(plain.graph, root, progress=said)) == right
    assert "bfs on the CPU" in said.notes[0]
    said.notes.clear()
    assert columns(og.bfs(plain.graph, root, device="cuda", progress=said)) == right
    assert "others have memory of the device" in said.notes[0]
    assert "in pinned host memory" in said.notes[1]
    engine_cache.release()
