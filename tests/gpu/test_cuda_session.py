"""The Python API on a CUDA device: the same bytes as on the CPU, on every way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.cluster import local_cuda_cluster
from ooc_graph.sinks import device_columns
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from tests.gpu.cases import Case
from tests.gpu.memory import used_bytes
from tests.gpu.searching import columns, search
from tests.local_ranks import by_ranks


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_same_bytes_as_the_cpu(case: Case, kernel: str, tmp_path: Path) -> None:
    for root in case.roots:
        right = columns(search(kernel)(case.graph, root, device="cpu"))
        assert columns(search(kernel)(case.graph, root, device="cuda")) == right
        assert columns(by_ranks(case.graph, kernel, root, "cuda")) == right
        stored = [
            search(kernel)(case.graph, root, device=device, out=tmp_path / f"{root}-{device}.zarr")
            for device in ("cpu", "cuda")
        ]
        assert columns(stored[1]) == right
        manifests = [one.columns.content_sha256 for one in stored]
        assert manifests[0] == manifests[1]


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_auto_takes_the_device(case: Case, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    plain = process.device
    monkeypatch.setattr(process, "device", lambda name="cpu": asked.append(name) or plain(name))
    engine_cache.release()
    search(kernel)(case.graph, case.roots[0])
    assert "cuda" in asked


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_answers_stay_on_the_device(case: Case, kernel: str) -> None:
    cupy = cuda_modules.cuda()
    for root in case.roots:
        found = search(kernel)(case.graph, root, arrays="cupy")
        assert all(isinstance(found.read(name), cupy.ndarray) for name in found.names)
        on_host = {name: cupy.asnumpy(found.read(name)) for name in found.names}
        right = search(kernel)(case.graph, root, device="cpu")
        for name, column in on_host.items():
            assert column.dtype == right.read(name).dtype, name
            assert column.tobytes() == right.read(name).tobytes(), name


@pytest.mark.parametrize("vertices", [1 << 16, 70_001])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_columns_pass_the_bus_in_order(
    kernel: str, vertices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces, the last one not full; nothing else of the answer is copied."""

    def unwanted(*_: object) -> None:
        raise AssertionError("the host was to put the answer in order")

    monkeypatch.setattr(device_columns, "LEAST_VERTICES", 1)
    monkeypatch.setattr(device_columns, "_PIECE", 1 << 14)
    cupyx = pytest.importorskip("cupyx")
    random = np.random.default_rng(2)
    ends = (vertices * random.random((2, 200_000)) ** 2).astype(np.int64)
    held = og.from_edges(*ends, random.random(200_000).astype(np.float32), vertices=vertices)
    root = int(ends[0][0])
    right = columns(search(kernel)(held, root, device="cpu"))
    with monkeypatch.context() as patch:
        patch.setattr(CudaBfsSearch, "run", unwanted)
        patch.setattr(CudaSsspSearch, "run", unwanted)
        for _ in range(2):
            assert columns(search(kernel)(held, root, device="cuda")) == right
        measure = {"bfs": "level", "sssp": "distance"}[kernel]
        given = {
            "parent": cupyx.empty_pinned(vertices, np.int64),
            measure: cupyx.empty_pinned(vertices, {"bfs": "i4", "sssp": "f4"}[kernel]),
        }
        with patch.context() as straight:
            # Page-locked arrays need nothing between them and the device.
            straight.setattr(device_columns, "pinned_buffer", unwanted)
            found = search(kernel)(held, root, device="cuda", into=given)
        assert found.parent is given["parent"]
        assert found.read(measure) is given[measure]
        assert columns(found) == right
    monkeypatch.setattr(device_columns, "is_plain_pool", lambda: False)
    assert columns(search(kernel)(held, root, device="cuda")) == right
    engine_cache.release()
    assert used_bytes() == 0


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_a_vertex_without_edges(tmp_path: Path, kernel: str) -> None:
    edges = np.array([0, 1]), np.array([1, 1]), np.ones(2, np.float32)
    held = og.from_edges(*edges, vertices=4)
    for arrays in ("numpy", "cupy"):
        found = search(kernel)(held, 3, device="cuda", arrays=arrays)
        assert type(found.parent).__module__.split(".")[0] == arrays
        assert [int(one) for one in found.parent] == [-1, -1, -1, 3]
    assert found.to_frame()["predecessor"].tolist() == [-1, -1, -1, 3]


