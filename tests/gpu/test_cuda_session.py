"""The command and the Python API on a CUDA device: the same bytes as on the CPU, on every way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError, UsageError
from ooc_graph.kernels import cuda_modules
from ooc_graph.session import cuda_disk, cuda_tiers, here, resident
from ooc_graph.session.cluster import local_cuda_cluster
from ooc_graph.types import NoProgress
from tests.gpu.searching import columns, search
from tests.said import Said

EDGES = 40_000
GAP = 1 << 40


@dataclass(frozen=True)
class Case:
    """A graph as edges, and its stores."""

    edges: tuple[np.ndarray, ...]
    directed: bool
    graph: og.Graph

    @property
    def roots(self) -> list[int]:
        return [int(self.edges[0][0]), int(self.edges[1][-1])]


def make(folder: Path, dtype: str, *, directed: bool, gap: int) -> Case:
    random = np.random.default_rng(len(dtype) + gap % 7)
    source = (9_000 * random.random(EDGES) ** 3).astype(np.int64) * 3 + gap
    target = random.integers(0, 9_000, EDGES) * 3 + gap
    if dtype.startswith("int"):
        weight = random.integers(0, 50, EDGES).astype(dtype)
    else:
        weight = (random.integers(0, 4096, EDGES) / 4096).astype(dtype)
    edges = source, target, weight
    graph = og.build(edges, folder / f"{dtype}.zarr", directed=directed, shards=8, device="cpu")
    return Case(edges, directed, graph)


@pytest.fixture(
    scope="module",
    params=[("float32", False, 0), ("float64", True, 5), ("int64", True, GAP), ("int32", False, 1)],
    ids=lambda said: said[0],
)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    dtype, directed, gap = request.param
    return make(tmp_path_factory.mktemp("cases"), dtype, directed=directed, gap=gap)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """One case, for what does not depend on the graph."""
    return make(tmp_path_factory.mktemp("plain"), "float32", directed=False, gap=0)


@pytest.fixture(scope="module")
def cuda_workers() -> Iterator[Any]:
    with local_cuda_cluster() as client:
        yield client


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_same_bytes_as_the_cpu(case: Case, kernel: str, tmp_path: Path) -> None:
    for root in case.roots:
        right = columns(search(kernel)(case.graph, root, device="cpu"))
        for exchange in ("auto", "local"):
            found = search(kernel)(case.graph, root, device="cuda", exchange=exchange)
            assert columns(found) == right, exchange
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
    plain = here.device
    monkeypatch.setattr(here, "device", lambda name="cpu": asked.append(name) or plain(name))
    resident.release()
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


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_a_vertex_without_edges(tmp_path: Path, kernel: str) -> None:
    edges = np.array([0, 1]), np.array([1, 1]), np.ones(2, np.float32)
    held = og.from_edges(*edges, vertices=4)
    for arrays in ("numpy", "cupy"):
        found = search(kernel)(held, 3, device="cuda", arrays=arrays)
        assert type(found.parent).__module__.split(".")[0] == arrays
        assert [int(one) for one in found.parent] == [-1, -1, -1, 3]
    assert found.to_frame()["predecessor"].tolist() == [-1, -1, -1, 3]


@pytest.mark.parametrize("exchange", ["auto", "local"])
def test_lengths_below_the_smallest_normal_number(exchange: str) -> None:
    at, tiny = np.arange(5), np.finfo(np.float32).smallest_subnormal
    weight = np.array([tiny, 3 * tiny, 1e5 * tiny, 0.5, 7 * tiny], np.float32)
    held = og.from_edges(at, at + 1, weight)
    for root in range(6):
        right = og.sssp(held, root, device="cpu")
        assert 0 < np.sort(right.distance)[1] < np.finfo(np.float32).smallest_normal or root == 4
        found = og.sssp(held, root, device="cuda", exchange=exchange)
        assert columns(found) == columns(right), root


def test_a_graph_in_memory_is_searched_on_the_device(case: Case) -> None:
    held = og.from_edges(*case.edges, directed=case.directed)
    for root in case.roots:
        right = columns(og.bfs(case.graph, root, device="cpu"))
        assert columns(og.bfs(held, root, device="cuda")) == right


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("exchange", ["auto", "local", "scheduler"])
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
            resident.release()
            assert pool.used_bytes() == 0
            search(kernel)(graph, int(ends[0][0]), device="cuda")
            assert pool.used_bytes() <= resident.cuda_bytes(graph, kernel), (dtype, kernel)
        resident.release()
        assert pool.used_bytes() == 0


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_rows_that_do_not_fit_are_in_pinned_memory(plain: Case, kernel: str) -> None:
    said, root = Said(), plain.roots[0]
    limits = {"device_memory": resident.cuda_bytes(plain.graph, kernel) - 1}
    found = search(kernel)(plain.graph, root, device="cuda", progress=said, **limits)
    assert columns(found) == columns(search(kernel)(plain.graph, root, device="cpu"))
    assert ["in pinned host memory" in note for note in said.notes] == [True]
    on_device = search(kernel)(plain.graph, root, device="cuda", arrays="cupy", **limits)
    for name in found.names:
        assert on_device.on_host(name).tobytes() == found.read(name).tobytes(), name


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9])
def test_device_memory_that_is_refused_moves_rows_to_the_host(plain: Case, share: float) -> None:
    pool = cuda_modules.cuda().get_default_memory_pool()
    resident.release()
    pool.free_all_blocks()
    root, said = plain.roots[0], Said()
    og.bfs(plain.graph, root, device="cuda")
    whole = pool.total_bytes()
    resident.release()
    pool.free_all_blocks()
    try:
        pool.set_limit(size=int(share * whole))
        found = og.bfs(plain.graph, root, device="cuda", progress=said)
    finally:
        pool.set_limit(size=0)
    assert columns(found) == columns(og.bfs(plain.graph, root, device="cpu"))
    assert "device memory was refused" in said.notes[0]
    assert "in pinned host memory" in said.notes[1]
    resident.release()


def test_refused_pinning_leaves_it_to_the_cpu(plain: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = cuda_modules.cuda().cuda.runtime

    def refuse(*_: object) -> None:
        raise runtime.CUDARuntimeError(2)

    monkeypatch.setattr(runtime, "hostRegister", refuse)
    # Where arcs cannot stay in the store.
    monkeypatch.setattr(cuda_disk, "may_stay", lambda *_: False)
    resident.release()
    root, limits = plain.roots[0], {"device_memory": resident.cuda_bytes(plain.graph, "bfs") - 1}
    with pytest.raises(MemoryBudgetError, match="pinned host memory are refused"):
        og.bfs(plain.graph, root, device="cuda", **limits)
    said = Said()
    found = og.bfs(plain.graph, root, progress=said, **limits)
    assert columns(found) == columns(og.bfs(plain.graph, root, device="cpu"))
    assert "bfs on the CPU" in said.notes[0]


def test_a_device_that_others_use(plain: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """``cuda`` says so with the bytes, ``auto`` searches on the CPU; nothing stays allocated."""
    needed = resident.cuda_bytes(plain.graph, "bfs")
    least = min(tier.least_device_bytes(plain.graph, "bfs") for tier in (cuda_tiers, cuda_disk))
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (least - 1, 2 * needed))
    resident.release()
    root = plain.roots[0]
    with pytest.raises(DeviceBusyError, match=r"needs [\d,]+ bytes of device memory"):
        og.bfs(plain.graph, root, device="cuda")
    assert cuda_modules.cuda().get_default_memory_pool().used_bytes() == 0
    right = columns(og.bfs(plain.graph, root, device="cpu"))
    assert columns(og.bfs(plain.graph, root)) == right


def test_a_device_that_others_use_in_part(plain: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all rows do not fit what is free, ``cuda`` pins them, and ``auto`` leaves it."""
    needed, root = resident.cuda_bytes(plain.graph, "bfs"), plain.roots[0]
    right = columns(og.bfs(plain.graph, root, device="cpu"))
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (needed - 1, 2 * needed))
    resident.release()
    said = Said()
    assert columns(og.bfs(plain.graph, root, progress=said)) == right
    assert "bfs on the CPU" in said.notes[0]
    said.notes.clear()
    assert columns(og.bfs(plain.graph, root, device="cuda", progress=said)) == right
    assert "others have memory of the device" in said.notes[0]
    assert "in pinned host memory" in said.notes[1]
    resident.release()


