"""When rows go to pinned host memory, what is said of it, and how they are loaded."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import DeviceBusyError, DeviceError, MemoryBudgetError, UsageError
from ooc_graph.kernels import cuda_modules
from ooc_graph.kernels.interface import hubs_hold_much
from ooc_graph.kernels.sssp_search import first_rows, may_pull, sampled_rows, survey
from ooc_graph.layout.names import CHUNK_BYTES
from ooc_graph.memory.device_plan import COLUMNS, BfsPlan, DevicePlan, least_plan
from ooc_graph.session import (
    choice,
    cuda_disk,
    cuda_tiers,
    devices,
    here,
    loading,
    rank_memory,
    refused,
    resident,
    search,
    search_whole,
    step_down,
)
from ooc_graph.session.devices import CudaLimits
from ooc_graph.session.graph500_run import BatchTask
from ooc_graph.session.place import PlannedCuda
from ooc_graph.session.ways import Course, SearchTask, Written
from ooc_graph.shards.survey import spread_share
from ooc_graph.types import NoProgress
from tests.command_line import call
from tests.quiet_client import QuietClient

HOST = 1 << 40


@pytest.fixture(autouse=True)
def _nothing_stays_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind pinned memory has tests of its own."""
    monkeypatch.setattr(cuda_disk, "LOADERS", {})


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "kronecker.zarr"
    return og.build(og.Kronecker(13), path, rows="both", shards=4)


