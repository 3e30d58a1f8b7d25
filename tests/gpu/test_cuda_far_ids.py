"""Ranks of a graph of more than 2**32 vertices: answers as on the same graph with small ids."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from ooc_graph.kernels.common.decisions import BfsTree, SsspTree
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.device import CudaDevice
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.sssp import sssp
from ooc_graph.traverse.sssp_owned import sssp_owned
from tests import local_exchange
from tests.gpu import far
from tests.gpu.graphs import flat, sparse
from tests.gpu.ranked import RankedBfs, RankedSssp
from tests.strategies import Arcs, arcs_of

CPU = CpuDevice(2)
PATIENCE_S = 60


@pytest.fixture(autouse=True)
def _one_at_a_time() -> Iterator[None]:
    """Of tests side by side only one of these, and its memory is free again behind it."""
    with (Path(tempfile.gettempdir()) / "ooc_graph-far-ids.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        cuda_modules.free_unused()


def need_memory(needed_bytes: int) -> None:
    """Wait a while for others that use the device's memory; skip where there never is so much."""
    given_up = monotonic() + PATIENCE_S
    while (free := cuda_modules.device_bytes())[0] < needed_bytes:
        if free[1] < needed_bytes or monotonic() > given_up:
            pytest.skip(f"needs {needed_bytes:,} bytes of device memory, and {free[0]:,} are free")
        sleep(1)


def same_far_bfs(near: Arcs, root: int) -> BfsTree:
    """BFS on the first ranks of the large graph goes as on the small one, whose answer is given."""
    device = CudaDevice()
    expected = RankedBfs(CPU, near.shards(far.NEAR_SHARDS)).run(root)
    ranks = [device.bfs_rank(shard) for shard in far.far_shards(near)]
    shared = device.bfs_shared(far.FAR_VERTICES, far.FAR_SHARDS)
    from_ = int(far.far_ids(np.array([root], np.uint32))[0])
    coroutines: Any = [bfs(far.AsNear(rank), from_, shared) for rank in ranks]
    trees, _ = local_exchange.run(coroutines, shared, far.NEAR_SHARDS)
    parent = far.by_near_id([tree.parent for tree in trees])
    beyond = parent[parent != np.iinfo(np.uint64).max] >> np.uint64(32)
    assert set(beyond.tolist()) == {0, 1}
    assert parent.tobytes() == far.far_ids(expected.parent).tobytes()
    assert far.by_near_id([tree.level for tree in trees]).tobytes() == expected.level.tobytes()
    for name in ("level_vertices", "level_arcs", "level_direction"):
        assert getattr(trees[0], name).tolist() == getattr(expected, name).tolist()
    assert set(expected.level_direction.tolist()) == {0, 1}
    return expected


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_bfs_beyond_32_bits(directed: bool) -> None:
    """As on the same graph with small ids; parents lie on both sides of 2**32."""
    need_memory(10 * far.FAR_VERTICES)
    near = far.padded(sparse("float32", directed=directed))
    same_far_bfs(near, int(near.source[-1]))


