"""When arcs stay in the store while a CUDA device searches, what is planned, and what is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError, UsageError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.store.rows import REQUEST_BYTES, padded
from ooc_graph.layout.names import SIDECAR_BYTES
from ooc_graph.memory.cuda import disk_bfs_plan as device_disk_plan
from ooc_graph.memory.cuda.device_facts import COLUMNS, DeviceFacts
from ooc_graph.memory.cuda.disk import DiskFacts, describe_disk
from ooc_graph.memory.cuda.disk_bfs_plan import DiskDevicePlan, least_disk_plan, plan_disk_device
from ooc_graph.memory.heads import Lengths
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model import rank_memory
from ooc_graph.model.request import Job, Request
from ooc_graph.model.reservation import Key, Reservation
from ooc_graph.model.resources import CUDA, CudaLimits, Resources, parse_bytes
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.engine_keys import Kept
from ooc_graph.runtime.this_process import planned
from ooc_graph.search.algorithm import engine_for
from ooc_graph.search.execute import execute, plan_at
from ooc_graph.search.plan import Plan
from ooc_graph.shards.device_tiers import DeviceTierSearch, PinningRefusedError
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.cuda.on_disk import OnDisk
from ooc_graph.strategies.cuda.pinned import Pinned
from ooc_graph.types import NoProgress
from tests.command_line import call
from tests.made_up_place import CudaHere, TwoWorkers, chosen, plan_for
from tests.refused_in_turn import InTurn, followed

HOST = 1 << 40


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "kronecker.zarr"
    return og.build(og.Kronecker(13), path, rows="both", shards=4)


@pytest.fixture(autouse=True)
def _little_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on large graphs, where what is small beside the vertices does not matter."""
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", 0)


def place(device_bytes: int, pinned_bytes: int | None = None, limit_bytes: int = HOST) -> Resources:
    return planned(limit_bytes, CUDA, CudaLimits(device_bytes, pinned_bytes))


