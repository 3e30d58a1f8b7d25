"""When SSSP's arcs stay in the store while a CUDA device searches, what is planned, and said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.sssp.rows import MOST_FIRST
from ooc_graph.kernels.common.store.scans import request_words
from ooc_graph.layout.names import SIDECAR_BYTES
from ooc_graph.memory.cuda import disk_sssp_plan as device_disk_sssp_plan
from ooc_graph.memory.cuda.device_facts import COLUMNS, DeviceFacts
from ooc_graph.memory.cuda.disk import DiskFacts, describe_disk
from ooc_graph.memory.cuda.disk_sssp_plan import (
    DiskSsspPlan,
    least_disk_sssp,
    plan_disk_sssp,
)
from ooc_graph.memory.heads import ALL, HeadRule, Lengths
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model import rank_memory
from ooc_graph.model.resources import CUDA, CudaLimits, Resources
from ooc_graph.runtime.this_process import planned
from ooc_graph.shards.device_tiers import DeviceTierSearch, PinningRefusedError
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from tests.command_line import call
from tests.made_up_place import chosen, plan_for

HOST = 1 << 40


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "kronecker.zarr"
    return og.build(og.Kronecker(13), path, rows="light", shards=4)


@pytest.fixture(autouse=True)
def _little_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on large graphs, where what is small beside the vertices does not matter."""
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", 0)


def place(device_bytes: int, pinned_bytes: int | None = None) -> Resources:
    return planned(HOST, CUDA, CudaLimits(device_bytes, pinned_bytes))


