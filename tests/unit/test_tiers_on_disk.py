"""Searches with arcs in the store: same bytes, bounded memory, and what happens when it is hurt."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import CorruptStoreError, MemoryBudgetError
from ooc_graph.kernels import tier_rows
from ooc_graph.kernels.cpu import CpuDevice
from ooc_graph.layout import chunks, names
from ooc_graph.memory import disk
from ooc_graph.memory.plan import (
    ALL,
    RESERVE_BYTES,
    Facts,
    HeadRule,
    Lengths,
    Plan,
    describe,
    least_bytes,
    plan_disk,
    rules,
)
from ooc_graph.session import choice, here, loading, place, resident
from ooc_graph.session import tiers as session_tiers
from ooc_graph.session.warmup import TIERS, warm
from ooc_graph.shards import tiers
from ooc_graph.shards.load import Graph
from tests.command_line import call
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process
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
    resident.release()


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
    facts = tiers.facts_of(graph, kernel)
    plan = Plan(facts, 0, rule, batch, kept)
    return tiers.load_tiers(graph, plan, DEVICE, 0.5, **sizes)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("shards", [pytest.param(1, marks=pytest.mark.slow), 4])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_same_bytes_from_stores_of_any_form(kernel, directed, shards, stores):
    graph = Graph.open(stores[directed, shards])
    assert graph.shards == shards
    order = resident.ORDER_OF[kernel]
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
        before = search.moved
        for root in (0, 5, graph.rows - 1):
            same(search.run(root), reference.run(root))
        moved = search.moved.since(before)
        assert (moved.units == 0) == (rule.least == ALL)
        assert (moved.kept_units > 0) == (kept > 0)
        assert moved.bytes <= moved.units * UNIT
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
    reference = getattr(DEVICE, kernel)(graph.load(resident.ORDER_OF[kernel]))
    search = loaded(graph, kernel, HeadRule(1), window=64)
    for root in (0, graph.rows - 1):
        same(search.run(root), reference.run(root))
    search.close()


@pytest.mark.usefixtures("tiny")
def test_a_column_is_asked_for_no_units(stores):
    graph = Graph.open(stores[False, 4])
    arrays = [f"{names.rows_path(s, 'out', names.HUB)}/neighbors" for s in range(4)]
    first = np.arange(4) * tier_rows.ALIGNED_ARCS
    column = disk._Column(graph.stored, arrays, first)
    assert list(column.runs(np.empty(0, np.int64), np.empty(0, bool))) == []


@pytest.mark.usefixtures("tiny")
def test_what_was_kept_is_not_read_again(stores):
    graph = Graph.open(stores[False, 1])
    search = loaded(graph, "bfs", HeadRule(1), 8, 1 << 20)
    search.run(3)
    before = search.moved
    search.run(3)
    again = search.moved.since(before)
    assert again.units == again.bytes == again.requests == 0
    assert again.kept_units > 0
    search.close()


@pytest.mark.usefixtures("tiny")
def test_a_unit_is_counted_as_read_or_as_kept(stores, monkeypatch):
    graph = Graph.open(stores[False, 1])
    search = loaded(graph, "sssp", HeadRule(1), 2, 1 << 20, look=20)
    given = []
    begin = disk.DiskUnits._begin

    def count(self: Any, batch: Any, *others: Any) -> None:
        given.append(sum(map(len, batch)))
        begin(self, batch, *others)

    monkeypatch.setattr(disk.DiskUnits, "_begin", count)
    before = search.moved
    search.run(3)
    moved = search.moved.since(before)
    assert moved.units + moved.kept_units == sum(given)
    assert moved.kept_units > 0
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
    wanted = getattr(DEVICE, kernel)(graph.load(resident.ORDER_OF[kernel])).run(1).copy()
    search = loaded(graph, kernel, HeadRule(1), 8, 1 << 20)
    units = search.sides[0].units
    units._kept[units._used * UNIT :] = 0
    units._kept = units._kept.view(Interrupted)
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
    stage = side.units.stage
    side.units.stage = lambda batches: stages.append(stage(batches)) or stages[-1]

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

    def fail_late(heads: Any, units: Any, window: int) -> Any:
        made.append(units)
        if len(made) == 2:
            raise MemoryError
        return fill(heads, units, window)

    monkeypatch.setattr(tiers, "_fill", fail_late)
    with pytest.raises(MemoryError):
        loaded(graph, "bfs", HeadRule(1))
    threads = [thread for units in made for thread in units._readers._threads]
    assert threads
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.usefixtures("tiny")
def test_a_file_cut_short_is_told_from_a_damaged_one(stores):
    graph = Graph.open(stores[False, 1])
    search = loaded(graph, "bfs", HeadRule(1))
    path = chunk_file(graph.path, "bfs", "neighbors")
    content = path.read_bytes()
    column = search.sides[0].units._columns[0]
    begin = column._parts[0].chunk_units
    room = memoryview(bytearray(4 * UNIT))
    try:
        path.write_bytes(content[: 2 * UNIT + 10])
        with disk.LastFile() as last:
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

    monkeypatch.setattr(disk.os, "preadv", fail)
    with pytest.raises(OSError, match=r"Input/output error: .*/hub/neighbors/c/\d+'"):
        search_from_some(search)
    search.close()


def search_from_some(search: Any) -> None:
    for root in range(20):
        search.run(root)


def chunk_file(store: Path, kernel: str, column: str) -> Path:
    folder = store / names.rows_path(0, "out", resident.ORDER_OF[kernel]) / column / "c"
    return folder / "1"


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_chunk_harmed_during_searches_stops_them_by_name(kernel, harm, stores):
    graph = Graph.open(stores[False, 1])
    wanted = getattr(DEVICE, kernel)(graph.load(resident.ORDER_OF[kernel])).run(1).copy()
    search = loaded(graph, kernel, HeadRule(1))
    path = chunk_file(graph.path, kernel, "neighbors" if kernel == "bfs" else "weights")
    content = path.read_bytes()
    try:
        if harm == "flip":
            units = np.frombuffer(content, np.uint8).copy()
            units[10::UNIT] ^= 1
            path.write_bytes(units.tobytes())
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


@pytest.fixture(scope="module")
def kronecker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kronecker") / "g.zarr"
    og.build(og.Kronecker(15, edge_factor=64), path)
    return path


def least_of(graph: Graph, kernel: str) -> int:
    return least_bytes(tiers.facts_of(graph, kernel))


@pytest.mark.parametrize("kernel", ["bfs", pytest.param("sssp", marks=pytest.mark.slow)])
def test_limits_of_any_size_give_the_same_answer_or_say_what_would_do(
    kernel, kronecker, tmp_path, monkeypatch, capsys
):
    graph = og.open(kronecker)
    source = int(graph.original_of()[9])
    out = tmp_path / "r.zarr"
    words = (kernel, kronecker, "--source", source, "--out", out, "--device", "cpu", "--overwrite")
    least = least_of(graph, kernel)
    whole = choice.resident_bytes(graph, kernel)
    ended = call(monkeypatch, capsys, *words)
    assert (ended.code, "of the arcs in memory" in ended.err) == (0, False)
    wanted = (out / "manifest.json").read_bytes()
    for limit in (least, (least + whole) // 2, whole - 1):
        ended = call(monkeypatch, capsys, *words, "--memory-limit", limit)
        assert ended.code == 0
        assert ended.err.count(f"{kernel} held ") == 1
        assert (out / "manifest.json").read_bytes() == wanted
    ended = call(monkeypatch, capsys, *words, "--memory-limit", least - 1)
    assert ended.code == 2
    assert f"needs at least {least:,} bytes" in ended.err
    assert (out / "manifest.json").read_bytes() == wanted


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_plan_command_says_what_a_search_does(kernel, kronecker, monkeypatch, capsys):
    graph = og.open(kronecker)
    least, whole = least_of(graph, kernel), choice.resident_bytes(graph, kernel)

    def told(limit: int) -> Any:
        words = ("plan", kronecker, "--kernel", kernel, "--memory-limit", limit)
        table = call(monkeypatch, capsys, *words)
        machine = call(monkeypatch, capsys, *words, "--json")
        assert table.code == machine.code
        if table.code:
            return table
        facts = json.loads(machine.out)
        assert facts == og.plan(kronecker, kernel, memory_limit=limit)
        assert re.search(rf"bytes: in all +{facts['bytes: in all']:,}\n", table.out)
        return facts

    assert told(whole)["tier"] == "memory"
    assert told(whole)["bytes: in all"] == whole
    facts = told(whole - 1)
    assert facts["tier"] == "disk"
    assert least < facts["bytes: in all"] < whole
    assert 0 < facts["share of arcs in memory"] <= 1
    assert told(least)["bytes: in all"] == least
    refused = told(least - 1)
    assert (refused.code, refused.out) == (2, "")
    assert f"at least {least:,} bytes" in refused.err


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_harmed_chunk_leaves_no_result(kernel, kronecker, tmp_path, monkeypatch, capsys):
    graph = og.open(kronecker)
    column = graph.path / names.rows_path(0, "out", resident.ORDER_OF[kernel]) / "neighbors"
    (path,) = (column / "c").iterdir()
    content = path.read_bytes()
    out = tmp_path / "r.zarr"
    limit = least_of(graph, kernel)
    words = (kernel, kronecker, "--source", int(graph.original_of()[9]), "--out", out)
    try:
        path.write_bytes(content[:70_000] + bytes([content[70_000] ^ 1]) + content[70_001:])
        ended = call(monkeypatch, capsys, *words, "--memory-limit", limit, "--device", "cpu")
    finally:
        path.write_bytes(content)
    assert ended.code == 1
    assert "chunk 0 of shards/00000/out" in ended.err
    assert "is damaged from byte 65536 on" in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kernel", KERNELS)
def test_memory_stays_within_the_plan(kernel, kronecker):
    for plan, peak in in_own_process(plans_and_peaks, kernel, kronecker):
        assert peak <= plan.bytes - RESERVE_BYTES
        # And the plan is no empty promise.
        assert peak >= plan.parts["heads"] + plan.parts["row tables"] + plan.parts["kept units"]


def plans_and_peaks(kernel: str, path: Path) -> list[tuple[Plan, int]]:
    """For two budgets what is planned, and what loading and searching hold at once."""
    graph, found = og.open(path), []
    source = int(graph.original_of()[9])
    getattr(og, kernel)(graph, source, device="cpu")
    # What compiles kernels takes memory of its own.
    warm(kernel, graph, here.device(), variant=TIERS)
    least, whole = least_of(graph, kernel), graph.resident_bytes(resident.ORDER_OF[kernel])
    for budget in (least, (least + whole) // 2):
        session_tiers.known_facts.forget()
        plan = plan_disk(tiers.facts_of(graph, kernel), budget)
        assert plan.bytes <= budget
        key = (str(graph.path), graph.identity, kernel, "rows", "cpu", budget)

        def search(key: Any = key) -> None:
            with resident.searcher(*key) as held:
                held.search.run(0)

        most = plan.bytes - RESERVE_BYTES
        found.append((plan, traced_peak(search, most, before=resident.release)))
    resident.release()
    return found


def test_what_is_held_serves_again_though_less_is_free(kronecker, monkeypatch):
    graph = og.open(kronecker)
    source = int(graph.original_of()[9])
    whole = choice.resident_bytes(graph, "bfs")
    loads = []
    load = loading.load
    monkeypatch.setattr(loading, "load", lambda *given: loads.append(given) or load(*given))
    for free, kept in ((whole, whole - 1), (whole - 1, whole // 2)):
        resident.release()
        monkeypatch.setattr(place, "default_limit_bytes", lambda free=free: free)
        wanted = og.bfs(graph, source, device="cpu").parent.tobytes()
        monkeypatch.setattr(place, "default_limit_bytes", lambda kept=kept: kept)
        assert og.bfs(graph, source, device="cpu").parent.tobytes() == wanted
        # A limit that is given is kept.
        limit = whole - 1000
        found = og.bfs(graph, source, device="cpu", memory_limit=limit)
        assert found.parent.tobytes() == wanted
    answer = 20 * graph.vertices
    given_limit = limit - answer
    assert [given[4] for given in loads] == [0, given_limit, whole - 1 - answer, given_limit]


def test_a_graph_that_memory_does_not_hold_whole_after_all(kronecker, monkeypatch):
    graph = og.open(kronecker)
    source = int(graph.original_of()[9])
    wanted = og.bfs(graph, source, device="cpu")
    resident.release()

    def refuse(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(Graph, "load", refuse)
    found = og.bfs(graph, source, device="cpu")
    assert found.parent.tobytes() == wanted.parent.tobytes()
    monkeypatch.setattr(tiers, "load_side", refuse)
    resident.release()
    with pytest.raises(MemoryBudgetError, match="the system refuses them"):
        og.bfs(graph, source, device="cpu")


def test_an_interrupt_while_a_search_is_given_up_leaves_none_that_is_closed(kronecker, monkeypatch):
    graph = og.open(kronecker)
    source = int(graph.original_of()[9])
    limit = (least_of(graph, "bfs") + choice.resident_bytes(graph, "bfs")) // 2
    limit += 20 * graph.vertices
    wanted = og.bfs(graph, source, device="cpu", memory_limit=limit).parent.tobytes()
    close = tiers.TierSearch.close

    def interrupted(search: Any) -> None:
        close(search)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tiers.TierSearch, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            resident.release()
    found = og.bfs(graph, source, device="cpu", memory_limit=limit)
    assert found.parent.tobytes() == wanted


def facts(kernel: str = "bfs", sides: int = 1) -> Facts:
    lengths = Lengths(np.array([1, 10, 1000, 100_000]), np.array([50_000, 200_000, 3000, 20]))
    weight = 0 if kernel == "bfs" else 4
    return Facts(kernel, 300_000, 253_020, 1, 4, weight, 4, 5_000_000, (lengths,) * sides)


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("kernel", KERNELS)
def test_plans_fill_the_budget_and_never_exceed_it(kernel, sides):
    known = facts(kernel, sides)
    least = least_bytes(known)
    shares = []
    for budget in range(least, least + 3 * known.arcs * known.arc_bytes, 1_234_567):
        plan = plan_disk(known, budget)
        assert plan.bytes <= budget
        assert plan.batch_units >= 2
        shares.append(plan.head_arcs)
        rest = budget - plan.bytes
        assert (
            rest < sides * names.SIDECAR_BYTES
            or plan.rule.least == ALL
            or (plan.kept_bytes * sides >= (known.arcs - plan.head_arcs) * known.arc_bytes)
        )
    assert shares == sorted(shares)
    assert shares[0] == 253_020 * sides
    assert shares[-1] == known.arcs
    with pytest.raises(MemoryBudgetError, match=f"needs at least {least:,} bytes .* {least - 1:,}"):
        plan_disk(known, least - 1)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_rules_keep_what_they_say_and_each_more_than_the_one_before(dtype):
    lengths = np.array(
        [0, 1, 2, 7, 64, 1000, (1 << 31) - 1 if dtype == "int32" else 1 << 40], dtype
    )
    assert HeadRule(3, 4).of(lengths[:6]).tolist() == [0, 1, 2, 3, 7, 65]
    for kernel in KERNELS:
        before = np.zeros_like(lengths)
        for rule in rules(kernel):
            kept = rule.of(lengths)
            assert kept.dtype == lengths.dtype
            assert (before <= kept).all()
            assert (kept <= lengths).all()
            before = kept
        assert before.tolist() == lengths.tolist()


def test_a_plan_in_words():
    plan = plan_disk(facts(), 60_000_000)
    told = describe(plan)
    assert told["bytes: in all"] == plan.bytes
    assert sum(v for k, v in told.items() if k.startswith("bytes: ")) == 2 * plan.bytes
    assert str(HeadRule(4, 5)) == "4 + 1/32"
    assert [str(HeadRule(7)), str(HeadRule(ALL))] == ["7", "all"]
