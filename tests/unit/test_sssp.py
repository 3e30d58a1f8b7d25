"""SSSP: fused on one rank and as coroutines over many, against Dijkstra in the same arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import InputError, UsageError
from ooc_graph.exchange.ranks import run_in_process
from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.common.dealt import WHOLE
from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.sssp.distances import sums_may_overflow
from ooc_graph.kernels.common.sssp.plateaus import Plateau, list_lacking, resolve_plateaus
from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import DEAL_BLOCK, INT64_UNREACHED, Rows, Shard
from tests import local_exchange, oracles
from tests.gpu.ranked import CommonSteps
from tests.strategies import (
    FAR_SEEDS,
    WEIGHTS,
    Arcs,
    absorbing,
    arcs_of,
    far_arcs,
    grid,
    skewed,
    small_arcs,
    too_far_at_first,
)

DEVICES = {threads: CpuDevice(threads) for threads in (1, 2, 3)}


def distance_dtype(arcs: Arcs) -> np.dtype:
    return arcs.weight.dtype if arcs.weight.dtype.kind == "f" else np.dtype(np.int64)


def ranked(
    arcs: Arcs,
    shards: int,
    root: int,
    ids: str = "uint32",
    *,
    without_inner: int = 0,
    are_joined: bool = False,
) -> SsspTree:
    """Parents and distances by P coroutines, brought into global order.

    The first ``without_inner`` ranks have the steps of every device alone. Joined ones see at once
    what others find.
    """
    device, parts = DEVICES[1], arcs.shards(shards, ids)
    shared = device.sssp_shared(arcs.vertices, distance_dtype(arcs))
    ranks = [device.sssp_rank(part) for part in parts]
    ranks[:without_inner] = map(CommonSteps, ranks[:without_inner])
    coroutines = [sssp(rank, root, shared) for rank in ranks]
    if are_joined:
        trees = run_in_process(dict(enumerate(coroutines)), shared)
        assert shared.is_joined == (not without_inner)
    else:
        trees, _ = local_exchange.run(coroutines, shared, shards)
    parent = np.empty(arcs.vertices, ids)
    distance = np.empty(arcs.vertices, distance_dtype(arcs))
    for part, tree in zip(parts, trees, strict=True):
        mine = part.dealing.internal_of(np.arange(part.dealing.rows))
        parent[mine], distance[mine] = tree.parent, tree.distance
    return SsspTree(parent, distance, 0.0, trees[0].phase_arcs)


def same(a: SsspTree, b: SsspTree) -> None:
    assert a.distance.dtype == b.distance.dtype
    assert a.distance.tobytes() == b.distance.tobytes()
    assert a.parent.tobytes() == b.parent.tobytes()


def check(tree: SsspTree, arcs: Arcs, root: int) -> None:
    graph, dtype = arcs.lists(), distance_dtype(arcs)
    best = oracles.distances(graph, root, dtype)
    parent = oracles.sssp_parents(graph, root, best, dtype)
    far = np.inf if dtype.kind == "f" else INT64_UNREACHED
    expected = np.array([far if d is None else d for d in best], dtype)
    assert tree.distance.tobytes() == expected.tobytes()
    none = np.iinfo(tree.parent.dtype).max
    assert tree.parent.tolist() == [none if p < 0 else p for p in parent]


@pytest.mark.parametrize("dtype", WEIGHTS)
def test_small_graphs(dtype):
    @settings(max_examples=60, deadline=None)
    @given(small_arcs(dtype), st.sampled_from([1, 2, 8]), st.sampled_from([1, 2]), st.data())
    def run(arcs, shards, threads, data):
        root = data.draw(st.integers(0, arcs.vertices - 1))
        tree = DEVICES[threads].sssp(arcs.shards(1)[0]).run(root)
        check(tree, arcs, root)
        same(ranked(arcs, shards, root), tree)
        same(ranked(arcs, shards, root, are_joined=True), tree)

    run()


@pytest.mark.parametrize(
    ("dtype", "directed", "ids"),
    [
        ("float32", False, "uint32"),
        ("float32", True, "uint32"),
        ("float64", True, "uint32"),
        ("int32", False, "uint32"),
        ("int64", True, "uint32"),
        # Compiles all for another type of ids.
        pytest.param("float32", False, "uint64", marks=pytest.mark.slow),
    ],
)
def test_graphs_of_many_blocks(dtype, directed, ids):
    arcs = skewed(24_000, 140_000, dtype, directed=directed, seed=3)
    assert arcs.vertices > 16 * 1024
    searches = {t: d.sssp(arcs.shards(1, ids)[0]) for t, d in DEVICES.items()}
    for root in (0, arcs.vertices // 2, arcs.vertices - 1):
        tree = searches[1].run(root)
        check(tree, arcs, root)
        same(searches[2].run(root), tree)
        same(searches[3].run(root), tree)
        for shards in (1, 2, 8):
            same(ranked(arcs, shards, root, ids), tree)


def test_pulling_reads_a_small_part_of_a_skewed_graph():
    arcs = skewed(12_000, 300_000, "float32", directed=False, seed=5)
    tree = DEVICES[2].sssp(arcs.shards(1)[0]).run(arcs.vertices - 1)
    check(tree, arcs, arcs.vertices - 1)
    assert tree.phase_arcs["pull"] > 0
    assert sum(tree.phase_arcs.values()) < len(arcs.source) / 2


def test_ranks_push_the_inner_vertices_if_all_can():
    """It saves them arcs, and a rank of a device that cannot does not part from the others."""
    arcs = skewed(24_000, 600_000, "float32", directed=False, seed=5)
    root = arcs.vertices - 1
    alone = DEVICES[1].sssp(arcs.shards(1)[0]).run(root)
    found = {lacking: ranked(arcs, 2, root, without_inner=lacking) for lacking in range(3)}
    same(ranked(arcs, 2, root, without_inner=1, are_joined=True), found[1])
    for tree in found.values():
        same(tree, alone)
        assert tree.phase_arcs["pull"] > 0
    parents = {lacking: tree.phase_arcs["parents"] for lacking, tree in found.items()}
    assert parents[0] < 1.1 * alone.phase_arcs["parents"]
    assert parents[1] == parents[2] > 2 * parents[0]


@pytest.mark.parametrize("dtype", WEIGHTS)
def test_grid_is_pushed_to_the_end(dtype):
    arcs = grid(60, dtype)
    tree = DEVICES[2].sssp(arcs.shards(1)[0]).run(1234)
    check(tree, arcs, 1234)
    assert tree.phase_arcs["pull"] == 0
    same(ranked(arcs, 4, 1234), tree)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("value", [0, 3])
def test_equal_weights(dtype, value):
    arcs = skewed(3000, 9000, dtype, directed=False, seed=2)
    arcs = replace(arcs, weight=np.full_like(arcs.weight, value))
    tree = DEVICES[2].sssp(arcs.shards(1)[0]).run(11)
    check(tree, arcs, 11)
    same(ranked(arcs, 2, 11), tree)


def test_absorbed_weights_make_plateaus():
    """Beyond 2^24 a float32 swallows a weight of 1: parents go by hops inside the plateau."""
    arcs, root = absorbing()
    tree = DEVICES[2].sssp(arcs.shards(1)[0]).run(root)
    check(tree, arcs, root)
    same(ranked(arcs, 2, root), tree)
    assert len(set(tree.distance.tolist())) < 20


def test_ids_on_plateaus_are_not_cut():
    """More rows than 16 bits tell apart, each of them a hop behind the last."""
    rows = (1 << 16) + 40
    vertex = np.arange(rows, dtype=np.uint32)
    neighbors = np.stack([vertex - 1, vertex + 1], axis=1).ravel()[1:-1].copy()
    offsets = np.r_[0, np.arange(1, 2 * rows - 2, 2), 2 * rows - 2]
    weights = np.zeros(len(neighbors), np.float32)
    path = LightRows(offsets, neighbors, weights, weights[:0])
    parent = np.full(rows, np.iinfo(np.uint32).max, np.uint32)
    parent[0] = 0
    lacking, queue = np.zeros(words_for(rows), np.uint64), np.empty(rows, np.uint32)
    distance = np.zeros(rows, np.float32)
    plateau = Plateau(distance, parent, lacking, queue, np.float32(np.inf), WHOLE)
    assert list_lacking(plateau) == rows - 1
    assert resolve_plateaus(path, path, plateau, rows - 1) == 0
    assert parent[1:].tolist() == list(range(rows - 1))


@pytest.mark.parametrize("last", [0, 1, 2])
def test_sums_around_the_largest_int64(last):
    """One below the top is a distance; the top itself, which says unreached, is refused."""
    arcs = arcs_of([0, 1, 2], [1, 2, 3], np.array([2**62, 2**62 - 2, last]), directed=True)
    root = oracles.reverse(arcs.lists()).index([])
    search = DEVICES[1].sssp(arcs.shards(1)[0])
    if last == 0:
        check(search.run(root), arcs, root)
        same(ranked(arcs, 2, root), search.run(root))
        return
    if last == 1:
        assert max(oracles.distances(arcs.lists(), root, np.dtype(np.int64))) == 2**63 - 1
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        search.run(root)
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        ranked(arcs, 2, root)


def test_overflow_off_the_shortest_paths_is_no_error():
    big = 2**63 - 2
    arcs = arcs_of([0, 1, 0, 2], [1, 2, 2, 1], np.array([big, big, 5, 6]), directed=True)
    root = oracles.reverse(arcs.lists()).index([])
    check(DEVICES[1].sssp(arcs.shards(1)[0]).run(root), arcs, root)
    same(ranked(arcs, 2, root), DEVICES[1].sssp(arcs.shards(1)[0]).run(root))


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_a_vertex_that_is_too_far_on_one_way_is_reached_on_another(dtype):
    """Pulls that reach nothing new, since sums overflow, are not the last that do."""
    arcs = too_far_at_first(dtype)
    for root in range(arcs.vertices):
        tree = DEVICES[1].sssp(arcs.shards(1)[0]).run(root)
        check(tree, arcs, root)
        for shards in (1, 2):
            same(ranked(arcs, shards, root, are_joined=True), tree)


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_sums_that_are_too_long_on_many_ways(dtype):
    refused, far = 0, np.inf if dtype == "float32" else INT64_UNREACHED
    for seed in FAR_SEEDS:
        arcs = far_arcs(dtype, seed)
        search = DEVICES[1].sssp(arcs.shards(1)[0])
        for root in range(arcs.vertices):
            distances = oracles.distances(arcs.lists(), root, distance_dtype(arcs))
            if max(d for d in distances if d is not None) >= far:
                refused += 1
                with pytest.raises(InputError, match="exceeds the largest"):
                    search.run(root)
            else:
                tree = search.run(root)
                check(tree, arcs, root)
                same(ranked(arcs, 2, root, are_joined=True), tree)
    assert refused


def test_overflow_is_found_by_a_rank_whose_own_arcs_are_light():
    """The path comes over heavy arcs of another rank."""
    far, size = DEAL_BLOCK + 7, 2 * DEAL_BLOCK
    source, target = np.array([0, 1, far]), np.array([1, far, 2])
    weight = np.array([2**62, 2**62 - 10, 100])
    arcs = Arcs(size, source, target, weight, np.ones(size, np.int64), directed=True)
    assert [len(s.out_light.neighbors) for s in arcs.shards(2)] == [2, 1]
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        ranked(arcs, 2, 0)


@pytest.mark.parametrize(("dtype", "advice"), [("f4", "use float64"), ("f8", "scale them down")])
def test_float_sums_that_overflow_are_refused(dtype, advice):
    huge = 0.9 * float(np.finfo(dtype).max)
    arcs = arcs_of([0, 1, 2], [1, 2, 3], np.array([huge, huge, 1], dtype), directed=True)
    root = oracles.reverse(arcs.lists()).index([])
    with pytest.raises(InputError, match=f"exceeds the largest float.*{advice}"):
        DEVICES[2].sssp(arcs.shards(1)[0]).run(root)
    with pytest.raises(InputError, match=f"exceeds the largest float.*{advice}"):
        ranked(arcs, 2, root)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_float_sums_near_the_largest_are_distances(dtype):
    """The heaviest arc and the longest distance add up to infinity, but no path does."""
    large = 0.4 * float(np.finfo(dtype).max)
    weight = np.array([large, large, 0, large, 1.5 * large], dtype)
    arcs = arcs_of([0, 1, 2, 3, 0], [1, 2, 3, 1, 3], weight, directed=True)
    root = oracles.reverse(arcs.lists()).index([])
    tree = DEVICES[2].sssp(arcs.shards(1)[0]).run(root)
    with np.errstate(over="ignore"):
        check(tree, arcs, root)
    same(ranked(arcs, 2, root), tree)


def test_rows_whose_weights_have_no_mean_are_searched_without_a_warning():
    """Of two of the first rows, or of their middle arcs, the weights add up to infinity."""
    path = np.arange(200)
    arcs = arcs_of(path, path + 1, np.full(200, 0.9 * np.finfo("f8").max), directed=True)
    last_but_one = int(arcs.source[arcs.target == arcs.lists().index([])][0])
    check(DEVICES[1].sssp(arcs.shards(1)[0]).run(last_but_one), arcs, last_but_one)


@pytest.mark.parametrize("dtype", WEIGHTS)
def test_overflow_is_looked_for_only_where_it_can_happen(dtype):
    kind = distance_dtype(Arcs(1, *([np.zeros(1, dtype)] * 4), True))
    top = np.finfo(kind).max if kind.kind == "f" else np.iinfo(kind).max
    assert not sums_may_overflow(255, 1 << 33, kind)
    assert sums_may_overflow(top, 2, kind)
    assert sums_may_overflow(top / 4, 4, kind)


def test_arcs_that_contradict_each_other_are_no_endless_loop():
    """Vertex 1 is reached over an arc of weight zero that its own in-arcs do not have."""
    whole = arcs_of([0], [1], np.zeros(1, np.float32), directed=True).shards(1)[0]
    into = whole.into_light
    none = Rows(np.zeros_like(into.offsets), into.neighbors[:0], into.weights[:0])
    torn = replace(whole, into_light=none)
    root = int(np.argmax(np.diff(whole.out_light.offsets)))
    with pytest.raises(AssertionError, match="1 reached vertices have no parent"):
        DEVICES[1].sssp(torn).run(root)
    shared = DEVICES[1].sssp_shared(2, np.dtype(np.float32))
    with pytest.raises(AssertionError, match="1 reached vertices have no neighbor on a path"):
        local_exchange.run([sssp(DEVICES[1].sssp_rank(torn), root, shared)], shared, 1)


def test_copy_outlives_the_next_run():
    search = DEVICES[1].sssp(grid(10, "float64").shards(1)[0])
    live = search.run(3)
    kept = live.copy()
    search.run(50)
    assert (kept.parent[3], kept.distance[3]) == (3, 0.0)
    assert live.distance[50] == 0.0
    assert kept.distance[50] > 0.0


def test_hub_rows_alone_are_refused():
    whole = grid(5, "float32").shards(1)[0]
    with pytest.raises(UsageError, match="light-first"):
        DEVICES[1].sssp(Shard(whole.dealing, False, whole.tuples, whole.out_hub))


def test_a_vertex_named_twice_waits_until_it_leaves():
    shared = DEVICES[1].sssp_shared(200, np.dtype("float32"))
    none = np.empty(0, np.uint32)
    shared.merge([(np.array([70, 3, 70], np.uint32), none), (np.array([3], np.uint32), none)])
    assert shared.waiting.tolist() == [8, 64, 0, 0]
    shared.merge([(none, np.array([3, 3], np.uint32)), (none, none)])
    assert shared.waiting.tolist() == [0, 64, 0, 0]
