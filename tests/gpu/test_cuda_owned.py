"""SSSP by CUDA ranks that have their own rows' distances alone: the bytes of any other search."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
from ooc_graph.errors import InputError
from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.device import CudaDevice
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.kernels.cuda.sssp.owned import CudaOwnedSsspRank
from ooc_graph.model import rank_memory
from ooc_graph.model.request import CUDA_FIXED_BYTES
from ooc_graph.model.resources import CUDA
from ooc_graph.search import candidates
from ooc_graph.strategies.cuda.owned import Owned, PinnedOwned
from ooc_graph.strategies.ranks import Ranks
from ooc_graph.traverse.sssp_owned import sssp_owned
from ooc_graph.types import DEAL_BLOCK, Shard
from tests import local_exchange
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.searching import columns, hub
from tests.gpu.tiered import in_room
from tests.strategies import WEIGHTS, Arcs, skewed, small_arcs
from tests.unit.test_sssp import same
from tests.unit.test_sssp_owned import absorbing, made, overflowing, plateaus, spread, together

CPU = CpuDevice(2)
MANY = 1 << 12


@cache
def device() -> CudaDevice:
    return CudaDevice()


def searched(arcs: Arcs, shards: int, root: int, most: int = MANY, ranks: Any = None) -> SsspTree:
    """What the ranks of a device find whose tables have ``most`` entries."""
    coroutines = made(arcs, shards, root, most, device=ranks or device())
    return together(arcs, local_exchange.run(*coroutines, shards)[0])


def check(arcs: Arcs, shards: int, root: int, most: int = MANY, ranks: Any = None) -> SsspTree:
    """The same as a search of the whole graph on the CPU finds."""
    found = searched(arcs, shards, root, most, ranks)
    same(found, CPU.sssp(arcs.shards(1)[0]).run(root))
    return found


@pytest.mark.parametrize("dtype", WEIGHTS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_small_graphs(dtype: str, data: Any) -> None:
    arcs, shards = data.draw(small_arcs(dtype)), data.draw(st.sampled_from([1, 2, 4, 8]))
    most, root = data.draw(st.sampled_from([1, 2, 5, MANY])), data.draw(st.integers(0, 1 << 30))
    root %= arcs.vertices
    check(spread(arcs), shards, int(root % 8 * DEAL_BLOCK + root // 8), most)


@pytest.mark.parametrize(
    ("dtype", "directed"),
    [("float32", False), ("float64", True), ("int32", False), ("int64", True)],
)
def test_graphs_of_many_blocks(dtype: str, directed: bool) -> None:
    arcs = skewed(24_000, 140_000, dtype, directed=directed, seed=3)
    for root in (0, arcs.vertices // 2, arcs.vertices - 1):
        for shards, most in ((1, 500), (2, 1 << 16), (8, 700)):
            check(arcs, shards, root, most)


@pytest.mark.parametrize("share", [(1, 63), (2, 2)])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_rows_in_pinned_memory(dtype: str, share: tuple[int, int]) -> None:
    """With the first arcs of each row on the device too; some of no weight."""
    arcs = skewed(6_000, 30_000, dtype, directed=True, seed=3)
    weight = np.where(np.arange(len(arcs.weight)) % 5, arcs.weight, 0)
    arcs = replace(arcs, weight=weight.astype(dtype))
    check(arcs, 4, 7, 200, PinnedOwners(*share))


class PinnedOwners:
    """A device that copies the rows of its ranks to pinned memory."""

    def __init__(self, *share: int) -> None:
        self._share, self.owned_sssp_shared = share, device().owned_sssp_shared

    def owned_sssp_rank(self, shard: Shard) -> CudaOwnedSsspRank:
        room = PinnedAllocator(2)
        pinned = replace(shard, out_light=in_room(room, shard.out_light))
        return device().tier_owned_sssp_rank(pinned, room, *self._share)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("value", [0, 3])
def test_equal_weights(dtype: str, value: int) -> None:
    """Of weight zero all is one plateau, whose parents are found hop by hop."""
    arcs = skewed(3000, 9000, dtype, directed=False, seed=2)
    arcs = replace(arcs, weight=np.full_like(arcs.weight, value))
    tree = check(arcs, 2, 11, 50)
    assert (tree.phase_arcs["parents"] > 0) == (value == 0)


def test_plateaus_of_many_hops() -> None:
    check(plateaus(), 4, 1500, 20)


def test_absorbed_weights_make_plateaus() -> None:
    arcs, root = absorbing()
    for most in (1, MANY):
        check(arcs, 8, root, most)


def test_overflow_is_found_by_a_rank_whose_own_arcs_are_light() -> None:
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        searched(overflowing(), 2, 0)


def test_ranks_go_on_from_distances_and_search_again() -> None:
    """Of an earlier search: parents are found anew. Nothing is left of it in the next one."""
    arcs = skewed(6000, 30_000, "float32", directed=False, seed=4)
    parts, wanted = arcs.shards(2), CPU.sssp(arcs.shards(1)[0])
    ranks = [device().owned_sssp_rank(part) for part in parts]
    for root, goes_on in ((7, True), (900, False)):
        tree = wanted.run(root)
        shared = device().owned_sssp_shared(arcs.vertices, 2, np.dtype(np.float32))
        steps = local_exchange.run(
            [
                going_on(
                    rank, root, shared, tree.distance[part.dealing.owned()] if goes_on else None
                )
                for rank, part in zip(ranks, parts, strict=True)
            ],
            shared,
            2,
        )
        same(together(arcs, steps[0]), tree)


def going_on(rank: Any, root: int, shared: Any, distance: Any) -> Any:
    """The search, from distances that are known."""
    begin = rank.begin
    rank.begin = lambda root, bound, _, most: begin(root, bound, distance, most)
    found = yield from sssp_owned(rank, root, shared, 100)
    del rank.begin
    return found


def test_each_allocation_refused() -> None:
    found = skewed(60, 300, "float32", directed=True, seed=4)
    arcs = replace(found, weight=np.floor(found.weight * 3))
    refuse_each_allocation(lambda: searched(arcs, 1, 5, 20), 60)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Of many vertices with few arcs: most of the memory of ranks is their state."""
    path = tmp_path_factory.mktemp("graph") / "g.zarr"
    return og.build(og.Kronecker(17, edge_factor=2), path, shards=4)


