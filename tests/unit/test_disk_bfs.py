"""BFS by a device's steps on rows in a store: the same bytes, and what is planned for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.kernels.common.bitmap import pack_bits
from ooc_graph.kernels.common.decisions import PULL, PUSH
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.store.bfs_search import DiskBfsSearch
from ooc_graph.memory.heads import HeadRule
from ooc_graph.shards.tiny_tiers import bind_rows
from tests.disk_steps import PlainSteps
from tests.strategies import Arcs, skewed, small_arcs

CPU = CpuDevice(1)
SIZES = {"block_bytes": 128, "batch_blocks": 3, "window": 128, "look": 5}


def stored(rows, **sizes) -> TierRows:
    """Rows of which nothing is in memory, but for their lengths."""
    bound = bind_rows(rows, HeadRule(1), **sizes)
    none = bound.heads.neighbors[:0]
    heads = bound.heads._replace(starts=np.empty(0, np.int32), neighbors=none, first=none)
    return TierRows(heads, bound._blocks, len(bound.window.row), sizes["look"])


def search_of(arcs: Arcs, columns: int, hubs: int = 0, **sizes) -> tuple[DiskBfsSearch, PlainSteps]:
    shard = arcs.shards(1)[0]
    out = stored(shard.out_hub, **sizes)
    into = stored(shard.into_hub, **sizes) if arcs.directed else out
    cut = shard.out_hub.offsets[1:-1].astype(np.int64)
    whole = np.split(shard.out_hub.neighbors, cut)[:hubs]
    steps = PlainSteps(out.heads.lengths, into.heads.lengths, columns, whole)
    hub = shard.into_hub if arcs.directed else shard.out_hub
    offsets = hub.offsets.astype(np.int64)
    for row in range(arcs.vertices):
        held = hub.neighbors[offsets[row] : offsets[row + 1]][: steps.loaded]
        steps._held[row, : len(held)] = held
    return DiskBfsSearch(steps, out, into), steps


def same(found, wanted) -> None:
    assert found.parent.tobytes() == wanted.parent.tobytes()
    assert found.level.tobytes() == wanted.level.tobytes()
    assert found.level_vertices.tolist() == wanted.level_vertices.tolist()
    for course in ("level_vertices", "level_arcs", "level_direction"):
        assert getattr(found, course).dtype == getattr(wanted, course).dtype


@settings(max_examples=100, deadline=None)
@given(
    small_arcs(),
    st.integers(0, 2),
    st.sampled_from([0, 1, 5]),
    st.sampled_from([8, 64]),
    st.integers(2, 5),
    st.sampled_from([1, 3, 1024]),
    st.data(),
)
def test_small_graphs(arcs, columns, hubs, block_bytes, batch_blocks, look, data):
    root = data.draw(st.integers(0, arcs.vertices - 1))
    sizes = {"block_bytes": block_bytes, "batch_blocks": batch_blocks, "window": 64, "look": look}
    search, _ = search_of(arcs, columns, hubs, **sizes)
    wanted = CPU.bfs(arcs.shards(1)[0]).run(root)
    for _ in range(2):  # what the first leaves behind is no matter
        same(search.run(root), wanted)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("columns", "hubs"), [(0, 0), (2, 20)])
def test_graphs_with_hubs_cut_over_many_units(columns, hubs, directed):
    arcs = skewed(3000, 30_000, "float32", directed=directed, seed=3)
    search, steps = search_of(arcs, columns, hubs, **SIZES)
    reference = CPU.bfs(arcs.shards(1)[0])
    ways = set()
    for root in (0, 17, arcs.vertices // 2, arcs.vertices - 1):
        found, wanted = search.run(root), reference.run(root)
        same(found, wanted)
        ways |= set(found.level_direction.tolist())
        assert found.level_direction.tolist() == wanted.level_direction.tolist()
        pushed = found.level_direction == PUSH
        assert found.level_arcs[pushed].tolist() == wanted.level_arcs[pushed].tolist()
    assert ways == {PUSH, PULL}
    assert steps.pushed
    assert steps.pulled


def test_rows_are_listed_beyond_what_is_at_hand():
    arcs = skewed(1000, 20_000, "float32", directed=False, seed=3)
    rows = stored(arcs.shards(1)[0].out_hub, **SIZES)
    lengths = rows.heads.lengths
    chosen = np.random.default_rng(1).random(len(lengths)) < 0.7
    for cursor in (0, 5, 29, int(lengths.max())):
        listed = []
        for waiting in rows.tails(pack_bits(chosen), rows.loaded(cursor)):
            assert 0 < waiting <= len(rows.window.row)
            assert (rows.window.cursor[:waiting] == cursor).all()
            listed += rows.window.row[:waiting].tolist()
        assert listed == np.flatnonzero(chosen & (lengths > cursor)).tolist()
