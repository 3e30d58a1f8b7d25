"""SSSP by ranks that have their own rows' distances alone: the same bytes as any other search."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
from ooc_graph.errors import HOST, InputError, MemoryBudgetError
from ooc_graph.exchange.doors import Door
from ooc_graph.exchange.interface import Route, Share
from ooc_graph.exchange.left import Left
from ooc_graph.exchange.ranks import run_in_process
from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.sssp import owned_lists
from ooc_graph.model.engine import RankEngine
from ooc_graph.model.request import Job, Request
from ooc_graph.model.reservation import Refusal
from ooc_graph.runtime import engine_cache, this_process
from ooc_graph.search.plan import Plan, plan
from ooc_graph.strategies.cpu import on_disk, owned
from ooc_graph.strategies.cpu.in_memory import InMemory
from ooc_graph.strategies.cpu.owned import Owned
from ooc_graph.strategies.owned_lists import most_listed
from ooc_graph.strategies.ranks import Ranks, ranks_bytes
from ooc_graph.traverse.sssp_owned import sssp_owned
from ooc_graph.types import DEAL_BLOCK, owner_of
from tests import local_exchange, oracles, strategies
from tests.strategies import WEIGHTS, Arcs, arcs_of, grid, skewed, small_arcs
from tests.unit.test_sssp import check, distance_dtype, same

DEVICE = CpuDevice(1)
MANY = 1 << 12


def made(
    arcs: Arcs,
    shards: int,
    root: int,
    most: int = MANY,
    ids: str = "uint32",
    device: Any = DEVICE,
) -> tuple[list[Any], Any]:
    """Coroutines of all ranks, which list so many candidates at a time, and what they share."""
    shared = device.owned_sssp_shared(arcs.vertices, shards, distance_dtype(arcs))
    ranks = [device.owned_sssp_rank(part) for part in arcs.shards(shards, ids)]
    return [sssp_owned(rank, root, shared, most) for rank in ranks], shared


def together(arcs: Arcs, trees: list[SsspTree]) -> SsspTree:
    parent = np.empty(arcs.vertices, trees[0].parent.dtype)
    distance = np.empty(arcs.vertices, distance_dtype(arcs))
    for part, tree in zip(arcs.shards(len(trees)), trees, strict=True):
        part.dealing.put(tree.parent, parent)
        part.dealing.put(tree.distance, distance)
    return SsspTree(parent, distance, 0.0, trees[0].phase_arcs)


def searched(arcs: Arcs, shards: int, root: int, most: int = MANY, ids: str = "uint32") -> SsspTree:
    """What the ranks find, by two exchanges that must agree."""
    trees, _ = local_exchange.run(*made(arcs, shards, root, most, ids), shards)
    coroutines, shared = made(arcs, shards, root, most, ids)
    again = run_in_process(dict(enumerate(coroutines)), shared)
    found = together(arcs, trees)
    same(together(arcs, again), found)
    return found


def spread(arcs: Arcs, blocks: int = 8) -> Arcs:
    """The same graph with its vertices dealt to so many blocks, so that all ranks have some."""

    def new(vertex: Any) -> Any:
        return vertex % blocks * DEAL_BLOCK + vertex // blocks

    size = blocks * DEAL_BLOCK
    tuples = np.zeros(size, np.int64)
    tuples[new(np.arange(arcs.vertices))] = arcs.tuples
    order = np.lexsort((new(arcs.target), new(arcs.source)))
    source, target = new(arcs.source)[order], new(arcs.target)[order]
    return Arcs(size, source, target, arcs.weight[order], tuples, arcs.directed)


def plateaus() -> Arcs:
    """A grid in which most arcs have no weight."""
    arcs = grid(60, "float32")
    return replace(arcs, weight=np.where(arcs.weight < 0.7, 0, arcs.weight))


def absorbing() -> tuple[Arcs, int]:
    """`strategies.absorbing` with rows on all ranks."""
    arcs, root = strategies.absorbing()
    return spread(arcs), root % 8 * DEAL_BLOCK + root // 8


def overflowing() -> Arcs:
    """A path from 0 whose last arc, at another rank than the heavy ones, is one too many."""
    far, size = DEAL_BLOCK + 7, 2 * DEAL_BLOCK
    source, target = np.array([0, 1, far]), np.array([1, far, 2])
    weight = np.array([2**62, 2**62 - 10, 100])
    return Arcs(size, source, target, weight, np.ones(size, np.int64), directed=True)


def overflowing_in_a_tail() -> Arcs:
    """As `overflowing`: the arc that is one too many stands behind all others of its row."""
    arcs, light = overflowing(), np.arange(3, 9)
    source = np.concatenate([arcs.source, np.full(len(light), arcs.source[-1])])
    target, weight = np.concatenate([arcs.target, light]), np.concatenate([arcs.weight, light])
    order = np.lexsort((target, source))
    return replace(arcs, source=source[order], target=target[order], weight=weight[order])


def twice(arcs: Arcs) -> Arcs:
    """A graph and, as a second component, the same again."""
    return Arcs(
        2 * arcs.vertices,
        np.concatenate([arcs.source, arcs.source + arcs.vertices]),
        np.concatenate([arcs.target, arcs.target + arcs.vertices]),
        np.tile(arcs.weight, 2),
        np.tile(arcs.tuples, 2),
        arcs.directed,
    )


@pytest.mark.parametrize("dtype", WEIGHTS)
def test_small_graphs(dtype: str) -> None:
    @settings(max_examples=60, deadline=None)
    @given(
        small_arcs(dtype),
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from([1, 2, 5, MANY]),
        st.data(),
    )
    def run(arcs: Arcs, shards: int, most: int, data: Any) -> None:
        root = data.draw(st.integers(0, arcs.vertices - 1))
        far = spread(arcs)
        root = int(root % 8 * DEAL_BLOCK + root // 8)
        check(searched(far, shards, root, most), far, root)

    run()


@pytest.mark.parametrize(
    ("dtype", "directed", "ids"),
    [
        ("float32", False, "uint32"),
        ("float64", True, "uint32"),
        ("int32", False, "uint32"),
        ("int64", True, "uint32"),
        # Compiles all for another type of ids.
        pytest.param("float32", False, "uint64", marks=pytest.mark.slow),
    ],
)
def test_graphs_of_many_blocks(dtype: str, directed: bool, ids: str) -> None:
    arcs = skewed(24_000, 140_000, dtype, directed=directed, seed=3)
    search = DEVICE.sssp(arcs.shards(1, ids)[0])
    for root in (0, arcs.vertices // 2, arcs.vertices - 1):
        tree = search.run(root)
        check(tree, arcs, root)
        for shards, most in ((1, 8), (2, 1 << 16), (8, 700)):
            same(searched(arcs, shards, root, most, ids), tree)


def test_a_search_ends_when_all_rows_are_settled() -> None:
    """Arcs that are heavier than all distances are not waited for, directed or not."""
    arcs = grid(64, "float32")
    heavy = arcs.weight > np.quantile(arcs.weight, 0.9)
    arcs = replace(arcs, weight=np.where(heavy, 1000 * arcs.weight, arcs.weight))
    root = int(arcs.source[0])
    supersteps = {}
    for directed in (False, True):
        same_arcs = replace(arcs, directed=directed)
        trees, stats = local_exchange.run(*made(same_arcs, 4, root), 4)
        found = together(same_arcs, trees)
        check(found, same_arcs, root)
        assert np.isfinite(found.distance).all()
        supersteps[directed] = stats.supersteps
    # Those of undirected ones also ask, near the end, whether more can be reached.
    assert supersteps[True] <= supersteps[False]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("value", [0, 3])
def test_equal_weights(dtype: str, value: int) -> None:
    """Of weight zero all is one plateau, whose parents are found hop by hop."""
    arcs = skewed(3000, 9000, dtype, directed=False, seed=2)
    arcs = replace(arcs, weight=np.full_like(arcs.weight, value))
    tree = searched(arcs, 2, 11, 50)
    check(tree, arcs, 11)
    assert (tree.phase_arcs["parents"] > 0) == (value == 0)


def test_plateaus_of_many_hops() -> None:
    arcs = plateaus()
    same(searched(arcs, 4, 1500, 20), DEVICE.sssp(arcs.shards(1)[0]).run(1500))


def test_absorbed_weights_make_plateaus() -> None:
    arcs, root = absorbing()
    for most in (1, MANY):
        check(searched(arcs, 8, root, most), arcs, root)


@pytest.mark.parametrize(
    "last", [*(pytest.param(last, marks=pytest.mark.slow) for last in (0, 1)), 2]
)
def test_sums_around_the_largest_int64(last: int) -> None:
    """One below the top is a distance; the top itself, which says unreached, is refused."""
    weight = np.array([2**62, 2**62 - 2, last])
    arcs = spread(arcs_of([0, 1, 2], [1, 2, 3], weight, directed=True), 4)
    (root,) = (
        v for v, row in enumerate(oracles.reverse(arcs.lists())) if not row and arcs.lists()[v]
    )
    if last == 0:
        check(searched(arcs, 4, root), arcs, root)
        return
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        searched(arcs, 4, root)


def test_overflow_is_found_by_a_rank_whose_own_arcs_are_light() -> None:
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        searched(overflowing(), 2, 0)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_float_sums_near_the_largest(dtype: str) -> None:
    """The heaviest arc and the longest distance add up to infinity, but no path does."""
    large = 0.4 * float(np.finfo(dtype).max)
    for last, is_refused in ((0.0, False), (large, True)):
        weight = np.array([large, large, last, large, 1.5 * large], dtype)
        source, target = [0, 1, 2, 3, 0], [1, 2, 3, 1, 4 if is_refused else 3]
        arcs = spread(arcs_of(source, target, weight, directed=True), 4)
        degree = np.bincount(arcs.source, minlength=arcs.vertices)
        degree[arcs.target] = 0
        root = int(np.argmax(degree))
        if is_refused:
            with pytest.raises(InputError, match="exceeds the largest float"):
                searched(arcs, 2, root)
        else:
            with np.errstate(over="ignore"):
                check(searched(arcs, 2, root), arcs, root)


def noting(coroutine: Any, rank: int, shards: int, noted: list[int]) -> Iterator[Any]:
    """The coroutine, of which every route is looked at."""
    answer = None
    while True:
        try:
            question = coroutine.send(answer)
        except StopIteration as stop:
            return stop.value
        route: Route | None = question.route if isinstance(question, Share) else question
        if route is not None:
            assert len(set(route.target.tolist())) == len(route.target)
            assert (np.diff(route.target.astype(np.int64)) > 0).all()
            assert (owner_of(route.target, shards) != rank).all()
            noted.append(len(route.target))
        answer = yield question


def test_ranks_send_no_more_than_fits_and_only_what_may_be_nearest() -> None:
    arcs = skewed(24_000, 600_000, "float32", directed=False, seed=5)
    root, shards = arcs.vertices - 1, 4
    wanted, sent = DEVICE.sssp(arcs.shards(1)[0]).run(root), {}
    for most in (100, 1 << 16):
        noted: list[int] = []
        coroutines, shared = made(arcs, shards, root, most)
        coroutines = [noting(one, rank, shards, noted) for rank, one in enumerate(coroutines)]
        trees, _ = local_exchange.run(coroutines, shared, shards)
        same(together(arcs, trees), wanted)
        assert max(noted) <= most
        sent[most] = sum(noted)
    # Nearly all arcs lead to vertices that are settled, or are not the lightest of a rank's.
    assert max(sent.values()) < 1.5 * arcs.vertices < len(arcs.source) / 20


def test_a_list_keeps_the_best_of_each_target() -> None:
    listed = owned_lists.new_listed(4, np.dtype("u4"), np.dtype("f4"))
    offers = [(9, 3.0, 1.0, 7), (8, 1.0, 1.0, 5), (9, 3.0, 1.0, 6), (9, 3.0, 2.0, 2)]
    offers += [(8, 2.0, 0.0, 1), (9, 3.0, 0.5, 8)]
    count, list_best = 0, owned_lists.list_best.py_func
    with np.errstate(over="ignore"):
        for target, found, near, parent in offers:
            distances = np.float32(found), np.float32(near)
            count = list_best(listed, count, target, *distances, parent)
    assert count == 2
    columns = (listed.target, listed.found, listed.near, listed.parent)
    assert [column[:2].tolist() for column in columns] == [[9, 8], [3, 1], [0.5, 1], [8, 5]]


# Planned, and on workers.


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Of many vertices with few arcs: most of the memory of ranks is their state."""
    path = tmp_path_factory.mktemp("graph") / "g.zarr"
    return og.build(og.Kronecker(17, edge_factor=2), path, shards=4)