def facts(directed: bool = False, scale: int = 20) -> DiskFacts:
    """Of a graph with a few long rows, and many short ones; of in-arcs fewer where directed."""
    rows = 1 << scale
    length = np.array([1, 4, 40, 1000])
    counts = np.array([rows // 2, rows // 4, rows // 4 - rows // 64, rows // 64])
    sides = [Lengths(length, counts)]
    if directed:
        sides.append(Lengths(length, np.array([rows, 0, 0, 0])))
    return DiskFacts("sssp", DeviceFacts(rows, tuple(sides), (0,) * COLUMNS, 0, False), 4)


def plans(known: DiskFacts) -> Iterator[DiskSsspPlan]:
    """Of budgets from the least on to what holds all arcs, of either kind."""
    least, whole = least_disk_sssp(known), 8 * known.device.arcs
    for more_device in (0, whole // 16, whole // 2, 2 * whole):
        for more_host in (0, whole // 16, whole // 2, 4 * whole):
            budgets = least.device_bytes + more_device, least.host_bytes + more_host
            plan = plan_disk_sssp(known, *budgets)
            assert (plan.device_budget_bytes, plan.host_budget_bytes) == budgets
            yield plan


@pytest.mark.parametrize("directed", [False, True])
def test_a_plan_fills_its_budgets_and_no_more(directed: bool) -> None:
    known, seen = facts(directed), set()
    for plan in plans(known):
        assert plan.device_bytes <= plan.device_budget_bytes
        assert plan.host_bytes <= plan.host_budget_bytes
        assert plan.pinned_bytes <= plan.host_bytes
        kept = sum(side.kept(plan.share) for side in known.device.sides)
        # What is not on the device is in host memory; a head that would be cut counts as both.
        assert kept <= plan.arcs_on_device + plan.arcs_in_host <= kept + 1000 * known.sides
        assert (plan.arcs_in_host == 0) == (plan.arcs_on_device == kept)
        whole = kept == known.device.arcs
        assert plan.kept_bytes == 0 or not whole
        seen.add((plan.arcs_on_device == kept, whole, plan.kept_bytes > 0))
    # All on the device, in part or whole; and some of it pinned, with units kept and without.
    assert {(True, False, False), (True, True, False), (False, False, True)} <= seen
    assert any(not near and whole for near, whole, _ in seen)


@pytest.mark.parametrize("directed", [False, True])
def test_the_device_is_filled_before_anything_is_pinned(directed: bool) -> None:
    known = facts(directed)
    for plan in plans(known):
        if plan.arcs_in_host:
            assert 0 <= plan.device_budget_bytes - plan.device_bytes < 8 * (known.sides + 1)
        # With less of either no more is held.
        held = plan.arcs_on_device + plan.arcs_in_host
        less = plan_disk_sssp(known, plan.device_budget_bytes, 0)
        assert less.arcs_in_host == 0
        assert sum(side.kept(less.share) for side in known.device.sides) <= held


def test_too_little_device_memory_is_refused_with_the_least() -> None:
    known = facts()
    least = least_disk_sssp(known)
    found = plan_disk_sssp(known, least.device_bytes, 0)
    assert (found.share, found.arcs_on_device) == (HeadRule(1), known.rows)
    with pytest.raises(MemoryBudgetError, match=f"at least {least.device_bytes:,} bytes of device"):
        plan_disk_sssp(known, least.device_bytes - 1, HOST)


def test_what_cannot_be_counted_is_refused_or_not_held() -> None:
    known = facts()
    long = Lengths(np.array([1 << 31]), np.array([1]))
    with pytest.raises(MemoryBudgetError, match="a row of 2,147,483,648 arcs"):
        plan_disk_sssp(replace(known, device=replace(known.device, sides=(long,))), HOST, HOST)
    many = Lengths(np.array([1 << 20]), np.array([1 << 13]))
    plan = plan_disk_sssp(replace(known, device=replace(known.device, sides=(many,))), HOST, HOST)
    assert 1 << 30 < many.kept(plan.share) < 1 << 32
    assert plan.kept_bytes > 0


def test_no_host_memory_pins_nothing() -> None:
    known = facts()
    least = least_disk_sssp(known)
    for host_bytes in (0, least.host_bytes - 1):
        plan = plan_disk_sssp(known, 1 << 30, host_bytes)
        assert (plan.arcs_in_host, plan.kept_bytes, plan.pinned_bytes) == (0, 0, 0)
        assert not plan.pins
        assert plan.share.least == ALL
        assert plan.host_bytes <= plan_disk_sssp(known, 1 << 30, least.host_bytes).host_bytes
    # Where nothing can be pinned, units are kept instead.
    budgets = least.device_bytes, least.host_bytes + (64 << 20)
    bare, pinned = (plan_disk_sssp(known, *budgets, may_pin=may) for may in (False, True))
    assert (bare.arcs_in_host, bare.pinned_bytes, bare.share) == (0, 0, least.share)
    assert pinned.arcs_in_host > 0
    assert bare.kept_bytes > pinned.kept_bytes > 0


def test_the_numbers_of_the_device_are_the_plans() -> None:
    request_bytes = 4 * request_words(2) + 1
    assert request_bytes == device_disk_sssp_plan.REQUEST_BYTES
    assert device_disk_sssp_plan.FEW_ROWS == MOST_FIRST
    more: dict[str, Any] = {"batch_blocks": 20, "kept_bytes": 3 * SIDECAR_BYTES, "pins": True}
    plan = DiskSsspPlan(facts(True), 0, 0, HeadRule(2, 4), 5000, **more)
    table = describe_disk(plan)
    assert table["tier"] == "disk"
    assert sum(plan.device_parts.values()) == table["device bytes: in all"] == plan.device_bytes
    assert sum(plan.host_parts.values()) == table["host bytes: in all"] == plan.host_bytes
    assert table["arcs of each row at hand"] == "2 + 1/16"
    assert plan.arcs_on_device == 2 * 5000


def test_arcs_stay_in_the_store_where_nothing_else_will_do(graph: og.Graph) -> None:
    small, needed = cuda_memory.cuda_bytes(graph, "sssp") - 1, 8 * graph.stored_arcs
    assert cuda_pinned.may_pin(graph, "sssp")
    assert chosen(graph, "sssp", place(small, needed)).strategy == "cuda/pinned"
    for limit in (needed - 1, 0):
        reserved = chosen(graph, "sssp", place(small, limit))
        assert (reserved.strategy, reserved.exchange) == ("cuda/disk", "one")
        assert (reserved.device_bytes, reserved.host_bytes) == (small, limit)
    least = cuda_disk.least_device_bytes(graph, "sssp")
    assert chosen(graph, "sssp", place(least, 0)).device_bytes == least
    with pytest.raises(MemoryBudgetError, match=f"at least {least:,} bytes of device memory"):
        chosen(graph, "sssp", place(least - 1, 0))


def test_what_cannot_stay_in_the_store(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cuda_disk.may_stay(graph, "sssp")
    assert not cuda_disk.may_stay(graph, "bfs")
    source, target, weight = og.Kronecker(8).block(0, 1000)
    for dtype in (np.float64, np.int32):
        path = tmp_path / f"{np.dtype(dtype)}.zarr"
        other = og.build((source, target, (100 * weight).astype(dtype)), path, directed=True)
        assert not cuda_disk.may_stay(other, "sssp")
        needed = place(cuda_memory.cuda_bytes(other, "sssp") - 1, 0)
        with pytest.raises(MemoryBudgetError, match="of pinned host memory, and 0 may be used"):
            chosen(other, "sssp", needed)
        needed = replace(needed, wanted="auto")
        found = plan_for(other, "sssp", needed)
        assert found.device == "cpu"
        assert "bytes of pinned host memory" in found.why
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: True)
    assert not cuda_disk.may_stay(graph, "sssp")


def test_where_pulling_does_not_pay_it_must_be_asked_for(tmp_path: Path) -> None:
    at = np.arange(4000)
    flat = og.build((at, at + 1, np.ones(4000, np.float32)), tmp_path / "path.zarr", directed=True)
    assert cuda_disk.may_stay(flat, "sssp")
    assert not cuda_pinned.reads_little(flat, "sssp")
    small = cuda_memory.cuda_bytes(flat, "sssp") - 1
    # Rows that may be pinned are, whoever asks.
    for wanted in ("cuda", "auto"):
        there = replace(place(small), wanted=wanted)
        reserved = chosen(flat, "sssp", there)
        assert reserved.strategy == "cuda/pinned"
        assert reserved.device_bytes == cuda_pinned.budget_of(there)
    there = place(small, 0)
    reserved = chosen(flat, "sssp", there)
    assert (reserved.strategy, reserved.host_bytes) == ("cuda/disk", 0)
    found = plan_for(flat, "sssp", replace(there, wanted="auto"))
    assert found.strategy.name == "cpu/memory"
    assert "bytes of pinned host memory" in found.why


def test_refused_plans_are_followed_by_smaller_ones(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    least = least_disk_sssp(cuda_disk.known_facts(graph, "sssp"))
    kinds: list[type[Exception] | None] = [PinningRefusedError, MemoryBudgetError, None]
    tried: list[Any] = []

    def load(_: object, plan: Any, *, threads: int) -> DeviceTierSearch:
        tried.append(plan)
        kind = kinds.pop(0)
        if kind is not None:
            raise kind("it is refused")
        return DeviceTierSearch(None, (), plan, SimpleNamespace())  # type: ignore[arg-type]

    monkeypatch.setitem(cuda_disk.LOADERS, "sssp", load)
    budgets = 3 * least.device_bytes, 3 * least.host_bytes
    found = cuda_disk.load_within(graph, "sssp", *budgets, 1)
    assert [plan.pins for plan in tried] == [True, False, False]
    assert tried[2].device_budget_bytes < tried[1].device_budget_bytes == budgets[0]
    note = cuda_disk.note_of(found, IoStats(bytes=4321, rows=98))
    assert note.startswith("sssp had ")
    assert f"({found.plan.rule} of each row)" in note
    assert "and 0 bytes of pinned memory, and read 4,321 bytes of the store for 98 rows" in note
    assert note.endswith("; it is refused")


def test_the_plan_is_shown(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["plan", str(graph.path), "--kernel", "sssp", "--device", "cuda", "--json"]
    least = cuda_disk.least_device_bytes(graph, "sssp")
    limits = ["--host-memory", "0", "--device-memory"]
    done = call(monkeypatch, capsys, *given, *limits, str(least))
    assert done.code == 0, done.err
    table = json.loads(done.out)
    assert (table["kernel"], table["tier"], table["device bytes: in all"]) == (
        "sssp",
        "disk",
        least,
    )
    assert (table["bytes of pinned host memory"], table["host budget"]) == (0, 0)
    arcs = cuda_disk.known_facts(graph, "sssp").device.arcs
    shares = table["share of arcs on the device"] + table["share of arcs in host memory"]
    left = table["bytes that stay in the store"] / (8 * arcs)
    assert left == pytest.approx(max(1 - shares, 0), abs=1e-3)
    done = call(monkeypatch, capsys, *given, *limits, str(least - 1))
    assert done.code == 2
    assert f"at least {least:,} bytes of device memory" in done.err
    assert len(done.err.strip().splitlines()) == 1
