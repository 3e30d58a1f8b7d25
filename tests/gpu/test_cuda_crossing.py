"""CUDA ranks give the bytes of CPU ranks: every graph, weight, number of shards and exchange.

The step-by-step comparison is in `test_cuda_ranks`; here both devices search on their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from distributed import Client

from ooc_graph.exchange import scheduler
from ooc_graph.kernels.common.decisions import PULL, PUSH, BfsTree, SsspTree
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.device import CudaDevice
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import Shard
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.ranked import RankedBfs, RankedSssp, distance_dtype, joined
from tests.strategies import Arcs, arcs_of
from tests.strategies import skewed as some

CPU = CpuDevice(2)
VERTICES, EDGES = 12_000, 40_000
WEIGHTS = ("float32", "float64", "int64")
SHARDS = (1, 2, 8)


@cache
def skewed(directed: bool, dtype: str, kind: str) -> Arcs:
    """Skewed, with loops, duplicates, ties and pieces apart.

    Weights are mixed (some of them zero), all zero, or from a few values among which zero is
    common, so that many ways are equally short.
    """
    random = np.random.default_rng(7)
    source = (VERTICES * random.random(EDGES) ** 3).astype(np.int64)
    target = random.integers(0, VERTICES, EDGES)
    if kind == "zero weights":
        weight = np.zeros(EDGES, dtype)
    elif kind == "plateaus":
        weight = np.array([0, 0, 1, 2])[random.integers(0, 4, EDGES)].astype(dtype)
    elif dtype == "int64":
        weight = random.integers(0, 50, EDGES)
    else:
        weight = (random.integers(0, 4096, EDGES) / 4096).astype(dtype)
    return arcs_of(source, target, weight, directed=directed)


def roots(arcs: Arcs) -> list[int]:
    """A hub, a vertex of the last shard, a leaf."""
    return [0, 7 * 1024 + 5, arcs.vertices - 1]


def same_bfs(a: BfsTree, b: BfsTree) -> None:
    for name in ("parent", "level", "level_vertices", "level_arcs", "level_direction"):
        assert getattr(a, name).dtype == getattr(b, name).dtype
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name


def same_sssp(a: SsspTree, b: SsspTree) -> None:
    for name in ("parent", "distance"):
        assert getattr(a, name).dtype == getattr(b, name).dtype
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name
    assert a.phase_arcs == b.phase_arcs


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_bfs(directed: bool) -> None:
    arcs = skewed(directed, "float32", "mixed")
    expected = RankedBfs(CPU, arcs.shards(1))
    whole = CudaDevice().bfs(arcs.shards(1)[0])
    for shards in SHARDS:
        search = RankedBfs(CudaDevice(), arcs.shards(shards))
        for root in roots(arcs):
            tree = search.run(root)
            same_bfs(tree, expected.run(root))
            alone = whole.run(root)
            assert alone.parent.tobytes() == tree.parent.tobytes()
            assert alone.level.tobytes() == tree.level.tobytes()


@pytest.mark.parametrize("most", [1, 100, 5000])
def test_bfs_in_parts(most: int) -> None:
    """Ranks that list few vertices at a time, some of them more than once."""
    arcs = skewed(False, "float32", "mixed")
    expected, search = RankedBfs(CPU, arcs.shards(1)), RankedBfs(CudaDevice(), arcs.shards(2))
    for rank in search._ranks:
        rank._rank.most_at_once, rank._rank._entries = 0, most
    for root in roots(arcs)[: 1 if most == 1 else 3]:
        same_bfs(search.run(root), expected.run(root))


@pytest.mark.parametrize("kind", ["mixed", "plateaus", "zero weights"])
@pytest.mark.parametrize("dtype", WEIGHTS)
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_sssp(directed: bool, dtype: str, kind: str) -> None:
    arcs = skewed(directed, dtype, kind)
    expected = {shards: RankedSssp(CPU, arcs.shards(shards)) for shards in SHARDS}
    for shards in SHARDS:
        search = RankedSssp(CudaDevice(), arcs.shards(shards))
        for root in roots(arcs):
            tree = search.run(root)
            # The strategy follows from what all shards say of their first rows: arcs may differ
            # with the number of shards, bytes may not.
            same_sssp(tree, expected[shards].run(root))
            one = expected[1].run(root)
            same_sssp(replace(tree, phase_arcs=one.phase_arcs), one)


def test_whole_searches_agree() -> None:
    arcs = skewed(False, "float32", "plateaus")
    whole = CudaDevice().sssp(arcs.shards(1)[0])
    search = RankedSssp(CudaDevice(), arcs.shards(8))
    for root in roots(arcs):
        tree, alone = search.run(root), whole.run(root)
        same_sssp(replace(alone, phase_arcs=tree.phase_arcs), tree)


@pytest.mark.parametrize("vertices", [2, 1023, 1024, 1025])
def test_more_shards_than_blocks(vertices: int) -> None:
    """Some ranks have no rows, or the last block alone."""
    at = np.arange(vertices - 1)
    weight = (at % 7).astype(np.float32)
    hub = np.zeros(vertices - 1, np.int64)
    arcs = arcs_of(np.append(at, hub), np.append(at + 1, at + 1), np.tile(weight, 2), directed=True)
    parts: list[Shard] = arcs.shards(8)
    for root in (0, arcs.vertices - 1):
        same_bfs(RankedBfs(CudaDevice(), parts).run(root), RankedBfs(CPU, parts).run(root))
        same_sssp(RankedSssp(CudaDevice(), parts).run(root), RankedSssp(CPU, parts).run(root))


@dataclass(frozen=True)
class MakeRanks:
    """Makes a worker's ranks; the worker of the last shard searches on its CPU if ``mixed``."""

    kernel: str
    root: int
    mixed: bool
    shards: int = 8

    def __call__(self, mine: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Any]]:
        arcs = skewed(True, "float32", "plateaus")
        parts = arcs.shards(self.shards)
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