def job_of(graph: og.Graph, limit_bytes: int, exchange: str = "scheduler", **request: Any) -> Job:
    """A search by the ranks of two workers of one thread, which may use so much each."""
    resources = replace(this_process.planned(limit_bytes), processes=2, has_client=True, threads=1)
    return Job(graph, Request("sssp", exchange, **request), resources)


REPLICAS, OWNED = Ranks(InMemory()), Ranks(Owned())


def planned(job: Job) -> Plan:
    return plan(job.graph, job.request, job.resources)


def least_of(graph: og.Graph, **request: Any) -> int:
    """The least memory of a worker that an SSSP by ranks that own their distances accepts."""
    with pytest.raises(MemoryBudgetError) as caught:
        OWNED.reserve(job_of(graph, 1 << 10, **request))
    return caught.value.least_bytes


def test_the_budget_decides(graph: og.Graph) -> None:
    replica = ranks_bytes(job_of(graph, 0))
    assert planned(job_of(graph, replica)).strategy == REPLICAS
    least, written = least_of(graph, answer_bytes=1), least_of(graph)
    assert least < written < replica
    found = planned(job_of(graph, replica - 1, answer_bytes=1))
    reserved = found.reserved
    assert (found.strategy, reserved.strategy) == (OWNED, "cpu/owned, ranks")
    assert 0 < reserved.messages_bytes < reserved.host_bytes <= replica - 1
    assert "distances of its own rows alone" in OWNED.summary("sssp", reserved)
    told = found.describe()
    assert told["bytes: in all"] == sum(told[name] for name in told if name in PARTS)
    assert planned(job_of(graph, least, answer_bytes=1)).reserved.host_bytes == least


