"""Searches with arcs in the store: same bytes, bounded memory, and what happens when it is hurt."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import CorruptStoreError
from ooc_graph.kernels.common.store import rows as tier_rows
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout import chunks, names
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.cpu import columns, disk
from ooc_graph.memory.cpu.plan import Plan
from ooc_graph.memory.heads import ALL, HeadRule
from ooc_graph.runtime import engine_cache
from ooc_graph.shards import tier_facts, tiers
from ooc_graph.shards.load import Graph
from tests.unit.test_build_oracle import small_steps

DEVICE = CpuDevice(2)
UNIT = 256
KERNELS = ("bfs", "sssp")


def measure(tree: Any) -> np.ndarray:
    return tree.level if hasattr(tree, "level") else tree.distance


def same(found: Any, wanted: Any) -> None:
    assert found.parent.tobytes() == wanted.parent.tobytes()
    assert measure(found).tobytes() == measure(wanted).tobytes()


@pytest.fixture(autouse=True)
def _released():
    yield
    engine_cache.release()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, int], Path]:
    """Stores of a few shards, in chunks and units so small that hubs are cut over many."""
    folder = tmp_path_factory.mktemp("tiny")
    random = np.random.default_rng(5)
    ends = (6000 * random.random((2, 30_000)) ** 3).astype(np.int64)
    weights = random.random(30_000).astype(np.float32)
    found = {}
    with small_steps(chunk=16 * UNIT) as patch:
        patch.setattr(chunks, "SIDECAR_BYTES", UNIT)
        for directed in (False, True):
            for shards in (1, 4):
                path = folder / f"{directed}-{shards}.zarr"
                given = (ends[0], ends[1], weights)
                og.build(given, path, directed=directed, shards=shards)
                found[directed, shards] = path
    return found


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SIDECAR_BYTES", UNIT)
    monkeypatch.setattr(names, "CHUNK_BYTES", 16 * UNIT)


def loaded(graph: Graph, kernel: str, rule: HeadRule, batch: int = 4, kept: int = 0, **sizes: int):
    facts = tier_facts.facts_of(graph, kernel)
    plan = Plan(facts, 0, rule, batch, kept)
    return tiers.load_tiers(graph, plan, DEVICE, **sizes)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("shards", [pytest.param(1, marks=pytest.mark.slow), 4])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_same_bytes_from_stores_of_any_form(kernel, directed, shards, stores):
    graph = Graph.open(stores[directed, shards])
    assert graph.shards == shards
    order = ORDER_OF[kernel]
    shard = graph.load(order)
    reference = getattr(DEVICE, kernel)(shard)
    whole = shard.out_hub if kernel == "bfs" else shard.out_light
    cases = [(HeadRule(1), 2, 0), (HeadRule(2, 3), 5, 40 * UNIT), (HeadRule(ALL), 4, 0)]
    for rule, batch, kept in cases:
        search = loaded(graph, kernel, rule, batch, kept, window=128, look=20)
        heads = search.sides[0].rows.heads
        assert heads.lengths.tolist() == np.diff(whole.offsets).tolist()
        assert heads.lengths.max() * 4 > 3 * batch * UNIT
        if kernel == "sssp":
            assert search.sides[0].heaviest == whole.weights.max()
        before = search.io_stats
        for root in (0, 5, graph.rows - 1):
            same(search.run(root), reference.run(root))
        io_stats = search.io_stats.since(before)
        assert (io_stats.blocks == 0) == (rule.least == ALL)
        assert (io_stats.kept_blocks > 0) == (kept > 0)
        assert io_stats.bytes <= io_stats.blocks * UNIT
        search.close()


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("batch_of", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_without_arcs_behind_whole_units(kernel, batch_of, tmp_path):
    """The rows that have no out-arcs would be in a unit after the last."""
    sources, targets = np.divmod(np.arange(batch_of * 4 * UNIT), 4 * UNIT)
    edges = sources, batch_of + targets, np.ones(len(sources), np.float32)
    with small_steps(chunk=16 * UNIT) as patch:
        patch.setattr(chunks, "SIDECAR_BYTES", UNIT)
        og.build(edges, tmp_path / "g.zarr", directed=True)
    graph = Graph.open(tmp_path / "g.zarr")
    reference = getattr(DEVICE, kernel)(graph.load(ORDER_OF[kernel]))
    search = loaded(graph, kernel, HeadRule(1), window=64)
    for root in (0, graph.rows - 1):
        same(search.run(root), reference.run(root))
    search.close()


@pytest.mark.usefixtures("tiny")
def test_a_column_is_asked_for_no_units(stores):
    graph = Graph.open(stores[False, 4])
    arrays = [f"{names.rows_path(s, 'out', names.HUB)}/neighbors" for s in range(4)]
    first = np.arange(4) * tier_rows.ALIGNED_ARCS
    column = columns.Column(graph.stored, arrays, first)
    assert list(column.runs(np.empty(0, np.int64), np.empty(0, bool))) == []


@pytest.mark.usefixtures("tiny")
def test_what_was_kept_is_not_read_again(stores):
    graph = Graph.open(stores[False, 1])
    search = loaded(graph, "bfs", HeadRule(1), 8, 1 << 20)
    search.run(3)
    before = search.io_stats
    search.run(3)
    again = search.io_stats.since(before)
    assert again.blocks == again.bytes == again.requests == 0
    assert again.kept_blocks > 0
    search.close()


@pytest.mark.usefixtures("tiny")
def test_a_unit_is_counted_as_read_or_as_kept(stores, monkeypatch):
    graph = Graph.open(stores[False, 1])
    search = loaded(graph, "sssp", HeadRule(1), 2, 1 << 20, look=20)
    given = []
    begin = disk.DiskBlocks._begin

    def count(self: Any, batch: Any, *others: Any) -> None:
        given.append(sum(map(len, batch)))
        begin(self, batch, *others)

    monkeypatch.setattr(disk.DiskBlocks, "_begin", count)
    before = search.io_stats
    search.run(3)
    io_stats = search.io_stats.since(before)
    assert io_stats.blocks + io_stats.kept_blocks == sum(given)
    assert io_stats.kept_blocks > 0
    search.close()


class Interrupted(np.ndarray):
    """Memory for units, whose filling is interrupted for a while."""

    left = 3

    def __setitem__(self, where: Any, value: Any) -> None:
        Interrupted.left -= np.size(value) > 0
        if np.size(value) and Interrupted.left == 0:
            raise KeyboardInterrupt
        super().__setitem__(where, value)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("kernel", KERNELS)
def test_an_interrupt_while_units_are_kept_leaves_what_is_right(kernel, stores, monkeypatch):
    graph = Graph.open(stores[False, 1])
    wanted = getattr(DEVICE, kernel)(graph.load(ORDER_OF[kernel])).run(1).copy()
    search = loaded(graph, kernel, HeadRule(1), 8, 1 << 20)
    blocks = search.sides[0].blocks
    blocks._kept[blocks._used * UNIT :] = 0
    blocks._kept = blocks._kept.view(Interrupted)
    for left in (1, 3, 10):
        monkeypatch.setattr(Interrupted, "left", left)
        with pytest.raises(KeyboardInterrupt):
            search_from_some(search)
        same(search.run(1), wanted)
    search.close()


@pytest.mark.usefixtures("tiny")
def test_reading_ahead_has_ended_when_an_error_arrives(stores):
    graph = Graph.open(stores[False, 1])
    search = loaded(graph, "bfs", HeadRule(1), 2, look=20)
    side = search.sides[0]
    stages = []
    stage = side.blocks.stage
    side.blocks.stage = lambda batches: stages.append(stage(batches)) or stages[-1]

    def fail(*_: Any) -> int:
        raise MemoryError

    waiting = next(side.rows.rows(np.full(2, ~np.uint64(0))))
    with pytest.raises(MemoryError) as caught:
        side.rows.scan(waiting, fail)
    assert caught.tb is not None
    assert [found.gi_frame for found in stages] == [None]
    search.close()


@pytest.mark.usefixtures("tiny")
def test_readers_end_where_loading_fails(stores, monkeypatch):
    graph = Graph.open(stores[True, 1])
    made = []
    fill = tiers._fill

    def fail_late(heads: Any, blocks: Any, window: int) -> Any:
        made.append(blocks)
        if len(made) == 2:
            raise MemoryError
        return fill(heads, blocks, window)

    monkeypatch.setattr(tiers, "_fill", fail_late)
    with pytest.raises(MemoryError):
        loaded(graph, "bfs", HeadRule(1))
    threads = [thread for blocks in made for thread in blocks._readers._threads]
    assert threads
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.usefixtures("tiny")
def test_a_file_cut_short_is_told_from_a_damaged_one(stores):
    graph = Graph.open(stores[False, 1])
    search = loaded(graph, "bfs", HeadRule(1))
    path = chunk_file(graph.path, "bfs", "neighbors")
    content = path.read_bytes()
    column = search.sides[0].blocks._columns[0]
    begin = column._parts[0].chunk_blocks
    room = memoryview(bytearray(4 * UNIT))
    try:
        path.write_bytes(content[: 2 * UNIT + 10])
        with columns.LastFile() as last:
            with pytest.raises(CorruptStoreError, match=rf"c/1: .* ends at byte {2 * UNIT + 10}, "):
                column.read(begin, room, last)
            assert column.read(begin, room[: 2 * UNIT], last) == 2 * UNIT
    finally:
        path.write_bytes(content)
    search.close()


@pytest.mark.usefixtures("tiny")
def test_what_the_system_cannot_read_has_a_name(stores, monkeypatch):
    graph = Graph.open(stores[False, 1])
    search = loaded(graph, "bfs", HeadRule(1))

    def fail(*_: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(columns.os, "preadv", fail)
    with pytest.raises(OSError, match=r"Input/output error: .*/hub/neighbors/c/\d+'"):
        search_from_some(search)
    search.close()


def search_from_some(search: Any) -> None:
    for root in range(20):
        search.run(root)


def chunk_file(store: Path, kernel: str, column: str) -> Path:
    folder = store / names.rows_path(0, "out", ORDER_OF[kernel]) / column / "c"
    return folder / "1"


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_chunk_harmed_during_searches_stops_them_by_name(kernel, harm, stores):
    graph = Graph.open(stores[False, 1])
    wanted = getattr(DEVICE, kernel)(graph.load(ORDER_OF[kernel])).run(1).copy()
    search = loaded(graph, kernel, HeadRule(1))
    path = chunk_file(graph.path, kernel, "neighbors" if kernel == "bfs" else "weights")
    content = path.read_bytes()
    try:
        if harm == "flip":
            blocks = np.frombuffer(content, np.uint8).copy()
            blocks[10::UNIT] ^= 1
            path.write_bytes(blocks.tobytes())
        elif harm == "cut":
            path.write_bytes(content[:100])
        else:
            path.unlink()
        with pytest.raises(CorruptStoreError, match=r"c/1: chunk 1 of shards/00000/out"):
            search_from_some(search)
    finally:
        path.write_bytes(content)
    same(search.run(1), wanted)
    search.close()


def test_a_harmed_sidecar_is_refused(tmp_path):
    og.build(og.Kronecker(6), tmp_path / "g.zarr")
    graph = Graph.open(tmp_path / "g.zarr")
    path = graph.path / names.sidecar_path("shards/00000/out/hub/neighbors")
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(CorruptStoreError, match="the file is damaged"):
        loaded(graph, "bfs", HeadRule(1))
    path.unlink()
    with pytest.raises(CorruptStoreError, match="is missing"):
        loaded(graph, "bfs", HeadRule(1))
