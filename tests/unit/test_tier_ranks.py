"""Ranks of which only the heads of the rows are in memory: the same bytes as with all of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
from ooc_graph.errors import CorruptStoreError, InputError, MemoryBudgetError
from ooc_graph.exchange.interface import Route
from ooc_graph.kernels.common.sssp.distances import distance_dtype
from ooc_graph.kernels.common.sssp.rows import Known, Survey, survey
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout import chunks, names
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.cpu.plan import RESERVE_BYTES, Plan, describe, least_bytes, plan_disk
from ooc_graph.memory.heads import ALL, HeadRule
from ooc_graph.model.engine import RankEngine
from ooc_graph.model.request import Job, Request
from ooc_graph.runtime import engine_cache, this_process
from ooc_graph.runtime.warmup import TIER_RANKS, warm
from ooc_graph.shards import tier_ranks
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_facts import lengths_by_shard
from ooc_graph.shards.tiny_tiers import bind_rows
from ooc_graph.strategies.cpu.on_disk import OnDisk
from ooc_graph.strategies.ranks import STATE_BYTES, Ranks
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import AnyArray, Dealing
from tests import local_exchange
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process
from tests.strategies import WEIGHTS, Arcs, arcs_of, grid, skewed, small_arcs
from tests.unit.test_build_oracle import small_steps

DEVICE = CpuDevice(2)
UNIT = 512
KERNELS = ("bfs", "sssp")
RULES = (HeadRule(1), HeadRule(2), HeadRule(1, 2), HeadRule(ALL))
PULLS, PUSHES = Survey(1, 1, 1, 1, 1.0), Survey(0, 1, 0, 1, 1.0)


def searched(ranks: Sequence[Any], shared: Any, root: int) -> tuple[AnyArray, AnyArray]:
    """What ranks in this process find: parents, and levels or distances, by internal id."""
    algorithm: Any = bfs if hasattr(ranks[0], "frontier") else sssp
    coroutines = [algorithm(rank, root, shared) for rank in ranks]
    trees, _ = local_exchange.run(coroutines, shared, len(ranks))
    return together(trees, ranks[0].vertices)


def together(trees: Sequence[Any], vertices: int) -> tuple[AnyArray, AnyArray]:
    columns = [(tree.parent, measure(tree)) for tree in trees]
    parent, found = (np.empty(vertices, column.dtype) for column in columns[0])
    for shard, column in enumerate(columns):
        mine = Dealing(vertices, len(trees), shard).owned()
        parent[mine], found[mine] = column
    return parent, found


def measure(tree: Any) -> AnyArray:
    return tree.level if hasattr(tree, "level") else tree.distance


def same(found: tuple[AnyArray, AnyArray], wanted: Any) -> None:
    for column, other in zip(found, (wanted.parent, measure(wanted)), strict=True):
        assert column.dtype == other.dtype
        assert column.tobytes() == other.tobytes()


def bound(
    arcs: Arcs,
    kernel: str,
    rule: HeadRule,
    shards: int,
    found: Survey | None = None,
    ids: str = "uint32",
    **sizes: int,
) -> tuple[list[Any], Callable[[], Any]]:
    """Ranks of a graph with their heads in memory, and what makes what they share."""
    ranks, order = [], ORDER_OF[kernel]
    for shard in arcs.shards(shards, ids):
        rows = getattr(shard, f"out_{order}")
        out = bind_rows(rows, rule, **sizes)
        into = out
        if arcs.directed:
            into = bind_rows(getattr(shard, f"into_{order}"), rule, **sizes)
        longest = max(1, int(out.heads.lengths.max(initial=0)))
        if kernel == "bfs":
            ranks.append(DEVICE.tier_bfs_rank(shard.dealing, out, into, longest))
            continue
        known = Known(found or survey(rows, shard.tuples), rows.weights.max(initial=0))
        ranks.append(DEVICE.tier_sssp_rank(shard.dealing, out, into, known, longest))
    if kernel == "bfs":
        return ranks, lambda: DEVICE.bfs_shared(arcs.vertices, shards)
    dtype = distance_dtype(arcs.weight)
    return ranks, lambda: DEVICE.sssp_shared(arcs.vertices, dtype)


SIZES = st.fixed_dictionaries(
    {
        "block_bytes": st.sampled_from([8, 16, 64]),
        "batch_blocks": st.integers(2, 5),
        "window": st.sampled_from([64, 128]),
        "look": st.sampled_from([1, 3, 1024]),
    }
)


@settings(max_examples=60, deadline=None)
@given(small_arcs(), st.sampled_from(RULES), SIZES, st.sampled_from([1, 2]), st.data())
def test_bfs_on_small_graphs(arcs, rule, sizes, shards, data):
    root = data.draw(st.integers(0, arcs.vertices - 1))
    ranks, share = bound(arcs, "bfs", rule, shards, **sizes)
    same(searched(ranks, share(), root), DEVICE.bfs(arcs.shards(1)[0]).run(root))


# Each type compiles the kernels for itself.
@pytest.mark.parametrize(
    "dtype", [d if d == "float32" else pytest.param(d, marks=pytest.mark.slow) for d in WEIGHTS]
)
@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(RULES), SIZES, st.sampled_from([PULLS, PUSHES]))
def test_sssp_on_small_graphs(dtype, data, rule, sizes, found):
    arcs = data.draw(small_arcs(dtype))
    root = data.draw(st.integers(0, arcs.vertices - 1))
    ranks, share = bound(arcs, "sssp", rule, 2, found, **sizes)
    wanted = DEVICE.sssp(arcs.shards(1)[0], copies=False).run(root)
    same(searched(ranks, share(), root), wanted)


def graphs() -> dict[str, Arcs]:
    """Of more rows than a shard's block: hubs, a grid, and plateaus of many hops."""
    flat = grid(60, "float32")
    return {
        "hubs": skewed(6000, 40_000, "float32", directed=False, seed=1),
        "directed": skewed(5000, 30_000, "float32", directed=True, seed=2),
        "grid": flat,
        "plateaus": replace(flat, weight=np.where(flat.weight < 0.7, 0, flat.weight)),
    }