def test_one_worker_goes_first_if_it_has_memory_for_all_distances(tmp_path: Path) -> None:
    """With arcs in the store it is quicker than ranks that own their distances."""
    graph = og.build(og.Kronecker(18, edge_factor=8), tmp_path / "g.zarr", shards=4)
    alone = on_disk.least_within(graph, "sssp") + 1
    for limit_bytes, strategy in ((alone, on_disk.OnDisk()), (alone - 1, OWNED)):
        job = job_of(graph, limit_bytes, exchange="auto", answer_bytes=1)
        assert OWNED.reserve(job).host_bytes <= limit_bytes < ranks_bytes(job)
        assert planned(job).strategy == strategy


@pytest.mark.parametrize("request_", [{"kernel": "bfs"}, {"exchange": "local"}])
def test_others_do_not_own_distances(graph: og.Graph, request_: dict[str, str]) -> None:
    job = job_of(graph, 1 << 30)
    assert OWNED.lacks(job) == ""
    assert OWNED.lacks(replace(job, request=replace(job.request, **request_)))
    assert OWNED.lacks(replace(job, resources=replace(job.resources, processes=1)))


def test_lists_follow_the_memory_of_each_search(graph: og.Graph) -> None:
    """Ranks that are loaded serve again with less."""
    least, wide = (
        OWNED.reserve(job_of(graph, limit_bytes, answer_bytes=1))
        for limit_bytes in (least_of(graph, answer_bytes=1), 1 << 30)
    )
    assert [most_listed(one, graph, 2) for one in (least, wide)] == [1 << 10, 1 << 16]
    assert most_listed(least, graph, 1) == 1 << 11


