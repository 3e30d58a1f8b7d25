"""Memory that is planned where rows go to pinned host memory, also where it is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.layout.names import CHUNK_BYTES
from ooc_graph.memory.cuda.pinned_plan import DevicePlan
from ooc_graph.model.resources import CUDA, CudaLimits
from ooc_graph.model.task import SearchTask, Written
from ooc_graph.model.trace import Course
from ooc_graph.runtime import process
from ooc_graph.runtime.workplace import planned
from ooc_graph.search import refused, single, step_down
from ooc_graph.search import whole as search_whole
from ooc_graph.strategies import loading
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.types import NoProgress
from tests import tiered_graphs
from tests.made_up_place import CudaHere, chosen
from tests.tiered_graphs import HOST, place

graph, directed, nothing_stays = (
    tiered_graphs.graph,
    tiered_graphs.directed,
    tiered_graphs.nothing_stays,
)


def test_a_device_without_a_limit_keeps_some_memory() -> None:
    found = place(1 << 30)
    assert cuda_pinned.budget_of(found) == 1 << 30
    assert cuda_pinned.budget_of(replace(found, cuda_limits=CudaLimits())) == 15 << 26


def test_a_refusal_says_what_would_help(graph: og.Graph) -> None:
    whole, needed = cuda_memory.cuda_bytes(graph, "bfs"), 4 * graph.arcs

    def said(device_bytes: int, limit: int, pinned: int | None, *, limited: bool = True) -> str:
        found = planned(limit, CUDA, CudaLimits(device_bytes, pinned))
        there = replace(found, is_limited=limited)
        with pytest.raises(MemoryBudgetError) as refused:
            chosen(graph, "bfs", there)
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
        cuda_pinned.least_device_bytes(graph, kernel),
        cuda_memory.cuda_bytes(graph, kernel),
    )
    for free, budget in ((least, least), (least // 2, least), (9 * whole, whole // 8 * 7)):
        monkeypatch.setattr(cuda_modules, "device_bytes", lambda n=free: (n, 9 * whole))
        less, note = refused.with_less(task)
        assert less == {"budget_bytes": budget}
        assert f"within {budget:,} bytes" in note


def test_host_memory_holds_tables_and_an_answer_too(graph: og.Graph) -> None:
    small = cuda_memory.cuda_bytes(graph, "bfs") - 1
    rows = 4 * graph.arcs
    # Where the answer goes to a store, and where it stays in host memory.
    assert rows < CHUNK_BYTES
    tables = 4 * graph.vertices + 48 * graph.rows + rows  # of a column one chunk at a time
    for answer_bytes in (0, 20 * graph.vertices):
        needed = rows + tables + answer_bytes
        for limit, fits in ((needed, True), (needed - 1, False)):
            there = planned(limit, CUDA, CudaLimits(small))
            options = {"answer_bytes": answer_bytes}
            if fits:
                assert chosen(graph, "bfs", there, **options).budget_bytes == small
            else:
                with pytest.raises(MemoryBudgetError, match="of pinned host memory"):
                    chosen(graph, "bfs", there, **options)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_an_answer_on_the_device_is_planned_for(graph: og.Graph, kernel: str) -> None:
    answer = cuda_pinned.answer_device_bytes(graph)
    assert answer >= 29 * graph.vertices
    small = cuda_memory.cuda_bytes(graph, kernel) - 1
    # There the parents have names, which take memory of their own.
    least = cuda_pinned.least_device_bytes(graph, kernel)
    names = (8 if kernel == "bfs" else 4) * graph.rows
    named = cuda_pinned.least_device_bytes(graph, kernel, named=True)
    assert names <= named - least <= names + 4 * 128
    here, there = (
        chosen(graph, kernel, place(small), on_device=on_device) for on_device in (False, True)
    )
    assert (here.budget_bytes, there.budget_bytes) == (small, small - answer)
    enough = chosen(graph, kernel, place(named + answer), on_device=True)
    assert enough.budget_bytes == named
    with pytest.raises(MemoryBudgetError, match=f"at least {named:,} bytes of device memory"):
        chosen(graph, kernel, place(named + answer - 1), on_device=True)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("arrays", ["numpy", "cupy"])
def test_names_are_held_only_for_answers_on_the_device(
    graph: og.Graph, kernel: str, arrays: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[object] = []

    def search_within(*arguments: object) -> tuple[None, None]:
        held.append(arguments[-1])
        raise LookupError

    monkeypatch.setattr(cuda_pinned, "search_within", search_within)
    monkeypatch.setattr(process, "device", lambda _: None)
    monkeypatch.setattr(process, "number_of", lambda _: "0")
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
    least = cuda_pinned.least_device_bytes(graph, kernel, named=named)
    beside = cuda_pinned.answer_device_bytes(graph) if named else 0
    budgets: list[int] = []

    def search_within(
        _graph: object, _kernel: str, budget_bytes: int, *_: object
    ) -> tuple[None, None]:
        budgets.append(budget_bytes)
        return None, None

    monkeypatch.setattr(cuda_pinned, "search_within", search_within)
    monkeypatch.setattr(process, "device", lambda _: None)
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

    monkeypatch.setattr(cuda_pinned, "_made", refuse)
    monkeypatch.setattr(cuda_pinned, "link_rate", lambda: 1.0)
    with pytest.raises(MemoryBudgetError, match="refused"):
        cuda_pinned.search_within(graph, kernel, 1 << 40, None, None, None, None)  # type: ignore[arg-type]
    sizes = [plan.bytes for plan in tried]
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[-1] <= cuda_pinned.least_device_bytes(graph, kernel)
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

    monkeypatch.setattr(process, "number_of", lambda _: "0")
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

    monkeypatch.setattr(single, "_carry_out", carry_out)
    there = CudaHere(HOST, CudaLimits(1 << 40))
    there.wanted = wanted
    root = int(graph.original_of()[0])
    single.search(graph, "bfs", root, place=there, progress=NoProgress())
    assert [(task.device, task.pins_if_busy) for task in tasks] == [("cuda", wanted == "cuda")]
