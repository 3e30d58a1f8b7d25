"""SSSP by CUDA ranks that own their distances and leave arcs in a tier: the CPU's bytes."""

from __future__ import annotations

from dataclasses import replace
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
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.layout import names
from ooc_graph.memory.cuda.disk_ranks import least_disk_ranks, plan_disk_ranks
from ooc_graph.memory.heads import ALL
from ooc_graph.model.request import CUDA_FIXED_BYTES
from ooc_graph.model.resources import CUDA
from ooc_graph.search import candidates
from ooc_graph.shards.device_ranks import load_disk_owner
from ooc_graph.strategies.cuda.owned_on_disk import OwnedOnDisk, facts_of
from ooc_graph.strategies.ranks import Ranks
from ooc_graph.traverse.sssp_owned import sssp_owned
from ooc_graph.types import DEAL_BLOCK
from tests import local_exchange
from tests.gpu import test_cuda_owned as in_memory
from tests.gpu.graphs import flat, sparse
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.searching import columns, hub
from tests.gpu.test_cuda_owned import CPU, MANY, device, going_on, searched
from tests.gpu.test_cuda_wide_ids import WIDE, widened
from tests.gpu.tiered import StoreRanks
from tests.strategies import WEIGHTS, Arcs, grid, skewed, small_arcs
from tests.unit.test_sssp import same
from tests.unit.test_sssp_owned import (
    absorbing,
    overflowing_in_a_tail,
    plateaus,
    spread,
    together,
    twice,
)

# Batches end within rows, windows within words, and looks before rows do.
TINY = {"block_bytes": 64, "batch_blocks": 5, "window": 128, "look": 3}
SIZES = st.fixed_dictionaries(
    {
        "block_bytes": st.sampled_from([8, 16, 64]),
        "batch_blocks": st.integers(2, 5),
        "window": st.sampled_from([64, 128]),
        "look": st.sampled_from([1, 3, 1024]),
    }
)


def check(
    arcs: Arcs, shards: int, root: int, most: int = MANY, ranks: StoreRanks | None = None
) -> SsspTree:
    """As in memory; of each row ranks have one arc."""
    return in_memory.check(arcs, shards, root, most, ranks or StoreRanks(1, 63, **TINY))


