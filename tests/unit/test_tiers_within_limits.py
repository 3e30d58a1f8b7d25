"""Searches with arcs in the store: the plan, what it bounds, and the command within limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout import names
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.cpu.plan import RESERVE_BYTES, Facts, Plan, describe, least_bytes, plan_disk
from ooc_graph.memory.heads import ALL, HeadRule, Lengths, rules
from ooc_graph.model.reservation import Key, Reservation
from ooc_graph.runtime import engine_cache, process, this_process
from ooc_graph.runtime.warmup import TIERS, warm
from ooc_graph.shards import tier_facts, tiers
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.single import NUMPY, answer_bytes
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cpu.in_memory import resident_bytes
from tests.command_line import call
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process
from tests.strategies import grid
from tests.unit.test_tiers_on_disk import KERNELS


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    yield
    engine_cache.release()


@pytest.fixture(scope="module")
def kronecker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kronecker") / "g.zarr"
    og.build(og.Kronecker(15, edge_factor=64), path)
    return path


def least_of(graph: Graph, kernel: str) -> int:
    return least_bytes(tier_facts.facts_of(graph, kernel))


@pytest.mark.parametrize("kernel", ["bfs", pytest.param("sssp", marks=pytest.mark.slow)])
def test_limits_of_any_size_give_the_same_answer_or_say_what_would_do(
    kernel, kronecker, tmp_path, monkeypatch, capsys
):
    graph = og.open(kronecker)
    source = int(graph.original_of()[9])
    out = tmp_path / "r.zarr"
    words = (kernel, kronecker, "--source", source, "--out", out, "--device", "cpu", "--overwrite")
    least = least_of(graph, kernel)
    whole = resident_bytes(graph, kernel)
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
    least, whole = least_of(graph, kernel), resident_bytes(graph, kernel)

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
    column = graph.path / names.rows_path(0, "out", ORDER_OF[kernel]) / "neighbors"
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
        assert peak >= plan.parts["heads"] + plan.parts["row tables"] + plan.parts["kept blocks"]


def plans_and_peaks(kernel: str, path: Path) -> list[tuple[Plan, int]]:
    """For two budgets what is planned, and what loading and searching hold at once."""
    graph, found = og.open(path), []
    source = int(graph.original_of()[9])
    getattr(og, kernel)(graph, source, device="cpu")
    # What compiles kernels takes memory of its own.
    warm(kernel, graph, process.device(), variant=TIERS)
    least, whole = least_of(graph, kernel), graph.resident_bytes(ORDER_OF[kernel])
    for budget in (least, (least + whole) // 2):
        cpu_disk.known_facts.forget()
        plan = plan_disk(tier_facts.facts_of(graph, kernel), budget)
        assert plan.bytes <= budget
        strategy = cpu_disk.OnDisk()
        reserved = Reservation(strategy.name, budget)
        key = Key(str(graph.path), graph.identity, kernel, "cpu", reserved)

        def search(key: Key = key, strategy: cpu_disk.OnDisk = strategy) -> None:
            with engine_cache.engine(key, strategy.load) as held:
                held.search.run(0)

        most = plan.bytes - RESERVE_BYTES
        found.append((plan, traced_peak(search, most, before=engine_cache.release)))
    engine_cache.release()
    return found


@pytest.mark.parametrize("kernel", KERNELS)
def test_memory_stays_within_the_least_that_holds_all_arcs(kernel: str, tmp_path: Path) -> None:
    """Of a graph so small that what is written at a time is a part of it."""
    arcs = grid(300, "int32")
    columns = arcs.source, arcs.target, arcs.weight
    og.build(columns, tmp_path / "g.zarr", rows="both", directed=True)
    limit, peak = in_own_process(least_and_peak, kernel, tmp_path)
    assert limit // 2 < peak <= limit


def least_and_peak(kernel: str, folder: Path) -> tuple[int, int]:
    """The least that holds all arcs by its plan, and what loading, searching and writing take."""
    graph = og.open(folder / "g.zarr")
    limit = resident_bytes(graph, kernel, copies=False)
    how = {"device": "cpu", "memory_limit": limit, "overwrite": True, "out": folder / "r.zarr"}
    search = partial(getattr(og, kernel), graph, int(graph.original_of()[9]), **how)
    search()
    found = limit, traced_peak(search, limit, before=engine_cache.release)
    engine_cache.release()
    return found


def test_what_is_held_serves_again_though_less_is_free(kronecker, monkeypatch):
    graph = og.open(kronecker)
    source = int(graph.original_of()[9])
    answer = answer_bytes(graph, "bfs", NUMPY)
    whole = resident_bytes(graph, "bfs") + answer
    loads = []
    load = engine_cache._load

    def noted(key: Key, how: Any) -> Any:
        loads.append((key.reserved.strategy, key.reserved.host_bytes))
        return load(key, how)

    monkeypatch.setattr(engine_cache, "_load", noted)
    for free, kept in ((whole, whole - 1), (whole - 1, whole // 2)):
        engine_cache.release()
        monkeypatch.setattr(this_process, "default_limit_bytes", lambda free=free: free)
        wanted = og.bfs(graph, source, device="cpu").parent.tobytes()
        monkeypatch.setattr(this_process, "default_limit_bytes", lambda kept=kept: kept)
        assert og.bfs(graph, source, device="cpu").parent.tobytes() == wanted
        # A limit that is given is kept.
        limit = whole - 1000
        found = og.bfs(graph, source, device="cpu", memory_limit=limit)
        assert found.parent.tobytes() == wanted
    given_limit = limit - answer
    within_limit = "cpu/disk", given_limit
    assert loads == [
        ("cpu/memory", whole - answer),
        within_limit,
        ("cpu/disk", whole - 1 - answer),
        within_limit,
    ]


def test_a_graph_that_memory_does_not_hold_whole_after_all(kronecker, monkeypatch):
    graph = og.open(kronecker)
    source = int(graph.original_of()[9])
    wanted = og.bfs(graph, source, device="cpu")
    engine_cache.release()

    def refuse(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(Graph, "load", refuse)
    found = og.bfs(graph, source, device="cpu")
    assert found.parent.tobytes() == wanted.parent.tobytes()
    monkeypatch.setattr(tiers, "load_side", refuse)
    engine_cache.release()
    with pytest.raises(MemoryBudgetError, match="the system refuses them"):
        og.bfs(graph, source, device="cpu")


def test_an_interrupt_while_a_search_is_given_up_leaves_none_that_is_closed(kronecker, monkeypatch):
    graph = og.open(kronecker)
    source = int(graph.original_of()[9])
    limit = (least_of(graph, "bfs") + resident_bytes(graph, "bfs")) // 2
    limit += 20 * graph.vertices
    wanted = og.bfs(graph, source, device="cpu", memory_limit=limit).parent.tobytes()
    close = tiers.TierSearch.close

    def interrupted(search: Any) -> None:
        close(search)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tiers.TierSearch, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine_cache.release()
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
        assert plan.batch_blocks >= 2
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