@pytest.mark.parametrize(
    ("kernel", "mixed"),
    # Those of BFS on CUDA devices push in parts.
    [("bfs", False), ("sssp", False), ("sssp", True)],
    ids=["bfs", "sssp", "sssp, cuda and cpu"],
)
def test_ranks_of_two_workers(kernel: str, mixed: bool, workers: Client) -> None:
    """They share one device here; on each worker two threads advance the ranks."""
    arcs = skewed(True, "float32", "plateaus")
    parts, root = arcs.shards(8), roots(arcs)[1]
    trees, _ = scheduler.run(workers, MakeRanks(kernel, root, mixed), 8, threads=2)
    ranked = {"bfs": RankedBfs, "sssp": RankedSssp}[kernel]
    expected: Any = ranked(CPU, parts).run(root)
    for name in ("parent", "level" if kernel == "bfs" else "distance"):
        found = joined(parts, [getattr(tree, name) for tree in trees])
        assert found.dtype == getattr(expected, name).dtype
        assert found.tobytes() == getattr(expected, name).tobytes()


def test_each_allocation_of_bfs_refused() -> None:
    parts = some(1500, 6000, "float32", directed=True, seed=3).shards(2)
    assert set(RankedBfs(CudaDevice(), parts).run(5).level_direction.tolist()) == {PUSH, PULL}
    refuse_each_allocation(lambda: RankedBfs(CudaDevice(), parts).run(5), 30)


def small() -> list[Shard]:
    """A graph whose SSSP from 5 has every phase, and plateaus, in few rounds."""
    found = some(60, 300, "float32", directed=True, seed=4)
    return replace(found, weight=np.floor(found.weight * 3)).shards(1)


def test_each_allocation_of_sssp_refused() -> None:
    parts = small()
    tree = RankedSssp(CudaDevice(), parts).run(5)
    assert min(tree.phase_arcs.values()) > 0
    reached = np.isfinite(tree.distance)
    level = tree.distance[tree.parent[reached]] == tree.distance[reached]
    assert level.sum() > 1  # the root's parent is the root
    refuse_each_allocation(lambda: RankedSssp(CudaDevice(), parts).run(5), 60)


def test_a_rank_searches_again_after_a_refusal() -> None:
    """The next search of the same ranks forgets all that the refused one left."""
    parts = small()
    for make in (RankedBfs, RankedSssp):
        search, tree = make(CudaDevice(), parts), make(CPU, parts).run(5)
        refuse_each_allocation(lambda search=search: search.run(3), 10, every=3)
        assert search.run(5).parent.tobytes() == tree.parent.tobytes()
