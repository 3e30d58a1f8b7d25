"""BFS on the CPU up to a level, or until some rows are reached: whole levels, and no others."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.kernels.common.wanted import Wanted
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.memory.heads import HeadRule
from ooc_graph.shards.tiny_tiers import bind_rows
from tests.strategies import Arcs, skewed, small_arcs

CPU = CpuDevice(2)
SIZES = {"block_bytes": 64, "batch_blocks": 3, "window": 64, "look": 3}


def searches_of(arcs: Arcs, heads: int) -> list:
    """In memory, and with so many arcs of each row in memory."""
    shard = arcs.shards(1)[0]
    out = bind_rows(shard.out_hub, HeadRule(heads), **SIZES)
    into = bind_rows(shard.into_hub, HeadRule(heads), **SIZES) if arcs.directed else out
    return [CPU.bfs(shard), CPU.tier_bfs(out, into)]


def require_whole_levels(arcs: Arcs, heads: int, root: int, wanted: Wanted) -> None:
    for search in searches_of(arcs, heads):
        whole = search.run(root)
        every = whole.level.copy()
        level, parent = every.copy(), whole.parent.copy()
        last = min(wanted.most, level.max())
        if len(wanted.targets) and (level[wanted.targets] >= 0).all():
            last = min(last, level[wanted.targets].max())
        beyond = level > last
        level[beyond], parent[beyond] = -1, np.iinfo(parent.dtype).max
        found = search.run(root, wanted)
        near = found.level <= last
        assert np.where(near, found.level, -1).tobytes() == level.tobytes()
        assert found.parent[near].tobytes() == parent[near].tobytes()
        if not len(wanted.targets):
            assert near.all()
        # Nothing of it is left for the next search.
        assert search.run(root).level.tobytes() == every.tobytes()


@settings(max_examples=60, deadline=None)
@given(small_arcs(), st.integers(1, 3), st.data())
def test_small_graphs(arcs: Arcs, heads: int, data: st.DataObject) -> None:
    rows = st.integers(0, arcs.vertices - 1)
    targets = np.array(data.draw(st.lists(rows, max_size=3)), np.int64)
    wanted = Wanted(data.draw(st.integers(0, 4)), targets)
    require_whole_levels(arcs, heads, data.draw(rows), wanted)


def test_a_graph_that_is_pulled_and_pushed() -> None:
    arcs = skewed(3000, 30_000, "float32", directed=False, seed=3)
    for most in range(4):
        require_whole_levels(arcs, 4, 17, Wanted(most))
    require_whole_levels(arcs, 4, 17, Wanted(targets=np.array([5, 2999])))