PARTS = ("bytes: rows", "bytes: state of its vertices", "bytes: messages, or the answer")


def test_a_replica_that_is_refused_is_done_without(graph: og.Graph) -> None:
    """Then ranks list no more than fits what is less, however much memory there should be."""
    job = job_of(graph, 1 << 30, answer_bytes=1)
    first = planned(job)
    refusal = Refusal(first.reserved, HOST, "no memory")
    second = first.after(refusal, lambda **_: job.resources)
    assert second is not None
    assert (first.strategy, second.strategy) == (REPLICAS, OWNED)
    assert second.reserved.host_bytes < first.reserved.host_bytes
    assert OWNED.reserve(job).host_bytes > first.reserved.host_bytes
    assert OWNED.after(job, Refusal(second.reserved, HOST, "no memory")) is None


def test_everyones_state_is_below_a_byte_a_vertex() -> None:
    """What a rank has does not grow with the rows of others, but for two bits of each."""
    arcs = skewed(24_000, 140_000, "float64", directed=True, seed=3)
    own, everyones = [], []
    for shards in (1, 8):
        shared = DEVICE.owned_sssp_shared(arcs.vertices, shards, distance_dtype(arcs))
        rank = DEVICE.owned_sssp_rank(arcs.shards(shards)[-1])
        rank.begin(0, 0, None, 100)
        rows = arcs.shards(shards)[-1].dealing.rows
        taken = bytes_of(rank) - bytes_of(rank._out) - bytes_of(rank._listed)
        own.append(taken / rows)
        everyones.append(bytes_of(shared) / arcs.vertices)
    assert own[1] < 1.1 * own[0] < owned.own_row_bytes(4, 8)
    assert max(everyones) < 0.4


