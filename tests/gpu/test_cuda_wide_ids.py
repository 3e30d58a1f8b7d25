"""Ids of 64 bits on small graphs, which are made to have them by a lower threshold.

Ids that need them are in `test_cuda_far_ids`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.exchange import scheduler
from ooc_graph.kernels.common.decisions import BfsTree, SsspTree
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.device import CudaDevice
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime import steps as cuda_steps
from ooc_graph.layout import names
from ooc_graph.memory.cuda.disk_ranks import least_disk_ranks
from ooc_graph.model import rank_memory
from ooc_graph.model.request import CUDA_FIXED_BYTES
from ooc_graph.runtime import engine_cache, process
from ooc_graph.shards import cuda_plan
from ooc_graph.strategies.cuda import disk_ranks
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import AnyArray
from tests.gpu.graphs import flat, sparse, valued
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.paired import PairedDevice
from tests.gpu.ranked import RankedBfs, RankedSssp, distance_dtype, joined
from tests.gpu.searching import columns
from tests.local_ranks import by_ranks
from tests.said import Said
from tests.strategies import WEIGHTS, grid, skewed

CPU = CpuDevice(2)
WIDE, NARROW = "uint64", "uint32"


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """All graphs have ids of 64 bits."""
    monkeypatch.setattr(names, "WIDE_VERTICES", 0)


def widened(parent: AnyArray) -> AnyArray:
    """Parents of 32 bits in 64; none stays none."""
    none = np.iinfo(np.uint32).max
    return np.where(parent == none, np.iinfo(np.uint64).max, parent.astype(np.uint64))


def same_bfs(found: BfsTree, narrow: BfsTree) -> None:
    assert found.parent.dtype == np.uint64
    assert found.parent.tobytes() == widened(narrow.parent).tobytes()
    for name in ("level", "level_vertices", "level_arcs", "level_direction"):
        assert getattr(found, name).dtype == getattr(narrow, name).dtype
        assert getattr(found, name).tobytes() == getattr(narrow, name).tobytes(), name


def same_sssp(found: SsspTree, narrow: SsspTree) -> None:
    assert found.parent.dtype == np.uint64
    assert found.parent.tobytes() == widened(narrow.parent).tobytes()
    assert found.distance.dtype == narrow.distance.dtype
    assert found.distance.tobytes() == narrow.distance.tobytes()
    assert found.phase_arcs == narrow.phase_arcs


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("shards", [1, 2, 8])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_bfs_step_by_step(directed: bool, shards: int) -> None:
    """Every step as on the CPU, types included; the answer is that of 32 bits."""
    arcs, paired = sparse("float32", directed=directed), PairedDevice(CPU, CudaDevice())
    search, narrow = RankedBfs(paired, arcs.shards(shards, WIDE)), RankedBfs(CPU, arcs.shards(1))
    for root in (0, 700, arcs.vertices - 1):
        same_bfs(search.run(root), narrow.run(root))


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("dtype", WEIGHTS)
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_sssp_step_by_step(directed: bool, dtype: str) -> None:
    paired, mixed = PairedDevice(CPU, CudaDevice()), sparse(dtype, directed=directed)
    for arcs in (mixed, flat(mixed)):
        search = RankedSssp(paired, arcs.shards(8, WIDE))
        narrow = RankedSssp(CPU, arcs.shards(8))
        for root in (0, arcs.vertices - 1):
            same_sssp(search.run(root), narrow.run(root))


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("shards", [1, 2])
def test_many_supersteps(shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what a push tells of in many pieces."""
    monkeypatch.setattr(cuda_steps, "_PIECE", 7)
    paired, arcs = PairedDevice(CPU, CudaDevice()), valued(grid(40, "float32"), [0, 0, 1])
    parts, root = arcs.shards(shards, WIDE), arcs.vertices // 2
    same_bfs(RankedBfs(paired, parts).run(root), RankedBfs(CPU, arcs.shards(1)).run(root))
    narrow = RankedSssp(CPU, arcs.shards(shards)).run(root)
    same_sssp(RankedSssp(paired, parts).run(root), narrow)


