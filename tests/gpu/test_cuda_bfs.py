"""BFS on a CUDA device gives the bytes of BFS on the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import UsageError
from ooc_graph.kernels.common.decisions import PULL, PUSH
from ooc_graph.kernels.cuda.bfs import search as cuda_bfs
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.types import Rows
from tests.gpu.comparison import CPU, graph
from tests.gpu.comparison import compare_bfs as compare
from tests.gpu.comparison import hub_sides as sides
from tests.gpu.comparison import same_bfs as same
from tests.gpu.graphs import GRAPHS, roots
from tests.gpu.memory import assert_refused_without_memory
from tests.strategies import Arcs, arcs_of, small_arcs

WIDE = {"NARROW_ARCS": 1}
THIN = {"THIN": 1}
NARROW = {**THIN, "BLOCK": 512, "NARROW_ARCS": 8}
FLOODED = {"FLOOD_ARCS": 500, "FLOOD_ROWS": 1 << 20}
IN_TURN = {
    **FLOODED,
    "PULL_ABOVE": 8,
    "PUSH_BELOW": 1,
    "OPEN_ROWS": 8,
    "OPEN_BELOW": 1 << 20,
}
ROUGH = {"PULL_ABOVE": 100000, "HUB_WORDS": 256, "ROUGH_WORDS": 4, "ROUGH_BELOW": 0}
VARIANTS = {
    "small shared memory": {"HUB_WORDS": 256},
    "nothing is narrow": WIDE,
    "narrow": THIN,
    "some is narrow": {**THIN, "NARROW_ARCS": 700},
    "lists of the frontier": {**WIDE, "OPEN_ROWS": 64, "PUSH_BELOW": 2},
    "floods": {**WIDE, **FLOODED, "PULL_ABOVE": 2},
    "floods and lists": {**WIDE, **FLOODED, "PULL_ABOVE": 2, "OPEN_ROWS": 64, "PUSH_BELOW": 2},
    "pull at once": {**WIDE, "PULL_ABOVE": 100000, "OPEN_ROWS": 64},
    "pull only": {**WIDE, "PULL_ABOVE": 100000, "PUSH_BELOW": 1 << 20, "OPEN_BELOW": 1 << 20},
    "push always": {**WIDE, "PULL_ABOVE": 0, "PUSH_BELOW": 0},
    "pull and push in turn": {**WIDE, **IN_TURN},
    "narrow, pull and push in turn": {**NARROW, **IN_TURN},
    "floods between pulls": {
        **WIDE,
        "FLOOD_ARCS": 3,
        "FLOOD_ROWS": 1 << 20,
        "PUSH_BELOW": 0,
        "OPEN_ROWS": 1,
        "OPEN_BELOW": 1 << 20,
    },
    "rough frontiers": {**WIDE, **ROUGH},
    "narrow, rough frontiers": {**NARROW, **ROUGH},
    "few arcs are pushed": {**WIDE, **IN_TURN, "PULL_ABOVE": 0, "MOST_SHARED_ARCS": 700},
    "few rows are entered": {**WIDE, **IN_TURN, "PULL_ABOVE": 0, "MOST_ENTRIES": 300},
    "lists of open rows": {**THIN, "OPEN_BELOW": 32, "PUSH_BELOW": 0},
    "lists of open rows, wide": {**WIDE, "OPEN_BELOW": 32, "PUSH_BELOW": 0},
}


@pytest.mark.parametrize("name", GRAPHS)
def test_same_bytes_as_the_cpu(name: str) -> None:
    compare(graph(name), roots(GRAPHS[name]()))


@settings(max_examples=150, deadline=None)
@given(small_arcs(), st.data())
def test_small_graphs(arcs: Arcs, data: st.DataObject) -> None:
    compare(arcs.shards(1)[0], [data.draw(st.integers(0, arcs.vertices - 1)) for _ in range(2)])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["kronecker 16", "skewed, directed", "star", "grid"])
def test_every_way_through_the_kernel(
    variant: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = cuda_bfs.constants

    def changed(*arguments: object, **options: object) -> dict:
        return {**usual(*arguments, **options), **VARIANTS[variant]}  # type: ignore[arg-type]

    monkeypatch.setattr(cuda_bfs, "constants", changed)
    compare(graph(name), roots(GRAPHS[name]()))


@pytest.mark.parametrize("limit", ["MOST_SHARED_ARCS", "MOST_ENTRIES"])
def test_frontiers_too_large_for_a_push_are_pulled(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lowered limits stand in for 2^32 - 2^20 arcs, and for 2^28 - 1 rows that a level enters."""
    usual, most = cuda_bfs.constants, 200
    pushes = {**WIDE, **IN_TURN, "FLOOD_ARCS": (1 << 32) - 1, "PULL_ABOVE": 0}

    def changed(*arguments: object, **options: object) -> dict:
        return {**usual(*arguments, **options), **pushes, limit: most}  # type: ignore[arg-type]

    monkeypatch.setattr(cuda_bfs, "constants", changed)
    shard = graph("kronecker 14")
    degree = np.diff(sides(shard)[0].offsets.astype(np.int64))
    tree = CudaBfsSearch(*sides(shard)).run(5)
    same(tree, CPU.bfs(shard).run(5))
    directions = tree.level_direction.tolist()
    assert PULL in directions
    for level, direction in enumerate(directions[1:], 1):  # the root is pushed in any case
        size = degree[tree.level == level].sum()
        if limit == "MOST_ENTRIES":
            left = (tree.level < 0).sum() + (tree.level > level).sum()
            size = min(size, left)
        assert direction == PULL or size <= most