FLAT = ("grid", "plateaus")


# Many levels take long, and four ranks do there what they do on the other graphs.
@pytest.mark.parametrize(
    ("name", "shards", "rule"),
    [
        pytest.param(name, shards, rule, marks=[pytest.mark.slow] * (shards == 4 and name in FLAT))
        for name in graphs()
        for shards, rule in [(2, HeadRule(1)), (4, HeadRule(1, 2))]
    ],
)
def test_ranks_of_many_rows(name, shards, rule):
    arcs = graphs()[name]
    whole = arcs.shards(1)[0]
    for kernel, found in (("bfs", None), ("sssp", PULLS), ("sssp", PUSHES)):
        ranks, share = bound(arcs, kernel, rule, shards, found, window=128, look=3)
        wanted = getattr(DEVICE, kernel)(whole, copies=False)
        for root in (0, 1500, arcs.vertices - 1)[: 1 if name in FLAT else 3]:
            same(searched(ranks, share(), root), wanted.run(root))


@pytest.mark.slow  # compiles all for another type of ids
def test_ids_of_64_bits():
    arcs = graphs()["directed"]
    for kernel in KERNELS:
        ranks, share = bound(arcs, kernel, HeadRule(1), 2, ids="uint64")
        wanted = getattr(DEVICE, kernel)(arcs.shards(1, "uint64")[0], copies=False)
        same(searched(ranks, share(), 7), wanted.run(7))


def lists(coroutine: Any, lengths: list[int]) -> Any:
    """A coroutine, noting how many entries it lists at a time."""
    answer = None
    while True:
        try:
            request = coroutine.send(answer)
        except StopIteration as stop:
            return stop.value
        is_route = isinstance(request, Route)
        listed = request.target if is_route else (request.payload or ((),))[0]
        if is_route or len(request.payload) == 3:
            lengths.append(len(listed))
        answer = yield request