@dataclass(frozen=True)
class MakeWide:
    """Makes a worker's ranks; the worker of the last shard searches on its CPU if ``mixed``."""

    kernel: str
    root: int
    mixed: bool
    shards: int = 8

    def __call__(self, mine: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Any]]:
        names.WIDE_VERTICES = 0
        arcs = flat(sparse("float32", directed=True))
        parts = arcs.shards(self.shards, WIDE)
        device: Any = CudaDevice()
        if self.mixed and self.shards - 1 in mine:
            device = CPU
        if self.kernel == "bfs":
            shared = device.bfs_shared(arcs.vertices, self.shards)
            return nullcontext(
                ({s: bfs(device.bfs_rank(parts[s]), self.root, shared) for s in mine}, shared)
            )
        shared = device.sssp_shared(arcs.vertices, distance_dtype(arcs.weight))
        return nullcontext(
            ({s: sssp(device.sssp_rank(parts[s]), self.root, shared) for s in mine}, shared)
        )


@pytest.mark.parametrize("mixed", [False, True], ids=["cuda", "cuda and cpu"])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_ranks_of_two_workers(kernel: str, mixed: bool, workers: Client) -> None:
    """They share one device here; on each worker two threads advance the ranks."""
    arcs, root = flat(sparse("float32", directed=True)), 700
    trees, _ = scheduler.run(workers, MakeWide(kernel, root, mixed), 8, threads=2)
    parts = arcs.shards(8)
    expected: Any = {"bfs": RankedBfs, "sssp": RankedSssp}[kernel](CPU, parts).run(root)
    parent = joined(parts, [tree.parent for tree in trees])
    assert parent.dtype == np.uint64
    assert parent.tobytes() == widened(expected.parent).tobytes()
    measure = "level" if kernel == "bfs" else "distance"
    found = joined(parts, [getattr(tree, measure) for tree in trees])
    assert found.tobytes() == getattr(expected, measure).tobytes()


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(("ranked", "at_least"), [(RankedBfs, 15), (RankedSssp, 60)])
def test_each_allocation_refused(ranked: Any, at_least: int) -> None:
    arcs = flat(skewed(60, 300, "float32", directed=True, seed=4))
    parts = arcs.shards(1, WIDE)
    refuse_each_allocation(lambda: ranked(CudaDevice(), parts).run(5), at_least)


@pytest.mark.usefixtures("wide")
def test_whole_searches_say_what_they_take() -> None:
    device, shard = CudaDevice(), sparse("float32", directed=False).shards(1, WIDE)[0]
    for whole in (device.bfs, device.sssp):
        with pytest.raises(UsageError, match="neighbours of type uint32, not uint64"):
            whole(shard)
    narrow = sparse("float32", directed=False).shards(2)[0]
    for rank in (device.bfs_rank, device.sssp_rank):
        with pytest.raises(UsageError, match="neighbours of type uint64, not uint32"):
            rank(narrow)


def widen() -> None:
    """As `wide`, for a worker."""
    names.WIDE_VERTICES = 0