def facts(directed: bool = False, scale: int = 20) -> DiskFacts:
    """Of a graph with a few long rows, and many short ones."""
    rows = 1 << scale
    length = np.array([1, 4, 40, 1000])
    counts = np.array([rows // 2, rows // 4, rows // 4 - rows // 64, rows // 64])
    longer = tuple(rows // (2 if k == 0 else 4) for k in range(COLUMNS))
    sides = (Lengths(length, counts),) * (2 if directed else 1)
    return DiskFacts("bfs", DeviceFacts(rows, sides, longer, rows // 2, False), 4)


@pytest.mark.parametrize("directed", [False, True])
def test_a_plan_fills_its_budgets_and_no_more(directed: bool) -> None:
    known = facts(directed)
    least = least_disk_plan(known)
    column = 16 * known.rows // 4
    seen, hubs = set(), set()
    for more_device in (0, column, 2 * column, 3 * column, 20 * column):
        for more_host in (0, column, 4 * column, 400 * column):
            budgets = least.device_bytes + more_device, least.host_bytes + more_host
            plan = plan_disk_device(known, *budgets)
            assert plan.device_bytes <= budgets[0]
            assert plan.host_bytes <= budgets[1]
            assert 0 <= plan.near + plan.far <= COLUMNS
            assert plan.pinned_bytes <= plan.host_bytes
            seen.add((plan.near, plan.far))
            hubs |= {("near", plan.near_hub_arcs > 0), ("far", plan.far_hub_arcs > 0)}
            assert plan.near_hub_arcs + plan.far_hub_arcs <= known.device.sides[0].arcs
    assert {(0, 0), (0, COLUMNS), (COLUMNS, 0)} <= seen
    assert any(near and far for near, far in seen)
    assert len(hubs) == 4
    # All arcs may be kept, and no more than all.
    assert known.device.arcs * 4 <= plan.facts.sides * plan.kept_bytes < budgets[1]


def test_too_little_device_memory_is_refused_with_the_least() -> None:
    known = facts()
    least = least_disk_plan(known)
    assert plan_disk_device(known, least.device_bytes, 0).near == 0
    with pytest.raises(MemoryBudgetError, match=f"at least {least.device_bytes:,} bytes of device"):
        plan_disk_device(known, least.device_bytes - 1, HOST)


def test_a_row_that_is_too_long_to_count_is_refused() -> None:
    known = facts()
    long = Lengths(np.array([1 << 31]), np.array([1]))
    with pytest.raises(MemoryBudgetError, match="a row of 2,147,483,648 arcs"):
        plan_disk_device(replace(known, device=replace(known.device, sides=(long,))), HOST, HOST)


def test_no_host_memory_pins_nothing() -> None:
    known = facts()
    least = least_disk_plan(known)
    for host_bytes in (0, least.host_bytes - 1):
        plan = plan_disk_device(known, 1 << 30, host_bytes)
        assert (plan.far, plan.kept_bytes, plan.pinned_bytes, plan.pins) == (0, 0, 0, False)
        assert plan.host_bytes <= plan_disk_device(known, 1 << 30, least.host_bytes).host_bytes
        assert plan.near == COLUMNS
    # Where nothing can be pinned, the columns are the device's alone, and units are kept instead.
    budgets = least.device_bytes, least.host_bytes + (64 << 20)
    bare, pinned = (plan_disk_device(known, *budgets, may_pin=may) for may in (False, True))
    assert (bare.far, bare.pinned_bytes) == (0, 0)
    assert pinned.far > 0
    assert bare.kept_bytes > pinned.kept_bytes


def test_the_numbers_of_the_device_are_the_plans() -> None:
    assert device_disk_plan.REQUEST_BYTES == REQUEST_BYTES
    known = facts()
    assert known.device.padded == padded(known.rows)
    more: dict[str, Any] = {"batch_blocks": 20, "kept_bytes": 3 * SIDECAR_BYTES, "pins": True}
    plan = DiskDevicePlan(known, 0, 0, 1, 2, **more)
    table = describe_disk(plan)
    assert table["tier"] == "disk"
    assert sum(plan.device_parts.values()) == table["device bytes: in all"] == plan.device_bytes
    assert sum(plan.host_parts.values()) == table["host bytes: in all"] == plan.host_bytes
    assert table["arcs of each row on the device, and at hand"] == "5 and 13"
    assert plan.near_rows + plan.far_rows == known.device.longer[:3]


def in_store(graph: og.Graph, there: Any, **options: Any) -> Reservation:
    reserved = chosen(graph, "bfs", there, **options)
    assert (reserved.strategy, reserved.exchange) == ("cuda/disk", "one")
    return reserved


def test_arcs_stay_in_the_store_where_pinned_memory_is_too_small(graph: og.Graph) -> None:
    small, needed = cuda_memory.cuda_bytes(graph, "bfs") - 1, 4 * graph.stored_arcs
    assert chosen(graph, "bfs", place(small, needed)).strategy == "cuda/pinned"
    for limit in (needed - 1, 1, 0):
        reserved = in_store(graph, place(small, limit))
        assert (reserved.device_bytes, reserved.host_bytes) == (small, limit)


def test_arcs_stay_in_the_store_where_the_device_has_no_room_for_offsets(graph: og.Graph) -> None:
    least = cuda_disk.least_device_bytes(graph, "bfs")
    assert least < cuda_pinned.least_device_bytes(graph, "bfs")
    assert in_store(graph, place(least)).device_bytes == least
    with pytest.raises(MemoryBudgetError, match=f"at least {least:,} bytes of device memory"):
        chosen(graph, "bfs", place(least - 1))
    auto = replace(place(least - 1), wanted="auto")
    found = plan_for(graph, "bfs", auto)
    assert found.device == "cpu"
    assert f"at least {least:,} bytes" in found.why


def test_an_answer_on_the_device_is_beside_the_budget(graph: og.Graph) -> None:
    small = cuda_memory.cuda_bytes(graph, "bfs") - 1
    reserved = in_store(graph, place(small, 0), on_device=True)
    assert reserved.device_bytes == small - cuda_disk.answer_device_bytes(graph)


def test_host_memory_holds_what_a_search_must_have(graph: og.Graph) -> None:
    small = cuda_memory.cuda_bytes(graph, "bfs") - 1
    needed = least_disk_plan(cuda_disk.known_facts(graph, "bfs")).host_bytes
    answer = 20 * graph.vertices
    needed += cuda_disk.beside_bytes(graph) + answer
    assert in_store(graph, place(small, 0, needed), answer_bytes=answer).host_bytes == 0
    with pytest.raises(MemoryBudgetError, match=f"needs at least {needed:,} bytes of host memory"):
        chosen(graph, "bfs", place(small, 0, needed - 1), answer_bytes=answer)


def test_what_cannot_stay_in_the_store(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cuda_disk.may_stay(graph, "bfs")
    for kernel in ("components", "apsp"):
        assert not cuda_disk.may_stay(graph, kernel)
        with pytest.raises(UsageError, match=f"{kernel} does not leave arcs in the store"):
            cuda_disk.load_within(graph, kernel, 1 << 30, 0, 1)
    light = og.build(og.Kronecker(8), tmp_path / "light.zarr", rows="light")
    assert not cuda_disk.may_stay(light, "bfs")
    source, target, weight = og.Kronecker(8).block(0, 1000)
    assert not cuda_disk.may_stay(og.from_edges(source, target, weight), "bfs")
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: True)
    assert not cuda_disk.may_stay(graph, "bfs")


def test_ranks_that_fit_take_precedence(graph: og.Graph) -> None:
    needed = rank_memory.ranks_bytes(graph, "bfs", range(2))
    for limit, expected in (
        (needed, ("cuda/memory, ranks", "scheduler")),
        (needed - 1, ("cuda/disk", "one")),
    ):
        workers = TwoWorkers(HOST, CudaLimits(limit, 0)).resources()
        reserved = chosen(graph, "bfs", workers)
        assert (reserved.strategy, reserved.exchange) == expected


@pytest.fixture
def a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which nothing is asked but its number, and how much memory is free."""
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (HOST, HOST))
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    engine_cache.release()


@pytest.mark.usefixtures("a_device")
@pytest.mark.parametrize("ranks_fit", [False, True])
def test_a_refused_search_goes_to_ranks_that_fit_and_then_to_the_store(
    graph: og.Graph, ranks_fit: bool
) -> None:
    needed = rank_memory.ranks_bytes(graph, "bfs", range(2))
    workers = TwoWorkers(HOST, CudaLimits(needed - (not ranks_fit)))
    first, refused = plan_at(workers, graph, Request("bfs")), MemoryBudgetError("refused")
    plans = followed(first, workers, *[refused] * (2 + ranks_fit))
    names = ["cuda/pinned", "cuda/memory, ranks", "cuda/pinned, ranks", "cuda/disk"]
    if not ranks_fit:
        names.remove("cuda/memory, ranks")
    assert [one.strategy.name for one in plans] == names


def test_the_search_before_is_taken_again(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    small = cuda_memory.cuda_bytes(graph, "bfs") - 1
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    held = Reservation("cuda/disk", 5000, small, 5000)
    key = Key(str(graph.path), graph.identity, "bfs", CUDA, held)
    monkeypatch.setattr(engine_cache, "_engines", {Kept(key, "0"): None})
    assert engine_cache.reservations(graph, "bfs", CUDA) == [held]
    # Hardly anything is free, for it is held.
    for pinned, taken in ((None, True), (5000, True), (4999, False)):
        tight = replace(place(small, pinned, 1), is_limited=False)
        assert cuda_memory.InMemory().cached(Job(graph, Request("bfs"), tight)) is None
        assert Pinned().cached(Job(graph, Request("bfs"), tight)) is None
        if taken:
            assert in_store(graph, tight) == held
        else:
            with pytest.raises(MemoryBudgetError):
                chosen(graph, "bfs", tight)


@pytest.mark.usefixtures("a_device")
@pytest.mark.parametrize("pinned_bytes", [None, 0])
def test_what_is_loaded_serves_the_next_search(
    graph: og.Graph, pinned_bytes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though memory is short for what would keep more of the graph there."""
    loaded: list[Reservation] = []

    def load(_: object, __: object, ___: str, reserved: Reservation) -> object:
        loaded.append(reserved)
        return SimpleNamespace(close=lambda: None, search=None)

    def search(found: Plan) -> None:
        with engine_for(found.task(0, None)):
            pass

    monkeypatch.setattr(OnDisk, "load", load)
    least = cuda_disk.least_device_bytes(graph, "bfs")
    for _ in range(3):
        there = CudaHere(HOST, CudaLimits(least, pinned_bytes))
        there.is_limited = False
        found = plan_at(there, graph, Request("bfs"))
        assert found.strategy.name == "cuda/disk"
        execute(found, there, NoProgress(), search)
    assert len(loaded) == 1
    engine_cache.release()


def tried(graph: og.Graph, kernel: str, there: CudaHere) -> list[tuple[str, int, int | None]]:
    """Strategies and budgets of a search that is refused all device memory."""
    in_turn = InTurn([MemoryBudgetError("refused")] * 9)
    with pytest.raises(MemoryBudgetError, match="refused"):
        execute(plan_at(there, graph, Request(kernel)), there, NoProgress(), in_turn.run)
    held = [one.reserved for one in in_turn.plans]
    return [
        (one.strategy, one.device_bytes, one.host_bytes if one.strategy == "cuda/disk" else None)
        for one in held
    ]


@pytest.mark.usefixtures("a_device")
def test_refused_memory_goes_to_the_store(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, least = cuda_memory.cuda_bytes(graph, "bfs"), cuda_disk.least_device_bytes(graph, "bfs")
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (9 * whole, 9 * whole))
    pinned, least_pinned = whole // 8 * 7, cuda_pinned.least_device_bytes(graph, "bfs")

    def there(device_bytes: int, pinned_bytes: int | None = None) -> CudaHere:
        return CudaHere(HOST, CudaLimits(device_bytes, pinned_bytes))

    on_device = ("cuda/memory", whole, None)
    for asked, expected in (
        (there(whole), [on_device, ("cuda/pinned", pinned, None), ("cuda/disk", pinned, 0)]),
        (there(whole, 1000), [on_device, ("cuda/disk", whole, 1000)]),
        (
            there(least_pinned + 8),
            [("cuda/pinned", least_pinned + 8, None), ("cuda/disk", least_pinned + 8, 0)],
        ),
        (there(least, 7), [("cuda/disk", least, 7)]),
    ):
        assert tried(graph, "bfs", asked) == expected
    # The least at least is wanted, however little is free.
    for kernel in ("bfs", "sssp"):
        least = cuda_disk.least_device_bytes(graph, kernel)
        monkeypatch.setattr(cuda_modules, "device_bytes", lambda n=least // 2: (n, 9 * whole))
        asked = there(cuda_memory.cuda_bytes(graph, kernel))
        assert tried(graph, kernel, asked)[2] == ("cuda/disk", least, 0)
        errors = [MemoryBudgetError("refused")] * 2
        *_, last = followed(plan_at(asked, graph, Request(kernel)), asked, *errors)
        assert f"leaves arcs in the store and goes on within {least:,} bytes" in last.why
    monkeypatch.setattr(cuda_disk, "LOADERS", {})
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (9 * whole, 9 * whole))
    assert tried(graph, "bfs", there(whole)) == [on_device, ("cuda/pinned", pinned, None)]


class Refusing:
    """Loads nothing, and refuses what a list says, by kinds."""

    def __init__(self, *kinds: type[BaseException] | None) -> None:
        self.kinds, self.plans = list(kinds), []

    def __call__(self, _: object, plan: DiskDevicePlan, *, threads: int) -> DeviceTierSearch:
        assert threads == 3
        self.plans.append(plan)
        kind = self.kinds.pop(0)
        if kind is not None:
            raise kind("it is refused")
        return DeviceTierSearch(None, (), plan, SimpleNamespace())  # type: ignore[arg-type]


def test_refused_plans_are_followed_by_smaller_ones(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    least = least_disk_plan(cuda_disk.known_facts(graph, "bfs"))
    budgets = 3 * least.device_bytes, 3 * least.host_bytes

    def load(*kinds: type[BaseException] | None) -> tuple[DeviceTierSearch, list[DiskDevicePlan]]:
        loader = Refusing(*kinds)
        monkeypatch.setattr(cuda_disk, "LOADERS", {"bfs": loader})
        found = cuda_disk.load_within(graph, "bfs", *budgets, 3)
        assert not loader.kinds
        return found, loader.plans

    found, (plan,) = load(None)
    assert plan.pins
    assert (found.plan, found.unpinned) == (plan, "")
    found, plans = load(PinningRefusedError, MemoryBudgetError, None)
    assert [one.pins for one in plans] == [True, False, False]
    assert plans[2].device_budget_bytes < plans[1].device_budget_bytes == budgets[0]
    assert found.unpinned == "it is refused"
    note = cuda_disk.note_of(found, IoStats(bytes=4321, rows=98))
    assert "and 0 bytes of pinned memory, and read 4,321 bytes of the store for 98 rows" in note
    assert note.endswith("; it is refused")
    found, plans = load(MemoryError, None)
    assert plans[0].host_bytes > plans[1].host_bytes == least.host_bytes
    with pytest.raises(MemoryError, match="it is refused"):
        load(MemoryError, MemoryError)
    with pytest.raises(MemoryBudgetError, match="it is refused"):
        load(*[MemoryBudgetError] * 9)


def test_memory_that_others_have_makes_the_budget_smaller(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    least, budgets = cuda_disk.least_device_bytes(graph, "bfs"), []

    def load(_: object, __: str, device_bytes: int, host_bytes: int, ___: int) -> None:
        budgets.append((device_bytes, host_bytes))

    monkeypatch.setattr(cuda_disk, "load_within", load)
    monkeypatch.setattr(process, "device", lambda _: None)
    strategy = OnDisk()
    for original_parents in (False, True):
        reserved = Reservation(strategy.name, 7, 2 * least, original_parents=original_parents)
        beside = cuda_disk.answer_device_bytes(graph) if original_parents else 0
        for free in (least - 1, least, 3 * least):
            monkeypatch.setattr(cuda_modules, "device_bytes", lambda n=free + beside: (n, 9 * n))
            if free < least:
                with pytest.raises(DeviceBusyError, match=f"needs {least + beside:,} bytes"):
                    strategy.load(graph, "bfs", reserved)
            else:
                strategy.load(graph, "bfs", reserved)
    assert budgets == [(least, 7), (2 * least, 7)] * 2


def test_the_plan_is_shown(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["plan", str(graph.path), "--device", "cuda", "--json", "--host-memory"]
    least = cuda_disk.least_device_bytes(graph, "bfs")
    done = call(monkeypatch, capsys, *arguments, "0", "--device-memory", str(least))
    assert done.code == 0, done.err
    table = json.loads(done.out)
    assert (table["tier"], table["device bytes: in all"]) == ("disk", least)
    assert (table["bytes of pinned host memory"], table["host budget"]) == (0, 0)
    arcs = cuda_disk.known_facts(graph, "bfs").device.arcs
    shares = table["share of arcs on the device"] + table["share of arcs in host memory"]
    left = table["bytes that stay in the store"] / (4 * arcs)
    assert left == pytest.approx(max(1 - shares, 0), abs=1e-3)
    done = call(monkeypatch, capsys, *arguments, "0", "--device-memory", str(least - 1))
    assert done.code == 2
    assert f"at least {least:,} bytes of device memory" in done.err
    assert len(done.err.strip().splitlines()) == 1
    table = og.plan(graph, device="cuda", device_memory=least, host_memory=0)
    assert table["tier"] == "disk"


def test_no_host_memory_is_a_limit() -> None:
    assert parse_bytes("0", or_none=True) == parse_bytes(0, or_none=True) == 0
    assert parse_bytes(None, or_none=True) is None
    for text in ("0", "0.5"):
        with pytest.raises(UsageError, match="more than nothing"):
            parse_bytes(text)
    with pytest.raises(UsageError, match="more than nothing"):
        parse_bytes("0.5", or_none=True)