@pytest.mark.parametrize("most", [1 << 10, 1 << 14])
def test_memory_is_what_the_plan_says(graph: og.Graph, most: int) -> None:
    """Four ranks on one device, with an allocator that gives no more."""
    shards, dtype = range(graph.shards), np.dtype(np.float32)
    needed = graph.resident_bytes("light", shards, out_only=True)
    needed += rank_memory.owned_bytes(graph, shards) - CUDA_FIXED_BYTES
    needed += rank_memory.listed_bytes(graph, shards, most)
    root = hub(graph)
    right = og.sssp(graph, root, device="cpu")
    pool = cuda_modules.cuda().get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.get_limit()
    pool.set_limit(size=pool.total_bytes() + needed + (1 << 18))
    try:
        ranks = {s: device().owned_sssp_rank(graph.load_out(s, graph.shards)) for s in shards}
        shared = device().owned_sssp_shared(graph.rows, graph.shards, dtype)
        internal = graph.internal(root)
        coroutines = [sssp_owned(rank, internal, shared, most) for rank in ranks.values()]
        trees, _ = local_exchange.run(coroutines, shared, graph.shards)
    finally:
        pool.set_limit(size=before)
    reached = sum(int(np.isfinite(tree.distance).sum()) for tree in trees)
    assert reached == int(np.isfinite(np.asarray(right.distance)).sum())


@pytest.mark.parametrize("strategy", [Owned(), PinnedOwned()], ids=lambda one: one.name)
def test_workers_search(
    strategy: Any,
    graph: og.Graph,
    workers: Client,
    tried: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two that share one device; the second search is by ranks that they keep."""
    monkeypatch.setitem(candidates.CANDIDATES, CUDA, lambda: [Ranks(strategy)])
    for root in (hub(graph), int(graph.original_of()[-1])):
        right = columns(og.sssp(graph, root, device="cpu"))
        for out in (None, None, tmp_path / f"{root}.zarr"):
            options: dict[str, Any] = {"client": workers, "device": "cuda", "out": out}
            tried.clear()
            assert columns(og.sssp(graph, root, exchange="scheduler", **options)) == right
            assert tried == [f"{strategy.name}, ranks"]