@pytest.mark.parametrize("kernel", KERNELS)
def test_pushes_list_a_bounded_number_of_entries(kernel):
    """A graph that is searched by pushing: hundreds of vertices behind each vertex of a few."""
    centers, leaves = 40, 200
    source = np.repeat(np.arange(1, centers + 1), leaves)
    target = centers + 1 + np.arange(len(source))
    source, target = np.append(np.zeros(centers, int), source), np.append(np.arange(1, 41), target)
    arcs = arcs_of(source, target, np.ones(len(source), np.float32), directed=True)
    ranks, share = bound(arcs, kernel, HeadRule(2), 2, PUSHES)
    root, noted = int(np.flatnonzero(np.bincount(arcs.target, minlength=arcs.vertices) == 0)[0]), []
    shared, algorithm = share(), bfs if kernel == "bfs" else sssp
    coroutines = [lists(algorithm(rank, root, shared), noted) for rank in ranks]
    trees, _ = local_exchange.run(coroutines, shared, 2)
    wanted = getattr(DEVICE, kernel)(arcs.shards(1)[0], copies=False).run(root)
    same(together(trees, arcs.vertices), wanted)
    # All leaves but the one or two in heads are listed behind tails.
    if kernel == "sssp" or wanted.level_direction.tolist()[1] == 0:
        assert max(noted) <= leaves
        assert sum(length == leaves for length in noted) > 10


def test_a_distance_too_long_for_its_type_is_refused():
    largest = np.iinfo(np.int64).max
    weight = np.array([largest // 2, largest // 2, 10, largest // 3, 5])
    arcs = arcs_of([0, 1, 2, 0, 0], [1, 2, 3, 4, 5], weight, directed=False)
    root = 0
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        DEVICE.sssp(arcs.shards(1)[0], copies=False).run(root)
    ranks, share = bound(arcs, "sssp", HeadRule(1), 1)
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        searched(ranks, share(), root)


def test_ranks_need_the_first_arc_of_every_row():
    arcs = skewed(100, 500, "float32", directed=True, seed=1)
    with pytest.raises(ValueError, match="first arc of every row"):
        bound(arcs, "sssp", HeadRule(0), 1)


# Out of stores.


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, bool], Path]:
    """Stores of four shards, directed and packed or not, whose hubs are cut over many units."""
    folder = tmp_path_factory.mktemp("tiny")
    random = np.random.default_rng(5)
    ends = (6000 * random.random((2, 30_000)) ** 3).astype(np.int64)
    weights = {
        False: random.random(30_000).astype(np.float32),
        True: random.integers(0, 5000, 30_000).astype(np.int32),
    }
    found = {}
    with small_steps(chunk=16 * UNIT) as patch:
        patch.setattr(names, "SIDECAR_BYTES", UNIT)
        patch.setattr(chunks, "SIDECAR_BYTES", UNIT)
        for directed in (False, True):
            for packed in (False, True):
                path = folder / f"{directed}-{packed}.zarr"
                edges = (ends[0], ends[1], weights[packed])
                og.build(edges, path, directed=directed, shards=4, compress=packed)
                found[directed, packed] = path
    return found


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SIDECAR_BYTES", UNIT)
    monkeypatch.setattr(names, "CHUNK_BYTES", 16 * UNIT)


def shared_of(graph: Graph, kernel: str) -> Any:
    if kernel == "bfs":
        return DEVICE.bfs_shared(graph.rows, graph.shards)
    weights = graph.weight_dtype
    assert weights is not None
    dtype = weights if weights.kind == "f" else np.dtype(np.int64)
    return DEVICE.sssp_shared(graph.rows, dtype)


def least_rank_bytes(graph: Graph, kernel: str, ranks: int) -> int:
    """Least memory that a worker with so many consecutive ranks needs."""
    lengths = lengths_by_shard(graph, kernel)
    return least_bytes(
        tier_ranks.busiest_facts(
            graph.shards,
            ranks,
            lambda shards: tier_ranks.facts_of_ranks(graph, kernel, shards, lengths),
        )
    )


