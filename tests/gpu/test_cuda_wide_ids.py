"""Ids of 64 bits: what ranks find on graphs of 2**32 vertices and more.

Small graphs are made to have them by a lower threshold; one graph has ids that need them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from distributed import Client

from ooc_graph.errors import UsageError
from ooc_graph.exchange import local, scheduler
from ooc_graph.kernels import cuda_modules
from ooc_graph.kernels.cpu import CpuDevice
from ooc_graph.kernels.cuda_device import CudaDevice
from ooc_graph.kernels.interface import BfsTree, SsspTree
from ooc_graph.layout import names
from ooc_graph.session.cluster import local_cluster
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import AnyArray
from tests.gpu import far
from tests.gpu.graphs import valued
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.paired import PairedDevice
from tests.gpu.ranked import RankedBfs, RankedSssp, distance_dtype, joined
from tests.strategies import WEIGHTS, Arcs, grid, skewed

CPU = CpuDevice(2)
WIDE, NARROW = "uint64", "uint32"


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """All graphs have ids of 64 bits."""
    monkeypatch.setattr(names, "WIDE_VERTICES", 0)


def sparse(dtype: str, *, directed: bool) -> Arcs:
    """Hubs, leaves and pieces apart, over a few dealing blocks."""
    return skewed(6_000, 20_000, dtype, directed=directed, seed=3)


def flat(arcs: Arcs) -> Arcs:
    """The same arcs with few weights, zero among them, so that there are plateaus."""
    few = np.floor(arcs.weight * 3 / arcs.weight.max())
    return replace(arcs, weight=few.astype(arcs.weight.dtype))


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
def test_many_supersteps(shards: int) -> None:
    paired, arcs = PairedDevice(CPU, CudaDevice()), valued(grid(40, "float32"), [0, 0, 1])
    parts, root = arcs.shards(shards, WIDE), arcs.vertices // 2
    same_bfs(RankedBfs(paired, parts).run(root), RankedBfs(CPU, arcs.shards(1)).run(root))
    narrow = RankedSssp(CPU, arcs.shards(shards)).run(root)
    same_sssp(RankedSssp(paired, parts).run(root), narrow)


@dataclass(frozen=True)
class MakeRanks:
    """Makes a worker's ranks; the worker of the last shard searches on its CPU if ``mixed``."""

    kernel: str
    root: int
    mixed: bool
    shards: int = 8

    def __call__(self, mine: Sequence[int]) -> tuple[dict[int, Any], Any]:
        names.WIDE_VERTICES = 0
        arcs = flat(sparse("float32", directed=True))
        parts = arcs.shards(self.shards, WIDE)
        device: Any = CudaDevice()
        if self.mixed and self.shards - 1 in mine:
            device = CPU
        if self.kernel == "bfs":
            shared = device.bfs_shared(arcs.vertices, self.shards)
            return {s: bfs(device.bfs_rank(parts[s]), self.root, shared) for s in mine}, shared
        shared = device.sssp_shared(arcs.vertices, distance_dtype(arcs.weight))
        return {s: sssp(device.sssp_rank(parts[s]), self.root, shared) for s in mine}, shared


@pytest.fixture(scope="module")
def workers() -> Iterator[Client]:
    with local_cluster(2) as client:
        yield client