def far_sssp(near: Arcs, root: int) -> SsspTree:
    """SSSP on the first ranks of the large graph, in the order of the small graph's ids."""
    device = CudaDevice()
    ranks = [device.sssp_rank(shard) for shard in far.far_shards(near)]
    shared = device.sssp_shared(far.FAR_VERTICES, np.dtype(np.float32))
    from_ = int(far.far_ids(np.array([root], np.uint32))[0])
    coroutines: Any = [sssp(far.AsNear(rank), from_, shared) for rank in ranks]
    trees, _ = local_exchange.run(coroutines, shared, far.NEAR_SHARDS)
    parent = far.by_near_id([tree.parent for tree in trees])
    distance = far.by_near_id([tree.distance for tree in trees])
    return SsspTree(parent, distance, 0.0, trees[0].phase_arcs)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_sssp_beyond_32_bits(directed: bool) -> None:
    """With plateaus, so that parents are sought hop by hop too."""
    need_memory(18 * far.FAR_VERTICES)
    near = far.padded(flat(sparse("float32", directed=directed)))
    root = int(near.source[-1])
    found, expected = far_sssp(near, root), RankedSssp(CPU, near.shards(far.NEAR_SHARDS)).run(root)
    beyond = found.parent[found.parent != np.iinfo(np.uint64).max] >> np.uint64(32)
    assert set(beyond.tolist()) == {0, 1}
    assert found.parent.tobytes() == far.far_ids(expected.parent).tobytes()
    assert found.distance.tobytes() == expected.distance.tobytes()
    assert found.phase_arcs == expected.phase_arcs
    assert min(expected.phase_arcs.values()) > 0
    reached = np.isfinite(expected.distance)
    level = expected.distance[expected.parent[reached]] == expected.distance[reached]
    assert level.sum() > 1  # the root's parent is the root


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_owned_distances_beyond_32_bits(directed: bool) -> None:
    """Of ranks that have their own rows' alone; candidates come in tables of 300."""
    need_memory(2 * far.FAR_VERTICES)
    near, device = far.padded(flat(sparse("float32", directed=directed))), CudaDevice()
    root = int(near.source[-1])
    expected = RankedSssp(CPU, near.shards(far.NEAR_SHARDS)).run(root)
    ranks = [device.owned_sssp_rank(shard) for shard in far.far_shards(near)]
    shared = device.owned_sssp_shared(far.FAR_VERTICES, far.FAR_SHARDS, np.dtype(np.float32))
    from_ = int(far.far_ids(np.array([root], np.uint32))[0])
    coroutines: Any = [sssp_owned(far.AsNear(rank), from_, shared, 300) for rank in ranks]
    trees, _ = local_exchange.run(coroutines, shared, far.NEAR_SHARDS)
    parent = far.by_near_id([tree.parent for tree in trees])
    assert set((parent[parent != np.iinfo(np.uint64).max] >> np.uint64(32)).tolist()) == {0, 1}
    assert parent.tobytes() == far.far_ids(expected.parent).tobytes()
    distance = far.by_near_id([tree.distance for tree in trees])
    assert distance.tobytes() == expected.distance.tobytes()


def test_lengths_that_nearly_overflow_beyond_32_bits() -> None:
    """Where a sum might have overflowed all neighbours are looked at, and all are reached."""
    need_memory(18 * far.FAR_VERTICES)
    leaf = np.arange(1, 7_001)
    ends = np.append(np.zeros(7_000, np.int64), leaf[:-1]), np.append(leaf, leaf[1:])
    weight = np.append(np.full(7_000, 3e38), np.full(6_999, 1e20)).astype(np.float32)
    near = far.padded(arcs_of(*ends, weight, directed=False))
    found, expected = far_sssp(near, 0), RankedSssp(CPU, near.shards(far.NEAR_SHARDS)).run(0)
    assert found.parent.tobytes() == far.far_ids(expected.parent).tobytes()
    assert found.distance.tobytes() == expected.distance.tobytes()


def test_long_rows_beyond_32_bits() -> None:
    """A whole warp looks for the parent or the shorter way, and finds them beyond 2**32."""
    need_memory(18 * far.FAR_VERTICES)
    near, root = far.funnel()
    assert same_far_bfs(near, root).level_vertices.tolist() == [1, 8_000, 8_000]
    found, expected = far_sssp(near, root), RankedSssp(CPU, near.shards(far.NEAR_SHARDS)).run(root)
    assert found.parent.tobytes() == far.far_ids(expected.parent).tobytes()
    assert found.distance.tobytes() == expected.distance.tobytes()
    assert found.phase_arcs == expected.phase_arcs
    assert expected.phase_arcs["pull"] > 20 * 8_000