def test_more_levels_than_there_was_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # A path, and a star apart, for which levels of one byte do. Its hub is a long row.
    ends = np.arange(2000), np.arange(1, 2001)
    ends = np.append(ends[0], np.full(40, 2001)), np.append(ends[1], np.arange(2002, 2042))
    arcs = arcs_of(*ends, np.ones(2040, np.float32), directed=False)
    monkeypatch.setitem(cuda_bfs.FIRST_TRACED, cuda_bfs.INT_LEVELS, 300)
    shard = arcs.shards(1)[0]
    search, cpu = CudaBfsSearch(*sides(shard)), CPU.bfs(shard)
    assert cpu.run(0).level.max() == 1
    same(search.run(0), cpu.run(0))
    assert search.run_on_device(0).level.dtype == np.uint8
    deepest = int(np.argmax(cpu.run(1).level))
    same(search.run(deepest), cpu.run(deepest))
    assert search.run_on_device(deepest).level.dtype == np.int32
    same(search.run(1), cpu.run(1))


def test_short_rows_have_wide_levels_from_the_start() -> None:
    ends = np.arange(600), np.arange(1, 601)
    shard = arcs_of(*ends, np.ones(600, np.float32), directed=False).shards(1)[0]
    search = CudaBfsSearch(*sides(shard))
    assert search.run_on_device(0).level.dtype == np.int32
    same(search.run(0), CPU.bfs(shard).run(0))


@pytest.mark.parametrize("arcs", [4, 5, 8, 9, 28, 29, 32])
def test_rows_at_the_limits_of_places(arcs: int) -> None:
    # A chain of stars: their hubs have so many arcs, or fewer at both ends.
    hubs = np.arange(50)
    leaves = 50 + np.arange(50 * (arcs - 2))
    u = np.concatenate([hubs[:-1], np.repeat(hubs, arcs - 2)])
    v = np.concatenate([hubs[1:], leaves])
    shard = arcs_of(u, v, np.ones(len(u), np.float32), directed=False).shards(1)[0]
    compare(shard, [0, 10, len(shard.out_hub.offsets) - 2])


def test_course_of_a_search() -> None:
    shard = graph("kronecker 16")
    out = sides(shard)[0]
    degree = np.diff(out.offsets.astype(np.int64))
    counted = CudaBfsSearch(*sides(shard))
    plain = CudaBfsSearch(*sides(shard), count_arcs=False)
    tree, other = counted.run(5), plain.run(5)
    assert {PUSH, PULL} == set(tree.level_direction.tolist())
    assert 0 < tree.level_arcs.sum() < len(out.neighbors) / 2
    assert tree.elapsed_s > 0
    for level, direction in enumerate(tree.level_direction.tolist()):
        if direction == PUSH:
            found = degree[tree.level == level].sum()
            assert tree.level_arcs[level] == other.level_arcs[level] == found
        else:
            assert tree.level_arcs[level] > 0
            assert other.level_arcs[level] == -1
    same(replace(other, level_arcs=tree.level_arcs), CPU.bfs(shard).run(5))


@pytest.mark.parametrize("name", ["kronecker 14", "skewed, directed", "path", "pieces"])
def test_answers_on_the_device_are_named_by_original_ids(name: str) -> None:
    shard = graph(name)
    rows = shard.dealing.rows
    original_of = np.random.default_rng(1).permutation(rows + 17)[:rows]
    search = CudaBfsSearch(*sides(shard), original_of=original_of)
    internal = CudaBfsSearch(*sides(shard))
    none = np.iinfo(np.uint32).max
    for root in (0, rows - 1, rows // 3):
        held, tree = search.run_on_device(root), CPU.bfs(shard).run(root)
        parent, level = held.parent.get(), held.level.get().astype(np.int64)
        level[level == 255] = -1 if held.level.dtype == np.uint8 else 255
        reached = tree.level >= 0
        assert (parent[reached] == original_of[tree.parent[reached]]).all()
        assert (parent[~reached] == none).all()
        assert level.tolist() == tree.level.tolist()
        assert held.elapsed_s > 0
        same(search.run(root), tree)
        assert internal.run_on_device(root).parent.get().tolist() == tree.parent.tolist()


def test_rows_on_the_device_are_taken_as_they_are() -> None:
    import cupy

    out = sides(graph("kronecker 10"))[0]
    held = Rows(cupy.asarray(out.offsets), cupy.asarray(out.neighbors))  # type: ignore[arg-type]
    same(CudaBfsSearch(held, held).run(3), CudaBfsSearch(out, out).run(3))


def test_searches_run_on_the_stream_of_the_caller() -> None:
    import cupy

    shard = graph("kronecker 14")
    with cupy.cuda.Stream(non_blocking=True):
        compare(shard, [0, 77])


def test_refusals() -> None:
    out = sides(graph("kronecker 8"))[0]
    search = CudaBfsSearch(out, out)
    rows = len(out.offsets) - 1
    for root in (-1, rows):
        with pytest.raises(UsageError, match="is not one of the graph's"):
            search.run(root)
    wide = Rows(out.offsets, out.neighbors.astype(np.uint64))
    with pytest.raises(UsageError, match="uint32, not uint64"):
        CudaBfsSearch(wide, wide)
    with pytest.raises(UsageError, match="original ids were given"):
        CudaBfsSearch(out, out, original_of=np.arange(rows - 1))
    for strange in (-1, 1 << 32):
        with pytest.raises(UsageError, match="named by original ids"):
            CudaBfsSearch(out, out, original_of=np.full(rows, strange))


def test_too_little_memory_is_said_and_nothing_is_left() -> None:
    out = sides(graph("kronecker 16"))[0]
    assert_refused_without_memory(
        lambda: CudaBfsSearch(out, out), 8 << 20, "BFS of this graph does not fit the device"
    )
