"""Searches of rows of which only the heads are in memory: the same bytes as with all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.kernels.common.decisions import PULL, PUSH
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.store import bfs as tier_bfs
from ooc_graph.memory.heads import ALL, HeadRule
from ooc_graph.shards.tiny_tiers import bind_rows, ring_search, search_of
from tests import oracles
from tests.oracles import refused_by_both
from tests.strategies import (
    FAR_SEEDS,
    WEIGHTS,
    Arcs,
    arcs_of,
    far_arcs,
    grid,
    skewed,
    small_arcs,
    too_far_at_first,
)

DEVICES = {threads: CpuDevice(threads) for threads in (1, 2)}
RULES = (HeadRule(1), HeadRule(2), HeadRule(4), HeadRule(1, 2), HeadRule(3, 1), HeadRule(ALL))


def bound(arcs: Arcs, kernel: str, rule: HeadRule, threads: int, ids: str = "uint32", **sizes):
    """Search of a graph with its heads in memory, and those rows."""
    shard = arcs.shards(1, ids)[0]
    order = "hub" if kernel == "bfs" else "light"
    rows, into = getattr(shard, f"out_{order}"), getattr(shard, f"into_{order}")
    out = bind_rows(rows, rule, **sizes)
    pulled = bind_rows(into, rule, **sizes) if arcs.directed else out
    return search_of(kernel, out, pulled, rows, shard.tuples, DEVICES[threads]), out


def same(found, wanted) -> None:
    assert found.parent.dtype == wanted.parent.dtype
    assert found.parent.tobytes() == wanted.parent.tobytes()
    if hasattr(wanted, "level"):
        assert found.level.tobytes() == wanted.level.tobytes()
        for course in ("level_vertices", "level_arcs", "level_direction"):
            assert getattr(found, course).tolist() == getattr(wanted, course).tolist()
            assert getattr(found, course).dtype == getattr(wanted, course).dtype
    else:
        assert found.distance.dtype == wanted.distance.dtype
        assert found.distance.tobytes() == wanted.distance.tobytes()


SIZES = st.fixed_dictionaries(
    {
        "block_bytes": st.sampled_from([8, 16, 64]),
        "batch_blocks": st.integers(2, 5),
        "window": st.sampled_from([64, 128]),
        "look": st.sampled_from([1, 3, 1024]),
    }
)


@settings(max_examples=150, deadline=None)
@given(small_arcs(), st.sampled_from(RULES), SIZES, st.sampled_from([1, 2]), st.data())
def test_bfs_on_small_graphs(arcs, rule, sizes, threads, data):
    root = data.draw(st.integers(0, arcs.vertices - 1))
    search, _ = bound(arcs, "bfs", rule, threads, **sizes)
    wanted = DEVICES[threads].bfs(arcs.shards(1)[0]).run(root)
    same(search.run(root), wanted)
    assert wanted.level.tolist() == oracles.bfs(arcs.lists(), root)[1]


@pytest.mark.parametrize("empty", ["out", "into"])
def test_sssp_needs_the_first_arc_of_every_row(empty):
    shard = skewed(100, 500, "float32", directed=True, seed=1).shards(1)[0]
    rules = {"out": HeadRule(1), "into": HeadRule(1), empty: HeadRule(0)}
    out, into = bind_rows(shard.out_light, rules["out"]), bind_rows(shard.into_light, rules["into"])
    with pytest.raises(ValueError, match="first arc of every row"):
        search_of("sssp", out, into, shard.out_light, shard.tuples, DEVICES[1])


# Each type compiles the kernels for itself.
@pytest.mark.parametrize(
    "dtype",
    [
        dtype if dtype == "float32" else pytest.param(dtype, marks=pytest.mark.slow)
        for dtype in WEIGHTS
    ],
)
def test_sssp_on_small_graphs(dtype):
    @settings(max_examples=100, deadline=None)
    @given(small_arcs(dtype), st.sampled_from(RULES), SIZES, st.sampled_from([1, 2]), st.data())
    def check(arcs, rule, sizes, threads, data):
        root = data.draw(st.integers(0, arcs.vertices - 1))
        search, _ = bound(arcs, "sssp", rule, threads, **sizes)
        same(search.run(root), DEVICES[threads].sssp(arcs.shards(1)[0]).run(root))

    check()


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("ids", ["uint32", pytest.param("uint64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_graphs_with_hubs_cut_over_many_units(kernel, ids, directed):
    arcs = skewed(30_000, 200_000, "float32", directed=directed, seed=3)
    reference = getattr(DEVICES[2], kernel)(arcs.shards(1, ids)[0])
    for rule in (HeadRule(1), HeadRule(4), HeadRule(2, 4)):
        search, rows = bound(
            arcs, kernel, rule, 2, ids, block_bytes=512, batch_blocks=3, window=192, look=50
        )
        assert rows.heads.lengths.max() * np.dtype(ids).itemsize > 3 * 3 * 512
        for root in (0, 17, arcs.vertices // 2, arcs.vertices - 1):
            same(search.run(root), reference.run(root))


def test_both_directions_read_units():
    arcs = skewed(30_000, 300_000, "float32", directed=False, seed=5)
    search, rows = bound(arcs, "bfs", HeadRule(2), 2, block_bytes=512)
    tree = search.run(arcs.vertices - 1)
    assert set(tree.level_direction.tolist()) == {PUSH, PULL}
    units = len(arcs.source) * 4 // 512
    assert 0 < rows._blocks.given < units
    wide, _ = bound(arcs, "bfs", HeadRule(2), 2, block_bytes=512, narrow="int64")
    same(wide.run(arcs.vertices - 1), tree)
    whole, rows = bound(arcs, "bfs", HeadRule(ALL), 2, block_bytes=512)
    same(whole.run(arcs.vertices - 1), tree)
    assert rows._blocks.given == 0


def test_levels_of_a_long_path_are_pushed_together(monkeypatch):
    """As long as their rows are in memory; then from a list of those that are not."""
    count, random = 2000, np.random.default_rng(3)
    named = random.permutation(count)
    arcs = arcs_of(named[:-1], named[1:], np.ones(count - 1, np.float32), directed=False)
    reference = DEVICES[1].bfs(arcs.shards(1)[0])
    calls = []
    push = tier_bfs.push_levels
    monkeypatch.setattr(tier_bfs, "push_levels", lambda *given: calls.append(given) or push(*given))
    monkeypatch.setattr(tier_bfs, "TRACE_LEVELS", 300)
    for rule in (HeadRule(ALL), HeadRule(2), HeadRule(1)):
        search, _ = bound(arcs, "bfs", rule, 1)
        for root in (int(named[0]), int(named[700])):
            calls.clear()
            same(search.run(root), reference.run(root))
            levels = len(search.run(root).level_arcs)
            if rule.least > 1:
                assert len(calls) == 2 * -(-levels // 300)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("int64", marks=pytest.mark.slow)])
def test_long_thin_graphs_and_plateaus(dtype):
    arcs = grid(30, dtype)
    arcs.weight[arcs.weight > np.median(arcs.weight)] = 0
    by = np.lexsort((arcs.target, arcs.weight, arcs.source))
    ends = np.minimum(arcs.source, arcs.target), np.maximum(arcs.source, arcs.target)
    weights = (ends[0] * 31 + ends[1] * 17) % 3
    arcs = Arcs(
        arcs.vertices,
        arcs.source[by],
        arcs.target[by],
        weights[by].astype(dtype),
        arcs.tuples,
        False,
    )
    for rule in (HeadRule(1), HeadRule(2)):
        search, _ = bound(arcs, "sssp", rule, 2, block_bytes=16, look=1)
        for root in (0, arcs.vertices - 1):
            same(search.run(root), DEVICES[1].sssp(arcs.shards(1)[0]).run(root))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", pytest.param("int64", marks=pytest.mark.slow)])
def test_deep_plateaus_are_gone_over_once(dtype, directed, monkeypatch):
    """Ladders of weight zero, thousands of hops deep, with steps that are not on any plateau."""
    depth, random = 2000, np.random.default_rng(7)
    ends = np.concatenate([np.arange(depth - 1), np.arange(depth - 3), np.arange(depth - 1)])
    steps = np.repeat([1, 3, 1], [depth - 1, depth - 3, depth - 1])
    weights = np.repeat([0, 0, 1], [depth - 1, depth - 3, depth - 1])
    weights[random.random(len(ends)) < 0.002] = 5
    named = random.permutation(depth)
    arcs = arcs_of(named[ends], named[ends + steps], weights.astype(dtype), directed=directed)
    reference = DEVICES[1].sssp(arcs.shards(1)[0])
    for rule in (HeadRule(1), HeadRule(2), HeadRule(ALL)):
        search, _ = bound(arcs, "sssp", rule, 2, block_bytes=64, look=2)
        into, windows = search._into, []
        rows = into.rows

        def count(bits, rows=rows, windows=windows):
            windows.append(len(bits))
            return rows(bits)

        monkeypatch.setattr(into, "rows", count)
        for root in range(0, depth, depth // 4):
            windows.clear()
            same(search.run(root), reference.run(root))
            assert len(windows) < 20


def test_sums_that_overflow_are_refused():
    big = np.finfo(np.float32).max / 2
    arcs = arcs_of(
        [0, 0, 0, 1, 1, 2, 3],
        [1, 2, 3, 2, 4, 5, 5],
        np.array([big, big, 1, big, big, big, 1], np.float32) * np.float32(1.2),
        directed=True,
    )
    search, _ = bound(arcs, "sssp", HeadRule(1), 1, look=1)
    reference = DEVICES[1].sssp(arcs.shards(1)[0])
    assert refused_by_both(search, reference, same, arcs.vertices)


def test_a_vertex_that_is_too_far_on_one_way_is_reached_on_another():
    arcs = too_far_at_first("int64")
    search, _ = bound(arcs, "sssp", HeadRule(1), 1, look=1)
    reference = DEVICES[1].sssp(arcs.shards(1)[0])
    for root in range(arcs.vertices):
        same(search.run(root), reference.run(root))


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_sums_that_are_too_long_on_many_ways(dtype):
    refused = 0
    for seed in FAR_SEEDS:
        arcs = far_arcs(dtype, seed)
        search, _ = bound(arcs, "sssp", HeadRule(1), 1, look=1)
        reference = DEVICES[1].sssp(arcs.shards(1)[0])
        refused += refused_by_both(search, reference, same, arcs.vertices)
    assert refused


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_ring_that_compiles_kernels_takes_all_common_ways(kernel):
    weights = None if kernel == "bfs" else "float32"
    search = ring_search(kernel, False, np.dtype(np.uint32), weights, DEVICES[2])
    tree = search.run(0)
    places = np.arange(len(tree.parent))
    distance = np.minimum(places, len(places) - places)
    if kernel == "bfs":
        changes = np.diff(tree.level_direction)
        assert set(changes.tolist()) == {-1, 0, 1}
        assert tree.level.tolist() == (-(-distance // 3)).tolist()
        assert set(tree.level_direction.tolist()) == {PUSH, PULL}
    else:
        assert tree.distance.tolist() == distance.tolist()
        assert all(tree.phase_arcs[phase] > 0 for phase in ("push", "pull", "parents"))
    assert search._into._blocks.given > 0