@pytest.mark.parametrize("dtype", WEIGHTS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_small_graphs(dtype: str, data: Any) -> None:
    arcs, shards = data.draw(small_arcs(dtype)), data.draw(st.sampled_from([1, 2, 4]))
    share = data.draw(st.sampled_from([(1, 63), (2, 63), (1, 2), (ALL, 63)]))
    most, root = data.draw(st.sampled_from([1, 2, 5, MANY])), data.draw(st.integers(0, 1 << 30))
    root %= arcs.vertices
    root = int(root % 8 * DEAL_BLOCK + root // 8)
    check(spread(arcs), shards, root, most, StoreRanks(*share, **data.draw(SIZES)))


@pytest.mark.parametrize("sizes", [TINY, {"block_bytes": 1024, "batch_blocks": 64}])
@pytest.mark.parametrize(("dtype", "directed"), [("float32", False), ("int64", True)])
def test_graphs_of_many_blocks(dtype: str, directed: bool, sizes: dict[str, int]) -> None:
    arcs = skewed(24_000, 140_000, dtype, directed=directed, seed=3)
    for root in (0, arcs.vertices - 1):
        for shards, most, share in ((1, 500, (1, 63)), (8, 700, (2, 2))):
            check(arcs, shards, root, most, StoreRanks(*share, **sizes))


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("value", [0, 3])
def test_equal_weights(dtype: str, value: int) -> None:
    """Of weight zero all is one plateau, whose parents are found hop by hop along tails."""
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


def test_overflow_is_found_in_a_tail() -> None:
    arcs = overflowing_in_a_tail()
    for ranks in (StoreRanks(1, 63, **TINY), StoreRanks(ALL, 63)):
        with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
            searched(arcs, 2, 0, ranks=ranks)


def test_a_search_ends_when_nothing_more_can_be_reached() -> None:
    """Also if that is known by tails alone: here of a second component."""
    arcs = grid(64, "float32")
    root = int(arcs.source[0])
    tree = check(twice(arcs), 4, root)
    assert np.isinf(tree.distance[arcs.vertices :]).all()


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_ids_of_64_bits(directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "WIDE_VERTICES", 0)
    for dtype in WEIGHTS:
        arcs = flat(sparse(dtype, directed=directed))
        shared = device().owned_sssp_shared(arcs.vertices, 8, CPU_DISTANCE[dtype])
        ranks = [StoreRanks(2, 2, **TINY).owned_sssp_rank(part) for part in arcs.shards(8, WIDE)]
        for root in (0, arcs.vertices - 1):
            coroutines = [sssp_owned(rank, root, shared, 50) for rank in ranks]
            tree = together(arcs, local_exchange.run(coroutines, shared, 8)[0])
            right = CPU.sssp(arcs.shards(1)[0]).run(root)
            assert tree.parent.tobytes() == widened(right.parent).tobytes()
            assert tree.distance.tobytes() == right.distance.tobytes()
            shared = device().owned_sssp_shared(arcs.vertices, 8, CPU_DISTANCE[dtype])


CPU_DISTANCE = {
    dtype: np.dtype(dtype if dtype.startswith("float") else "int64") for dtype in WEIGHTS
}


def test_ranks_go_on_from_distances_and_search_again() -> None:
    """Of an earlier search: parents are found anew. Nothing is left of it in the next one."""
    arcs = skewed(6000, 30_000, "float32", directed=False, seed=4)
    parts, wanted = arcs.shards(2), CPU.sssp(arcs.shards(1)[0])
    ranks = [StoreRanks(1, 63, **TINY).owned_sssp_rank(part) for part in parts]
    for root, goes_on in ((7, True), (900, False)):
        tree = wanted.run(root)
        shared = device().owned_sssp_shared(arcs.vertices, 2, np.dtype(np.float32))
        known = [tree.distance[p.dealing.owned()] if goes_on else None for p in parts]
        coroutines = [
            going_on(rank, root, shared, one) for rank, one in zip(ranks, known, strict=True)
        ]
        same(together(arcs, local_exchange.run(coroutines, shared, 2)[0]), tree)


def test_a_full_table_ends_reading() -> None:
    """Otherwise a search with small tables would fetch several times as many blocks."""
    arcs = skewed(3000, 30_000, "float32", directed=True, seed=4)
    given = {}
    for most in (20, MANY):
        ranks = StoreRanks(1, 63, block_bytes=64, batch_blocks=8, window=128)
        blocks = []
        plain = ranks._rows

        def noted(rows: Any, plain: Any = plain, blocks: list[Any] = blocks) -> Any:
            blocks.append(plain(rows))
            return blocks[-1]

        ranks._rows = noted  # type: ignore[method-assign]
        check(arcs, 2, 5, most, ranks)
        given[most] = sum(one.rows._blocks.given for one in blocks)
    assert given[20] < 2 * given[MANY]


def test_each_allocation_refused() -> None:
    found = skewed(60, 300, "float32", directed=True, seed=4)
    arcs = replace(found, weight=np.floor(found.weight * 3))
    refuse_each_allocation(lambda: searched(arcs, 1, 5, 20, StoreRanks(1, 63)), 60)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Of many vertices with few arcs: most of the memory of ranks is their state."""
    path = tmp_path_factory.mktemp("graph") / "g.zarr"
    return og.build(og.Kronecker(17, edge_factor=4), path, shards=4)


@pytest.mark.parametrize("most", [1 << 10, 1 << 14])
def test_memory_is_what_the_plan_says(graph: og.Graph, most: int) -> None:
    """Four ranks on one device, with an allocator that gives no more."""
    shards, dtype = range(graph.shards), np.dtype(np.float32)
    facts = facts_of(graph, shards, most)
    least = least_disk_ranks(facts)
    plan = plan_disk_ranks(facts, least.device_bytes, least.host_bytes)
    root = hub(graph)
    right = og.sssp(graph, root, device="cpu")
    pool = cuda_modules.cuda().get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.get_limit()
    pool.set_limit(size=pool.total_bytes() + plan.device_bytes - CUDA_FIXED_BYTES + (1 << 18))
    ranks: dict[int, Any] = {}
    try:
        ranks.update((shard, load_disk_owner(graph, shard, plan, device())) for shard in shards)
        shared = device().owned_sssp_shared(graph.rows, graph.shards, dtype)
        internal = graph.internal(root)
        coroutines = [sssp_owned(rank.search, internal, shared, most) for rank in ranks.values()]
        trees, _ = local_exchange.run(coroutines, shared, graph.shards)
    finally:
        pool.set_limit(size=before)
        for rank in ranks.values():
            rank.close()
    reached = sum(int(np.isfinite(tree.distance).sum()) for tree in trees)
    assert reached == int(np.isfinite(np.asarray(right.distance)).sum())


def test_workers_search(
    graph: og.Graph,
    workers: Client,
    tried: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two that share one device; the second search is by ranks that they keep."""
    monkeypatch.setitem(candidates.CANDIDATES, CUDA, lambda: [Ranks(OwnedOnDisk())])
    budget = max(
        least_disk_ranks(facts_of(graph, [first, first + 1], 1 << 10)).device_bytes
        for first in range(graph.shards - 1)
    )
    for root in (hub(graph), int(graph.original_of()[-1])):
        right = columns(og.sssp(graph, root, device="cpu"))
        for out in (None, None, tmp_path / f"{root}.zarr"):
            options: dict[str, Any] = {"client": workers, "device": "cuda", "out": out}
            options |= {"device_memory": budget + (1 << 20), "exchange": "scheduler"}
            tried.clear()
            assert columns(og.sssp(graph, root, **options)) == right
            assert tried == ["cuda/owned disk, ranks"]