@pytest.mark.parametrize("mixed", [False, True], ids=["cuda", "cuda and cpu"])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_ranks_of_two_workers(kernel: str, mixed: bool, workers: Client) -> None:
    """They share one device here; on each worker two threads advance the ranks."""
    arcs, root = flat(sparse("float32", directed=True)), 700
    trees, _ = scheduler.run(workers, MakeRanks(kernel, root, mixed), 8, threads=2)
    parts = arcs.shards(8)
    expected: Any = {"bfs": RankedBfs, "sssp": RankedSssp}[kernel](CPU, parts).run(root)
    parent = joined(parts, [tree.parent for tree in trees])
    assert parent.dtype == np.uint64
    assert parent.tobytes() == widened(expected.parent).tobytes()
    measure = "level" if kernel == "bfs" else "distance"
    found = joined(parts, [getattr(tree, measure) for tree in trees])
    assert found.tobytes() == getattr(expected, measure).tobytes()


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("ranked", [RankedBfs, RankedSssp])
def test_each_allocation_refused(ranked: Any) -> None:
    arcs = flat(skewed(60, 300, "float32", directed=True, seed=4))
    parts = arcs.shards(1, WIDE)
    refuse_each_allocation(lambda: ranked(CudaDevice(), parts).run(5), 30)


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


def need_memory(needed_bytes: int) -> None:
    """Skip where the device has less."""
    free, _ = cuda_modules.device_bytes()
    if free < needed_bytes:
        pytest.skip(f"needs {needed_bytes:,} bytes of device memory, and {free:,} are free")


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_bfs_beyond_32_bits(directed: bool) -> None:
    """As on the same graph with small ids; parents lie on both sides of 2**32."""
    need_memory(10 * far.FAR_VERTICES)
    near = far.padded(sparse("float32", directed=directed))
    device, root = CudaDevice(), int(near.source[-1])
    expected = RankedBfs(CPU, near.shards(far.NEAR_SHARDS)).run(root)
    ranks = [device.bfs_rank(shard) for shard in far.far_shards(near)]
    shared = device.bfs_shared(far.FAR_VERTICES, far.FAR_SHARDS)
    from_ = int(far.far_ids(np.array([root], np.uint32))[0])
    coroutines: Any = [bfs(far.AsNear(rank), from_, shared) for rank in ranks]
    trees, _ = local.run(coroutines, shared, far.NEAR_SHARDS)
    parent = far.by_near_id([tree.parent for tree in trees])
    beyond = parent[parent != np.iinfo(np.uint64).max] >> np.uint64(32)
    assert set(beyond.tolist()) == {0, 1}
    assert parent.tobytes() == far.far_ids(expected.parent).tobytes()
    assert far.by_near_id([tree.level for tree in trees]).tobytes() == expected.level.tobytes()
    for name in ("level_vertices", "level_arcs", "level_direction"):
        assert getattr(trees[0], name).tolist() == getattr(expected, name).tolist()
    assert set(expected.level_direction.tolist()) == {0, 1}


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_sssp_beyond_32_bits(directed: bool) -> None:
    """With plateaus, so that parents are sought hop by hop too."""
    need_memory(18 * far.FAR_VERTICES)
    near = far.padded(flat(sparse("float32", directed=directed)))
    device, root = CudaDevice(), int(near.source[-1])
    expected = RankedSssp(CPU, near.shards(far.NEAR_SHARDS)).run(root)
    ranks = [device.sssp_rank(shard) for shard in far.far_shards(near)]
    shared = device.sssp_shared(far.FAR_VERTICES, np.dtype(np.float32))
    from_ = int(far.far_ids(np.array([root], np.uint32))[0])
    coroutines: Any = [sssp(far.AsNear(rank), from_, shared) for rank in ranks]
    trees, _ = local.run(coroutines, shared, far.NEAR_SHARDS)
    parent = far.by_near_id([tree.parent for tree in trees])
    beyond = parent[parent != np.iinfo(np.uint64).max] >> np.uint64(32)
    assert set(beyond.tolist()) == {0, 1}
    assert parent.tobytes() == far.far_ids(expected.parent).tobytes()
    distance = far.by_near_id([tree.distance for tree in trees])
    assert distance.tobytes() == expected.distance.tobytes()
    assert trees[0].phase_arcs == expected.phase_arcs
    assert min(expected.phase_arcs.values()) > 0
    reached = np.isfinite(expected.distance)
    level = expected.distance[expected.parent[reached]] == expected.distance[reached]
    assert level.sum() > 1  # the root's parent is the root
