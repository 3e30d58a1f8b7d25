"""What searches ask of pinned host memory is counted."""

from __future__ import annotations

import numpy as np
import pytest

from ooc_graph.kernels.common.decisions import PULL
from ooc_graph.kernels.cuda.bfs import search as cuda_bfs
from ooc_graph.kernels.cuda.pinned.bfs import BfsHold, CudaTierBfsSearch
from ooc_graph.kernels.cuda.pinned.sssp import CudaTierSsspSearch, SsspHold
from ooc_graph.kernels.cuda.runtime.bus import SECTOR_BYTES
from ooc_graph.types import Shard
from tests.gpu.asked import bounds, pulled, root_pushed
from tests.gpu.comparison import CPU, graph, hub_sides, same_sssp
from tests.gpu.comparison import same_bfs as same
from tests.gpu.test_cuda_bfs import VARIANTS
from tests.gpu.test_cuda_tiers import light_sides, sides
from tests.strategies import arcs_of

FLOODS = {"FLOOD_ARCS": 500, "FLOOD_ROWS": 1 << 20, "PULL_ABOVE": 0, "PUSH_BELOW": 0}
WAYS = {
    **{name: VARIANTS[name] for name in ("push always", "pull at once", "pull and push in turn")},
    "usual": {},
    "floods": {**FLOODS, "OPEN_ROWS": 1},
}


def use(monkeypatch: pytest.MonkeyPatch, constants: dict) -> None:
    usual = cuda_bfs.constants
    monkeypatch.setattr(cuda_bfs, "constants", lambda *a, **k: {**usual(*a, **k), **constants})


def counting(name: str, columns: int, held: int) -> CudaTierBfsSearch:
    return CudaTierBfsSearch(*sides(graph(name)), BfsHold(columns, held, held), count_bus=True)


@pytest.mark.parametrize("held", [10, 700])  # so that each row has one stretch outside
@pytest.mark.parametrize("columns", [0, 1, 3])
@pytest.mark.parametrize("name", ["skewed", "skewed, directed"])
def test_rows_that_are_pulled_are_counted(
    name: str, columns: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, VARIANTS["pull only"])
    both, first = hub_sides(graph(name)), 1 + 4 * columns
    search, cpu = counting(name, columns, held), CPU.bfs(graph(name))
    for root in (5000, 3, 5000):
        tree = search.run(root)
        same(tree, cpu.run(root))
        assert set(tree.level_direction[1:].tolist()) == {PULL}
        expected = root_pushed(both[0], root, held)
        for step in range(2, len(tree.level_direction) + 1):
            expected += pulled(both[1], tree.level, step, first, held)
        assert search.asked_bytes == SECTOR_BYTES * expected


@pytest.mark.parametrize("columns", [0, 2])
@pytest.mark.parametrize("way", WAYS)
def test_all_ways_are_counted_within_bounds(
    way: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, WAYS[way])
    for name in ("skewed", "skewed, directed"):
        search, cpu = counting(name, columns, 100), CPU.bfs(graph(name))
        for root in (0, 5000, 12_000):
            tree = search.run(root)
            same(tree, cpu.run(root))
            least, most = bounds(hub_sides(graph(name)), tree, 1 + 4 * columns, 100)
            asked = search.asked_bytes
            assert asked is not None
            assert least <= asked // SECTOR_BYTES <= most, (name, root)
            assert asked % SECTOR_BYTES == 0


def test_rows_on_the_device_are_not_counted() -> None:
    shard = graph("skewed")
    search = counting("skewed", 2, shard.dealing.rows)
    same(search.run(5000), CPU.bfs(shard).run(5000))
    assert search.asked_bytes == 0
    plain = CudaTierBfsSearch(*sides(shard), BfsHold(2))
    plain.run(5000)
    assert plain.asked_bytes is None


def test_deeper_searches_count_all_their_launches() -> None:
    # More levels than a byte tells: the search is made again, and both are counted.
    shard = graph("path")
    search = counting("path", 0, 0)
    once, _ = bounds(hub_sides(shard), search.run(0), 1, 0)
    assert search.asked_bytes is not None
    first = search.asked_bytes
    search.run(0)
    again = search.asked_bytes
    assert again is not None
    assert SECTOR_BYTES * once <= again < first


def star_beside_a_ring(leaves: int, ring: int) -> Shard:
    """A star, whose hub is row 0, and apart from it a ring of rows that have 16 arcs each."""
    at = 1 + leaves + np.arange(ring)
    ahead = 1 + leaves + (np.arange(ring)[:, None] + np.arange(1, 9)) % ring
    source = np.concatenate([np.zeros(leaves, np.int64), np.repeat(at, 8)])
    target = np.concatenate([1 + np.arange(leaves), ahead.reshape(-1)])
    weight = np.random.default_rng(4).random(len(source)).astype(np.float32)
    return arcs_of(source, target, weight, directed=False).shards(1)[0]


def test_sssp_counts_what_is_outside() -> None:
    # So little of the graph is reached that all of it is pushed: each of the hub's arcs once at
    # least, neighbour and weight. Only the hub has arcs outside.
    leaves, least = 250, 5
    shard = star_beside_a_ring(leaves, 200_000)
    outside, cpu = leaves - least, CPU.sssp(shard)
    search = CudaTierSsspSearch(*light_sides(shard), SsspHold(least, 63), count_bus=True)
    for _ in range(2):
        tree = search.run(0)
        same_sssp(tree, cpu.run(0))
        assert tree.phase_arcs["pull"] == 0
        assert search.asked_bytes is not None
        # A bound is raised once for an arc at most, and then the hub looks at 4 times 32 arcs at
        # most, two words of each. Three times its arcs are offered for parents.
        most = 2 * outside * (1 + 3) + outside * 4 * 32 * 2
        assert 2 * -(-outside // 8) <= search.asked_bytes // SECTOR_BYTES <= most
    whole = CudaTierSsspSearch(*light_sides(shard), SsspHold(least, 0), count_bus=True)
    same_sssp(whole.run(0), cpu.run(0))
    assert whole.asked_bytes == 0


def test_sssp_counts_on_graphs_of_all_kinds() -> None:
    for name in ("kronecker 14", "dense, directed", "plateaus, directed"):
        shard, asked = graph(name), []
        for held in (SsspHold(5, 63), SsspHold(5, 1), SsspHold(5, 0)):
            search = CudaTierSsspSearch(*light_sides(shard), held, count_bus=True)
            same_sssp(search.run(1), CPU.sssp(shard).run(1))
            asked.append(search.asked_bytes)
        assert asked[0] > 0
        assert asked[2] == 0
