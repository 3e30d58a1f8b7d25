"""BFS: fused on one rank and as coroutines over many, against a deque."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import UsageError
from ooc_graph.kernels.common.bitmap import pack_bits
from ooc_graph.kernels.common.decisions import (
    FIXED_ARCS,
    FIXED_ID_BITS,
    PULL,
    PUSH,
    BfsTree,
    choose_direction,
    fixed_rows_pay,
    rows_are_short,
    stays_listed,
    team_pays,
)
from ooc_graph.kernels.common.tuning import LIST_ARCS, SHORT_ROW
from ooc_graph.kernels.cpu.bfs.list_level import LONG
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.traverse.bfs import FEW_ARCS, bfs
from ooc_graph.types import Dealing, Rows, Shard
from tests import local_exchange, oracles
from tests.strategies import Arcs, arcs_of, grid, skewed, small_arcs

DEVICES = {threads: CpuDevice(threads) for threads in (1, 2, 3)}


def ranked(
    arcs: Arcs,
    shards: int,
    root: int,
    threads: int = 1,
    ids: str = "uint32",
    supersteps: int | None = None,
) -> BfsTree:
    """Parents and levels by P coroutines, brought into global order."""
    device, parts = DEVICES[threads], arcs.shards(shards, ids)
    shared = device.bfs_shared(arcs.vertices, shards)
    trees, stats = local_exchange.run(
        [bfs(device.bfs_rank(part), root, shared) for part in parts], shared, shards
    )
    assert supersteps in (stats.supersteps, None)
    parent, level = np.empty(arcs.vertices, ids), np.empty(arcs.vertices, np.int32)
    for part, tree in zip(parts, trees, strict=True):
        mine = part.dealing.internal_of(np.arange(part.dealing.rows))
        parent[mine], level[mine] = tree.parent, tree.level
    first = trees[0]
    return BfsTree(
        parent, level, 0.0, first.level_vertices, first.level_arcs, first.level_direction
    )


def same(a: BfsTree, b: BfsTree) -> None:
    assert a.parent.dtype == b.parent.dtype
    assert a.parent.tobytes() == b.parent.tobytes()
    assert a.level.tobytes() == b.level.tobytes()
    assert a.level_vertices.tolist() == b.level_vertices.tolist()
    assert a.level_direction.tolist() == b.level_direction.tolist()
    assert a.level_arcs.tolist() == b.level_arcs.tolist()


def check(tree: BfsTree, arcs: Arcs, root: int) -> None:
    parent, level = oracles.bfs(arcs.lists(), root)
    none = np.iinfo(tree.parent.dtype).max
    assert tree.level.tolist() == level
    assert tree.parent.tolist() == [none if p < 0 else p for p in parent]
    assert tree.level_vertices.tolist() == np.bincount([x for x in level if x >= 0]).tolist()


@settings(max_examples=120, deadline=None)
@given(small_arcs(), st.sampled_from([1, 2, 8]), st.sampled_from([1, 2]), st.data())
def test_small_graphs(arcs, shards, threads, data):
    root = data.draw(st.integers(0, arcs.vertices - 1))
    tree = DEVICES[threads].bfs(arcs.shards(1)[0]).run(root)
    check(tree, arcs, root)
    # No rank pushes ahead of the direction, some do, or all.
    for few in (-1, 2, FEW_ARCS):
        with patch("ooc_graph.traverse.bfs.FEW_ARCS", few):
            same(ranked(arcs, shards, root, threads), tree)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("ids", ["uint32", pytest.param("uint64", marks=pytest.mark.slow)])
def test_graphs_of_many_blocks(directed, ids):
    arcs = skewed(30_000, 150_000, "float32", directed=directed, seed=3)
    assert arcs.vertices > 16 * 1024
    searches = {t: d.bfs(arcs.shards(1, ids)[0]) for t, d in DEVICES.items()}
    for root in (0, 17, arcs.vertices // 2, arcs.vertices - 1):
        tree = searches[1].run(root)
        check(tree, arcs, root)
        same(searches[2].run(root), tree)
        same(searches[3].run(root), tree)
        for shards in (1, 2, 4, 8):
            same(ranked(arcs, shards, root, 2, ids), tree)


def test_both_directions_are_taken():
    arcs = skewed(30_000, 300_000, "float32", directed=False, seed=5)
    tree = DEVICES[2].bfs(arcs.shards(1)[0]).run(arcs.vertices - 1)
    assert set(tree.level_direction.tolist()) == {PUSH, PULL}
    assert tree.level_arcs.sum() < len(arcs.source) / 2


@pytest.mark.slow
def test_wide_frontiers_pushed_by_all_threads(monkeypatch):
    """A level with many arcs, yet not enough to pull: the push runs on all threads."""
    random = np.random.default_rng(1)
    hub, leaves = np.zeros(3000, np.int64), np.arange(1, 3001)
    spread = random.integers(1, 3001, 30_000), random.integers(3001, 900_000, 30_000)
    far = random.integers(3001, 900_000, (2, 1_500_000))
    source = np.concatenate([hub, spread[0], far[0]])
    target = np.concatenate([leaves, spread[1], far[1]])
    arcs = arcs_of(source, target, np.ones(len(source), np.float32), directed=False)
    root = int(arcs.tuples.argmax())
    trees = [DEVICES[t].bfs(arcs.shards(1)[0]).run(root).copy() for t in (1, 2, 3)]
    assert ((trees[0].level_direction == PUSH) & (trees[0].level_arcs > 8192)).any()
    check(trees[0], arcs, root)
    same(trees[1], trees[0])
    same(trees[2], trees[0])


@pytest.mark.parametrize("threads", [1, 2])
def test_long_thin_graphs(threads):
    arcs = grid(70, "float32")
    tree = DEVICES[threads].bfs(arcs.shards(1)[0]).run(arcs.vertices - 1)
    check(tree, arcs, arcs.vertices - 1)
    path = np.arange(3000)
    line = arcs_of(path[:-1], path[1:], np.ones(2999, np.float32), directed=True)
    start = oracles.reverse(line.lists()).index([])
    tree = DEVICES[threads].bfs(line.shards(1)[0]).run(start)
    check(tree, line, start)
    assert len(tree.level_vertices) == 3000
    # A thin level takes one superstep, and one tells that there is no other.
    same(ranked(line, 2, start, supersteps=3001), tree)
    with patch("ooc_graph.traverse.bfs.FEW_ARCS", -1):
        same(ranked(line, 2, start, supersteps=6001), tree)


def test_star_and_repeated_searches_leave_nothing_behind():
    star = arcs_of(np.zeros(5000, int), np.arange(1, 5001), np.ones(5000, "f4"), directed=False)
    search = DEVICES[2].bfs(star.shards(1)[0])
    for root in (0, 4999, 0, 1):
        check(search.run(root), star, root)


def test_copy_outlives_the_next_run():
    search = DEVICES[1].bfs(grid(10, "float32").shards(1)[0])
    live = search.run(3)
    kept = live.copy()
    search.run(50)
    assert kept.parent[3] == 3
    assert kept.level[50] > 0
    assert live.level[50] == 0


def regular(vertices: int, degree: int, *, directed: bool, seed: int) -> Arcs:
    """About ``degree`` random arcs a vertex and no hubs: levels that widen fast."""
    random = np.random.default_rng(seed)
    source = np.tile(np.arange(vertices), degree)
    target = random.permutation(source)
    return arcs_of(source, target, np.ones(len(source), "f4"), directed=directed)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("directed", [False, True])
def test_short_rows_begin_on_a_list_and_go_on_with_bitmaps(threads, directed):
    arcs = regular(60_000, 6, directed=directed, seed=11)
    assert np.bincount(arcs.source).max() <= SHORT_ROW
    assert np.bincount(arcs.target).max() <= SHORT_ROW
    tree = DEVICES[threads].bfs(arcs.shards(1)[0]).run(7)
    check(tree, arcs, 7)
    assert PULL in tree.level_direction
    assert (tree.level_arcs[tree.level_direction == PUSH] > 0).all()
    same(ranked(arcs, 4, 7), tree)


def test_a_list_too_wide_for_one_thread_is_pushed_by_all():
    """A level above `LIST_ARCS` that still pushes: wide, yet a small part of the graph."""
    whole = regular(400_000, 3, directed=False, seed=2)
    part = whole.shards(1)[0]
    plain = DEVICES[1].bfs(part)
    plain._list = None
    tree = plain.run(5)
    pushed = tree.level_arcs[tree.level_direction == PUSH]
    assert (pushed > LIST_ARCS).any()
    for device in DEVICES.values():
        same(device.bfs(part).run(5), tree)


def test_a_symmetric_digraph_is_searched_along_one_set_of_rows():
    arcs = grid(80, "float32")
    both = replace(arcs, directed=True)
    search = DEVICES[2].bfs(both.shards(1)[0])
    assert search._into.neighbors is search._out.neighbors
    same(search.run(9), DEVICES[1].bfs(arcs.shards(1)[0]).run(9))
    one_way = replace(both, source=arcs.source[1:], target=arcs.target[1:], weight=arcs.weight[1:])
    search = DEVICES[2].bfs(one_way.shards(1)[0])
    assert search._into.neighbors is not search._out.neighbors
    check(search.run(9), one_way, 9)


def test_a_list_starts_again_at_its_front():
    """A grid of more rows than `MOVE_TO_FRONT` on one list, from a corner and from its middle."""
    arcs = grid(300, "float32")
    search = DEVICES[1].bfs(arcs.shards(1)[0])
    for root in (arcs.vertices - 1, arcs.vertices // 2, 0):
        tree = search.run(root)
        assert set(tree.level_direction.tolist()) == {PUSH}
        check(tree, arcs, root)


def test_small_graphs_do_not_wake_other_threads():
    device = CpuDevice(2)
    arcs = grid(20, "float32")
    search = device.bfs(arcs.shards(1)[0])
    device._team.launch = None  # type: ignore[assignment, method-assign]
    check(search.run(3), arcs, 3)


@pytest.mark.parametrize("directed", [False, True])
def test_light_rows_alone_are_refused(directed):
    whole = grid(5, "float32").shards(1)[0]
    light = replace(whole, directed=directed, out_hub=None if not directed else whole.out_hub)
    light = replace(light, into_hub=None)
    with pytest.raises(UsageError, match="hub-first"):
        DEVICES[1].bfs(light)
    with pytest.raises(UsageError, match="hub-first"):
        DEVICES[1].bfs_rank(light)


def test_a_shard_of_many_is_refused_as_a_whole_graph():
    part = grid(70, "float32").shards(2)[1]
    with pytest.raises(UsageError, match="shard 1 of 2"):
        DEVICES[1].bfs(part)


def test_graph_of_one_row_without_arcs():
    rows = Rows(np.zeros(2, np.uint64), np.empty(0, np.uint32))
    lonely = Shard(Dealing(1), False, np.zeros(1, np.uint32), rows)
    tree = DEVICES[1].bfs(lonely).run(0)
    assert (tree.parent.tolist(), tree.level.tolist()) == ([0], [0])


def test_direction_is_pulled_through_the_middle():
    assert choose_direction(PUSH, 1, 3, 1_000_000, 50_000) == PUSH
    assert choose_direction(PUSH, 900, 200_000, 800_000, 50_000) == PULL
    assert choose_direction(PULL, 30_000, 300_000, 100_000, 50_000) == PULL
    assert choose_direction(PULL, 40, 60, 50, 50_000) == PUSH


@given(st.integers(1, 10**6), st.integers(0, 10**8), st.integers(0, 10**8), st.integers(0, 10**8))
def test_an_upper_bound_of_the_arcs_is_enough_to_stay_on_the_list(frontier, arcs, more, rest):
    """If the bound stays, with the surplus taken off the unvisited arcs, so does the count."""
    vertices, left = 10**6, arcs + more + rest
    bound = arcs + more
    direction = choose_direction(PUSH, frontier, bound, left - bound, vertices)
    if stays_listed(direction, bound):
        assert stays_listed(choose_direction(PUSH, frontier, arcs, left - arcs, vertices), arcs)


def test_lists_are_for_short_rows_and_small_frontiers():
    assert rows_are_short(8, SHORT_ROW)
    assert not rows_are_short(8, SHORT_ROW + 1)
    assert not rows_are_short(SHORT_ROW + 1, 8)
    assert stays_listed(PUSH, LIST_ARCS)
    assert not stays_listed(PUSH, LIST_ARCS + 1)
    assert not stays_listed(PULL, 1)
    assert team_pays(200_000, 600_000)
    assert not team_pays(4_000, 180_000)


def same_as_ranks(arcs: Arcs, root: int, threads: int = 1) -> BfsTree:
    """A whole search, checked against the oracle and against four ranks."""
    tree = DEVICES[threads].bfs(arcs.shards(1)[0]).run(root)
    check(tree, arcs, root)
    same(ranked(arcs, 4, root), tree)
    return tree


def without(arcs: Arcs, position: int) -> Arcs:
    """The same, directed, but for one arc."""
    columns = {
        name: np.delete(getattr(arcs, name), position) for name in ("source", "target", "weight")
    }
    return replace(arcs, directed=True, **columns)


@pytest.mark.parametrize("position", [0, 1234, -1])
def test_nearly_symmetric_graphs_are_not_taken_for_symmetric(position):
    """One arc is missing: at the front, in the middle, at the end of the rows."""
    arcs = grid(40, "float32")
    one_way = without(arcs, position)
    search = DEVICES[1].bfs(one_way.shards(1)[0])
    assert search._list[2] is False
    for root in (int(arcs.source[position]), int(arcs.target[position]), 700):
        check(search.run(root), one_way, root)
    # As many arcs in each row, but other neighbours: a ring of three beside its reverse.
    rings = arcs_of([0, 1, 2, 3, 4, 5], [1, 2, 0, 5, 3, 4], np.ones(6, "f4"), directed=True)
    search = DEVICES[1].bfs(rings.shards(1)[0])
    assert search._list[2] is False
    for root in range(6):
        check(search.run(root), rings, root)


def spiky(directed: bool) -> Arcs:
    """A grid on which some vertices have 5 to 30 leaves more: rows longer than a fixed place."""
    base = grid(60, "float32")
    hubs = np.repeat(np.arange(0, 3600, 150), np.arange(24) + 3)
    leaves = 3600 + np.arange(len(hubs))
    source, target = np.concatenate([base.source, hubs]), np.concatenate([base.target, leaves])
    if directed:
        source, target = np.concatenate([source, leaves]), np.concatenate([target, hubs])
        source, target = np.delete(source, 77), np.delete(target, 77)
    return arcs_of(source, target, np.ones(len(source), "f4"), directed=directed)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("ids", ["uint32", "uint64"])
def test_rows_longer_than_their_place(directed, ids):
    arcs = spiky(directed)
    search = DEVICES[1].bfs(arcs.shards(1, ids)[0])
    counts = np.bincount(arcs.source)
    assert FIXED_ARCS < counts.max() <= SHORT_ROW
    assert len(search._list[0].fixed) == (0 if ids == "uint64" else 2 * arcs.vertices)
    for root in (0, 5, arcs.vertices // 2, arcs.vertices - 1):
        tree = search.run(root)
        check(tree, arcs, root)
        same(ranked(arcs, 4, root, ids=ids), tree)


def test_fixed_places_hold_the_rows():
    arcs = spiky(directed=False)
    rows = DEVICES[1].bfs(arcs.shards(1)[0])._list[0]
    lists = arcs.lists()
    for row, (first, second) in enumerate(rows.fixed.reshape(-1, 2).tolist()):
        count, neighbors = first >> 61, [v for v, _ in lists[row]]
        if len(neighbors) > FIXED_ARCS:
            assert count == LONG
            continue
        ids = [first & 0x1FFFFFFF_FFFFFFFF, second]
        held = [half for word in ids for half in (word & 0xFFFFFFFF, word >> 32)]
        assert count == len(neighbors)
        assert sorted(held[:count]) == sorted(neighbors)
        assert held[:count] == neighbors
        assert held[count:] == [row] * (FIXED_ARCS - count)


@pytest.mark.parametrize("directed", [False, True])
def test_more_levels_than_16_bits_count(directed):
    """A path of 70,000 vertices whose ids are shuffled, from one end; and from its middle."""
    count = 70_000
    path = np.random.default_rng(4).permutation(count)
    arcs = arcs_of(path[:-1], path[1:], np.ones(count - 1, "f4"), directed=directed)
    search = DEVICES[1].bfs(arcs.shards(1)[0])
    ends = np.flatnonzero(np.bincount(arcs.target, minlength=count) == int(not directed))
    tree = search.run(int(ends[0]))
    check(tree, arcs, int(ends[0]))
    assert tree.level.max() == count - 1
    assert len(tree.level_vertices) == count
    middle = int(np.flatnonzero(tree.level == 40_000)[0])
    check(search.run(middle), arcs, middle)


def test_wide_ladders_and_what_stands_apart():
    """Levels on both sides of `FEW`, pieces that are not reached, a root without arcs."""
    wide = grid(30, "float32")
    ladder = 900 + np.arange(400).reshape(200, 2)
    source = np.concatenate([wide.source, ladder[:-1].ravel(), ladder[:, 0]])
    target = np.concatenate([wide.target, ladder[1:].ravel(), ladder[:, 1]])
    whole = arcs_of(source, target, np.ones(len(source), "f4"), directed=False)
    search = DEVICES[2].bfs(whole.shards(1)[0])
    for root in (0, whole.vertices - 1, whole.vertices // 2, 3):
        tree = search.run(root)
        check(tree, whole, root)
        assert 0 < (tree.level >= 0).sum() < whole.vertices
    same_as_ranks(whole, 0, 2)
    lonely = replace(whole, vertices=whole.vertices + 2, tuples=np.append(whole.tuples, [0, 0]))
    for root in (lonely.vertices - 1, 0, lonely.vertices - 2):
        tree = DEVICES[1].bfs(lonely.shards(1)[0]).run(root)
        check(tree, lonely, root)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 300), st.booleans(), st.sampled_from([1, 2]))
def test_random_thin_graphs(seed, vertices, directed, threads):
    """Chains with shortcuts: short rows, many levels, pieces, one-way arcs."""
    random = np.random.default_rng(seed)
    order = random.permutation(vertices)
    keep = random.random(vertices - 1) < 0.97
    reach = random.integers(1, 9, vertices // 2)
    start = random.integers(0, vertices, vertices // 2)
    source = np.concatenate([order[:-1][keep], order[start]])
    target = np.concatenate([order[1:][keep], order[(start + reach) % vertices]])
    if directed and seed % 2:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    if not (source != target).any():
        return
    arcs = arcs_of(source, target, np.ones(len(source), "f4"), directed=directed)
    search = DEVICES[threads].bfs(arcs.shards(1)[0])
    for root in random.integers(0, arcs.vertices, 3).tolist():
        tree = search.run(root)
        check(tree, arcs, root)
        same(ranked(arcs, 2, root), tree)


def test_fixed_places_are_for_rows_that_fit():
    assert fixed_rows_pay(1000, 4000, 125)
    assert not fixed_rows_pay(1000, 4000, 126)
    assert not fixed_rows_pay(1000, 4001, 0)
    assert fixed_rows_pay(1 << FIXED_ID_BITS, 1, 0)
    assert not fixed_rows_pay((1 << FIXED_ID_BITS) + 1, 1, 0)


def test_bytes_of_copied_rows():
    """A head of each row; on thin graphs a fixed place as well, once where in- are out-rows."""
    arcs = skewed(500, 4000, "int32", directed=False, seed=3)
    search = DEVICES[1].bfs(arcs.shards(1)[0])
    assert (search._into.heads.nbytes, search._list) == (4 * arcs.vertices, None)
    thin = grid(30, "int32")
    search = DEVICES[1].bfs(thin.shards(1)[0])
    out, into, *_ = search._list
    assert search._into.heads.nbytes + out.fixed.nbytes == (4 + 16) * thin.vertices
    assert into.fixed is out.fixed


def test_frontiers_are_dealt_into_that_of_all_rows():
    """Bits of levels before are gone."""
    vertices, shards = 50_000, 4
    random = np.random.default_rng(3)
    shared = DEVICES[1].bfs_shared(vertices, shards)
    for found in (30_000, 2, 0, 40):
        chosen = random.choice(vertices, found, replace=False)
        flags = np.zeros(vertices, bool)
        flags[chosen] = True
        own = [flags[Dealing(vertices, shards, shard).owned()] for shard in range(shards)]
        shared.merge([(pack_bits(mine),) for mine in own])
        words = pack_bits(flags)
        assert shared.frontier[: len(words)].tolist() == words.tolist()
        assert not shared.frontier[len(words) :].any()