def plan_rank(graph: Graph, kernel: str, shards: Sequence[int], budget: int) -> Plan:
    """Plan for the ranks of one worker, which has these shards and may use so much."""
    lengths = lengths_by_shard(graph, kernel)
    return plan_disk(tier_ranks.facts_of_ranks(graph, kernel, shards, lengths), budget)


def loaded(graph: Graph, kernel: str, budget: int, workers: int = 2) -> list[Any]:
    """The ranks of workers that have such a budget each."""
    each = graph.shards // workers
    found = []
    for first in range(0, graph.shards, each):
        shards = range(first, first + each)
        plan = plan_rank(graph, kernel, shards, budget)
        found += [tier_ranks.load_rank(graph, kernel, s, plan, DEVICE) for s in shards]
    return found


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_same_bytes_from_the_least_up(kernel, directed, packed, stores):
    graph = Graph.open(stores[directed, packed])
    reference = getattr(DEVICE, kernel)(graph.load(ORDER_OF[kernel]), copies=False)
    least = least_rank_bytes(graph, kernel, 2)
    read = []
    for budget in (least, least + 30_000, least + 200_000, 2 * least):
        ranks = loaded(graph, kernel, budget)
        before = [rank.io_stats.blocks for rank in ranks]
        for root in (0, 5, graph.rows - 1):
            same(
                searched([rank.search for rank in ranks], shared_of(graph, kernel), root),
                reference.run(root),
            )
        read.append(sum(r.io_stats.blocks for r in ranks) - sum(before))
        for rank in ranks:
            rank.close()
    assert read[0] > read[-1] == 0
    with pytest.raises(MemoryBudgetError, match=f"needs at least {least:,} bytes"):
        loaded(graph, kernel, least - 1)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_harmed_chunk_is_refused_by_name(kernel, stores):
    graph = Graph.open(stores[False, False])
    whole = plan_rank(graph, kernel, range(4), 1 << 30)
    plan = replace(whole, rule=HeadRule(1), batch_blocks=2, kept_bytes=0)
    ranks = [tier_ranks.load_rank(graph, kernel, s, plan, DEVICE) for s in range(4)]
    folder = graph.path / names.rows_path(2, "out", ORDER_OF[kernel])
    files = sorted((folder / "neighbors" / "c").iterdir())
    contents = [path.read_bytes() for path in files]
    try:
        for path, content in zip(files, contents, strict=True):
            path.write_bytes(bytes(byte ^ 1 for byte in content))
        with pytest.raises(CorruptStoreError, match=r"chunk \d+ of shards/00002/out"):
            searched([rank.search for rank in ranks], shared_of(graph, kernel), 0)
    finally:
        for path, content in zip(files, contents, strict=True):
            path.write_bytes(content)
    # The ranks are as good as before.
    wanted = getattr(DEVICE, kernel)(graph.load(ORDER_OF[kernel]), copies=False).run(3)
    same(searched([rank.search for rank in ranks], shared_of(graph, kernel), 3), wanted)
    for rank in ranks:
        rank.close()


@pytest.mark.usefixtures("tiny")
def test_plans_of_a_worker_say_what_its_ranks_take(stores):
    graph = Graph.open(stores[True, False])
    one, two = (least_rank_bytes(graph, "sssp", ranks) for ranks in (1, 2))
    assert one < two < 2 * one
    plan = plan_rank(graph, "sssp", [0, 1], two)
    told = describe(plan)
    assert told[f"bytes: {tier_ranks.EVERYONES}"] >= 3 * 12 * graph.rows
    assert told["bytes: in all"] == plan.bytes <= two
    assert plan.rule == HeadRule(1)
    sides = [Graph.load(graph, "light", shard) for shard in (0, 1)]
    arcs = sum(len(s.out_light.neighbors) + len(s.into_light.neighbors) for s in sides)
    assert plan.facts.arcs == arcs


