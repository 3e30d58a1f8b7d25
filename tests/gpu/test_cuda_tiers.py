"""Searches on a CUDA device of rows in pinned host memory give the same bytes."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any

import numpy as np
import pytest

from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.kernels.common.decisions import PULL
from ooc_graph.kernels.cuda.bfs import search as cuda_bfs
from ooc_graph.kernels.cuda.bfs.near import MOST_COLUMNS, BfsShare, column_rows
from ooc_graph.kernels.cuda.pinned.bfs import CudaTierBfsSearch
from ooc_graph.kernels.cuda.pinned.sssp import CudaTierSsspSearch, SsspShare
from ooc_graph.kernels.cuda.runtime.pinned import PinnedArray
from ooc_graph.kernels.cuda.runtime.shares import TIERED
from ooc_graph.kernels.cuda.sssp import search as cuda_sssp
from ooc_graph.memory.cuda.device_facts import COLUMNS, DeviceFacts, last_longer
from ooc_graph.memory.cuda.pinned_plan import (
    BfsPlan,
    SsspPlan,
    least_plan,
    plan_bfs,
    plan_device,
    rows_within,
)
from ooc_graph.memory.heads import HeadRule, Lengths
from ooc_graph.types import Rows, Shard
from tests.gpu import comparison
from tests.gpu.comparison import CPU, graph, hub_sides, same_sssp
from tests.gpu.comparison import same_bfs as same
from tests.gpu.graphs import GRAPHS, kronecker, roots
from tests.gpu.memory import refuse_each_allocation
from tests.gpu.test_cuda_bfs import VARIANTS
from tests.oracles import refused_by_both
from tests.strategies import FAR_SEEDS, arcs_of, far_arcs

NAMES = ["kronecker 4", "kronecker 14", "skewed, directed", "star", "grid", "path", "pieces"]
LITTLE = 256 << 10
"""Bytes of a reserve that is small beside what is of vertices."""
SHARES = [(0, 0), (1, 0.01), (2, 0), (3, 0.3), (MOST_COLUMNS, 1), (0, 1)]


def pinned(rows: Rows) -> Rows:
    held = PinnedArray(len(rows.neighbors), rows.neighbors.dtype)
    held.host[:] = rows.neighbors
    return Rows(rows.offsets, held.device)


def sides(shard: Shard) -> tuple[Rows, Rows]:
    out, into = hub_sides(shard)
    there = pinned(out)
    return there, there if into is out else pinned(into)


def tiered(shard: Shard, columns: int, share: float, **options: object) -> CudaTierBfsSearch:
    rows = shard.dealing.rows
    held = BfsShare(columns, int(share * rows), int(share * share * rows))
    return CudaTierBfsSearch(*sides(shard), held, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("columns", "share"), SHARES)
@pytest.mark.parametrize("name", NAMES)
def test_same_bytes_as_the_cpu(name: str, columns: int, share: float) -> None:
    shard = graph(name)
    search, cpu = tiered(shard, columns, share), CPU.bfs(shard)
    for root in roots(GRAPHS[name]()):
        same(search.run(root), cpu.run(root))


@pytest.mark.parametrize("variant", [v for v in VARIANTS if "THIN" not in VARIANTS[v]])
@pytest.mark.parametrize("name", ["kronecker 16", "skewed, directed", "star"])
def test_every_way_through_the_kernel(
    variant: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = cuda_bfs.constants

    def changed(*arguments: object, **options: object) -> dict:
        return {**usual(*arguments, **options), **VARIANTS[variant]}  # type: ignore[arg-type]

    compile_usually = cuda_bfs.on_all
    searches: list[dict[str, int | str]] = []

    def compile_noted(*arguments: Any, **options: Any) -> Any:
        if arguments[0] == "bfs.cu":
            searches.append(arguments[2])
        return compile_usually(*arguments, **options)

    monkeypatch.setattr(cuda_bfs, "constants", changed)
    monkeypatch.setattr(cuda_bfs, "on_all", compile_noted)
    shard = graph(name)
    cpu = CPU.bfs(shard)
    for columns, share in ((2, 0.01), (5, 0)):
        search = tiered(shard, columns, share)
        for root in roots(GRAPHS[name]()):
            same(search.run(root), cpu.run(root))
    # What the tiers set must not have taken the variant's place.
    assert len(searches) >= 2
    for constants in searches:
        assert {**constants, **VARIANTS[variant], **TIERED} == constants


@pytest.mark.parametrize("columns", [0, 2])
@pytest.mark.parametrize("variant", ["pull at once", "pull only"])
@pytest.mark.parametrize("leaves", [1, 7, 3000])
def test_rows_of_several_stretches(
    leaves: int, variant: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Four hubs, each with thousands of neighbours that come first for they have four arcs, and are
    # found later; behind those leaves with two arcs, which the root, of a few stretches itself,
    # finds at once. So it takes the last stretches of each hub's row to find it.
    hubs, middles, root = np.arange(4), 10 + np.arange(5000), 9
    ends = 10_000 + np.arange(4 * leaves)
    source = np.concatenate([np.repeat(hubs, len(middles)), np.repeat(hubs, leaves)])
    target = np.concatenate([np.tile(middles, 4), ends])
    source = np.concatenate([source, np.full(len(ends), root)])
    target = np.concatenate([target, ends])
    arcs = arcs_of(source, target, np.ones(len(source), np.float32), directed=False)
    usual = cuda_bfs.constants
    chosen = VARIANTS[variant]
    monkeypatch.setattr(cuda_bfs, "constants", lambda *a, **k: {**usual(*a, **k), **chosen})
    shard = arcs.shards(1)[0]
    search, cpu = tiered(shard, columns, 0), CPU.bfs(shard)
    degrees = lengths_of(hub_sides(shard)[0])
    begin = int(np.flatnonzero(degrees == 4 * leaves)[0])
    # Root, leaves, hubs, middles.
    tree = cpu.run(begin)
    assert (tree.level[degrees == 5000 + leaves] == 2).all()
    found = search.run(begin)
    same(found, tree)
    assert found.level_direction[1] == PULL
    for other in (0, 3, shard.dealing.rows - 1):
        same(search.run(other), cpu.run(other))


def test_answers_on_the_device_are_named_by_original_ids() -> None:
    shard = graph("kronecker 14")
    rows = shard.dealing.rows
    original_of = np.random.default_rng(1).permutation(rows + 17)[:rows]
    search = tiered(shard, 3, 0.01, original_of=original_of)
    tree, expected = search.run_on_device(3), CPU.bfs(shard).run(3)
    reached = expected.level >= 0
    parent = tree.parent.get()
    assert (parent[reached] == original_of[expected.parent[reached]]).all()
    assert (parent[~reached] == 0xFFFFFFFF).all()


def test_levels_of_more_than_a_byte() -> None:
    shard = graph("path")
    search, cpu = tiered(shard, 1, 0), CPU.bfs(shard)
    same(search.run(0), cpu.run(0))
    assert search.run_on_device(0).level.dtype == np.int32


@pytest.mark.parametrize("spare", [0, 300_000, 2_000_000, 6_000_000])
def test_levels_of_more_than_a_byte_stay_within_the_plan(
    spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", LITTLE)
    arcs, chain = kronecker(16), np.arange(400)
    source = np.concatenate([arcs.source, arcs.vertices - 1 + chain])
    target = np.concatenate([arcs.target, arcs.vertices + chain])
    shard = arcs_of(source, target, np.ones(len(source), np.float32), directed=False).shards(1)[0]
    both = hub_sides(shard)
    facts = facts_of(both, original_parents=False)
    plan = plan_bfs(facts, least_plan("bfs", facts).bytes + spare)
    held, deep = (hold_of(one, both) for one in (plan, plan.deep))
    assert held != deep
    pool, there = cupy.get_default_memory_pool(), sides(shard)
    gc.collect()
    pool.free_all_blocks()
    before = pool.total_bytes()
    pool.set_limit(size=before + plan.budget_bytes)
    try:
        search, cpu = CudaTierBfsSearch(*there, held, deep=deep), CPU.bfs(shard)
        for root in (0, shard.dealing.rows - 1, 1):
            same(search.run(root), cpu.run(root))
        assert search._share == deep
        assert pool.total_bytes() <= before + plan.budget_bytes
    finally:
        pool.set_limit(size=0)


def test_levels_that_were_refused_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    shard = graph("path")
    search, cpu = tiered(shard, 1, 0), CPU.bfs(shard)

    def refuse(*_: object, **__: object) -> None:
        # Those of a byte must be gone by then.
        assert search._level is None
        raise MemoryError("none is left")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(cupy, "zeros", refuse)
            with pytest.raises(MemoryBudgetError, match="does not fit the device"):
                search.run(0)
    same(search.run(0), cpu.run(0))


def lengths_of(rows: Rows) -> np.ndarray:
    return np.diff(rows.offsets.astype(np.int64))


def hold_of(plan: BfsPlan, sides: tuple[Rows, Rows]) -> BfsShare:
    return BfsShare(plan.columns, *(rows_within(rows.offsets, plan.hub_arcs) for rows in sides))


def facts_of(sides: tuple[Rows, Rows], *, original_parents: bool = True) -> DeviceFacts:
    out, into = sides
    lengths = lengths_of(into)
    longer = tuple(last_longer(lengths, 1 + 4 * k) for k in range(COLUMNS))
    each = [lengths_of(rows) for rows in ((out,) if into is out else sides)]
    counted = tuple(Lengths(*np.unique(one, return_counts=True)) for one in each)
    return DeviceFacts(len(lengths), counted, longer, last_longer(lengths, 3), original_parents)


def test_columns_are_counted_alike_on_both_devices() -> None:
    import cupy

    both = hub_sides(graph("skewed, directed"))
    found = column_rows(cupy.asarray(both[1].offsets))
    assert tuple(found) == facts_of(both).longer
    assert found[0] > found[-1] > 0
    assert MOST_COLUMNS == COLUMNS


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("name", ["kronecker 16", "skewed, directed"])
def test_memory_stays_within_the_plan(
    name: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    # Less than any part of the plan, so that none can be forgotten.
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", LITTLE)
    shard = graph(name)
    both = hub_sides(shard)
    facts = facts_of(both)
    with pytest.raises(MemoryBudgetError, match="at least"):
        plan_device("bfs", facts, 0, 1 << 40)
    plan = plan_bfs(facts, BfsPlan(facts, 0).bytes + int(share * 8 * facts.arcs))
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=plan.bytes)
    there = sides(shard)
    names = np.arange(facts.rows, dtype=np.uint32)
    with cupy.cuda.using_allocator(pool.malloc):
        search = CudaTierBfsSearch(*there, hold_of(plan, both), original_of=names)
        same(search.run(1), CPU.bfs(shard).run(1))
    # Of the hubs no row is held in part.
    not_held = 4 * sum(int(lengths_of(rows).max()) for rows in both)
    assert plan.bytes - LITTLE - not_held <= pool.total_bytes() <= plan.bytes


def test_refused_memory_is_said() -> None:
    shard = graph("skewed, directed")
    held, there = BfsShare(2, 10, 10), sides(shard)
    refuse_each_allocation(partial(CudaTierBfsSearch, *there, held), 15)


def test_refused_pinning_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    def refuse(*_: object) -> None:
        raise cupy.cuda.runtime.CUDARuntimeError(2)

    monkeypatch.setattr(cupy.cuda.runtime, "hostRegister", refuse)
    with pytest.raises(MemoryBudgetError, match="pinned host memory are refused"):
        PinnedArray(1000, np.uint32)


def test_what_cannot_be_held_is_refused() -> None:
    shard = graph("star")
    with pytest.raises(UsageError, match="columns"):
        CudaTierBfsSearch(*sides(shard), BfsShare(MOST_COLUMNS + 1))
    with pytest.raises(UsageError, match="cannot be copied"):
        CudaTierBfsSearch(*sides(shard), BfsShare(1, 1 << 30))


SHARE_RULES = [(5, 63), (5, 2), (8, 63), (32, 1), (1 << 20, 63)]
WEIGHTED = ["kronecker 4", "kronecker 16", "skewed, directed", "dense, directed", "plateaus"]


def light_sides(shard: Shard) -> tuple[Rows, Rows, np.ndarray]:
    out, into, tuples = comparison.light_sides(shard)
    there = pinned_weighted(out)
    return there, there if into is out else pinned_weighted(into), tuples


def pinned_weighted(rows: Rows) -> Rows:
    assert rows.weights is not None
    weights = PinnedArray(len(rows.weights), rows.weights.dtype)
    weights.host[:] = rows.weights
    return Rows(rows.offsets, pinned(rows).neighbors, weights.device)


@pytest.mark.parametrize(("least", "shift"), SHARE_RULES)
@pytest.mark.parametrize("name", WEIGHTED)
def test_sssp_has_the_same_bytes(name: str, least: int, shift: int) -> None:
    shard = graph(name)
    # Also where pulling does not pay: who chose this way has asked fewer rows for that.
    search = CudaTierSsspSearch(*light_sides(shard), SsspShare(least, shift))
    cpu = CPU.sssp(shard)
    for root in roots(GRAPHS[name]()):
        same_sssp(search.run(root), cpu.run(root))


def test_sums_that_are_too_long_on_many_ways() -> None:
    for seed in FAR_SEEDS:
        arcs = far_arcs("float32", seed)
        shard = arcs.shards(1)[0]
        search = CudaTierSsspSearch(*light_sides(shard), SsspShare(5, 63))
        refused_by_both(search, CPU.sssp(shard), same_sssp, arcs.vertices)


def test_sssp_is_not_everything() -> None:
    with pytest.raises(UsageError, match="float64"):
        CudaTierSsspSearch(*light_sides(graph("kronecker 14", "float64")), SsspShare(5, 63))
    with pytest.raises(UsageError, match="5 arcs"):
        CudaTierSsspSearch(*light_sides(graph("kronecker 14")), SsspShare(4, 63))


@pytest.mark.parametrize("rule", [HeadRule(5), HeadRule(8, 3)])
@pytest.mark.parametrize("name", ["kronecker 16", "skewed, directed"])
def test_memory_of_sssp_stays_within_the_plan(
    name: str, rule: HeadRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", LITTLE)
    monkeypatch.setattr(cuda_sssp, "may_pull", lambda _: True)
    shard = graph(name)
    out, into, _ = comparison.light_sides(shard)
    plan = SsspPlan(facts_of((out, into)), 0, rule)
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=plan.bytes)
    there = light_sides(shard)
    names = np.arange(plan.facts.rows, dtype=np.uint32)
    with cupy.cuda.using_allocator(pool.malloc):
        search = CudaTierSsspSearch(*there, SsspShare(rule.least, rule.shift), original_of=names)
        same_sssp(search.run(1), CPU.sssp(shard).run(1))
    assert 0.9 * (plan.bytes - LITTLE) <= pool.total_bytes() <= plan.bytes


def test_undirected_rows_need_no_column_of_lightest_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda_sssp, "may_pull", lambda _: True)
    for name, shift in (("kronecker 14", 1), ("dense, directed", 0)):
        sides = light_sides(graph(name))
        heads = CudaTierSsspSearch(*sides, SsspShare(6, 2)).method._heads
        assert heads.lightest_shift == shift


def test_memory_refused_to_sssp_is_said() -> None:
    there = light_sides(graph("kronecker 14"))
    refuse_each_allocation(partial(CudaTierSsspSearch, *there, SsspShare(6, 2)), 15)