def stores(folder: Path, dtype: str, *, directed: bool) -> tuple[og.Graph, og.Graph, list[int]]:
    """One graph with ids of 32 and of 64 bits, on four shards; original ids of roots."""
    found, _ = sparse(dtype, directed=directed), folder.mkdir(exist_ok=True)
    edges = 3 * found.source + 5, 3 * found.target + 5, found.weight
    options: Any = {"directed": directed, "shards": 4, "device": "cpu"}
    with pytest.MonkeyPatch.context() as patch:
        narrow = og.build(edges, folder / "narrow.zarr", **options)
        patch.setattr(names, "WIDE_VERTICES", 0)
        wide_one = og.build(edges, folder / "wide.zarr", **options)
    spec = wide_one.stored.spec("shards/00000/out/light/neighbors")
    assert spec.dtype == np.uint64
    return narrow, wide_one, [int(edges[0][0]), int(edges[1][-1])]


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize(
    ("dtype", "directed"), [("float32", False), ("float64", True), ("int32", True)]
)
def test_searches_of_a_store(
    kernel: str, dtype: str, directed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word on how, and by the exchange asked for: the answers of ids of 32 bits."""
    narrow, graph, roots = stores(tmp_path, dtype, directed=directed)
    search = getattr(og, kernel)
    right = [columns(search(narrow, root, device="cpu")) for root in roots]
    monkeypatch.setattr(names, "WIDE_VERTICES", 0)
    asked = []
    plain = process.device
    monkeypatch.setattr(process, "device", lambda name="cpu": asked.append(name) or plain(name))
    for root, expected in zip(roots, right, strict=True):
        assert columns(search(graph, root)) == expected
        assert columns(search(graph, root, device="cuda")) == expected
    assert set(asked) == {"cuda"}
    written = search(graph, roots[0], device="cuda", out=tmp_path / "r.zarr")
    assert columns(written) == right[0]


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_searches_of_a_store_by_workers(kernel: str, workers: Client, tmp_path: Path) -> None:
    narrow, graph, roots = stores(tmp_path, "float32", directed=True)
    search = getattr(og, kernel)
    expected = columns(search(narrow, roots[1], device="cpu"))
    workers.run(widen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "WIDE_VERTICES", 0)
        for exchange in ("auto", "scheduler"):
            options = {"client": workers, "device": "cuda", "exchange": exchange}
            assert columns(search(graph, roots[1], **options)) == expected, exchange
        written = search(graph, roots[1], client=workers, out=tmp_path / "r.zarr")
        assert columns(written) == expected


@pytest.mark.parametrize("ids", [NARROW, WIDE])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_memory_said_is_enough(
    kernel: str, ids: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With an allocator that gives no more, and little for what does not depend on the graph."""
    cupy = cuda_modules.cuda()
    monkeypatch.setattr(names, "WIDE_VERTICES", 0 if ids == WIDE else 1 << 32)
    found = flat(skewed(8_000, 60_000, "float64", directed=True, seed=5))
    edges = found.source, found.target, found.weight
    graph = og.build(edges, tmp_path / "g.zarr", directed=True, shards=4, device="cpu")
    expected = columns(getattr(og, kernel)(graph, 0, device="cpu"))
    limit = rank_memory.ranks_bytes(graph, kernel, range(4)) - CUDA_FIXED_BYTES
    engine_cache.release()
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.get_limit()
    pool.set_limit(pool.total_bytes() + limit + (1 << 17))
    try:
        assert columns(by_ranks(graph, kernel, 0, "cuda")) == expected
    finally:
        pool.set_limit(before)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_too_little_device_memory(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before rows are loaded, unless they may be pinned; ``auto`` searches on the CPU."""
    narrow, graph, roots = stores(tmp_path, "float32", directed=False)
    expected = columns(getattr(og, kernel)(narrow, roots[0], device="cpu"))
    monkeypatch.setattr(names, "WIDE_VERTICES", 0)
    there = rank_memory.ranks_bytes(graph, kernel, range(4)) - 1
    # What is tried last, with arcs in the store, takes more of so small a graph: for batches.
    needed = least_disk_ranks(disk_ranks.facts_of(graph, kernel, range(4))).device_bytes
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (there, there))
    monkeypatch.setattr(CudaDevice, f"{kernel}_rank", None)
    search = partial(getattr(og, kernel), graph, roots[0])
    with pytest.raises(MemoryBudgetError, match=f"needs {needed:,} bytes of device memory"):
        search(device="cuda", host_memory=0)
    for given in ({"host_memory": 0}, {"device": "cuda"}):
        assert columns(search(**given)) == expected


@pytest.mark.usefixtures("wide")
def test_graph500(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built and validated on the CPU, which ``auto`` says; searched by ranks on the device."""
    from ooc_graph.graph500.job import graph500
    from ooc_graph.graph500.run import Graph500Options

    monkeypatch.setattr(cuda_plan, "MOST_ROWS", 0)
    said, options = Said(), Graph500Options(scale=9, searches=2, shards=2, energy=False)
    given: dict[str, Any] = {"client": None, "memory_limit_bytes": None, "overwrite": False}
    with pytest.raises(UsageError, match="vertices: a device builds graphs of at most"):
        graph500(options, tmp_path / "cuda", device="cuda", progress=said, **given)
    assert said.notes == []
    outcome = graph500(options, tmp_path / "auto", device="auto", progress=said, **given)
    assert outcome.failure is None
    assert [note.partition(": ")[0] for note in said.notes] == [
        "building on the CPU",
        "bfs validated on the CPU",
        "sssp validated on the CPU",
    ]