@pytest.mark.parametrize("kernel", KERNELS)
def test_memory_stays_within_the_plan(kernel, tmp_path):
    """Of a worker with one of two shards, the other's messages included."""
    path = tmp_path / "g.zarr"
    og.build(og.Kronecker(15, edge_factor=64), path, shards=2)
    for plan, peak in in_own_process(plans_and_peaks, kernel, path):
        assert peak <= plan.bytes - RESERVE_BYTES
        assert peak >= plan.parts["heads"] + plan.parts["row tables"] + plan.parts["kept blocks"]


def plans_and_peaks(kernel: str, path: Path) -> list[tuple[Plan, int]]:
    graph, found = Graph.open(path), []
    warm(kernel, graph, DEVICE, variant=TIER_RANKS)
    least = least_rank_bytes(graph, kernel, 2)
    for budget in (least, 2 * least):
        # All ranks of a local exchange are in one process: the plan is one for both.
        plan = plan_rank(graph, kernel, [0, 1], budget)

        def search(plan: Plan = plan) -> None:
            ranks = [tier_ranks.load_rank(graph, kernel, s, plan, DEVICE) for s in (0, 1)]
            searched([rank.search for rank in ranks], shared_of(graph, kernel), 0)
            for rank in ranks:
                rank.close()

        search()
        found.append((plan, traced_peak(search, plan.bytes - RESERVE_BYTES)))
    return found


# On workers.


@pytest.mark.parametrize("kernel", KERNELS)
def test_workers_hold_the_budget(kernel, tmp_path, monkeypatch):
    """Of two workers: loading, searching with real messages, and writing the answer."""
    graph = og.build(og.Kronecker(15, edge_factor=64), tmp_path / "g.zarr", shards=2)
    source = int(graph.original_of()[9])
    wanted = getattr(og, kernel)(graph, source, device="cpu")
    # Rows this small would have room in memory.
    monkeypatch.setitem(STATE_BYTES, kernel, 1 << 20)
    budget = least_rank_bytes(Graph.open(graph.path), kernel, 1) + 3_000_000
    how = {"memory_limit": 2 * budget, "out": tmp_path / "r.zarr", "overwrite": True}
    how["exchange"] = "scheduler"
    with og.local_cluster(2) as client:
        for attempt in ("compiles", "loads"):
            client.run(forget_and_trace)
            found = getattr(og, kernel)(graph, source, device="cpu", client=client, **how)
            assert found.parent.tobytes() == wanted.parent.tobytes()
            held = client.run(held_and_peak).values()
            if attempt == "loads":
                for plan, peak in held:
                    assert plan.budget_bytes == budget
                    assert plan.head_arcs < plan.facts.arcs
                    assert plan.parts["heads"] < peak <= budget


def forget_and_trace() -> None:
    engine_cache.release_idle()
    tracemalloc.start()


def held_and_peak() -> tuple[Plan, int]:
    """The plan of a worker's ranks, and what was allocated at once, at most."""
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (engine,) = engine_cache._engines.values()
    assert isinstance(engine, RankEngine)
    (rank,) = engine.ranks.values()
    return rank.plan, peak


def test_the_plan_says_that_ranks_read_from_the_store(tmp_path):
    graph = og.build(og.Kronecker(12), tmp_path / "g.zarr", shards=2)
    least = least_rank_bytes(Graph.open(graph.path), "sssp", 1)
    resources = replace(this_process.planned(least), processes=2, has_client=True)
    strategy, request = Ranks(OnDisk()), Request("sssp", "scheduler")
    job = Job(graph, request, resources)
    held = strategy.reserve(job)
    assert (held.exchange, held.host_bytes) == ("scheduler", least)
    told = strategy.describe(job, held)
    assert told["tier"] == "disk, by ranks"
    assert told["bytes: in all"] <= told["budget"] == least
    assert strategy.lacks(job) == ""
    alone = replace(resources, processes=1)
    assert strategy.lacks(Job(graph, replace(request, exchange="auto"), alone))
    assert strategy.lacks(Job(graph, replace(request, kernel="components"), resources))
    with pytest.raises(MemoryBudgetError, match="needs at least"):
        strategy.reserve(Job(graph, request, replace(resources, least_limit_bytes=100_000)))