def command(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "ooc_graph", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_command(plain: Case, kernel: str, tmp_path: Path) -> None:
    root, results = plain.roots[0], []
    for device in ("cpu", "cuda", "auto"):
        out = tmp_path / f"{device}.zarr"
        options = ("--source", root, "--out", out, "--device", device)
        done = command(kernel, plain.graph.path, *options)
        assert "on the CPU" not in done.stderr
        results.append(og.Result.open(out).columns.content_sha256)
    assert len(set(results)) == 1
    assert "reached" in done.stdout


def test_the_command_refuses_in_one_line(plain: Case, tmp_path: Path) -> None:
    out = tmp_path / "r.zarr"
    options = ("--source", plain.roots[0], "--out", out, "--device", "cuda", "--quiet")
    done = command("bfs", plain.graph.path, *options, "--workers", 99, code=2)
    assert done.stderr.count("\n") == 1
    assert "have a device each" in done.stderr
    done = command("bfs", plain.graph.path, *options, "--method", "edges", code=2)
    assert done.stderr.count("\n") == 1
    assert "CPU only" in done.stderr
    assert not out.exists()


def test_components_stay_on_the_cpu(plain: Case) -> None:
    with pytest.raises(UsageError, match="on the CPU only"):
        og.components(plain.graph, device="cuda")
    assert og.components(plain.graph).count >= 1


@pytest.mark.parametrize("clustered", [False, True])
def test_graph500(tmp_path: Path, clustered: bool, request: pytest.FixtureRequest) -> None:
    from ooc_graph.session.graph500 import graph500
    from ooc_graph.session.graph500_run import Graph500Options

    client = request.getfixturevalue("cuda_workers") if clustered else None
    graphs = {}
    for device in ("cuda", "cpu"):
        options = Graph500Options(scale=12, searches=8, shards=4, energy=False)
        outcome = graph500(
            options,
            tmp_path / device,
            client=client,
            memory_limit_bytes=None,
            device=device,
            progress=NoProgress(),
            overwrite=False,
        )
        assert outcome.failure is None
        assert "bfs  harmonic_mean_TEPS" in outcome.block
        report = json.loads((tmp_path / device / "report.json").read_text())
        graphs[device] = [
            (one["kernel"], one["root"], one["edges"], one["reached"]) for one in report["searches"]
        ]
        found = og.Graph.open(tmp_path / device / "graph.zarr").identity
        graphs[device].append(found)
    assert graphs["cuda"] == graphs["cpu"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_graph500_notices_a_wrong_answer(
    tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A level that is off by one must not pass."""
    from ooc_graph.kernels.cuda_bfs import CudaBfsSearch
    from ooc_graph.session.graph500 import graph500
    from ooc_graph.session.graph500_run import Graph500Options

    if device == "cuda":
        plain = CudaBfsSearch.run_on_device

        def wrong(self: Any, root: int) -> Any:
            tree = plain(self, root)
            tree.level[5] += 1
            return tree

        monkeypatch.setattr(CudaBfsSearch, "run_on_device", wrong)
    outcome = graph500(
        Graph500Options(scale=12, searches=2, kernels=("bfs",), energy=False),
        tmp_path,
        client=None,
        memory_limit_bytes=None,
        device=device,
        progress=NoProgress(),
        overwrite=False,
    )
    assert (outcome.failure is None) == (device == "cpu")


def test_energy_is_measured(tmp_path: Path) -> None:
    from ooc_graph.session.graph500 import graph500
    from ooc_graph.session.graph500_run import Graph500Options

    outcome = graph500(
        Graph500Options(scale=14, searches=4, kernels=("bfs",)),
        tmp_path,
        client=None,
        memory_limit_bytes=None,
        device="cuda",
        progress=NoProgress(),
        overwrite=False,
    )
    assert outcome.failure is None
    (energy,) = json.loads((tmp_path / "report.json").read_text())["energy"]
    assert energy["seconds"] >= 10
    assert energy["mteps_per_watt"] > 0
    assert any("NVML" in name for name in energy["joules"])


@pytest.mark.parametrize("weighted", [False, True])
def test_a_store_built_on_the_device(case: Case, weighted: bool, tmp_path: Path) -> None:
    edges = case.edges if weighted else case.edges[:2]
    built = [
        og.build(edges, tmp_path / f"{d}.zarr", directed=case.directed, shards=4, device=d)
        for d in ("cpu", "cuda")
    ]
    assert built[0].identity == built[1].identity