def test_lengths_below_the_smallest_normal_number() -> None:
    at, tiny = np.arange(5), np.finfo(np.float32).smallest_subnormal
    weight = np.array([tiny, 3 * tiny, 1e5 * tiny, 0.5, 7 * tiny], np.float32)
    held = og.from_edges(at, at + 1, weight)
    for root in range(6):
        right = og.sssp(held, root, device="cpu")
        assert 0 < np.sort(right.distance)[1] < np.finfo(np.float32).smallest_normal or root == 4
        assert columns(og.sssp(held, root, device="cuda")) == columns(right), root
        assert columns(by_ranks(held, "sssp", root, "cuda")) == columns(right), root


def test_a_graph_in_memory_is_searched_on_the_device(case: Case) -> None:
    held = og.from_edges(*case.edges, directed=case.directed)
    for root in case.roots:
        right = columns(og.bfs(case.graph, root, device="cpu"))
        assert columns(og.bfs(held, root, device="cuda")) == right


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("exchange", ["auto", "scheduler"])
def test_on_workers_that_have_a_device(
    case: Case, kernel: str, exchange: str, workers: Any, tmp_path: Path
) -> None:
    root = case.roots[0]
    right = columns(search(kernel)(case.graph, root, device="cpu"))
    options = {"client": workers, "device": "cuda", "exchange": exchange}
    assert columns(search(kernel)(case.graph, root, **options)) == right
    stored = search(kernel)(case.graph, root, out=tmp_path / "r.zarr", **options)
    assert columns(stored) == right


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_on_cuda_workers(plain: Case, kernel: str, cuda_workers: Any) -> None:
    root = plain.roots[0]
    right = columns(search(kernel)(plain.graph, root, device="cpu"))
    for exchange in ("auto", "scheduler"):
        found = search(kernel)(plain.graph, root, client=cuda_workers, exchange=exchange)
        assert columns(found) == right, exchange


def test_cuda_workers_have_rmm_behind_cupy(cuda_workers: Any) -> None:
    def allocator() -> str:
        import cupy

        return repr(cupy.cuda.get_allocator())

    found = cuda_workers.run(allocator)
    assert len(found) == cuda_modules.cuda().cuda.runtime.getDeviceCount()
    assert all("rmm" in one for one in found.values())


def test_more_workers_than_devices_are_refused() -> None:
    with pytest.raises(UsageError, match="have a device each"), local_cuda_cluster(99):
        pass


def test_the_estimate_of_device_memory_is_an_upper_bound(tmp_path: Path) -> None:
    """And what a search holds is free again when it is released."""
    cupy = cuda_modules.cuda()
    pool = cupy.get_default_memory_pool()
    for dtype, directed in (("float32", False), ("int32", True), ("float64", True)):
        random = np.random.default_rng(1)
        ends = (100_000 * random.random((2, 2_000_000)) ** 2).astype(np.int64)
        weight = random.integers(1, 99, ends.shape[1]).astype(dtype)
        graph = og.from_edges(*ends, weight, directed=directed)
        for kernel in ("bfs", "sssp"):
            engine_cache.release()
            assert pool.used_bytes() == 0
            search(kernel)(graph, int(ends[0][0]), device="cuda")
            assert pool.used_bytes() <= cuda_memory.cuda_bytes(graph, kernel), (dtype, kernel)
        engine_cache.release()
        assert pool.used_bytes() == 0


def test_components_stay_on_the_cpu(plain: Case) -> None:
    with pytest.raises(UsageError, match="on the CPU only"):
        og.components(plain.graph, device="cuda")
    assert og.components(plain.graph).count >= 1