@pytest.fixture(scope="module")
def directed(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "directed.zarr"
    rng = np.random.default_rng(4)
    ends = rng.integers(0, 5000, (2, 30_000)) * rng.integers(0, 2, (2, 30_000))
    weight = rng.integers(1, 9, 30_000)
    return og.build((*ends, weight), path, rows="both", directed=True, shards=2)


def place(device_bytes: int, pinned_bytes: int | None = None) -> PlannedCuda:
    return PlannedCuda(HOST, CudaLimits(device_bytes, pinned_bytes))


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_rows_are_pinned_where_the_device_is_too_small(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on large graphs, where what is small beside the vertices does not matter.
    monkeypatch.setattr("ooc_graph.memory.device_plan.FIXED_BYTES", 0)
    monkeypatch.setattr("ooc_graph.memory.device_plan._SSSP_STRETCHES", 0)
    whole = resident.cuda_bytes(graph, kernel)
    assert choice.choose(graph, kernel, place(whole), pinned=True) == choice.Way("cuda", "one")
    small = whole - 1
    way = choice.choose(graph, kernel, place(small), pinned=True)
    assert way == choice.Way("cuda", "one", budget_bytes=small)
    with pytest.raises(MemoryBudgetError, match=f"needs {whole:,} bytes of device memory"):
        choice.choose(graph, kernel, place(small))
    facts = cuda_tiers.known_facts(graph, kernel)
    least = least_plan(kernel, facts).bytes
    assert choice.choose(graph, kernel, place(least), pinned=True).budget_bytes == least
    with pytest.raises(MemoryBudgetError, match=f"at least {least:,} bytes of device memory"):
        choice.choose(graph, kernel, place(least - 1), pinned=True)


def test_pinned_memory_has_a_limit_too(graph: og.Graph) -> None:
    needed = 4 * graph.arcs
    small = resident.cuda_bytes(graph, "bfs") - 1
    assert choice.choose(graph, "bfs", place(small, needed), pinned=True).budget_bytes
    with pytest.raises(MemoryBudgetError, match=f"needs {needed:,} bytes of pinned host memory"):
        choice.choose(graph, "bfs", place(small, needed - 1), pinned=True)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_rows_that_are_pinned_already_need_no_free_memory(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = resident.cuda_bytes(graph, kernel) - 1
    pinned = graph.arcs * (4 if kernel == "bfs" else 8)

    def chosen(
        device_bytes: int = small,
        pinned_bytes: int | None = None,
        *,
        limited: bool = False,
        may_pin: bool = True,
        on_device: bool = False,
    ) -> choice.Way:
        # Hardly anything is free, for the rows are held.
        tight = PlannedCuda(1, CudaLimits(device_bytes, pinned_bytes))
        tight.is_limited = limited
        return choice.choose(graph, kernel, tight, pinned=may_pin, on_device=on_device)

    monkeypatch.setattr(here, "number_of", lambda _: "0")
    key = (str(graph.path), graph.identity, kernel, "rows", "cuda", "1", (small, True, False, None))
    monkeypatch.setattr(resident, "_held", {key: None})
    with pytest.raises(MemoryBudgetError, match="may be used"):
        chosen()
    key = (str(graph.path), graph.identity, kernel, "rows", "cuda", "0", (small, True, False, None))
    monkeypatch.setattr(resident, "_held", {key: None})
    way = choice.Way("cuda", "one", budget_bytes=small)
    assert chosen() == way
    assert chosen(pinned_bytes=pinned) == way
    # Within another budget they are pinned anew, in the place of those that go.
    assert chosen(small - 1) == choice.Way("cuda", "one", budget_bytes=small - 1)
    answer = cuda_tiers.answer_device_bytes(graph)
    assert chosen(on_device=True).budget_bytes == small - answer
    # What somebody limits holds for rows that are held too.
    for limits in (
        {"pinned_bytes": pinned - 1},
        {"device_bytes": 1},
        {"limited": True},
        {"may_pin": False},
    ):
        with pytest.raises(MemoryBudgetError):
            chosen(**limits)  # type: ignore[arg-type]


def test_what_wants_all_rows_on_the_device_is_refused(directed: og.Graph) -> None:
    assert cuda_tiers.may_pin(directed, "bfs")
    assert cuda_tiers.may_pin(directed, "sssp")
    for kernel in ("components", "apsp", "multi_source_bfs"):
        assert not cuda_tiers.may_pin(directed, kernel)
    # Where it is not known which answer stands beside the rows.
    small = resident.cuda_bytes(directed, "sssp") - 1
    with pytest.raises(MemoryBudgetError, match="bytes of device memory in one worker"):
        choice.choose(directed, "sssp", place(small))


def hubs_with(weight: np.ndarray, path: Path) -> og.Graph:
    """A graph with hubs."""
    ends = (np.random.default_rng(5).random((2, len(weight))) ** 3 * 5000).astype(np.int64)
    return og.build((*ends, weight.astype(np.float32)), path, rows="both", shards=2)


class TwoWorkers(PlannedCuda):
    """Two workers with a device each, of which nothing is asked but what they have."""

    client = QuietClient()  # type: ignore[assignment]
    has_ranks = True
    processes = 2


@pytest.mark.parametrize("kind", ["equal", "of few values", "within a factor of 8"])
def test_weights_that_do_not_spread_are_pinned_or_left_to_ranks(kind: str, tmp_path: Path) -> None:
    rng, count = np.random.default_rng(6), 200_000
    weight = {
        "equal": np.ones(count),
        "of few values": rng.integers(1, 4, count),
        "within a factor of 8": 1 + 7 * rng.random(count),
    }[kind]
    found = hubs_with(weight, tmp_path / "flat.zarr")
    assert hubs_hold_much(found.head_share(first_rows(found.rows)))
    shard = found.load("light")
    assert shard.out_light is not None
    assert not may_pull(survey(shard.out_light, shard.tuples))
    assert not cuda_tiers.reads_little(found, "sssp")
    assert cuda_tiers.reads_little(found, "bfs")
    needed = rank_memory.ranks_bytes(found, "sssp", range(1))
    assert needed < resident.cuda_bytes(found, "sssp")
    pinned = cuda_tiers.pinned_bytes(found, "sssp")
    for limit, expected in (
        (pinned, choice.Way("cuda", "one", budget_bytes=needed)),
        (pinned - 1, choice.Way("cuda", "scheduler")),
    ):
        workers = TwoWorkers(HOST, CudaLimits(needed, limit))
        assert choice.choose(found, "sssp", workers, pinned=True) == expected


@pytest.mark.parametrize("wanted", ["cuda", "auto"])
def test_refused_pinning_goes_on_to_ranks(
    graph: og.Graph, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = rank_memory.ranks_bytes(graph, "bfs", range(2))
    assert cuda_tiers.least_device_bytes(graph, "bfs") < needed < resident.cuda_bytes(graph, "bfs")
    tried: list[tuple[str, str, bool]] = []

    def carry_out(_: object, task: SearchTask, exchange: str, __: object) -> Written:
        tried.append((task.device, exchange, task.budget_bytes > 0))
        if exchange == "one":
            raise MemoryBudgetError("8 bytes of pinned host memory are refused")
        return Written(Course(0.0, ()), columns={})

    monkeypatch.setattr(search, "_carry_out", carry_out)
    noted: list[str] = []
    progress = NoProgress()
    monkeypatch.setattr(progress, "note", noted.append)
    root = int(graph.original_of()[0])
    workers = TwoWorkers(HOST, CudaLimits(needed))
    workers.wanted = wanted
    search.search(graph, "bfs", root, place=workers, progress=progress)
    assert tried == [("cuda", "one", True), ("cuda", "scheduler", False)]
    assert noted == ["bfs by ranks, exchange scheduler: 8 bytes of pinned host memory are refused"]
    # Without workers, or on workers too small for the ranks, there is nothing to go on to.
    alone = PlannedCuda(HOST, CudaLimits(needed))
    small = TwoWorkers(HOST, CudaLimits(needed - 1))
    for other in (alone, small):
        tried.clear()
        with pytest.raises(MemoryBudgetError, match="are refused"):
            search.search(graph, "bfs", root, place=other, progress=progress)
        assert tried == [("cuda", "one", True)]


@pytest.mark.parametrize("shards", [1, 4])
def test_of_weights_that_spread_little_is_read(shards: int, tmp_path: Path) -> None:
    # More rows than are looked at, and in several blocks of the dealing.
    rng = np.random.default_rng(7)
    ends = (rng.random((2, 900_000)) ** 3 * 300_000).astype(np.int64)
    weight = rng.random(900_000).astype(np.float32)
    found = og.build((*ends, weight), tmp_path / "spread.zarr", rows="both", shards=shards)
    assert sampled_rows(found.rows) > 1024
    shard = found.load("light")
    assert shard.out_light is not None
    whole = survey(shard.out_light, shard.tuples)
    assert may_pull(whole)
    expected = whole.spread_rows / whole.sampled_rows
    assert spread_share(found) == pytest.approx(expected, abs=0.25)
    assert cuda_tiers.reads_little(found, "sssp")


def test_a_device_without_a_limit_keeps_some_memory() -> None:
    found = place(1 << 30)
    assert cuda_tiers.budget_of(found) == 1 << 30
    found.cuda_limits = CudaLimits()
    assert cuda_tiers.budget_of(found) == 15 << 26


def test_a_refusal_says_what_would_help(graph: og.Graph) -> None:
    whole, needed = resident.cuda_bytes(graph, "bfs"), 4 * graph.arcs

    def said(device_bytes: int, limit: int, pinned: int | None, *, limited: bool = True) -> str:
        there = PlannedCuda(limit, CudaLimits(device_bytes, pinned))
        there.is_limited = limited
        with pytest.raises(MemoryBudgetError) as refused:
            choice.choose(graph, "bfs", there, pinned=True)
        return str(refused.value)

    assert said(whole - 1, HOST, needed - 1).endswith("may be used; raise --host-memory")
    for pinned in (None, needed):
        assert said(whole - 1, needed, pinned).endswith("may be used; raise --memory-limit")
        free = said(whole - 1, needed, pinned, limited=False)
        assert free.endswith("may be used; that is what is free")
    # Rows that the device has room for are not refused for what pinning them would take.
    assert "bytes of host memory in one worker" in said(whole, needed, None)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_what_goes_on_has_the_least_at_least(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = SearchTask(str(graph.path), graph.identity, kernel, 0, None, device="cuda")
    least, whole = (
        cuda_tiers.least_device_bytes(graph, kernel),
        resident.cuda_bytes(graph, kernel),
    )
    for free, budget in ((least, least), (least // 2, least), (9 * whole, whole // 8 * 7)):
        monkeypatch.setattr(cuda_modules, "device_bytes", lambda n=free: (n, 9 * whole))
        less, note = refused.with_less(task)
        assert less == {"budget_bytes": budget}
        assert f"within {budget:,} bytes" in note


def test_host_memory_holds_tables_and_an_answer_too(graph: og.Graph) -> None:
    small = resident.cuda_bytes(graph, "bfs") - 1
    rows = 4 * graph.arcs
    # Where the answer goes to a store, and where it stays in host memory.
    assert rows < CHUNK_BYTES
    tables = 4 * graph.vertices + 48 * graph.rows + rows  # of a column one chunk at a time
    for answer_bytes in (0, 20 * graph.vertices):
        needed = rows + tables + answer_bytes
        for limit, fits in ((needed, True), (needed - 1, False)):
            there = PlannedCuda(limit, CudaLimits(small))
            options = {"pinned": True, "answer_bytes": answer_bytes}
            if fits:
                assert choice.choose(graph, "bfs", there, **options).budget_bytes == small
            else:
                with pytest.raises(MemoryBudgetError, match="of pinned host memory"):
                    choice.choose(graph, "bfs", there, **options)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_an_answer_on_the_device_is_planned_for(graph: og.Graph, kernel: str) -> None:
    answer = cuda_tiers.answer_device_bytes(graph)
    assert answer >= 29 * graph.vertices
    small = resident.cuda_bytes(graph, kernel) - 1
    # There the parents have names, which take memory of their own.
    least = cuda_tiers.least_device_bytes(graph, kernel)
    names = (8 if kernel == "bfs" else 4) * graph.rows
    named = cuda_tiers.least_device_bytes(graph, kernel, named=True)
    assert names <= named - least <= names + 4 * 128
    here, there = (
        choice.choose(graph, kernel, place(small), pinned=True, on_device=on_device)
        for on_device in (False, True)
    )
    assert (here.budget_bytes, there.budget_bytes) == (small, small - answer)
    enough = choice.choose(graph, kernel, place(named + answer), pinned=True, on_device=True)
    assert enough.budget_bytes == named
    with pytest.raises(MemoryBudgetError, match=f"at least {named:,} bytes of device memory"):
        choice.choose(graph, kernel, place(named + answer - 1), pinned=True, on_device=True)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("arrays", ["numpy", "cupy"])
def test_names_are_held_only_for_answers_on_the_device(
    graph: og.Graph, kernel: str, arrays: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[object] = []

    def search_within(*arguments: object) -> tuple[None, None]:
        held.append(arguments[-1])
        raise LookupError

    monkeypatch.setattr(cuda_tiers, "search_within", search_within)
    monkeypatch.setattr(here, "device", lambda _: None)
    monkeypatch.setattr(here, "number_of", lambda _: "0")
    monkeypatch.setattr(loading, "PinnedRoom", lambda _: np.empty)
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (1 << 40, 1 << 40))
    whom = str(graph.path), graph.identity, kernel, 0, None
    task = SearchTask(*whom, device="cuda", arrays=arrays, budget_bytes=1 << 30)
    with pytest.raises(LookupError):
        search_whole._search_held(task)
    (names,) = held
    if arrays == "numpy":
        assert names is None
    else:
        assert isinstance(names, np.ndarray)
        assert names.tolist() == graph.original_of().tolist()


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_memory_that_others_have_makes_the_budget_smaller(
    graph: og.Graph, kernel: str, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    least = cuda_tiers.least_device_bytes(graph, kernel, named=named)
    beside = cuda_tiers.answer_device_bytes(graph) if named else 0
    budgets: list[int] = []

    def search_within(
        _graph: object, _kernel: str, budget_bytes: int, *_: object
    ) -> tuple[None, None]:
        budgets.append(budget_bytes)
        return None, None

    monkeypatch.setattr(cuda_tiers, "search_within", search_within)
    monkeypatch.setattr(here, "device", lambda _: None)
    monkeypatch.setattr(loading, "PinnedRoom", lambda _: np.empty)
    for free in (least - 1, least, 3 * least):
        there = free + beside
        monkeypatch.setattr(cuda_modules, "device_bytes", lambda n=there: (n, 4 * n))
        if free < least:
            needed = f"needs {least + beside:,} bytes of device memory"
            with pytest.raises(DeviceBusyError, match=needed):
                loading._load_on_cuda(graph, kernel, 2 * least, None, named=named)
        else:
            loading._load_on_cuda(graph, kernel, 2 * least, None, named=named)
    assert budgets == [least, 2 * least]


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_refused_plans_are_followed_by_smaller_ones(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[DevicePlan] = []

    def refuse(plan: DevicePlan, *_: object) -> None:
        tried.append(plan)
        raise MemoryBudgetError("refused")

    monkeypatch.setattr(cuda_tiers, "_made", refuse)
    monkeypatch.setattr(cuda_tiers, "link_rate", lambda: 1.0)
    with pytest.raises(MemoryBudgetError, match="refused"):
        cuda_tiers.search_within(graph, kernel, 1 << 40, None, None, None, None)  # type: ignore[arg-type]
    sizes = [plan.bytes for plan in tried]
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[-1] <= cuda_tiers.least_device_bytes(graph, kernel)
    assert len(sizes) > 1
    # Nothing is left that could be given up.
    last = tried[-1]
    assert last == type(last)(last.facts, last.budget_bytes)


def test_host_memory_that_is_refused_does_not_pin_rows(graph: og.Graph) -> None:
    task = SearchTask(str(graph.path), graph.identity, "bfs", 0, None, device="cuda")
    assert refused.may_go_on(MemoryBudgetError("the device's"), task)
    assert step_down.less_of(MemoryBudgetError("the device's"), task) is refused.with_less
    # Rows in pinned memory would take as much of the host's; nothing may stay in the store here.
    assert refused.may_go_on(MemoryError(), task)
    assert step_down.less_of(MemoryError(), task) is None
    on_cpu = replace(task, device="cpu")
    assert refused.may_go_on(MemoryError(), on_cpu)
    assert not refused.may_go_on(MemoryBudgetError("a plan's"), on_cpu)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_limit_of_pinned_memory_holds_on_the_way_down(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = graph.arcs * (4 if kernel == "bfs" else 8)
    tried: list[SearchTask] = []

    def refuse(task: SearchTask) -> None:
        tried.append(task)
        raise MemoryBudgetError("refused")

    monkeypatch.setattr(search_whole, "_search_held", refuse)
    monkeypatch.setattr(step_down, "with_less", lambda _: ({"budget_bytes": 1000}, "less"))
    task = SearchTask(str(graph.path), graph.identity, kernel, 0, None, device="cuda")
    for limit, times in ((needed - 1, 1), (needed, 2), (None, 2)):
        tried.clear()
        with pytest.raises(MemoryBudgetError, match="refused"):
            search_whole.search_whole(replace(task, pinned_bytes=limit))
        assert [one.budget_bytes for one in tried] == [0, 1000][:times]


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_a_device_that_others_use_in_part_has_rows_pinned(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where CUDA was asked for; ``auto`` leaves such a device."""
    tried: list[int] = []
    errors: dict[bool, Exception] = {}

    def search_held(task: SearchTask) -> Written:
        tried.append(task.budget_bytes)
        if error := errors.get(task.budget_bytes > 0):
            raise error
        return Written(Course(0.0, ()))

    monkeypatch.setattr(here, "number_of", lambda _: "0")
    monkeypatch.setattr(search_whole, "_search_held", search_held)
    monkeypatch.setattr(step_down, "with_less", lambda _: ({"budget_bytes": 1000}, "less"))
    task = SearchTask(str(graph.path), graph.identity, kernel, 0, None, device="cuda")
    errors[False] = DeviceBusyError("others use the rest")
    with pytest.raises(DeviceBusyError, match="others use the rest"):
        search_whole.search_whole(task)
    asked = replace(task, pins_if_busy=True)
    assert search_whole.search_whole(asked).notes == ("others have memory of the device: less",)
    assert tried == [0, 0, 1000]
    # What pinning lacks is no reason to say that another device would be needed.
    for error, said in (
        (MemoryBudgetError("pinned memory is refused"), "others use the rest"),
        (DeviceBusyError("even the least"), "even the least"),
    ):
        errors[True] = error
        with pytest.raises(DeviceBusyError, match=said):
            search_whole.search_whole(asked)
    needed = graph.arcs * (4 if kernel == "bfs" else 8)
    with pytest.raises(DeviceBusyError, match="others use the rest"):
        search_whole.search_whole(replace(asked, pinned_bytes=needed - 1))
    assert tried == [0, 0, 1000] + [0, 1000] * 2 + [0]


@pytest.mark.parametrize("wanted", ["auto", "cuda"])
def test_who_asks_for_a_device_has_rows_pinned(
    graph: og.Graph, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[SearchTask] = []

    def carry_out(_: object, task: SearchTask, *__: object) -> Written:
        tasks.append(task)
        return Written(Course(0.0, ()), columns={})

    monkeypatch.setattr(search, "_carry_out", carry_out)
    there = place(1 << 40)
    there.wanted = wanted
    root = int(graph.original_of()[0])
    search.search(graph, "bfs", root, place=there, progress=NoProgress())
    assert [(task.device, task.pins_if_busy) for task in tasks] == [("cuda", wanted == "cuda")]


def test_a_search_that_was_refused_memory_is_not_refused_again(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[int] = []

    def load(*arguments: object) -> object:
        budget_bytes = arguments[4]
        assert isinstance(budget_bytes, int)
        loaded.append(budget_bytes)
        if not budget_bytes:
            raise MemoryBudgetError("refused")
        return SimpleNamespace(pinned=None, moved=None, search=None, ids=None)

    monkeypatch.setattr(loading, "load", load)
    monkeypatch.setattr(here, "number_of", lambda _: "0")
    monkeypatch.setattr(search_whole, "run_search", lambda *_: (None, Course(0.0, ())))
    monkeypatch.setattr(search_whole, "written_of", lambda *_: Written(Course(0.0, ())))
    monkeypatch.setattr(step_down, "with_less", lambda _: ({"budget_bytes": 1000}, "less"))
    resident.release()
    whom = str(graph.path), graph.identity, "bfs"
    task = SearchTask(*whom, 0, None, device="cuda")
    assert search_whole.search_whole(task).notes == ("less",)
    assert search_whole.search_whole(task).notes == ()
    assert loaded == [0, 1000]
    # It is held as what was asked for, where that fits the device, whatever is free in the host.
    whole = resident.cuda_bytes(graph, "bfs")
    tight = PlannedCuda(1, CudaLimits(whole))
    tight.is_limited = False
    assert choice.choose(graph, "bfs", tight, pinned=True) == choice.Way("cuda", "one")
    # But not where so much must not be pinned, nor for Graph500.
    for other in (
        lambda: search_whole.search_whole(replace(task, pinned_bytes=1)),
        lambda: BatchTask(*whom, og.Kronecker(13), True, "cuda").searcher().__enter__(),
    ):
        with pytest.raises(MemoryBudgetError, match="refused"):
            other()
        resident.release()
        search_whole.search_whole(task)
    resident.release()
    search_whole.search_whole(task)
    assert loaded == [0, 1000] + [0, 0, 1000] * 2 + [0, 1000]
    resident.release()


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_plan_is_shown(
    graph: og.Graph,
    kernel: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = og.plan(graph, kernel, device="cuda", device_memory="1GiB")
    assert (table["tier"], table["device budget"]) == ("device memory", 1 << 30)
    assert table["device bytes: in all"] == resident.cuda_bytes(graph, kernel)
    arguments = ["plan", str(graph.path), "--kernel", kernel, "--device", "cuda", "--json"]
    limits = ["--device-memory", "28MB", "--host-memory", "1GB"]
    done = call(monkeypatch, capsys, *arguments, *limits)
    assert done.code == 0, done.err
    table = json.loads(done.out)
    assert table["tier"] == "pinned"
    assert table["device bytes: in all"] <= 28_000_000
    assert table["bytes of pinned host memory"] == graph.arcs * (4 if kernel == "bfs" else 8)
    with pytest.raises(UsageError, match="choose cpu or cuda"):
        og.plan(graph, device="gpu")
    # Ids of 64 bits are searched by ranks.
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: True)
    table = og.plan(graph, kernel, device="cuda", device_memory="1GiB")
    assert table["tier"] == "device memory, by ranks"
    ranks = rank_memory.ranks_bytes(graph, kernel, range(graph.shards))
    assert table["device bytes: in all"] == ranks != resident.cuda_bytes(graph, kernel)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_no_host_memory_is_a_limit(
    graph: og.Graph,
    kernel: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = ["plan", graph.path, "--kernel", kernel, "--device", "cuda", "--device-memory"]
    none = ["--host-memory", "0"]
    # A device that holds the rows needs none.
    done = call(monkeypatch, capsys, *whole, "1GiB", *none)
    assert (done.code, "device memory" in done.out) == (0, True)
    done = call(monkeypatch, capsys, *whole, "28MB", *none)
    assert (done.code, done.out) == (2, "")
    assert "of pinned host memory, and 0 may be used; raise --host-memory" in done.err
    with pytest.raises(MemoryBudgetError, match="and 0 may be used"):
        og.plan(graph, kernel, device="cuda", device_memory="28MB", host_memory=0)
    assert CudaLimits.of(None, "0 GiB") == CudaLimits(None, 0)
    with pytest.raises(UsageError, match="for CUDA devices"):
        og.plan(graph, kernel, host_memory=0)


def test_no_device_memory_is_no_limit(graph: og.Graph) -> None:
    for host_memory in (None, 0):
        with pytest.raises(UsageError, match="more than nothing"):
            og.plan(graph, device="cuda", device_memory="0", host_memory=host_memory)
    for less in ("0.5", "-1", "0 of it"):
        with pytest.raises(UsageError, match="--host-memory"):
            CudaLimits.of(None, less)


@pytest.mark.parametrize("option", ["--device-memory", "--host-memory"])
def test_limits_of_cuda_devices_are_not_for_the_cpu(
    graph: og.Graph,
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said, out = "are for CUDA devices", ["--out", tmp_path / "out.zarr"]
    sources = tmp_path / "sources.txt"
    sources.write_text("1\n2\n")
    for command in (
        ["bfs", graph.path, *out, "--source", "1"],
        ["bfs", graph.path, *out, "--sources", sources],
        ["sssp", graph.path, *out, "--source", "1"],
        ["apsp", graph.path, *out],
        ["plan", graph.path],
    ):
        done = call(monkeypatch, capsys, *command, "--device", "cpu", option, "1GiB")
        assert (done.code, said in done.err) == (2, True)
    given = {option[2:].replace("-", "_"): "1GiB"}
    for search_from in (og.bfs, og.sssp):
        with pytest.raises(UsageError, match=said):
            search_from(graph, 1, device="cpu", **given)
    assert not (tmp_path / "out.zarr").exists()


def test_limits_of_cuda_devices_are_no_matter_where_there_is_none(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_here() -> int:
        raise DeviceError("there is no device")

    monkeypatch.setattr(devices, "cuda_memory_here", none_here)
    root, limits = int(graph.original_of()[0]), {"device_memory": "1MB", "host_memory": "1MB"}
    for search_from in (og.bfs, og.sssp):
        found = search_from(graph, root, **limits)
        assert found.reached.any()
        with pytest.raises(DeviceError, match="there is no device"):
            search_from(graph, root, device="cuda", **limits)


@pytest.mark.parametrize("name", ["graph", "directed"])
@pytest.mark.parametrize("order", ["hub", "light"])
def test_rows_are_loaded_into_a_room(name: str, order: str, request: pytest.FixtureRequest) -> None:
    graph: og.Graph = request.getfixturevalue(name)
    given = []

    def room(count: int, dtype: np.dtype) -> np.ndarray:
        given.append(np.full(count, 7, dtype))
        return given[-1]

    plain, held = graph.load(order), graph.load(order, room=room)
    sides = [(getattr(s, f"out_{order}"), getattr(s, f"into_{order}")) for s in (plain, held)]
    for expected, found in zip(*sides, strict=True):
        assert found.neighbors.tobytes() == expected.neighbors.tobytes()
        assert any(found.neighbors is array for array in given)
        if order == "light":
            assert found.weights.tobytes() == expected.weights.tobytes()
            assert any(found.weights is array for array in given)
    assert len(given) == (1 + graph.directed) * (1 + (order == "light"))


def test_facts_of_a_graph(directed: og.Graph) -> None:
    facts = cuda_tiers.facts_of(directed, "bfs")
    shard = directed.load("hub")
    assert [side.arcs for side in facts.sides] == [
        len(r.neighbors) for r in (shard.out_hub, shard.into_hub)
    ]
    lengths = np.diff(shard.into_hub.offsets.astype(np.int64))
    expected = [np.flatnonzero(lengths > 1 + 4 * k)[-1] + 1 for k in range(COLUMNS)]
    assert (facts.longer, facts.longer3) == (tuple(expected), np.flatnonzero(lengths > 3)[-1] + 1)
    assert facts.rows == directed.rows
    held = BfsPlan(facts, 0, 2, 10)
    note = cuda_tiers.note_of(held)
    assert note.startswith(
        f"bfs had {4 * directed.arcs:,} bytes of rows in pinned host memory, and"
    )
    assert re.search(rf"and {held.bytes:,} bytes on the device with [\d.]+ % of the arcs", note)
    assert note.endswith("(of each row 9, and hubs)")


def test_what_went_over_the_bus_is_said(directed: og.Graph) -> None:
    plan = BfsPlan(cuda_tiers.facts_of(directed, "bfs"), 0, 2, 10)
    plain = cuda_tiers.note_of(plan)
    assert cuda_tiers.over_bus(SimpleNamespace(asked_bytes=None), 1.0) is None
    unknown = cuda_tiers.OverBus(320_000, 0.5, None)
    assert unknown.share is None
    asked = f"{plain}; it asked for 320,000 bytes over the bus"
    assert cuda_tiers.note_of(plan, unknown) == asked
    known = cuda_tiers.OverBus(320_000, 0.5, 1_000_000.0)
    assert known.share == 0.64
    assert cuda_tiers.note_of(plan, known) == f"{asked}, 64 % of the link's peak"
    # Of a root without arcs nothing was searched.
    assert cuda_tiers.OverBus(0, 0.0, 1_000_000.0).share is None