def bytes_of(found: Any) -> int:
    """Bytes of all arrays of an object, and of those of its tuples, each counted once."""
    arrays: dict[int, int] = {}

    def look(one: Any) -> None:
        if isinstance(one, np.ndarray):
            arrays[one.ctypes.data] = max(one.nbytes, arrays.get(one.ctypes.data, 0))
        for inner in one if isinstance(one, tuple) else vars(one).values() if vars_of(one) else ():
            look(inner)

    look(found)
    return sum(arrays.values())


def vars_of(one: Any) -> bool:
    return type(one).__module__.startswith("ooc_graph") and hasattr(one, "__dict__")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with og.local_cluster(2) as two:
        yield two


@pytest.mark.parametrize("arrays", ["store", "numpy", "dask"])
def test_workers_stay_within_the_budget(
    arrays: str, graph: og.Graph, client: Client, tmp_path: Path
) -> None:
    """While they load, search, and give the answer or write it."""
    source = int(graph.original_of()[9])
    wanted = og.sssp(graph, source, device="cpu")
    given = {"answer_bytes": 1} if arrays == "numpy" else {"on_worker": arrays == "dask"}
    limit = least_of(graph, **given)
    how: dict[str, Any] = {"memory_limit": 2 * limit, "exchange": "scheduler", "client": client}
    if arrays == "store":
        how |= {"out": tmp_path / "r.zarr", "overwrite": True}
    else:
        how["arrays"] = arrays
    for attempt in ("compiles", "loads"):
        client.run(forget_and_trace)
        found = og.sssp(graph, source, device="cpu", **how)
        peaks = client.run(kinds_and_peak).values()
        assert np.asarray(found.parent).tobytes() == wanted.parent.tobytes()
        assert np.asarray(found.distance).tobytes() == wanted.distance.tobytes()
        for kinds, peak in peaks:
            assert kinds == {"CpuOwnedSsspRank"}
            if attempt == "loads":
                assert limit / 4 < peak <= limit


@pytest.mark.parametrize("arrays", ["store", "numpy", "dask"])
def test_earlier_answers_are_brought_from_the_workers(
    arrays: str, graph: og.Graph, client: Client, tmp_path: Path
) -> None:
    """Nothing is reserved for them."""
    sources = graph.original_of()[[9, 10]].tolist()
    how: dict[str, Any] = {"device": "cpu", "exchange": "scheduler", "client": client}
    earlier = og.sssp(graph, sources[0], arrays="dask", **how)
    (left,) = (one for ref in Left._of[client] if (one := ref()) is not None and one.there)
    how["memory_limit"] = 2 * (ranks_bytes(job_of(graph, 0)) - 1)
    how |= {"out": tmp_path / "r.zarr"} if arrays == "store" else {"arrays": arrays}
    client.run(forget_and_trace)
    og.sssp(graph, sources[1], **how)
    assert all(kinds == {"CpuOwnedSsspRank"} for kinds, _ in client.run(kinds_and_peak).values())
    assert not left.there
    assert np.array_equal(earlier.distance, og.sssp(graph, sources[0], device="cpu").distance)


def forget_and_trace() -> None:
    """Messages go through Dask's connections: memory that workers share is not traced."""
    Door.works = False
    engine_cache.release_idle()
    tracemalloc.start()


def kinds_and_peak() -> tuple[set[str], int]:
    """Of which classes a worker's ranks are, and what was allocated at once, at most."""
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (engine,) = engine_cache._engines.values()
    assert isinstance(engine, RankEngine)
    return {type(rank).__name__ for rank in engine.ranks.values()}, peak
