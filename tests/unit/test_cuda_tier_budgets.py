"""Memory that is planned where rows go to pinned host memory, also where it is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.layout.names import CHUNK_BYTES
from ooc_graph.memory.cuda.device_facts import DevicePlan
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.resources import CUDA, CudaLimits
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.this_process import ThisProcess, planned
from ooc_graph.search.execute import execute, plan_at
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned as pinned_strategy
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.cuda.pinned import Pinned
from tests import tiered_graphs
from tests.made_up_place import CudaHere, chosen, plan_for
from tests.refused_in_turn import InTurn, followed
from tests.said import Said
from tests.tiered_graphs import HOST, workplace

graph, directed, nothing_stays = (
    tiered_graphs.graph,
    tiered_graphs.directed,
    tiered_graphs.nothing_stays,
)


def test_a_device_without_a_limit_keeps_some_memory() -> None:
    found = workplace(1 << 30)
    assert cuda_pinned.budget_of(found) == 1 << 30
    assert cuda_pinned.budget_of(replace(found, cuda_limits=CudaLimits())) == 15 << 26


def test_a_refusal_says_what_would_help(graph: og.Graph) -> None:
    whole, needed = cuda_memory.cuda_bytes(graph, "bfs"), 4 * graph.stored_arcs

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


@pytest.fixture
def a_device(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which nothing is asked but its number, and how much memory is free."""
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (HOST, HOST))
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    engine_cache.release()


def just_enough(graph: og.Graph, kernel: str, pinned_bytes: int | None = None) -> CudaHere:
    """A process with a device that has room for all rows."""
    return CudaHere(HOST, CudaLimits(cuda_memory.cuda_bytes(graph, kernel), pinned_bytes))


@pytest.mark.usefixtures("a_device")
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_what_goes_on_has_the_least_at_least(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    least, whole = (
        cuda_pinned.least_device_bytes(graph, kernel),
        cuda_memory.cuda_bytes(graph, kernel),
    )
    there = just_enough(graph, kernel)
    for free, budget in ((least, least), (least // 2, least), (9 * whole, whole // 8 * 7)):
        monkeypatch.setattr(cuda_modules, "device_bytes", lambda n=free: (n, 9 * whole))
        first = plan_for(graph, kernel, there.resources())
        _, less = followed(first, there, MemoryBudgetError("refused"))
        assert (less.strategy.name, less.reserved.device_bytes) == ("cuda/pinned", budget)
        assert f"within {budget:,} bytes" in less.why


def test_host_memory_holds_tables_and_an_answer_too(graph: og.Graph) -> None:
    small = cuda_memory.cuda_bytes(graph, "bfs") - 1
    rows = 4 * graph.stored_arcs
    # Where the answer goes to a store, and where it stays in host memory.
    assert rows < CHUNK_BYTES
    tables = 4 * graph.vertices + 48 * graph.rows + rows  # of a column one chunk at a time
    for answer_bytes in (0, 20 * graph.vertices):
        needed = rows + tables + answer_bytes
        for limit, fits in ((needed, True), (needed - 1, False)):
            there = planned(limit, CUDA, CudaLimits(small))
            options = {"answer_bytes": answer_bytes}
            if fits:
                assert chosen(graph, "bfs", there, **options).device_bytes == small
            else:
                with pytest.raises(MemoryBudgetError, match=f"at least {needed:,} bytes of host"):
                    chosen(graph, "bfs", there, **options)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_an_answer_on_the_device_is_planned_for(graph: og.Graph, kernel: str) -> None:
    answer = cuda_pinned.answer_device_bytes(graph)
    assert answer >= 29 * graph.vertices
    small = cuda_memory.cuda_bytes(graph, kernel) - 1
    # There the parents have names, which take memory of their own.
    least = cuda_pinned.least_device_bytes(graph, kernel)
    names = (8 if kernel == "bfs" else 4) * graph.rows
    more = cuda_pinned.least_device_bytes(graph, kernel, original_parents=True)
    assert names <= more - least <= names + 4 * 128
    here, there = (
        chosen(graph, kernel, workplace(small), on_device=on_device) for on_device in (False, True)
    )
    assert (here.device_bytes, there.device_bytes) == (small, small - answer)
    needed = more + answer
    enough = chosen(graph, kernel, workplace(needed), on_device=True)
    assert enough.device_bytes == more
    with pytest.raises(MemoryBudgetError, match=f"at least {needed:,} bytes of device memory"):
        chosen(graph, kernel, workplace(needed - 1), on_device=True)


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
    monkeypatch.setattr(pinned_strategy, "PinnedAllocator", lambda _: np.empty)
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (1 << 40, 1 << 40))
    there = workplace(cuda_memory.cuda_bytes(graph, kernel) - 1)
    reserved = chosen(graph, kernel, there, on_device=arrays == "cupy")
    with pytest.raises(LookupError):
        Pinned().load(graph, kernel, reserved)
    (names,) = held
    if arrays == "numpy":
        assert names is None
    else:
        assert isinstance(names, np.ndarray)
        assert names.tolist() == graph.original_of().tolist()


@pytest.mark.parametrize("original_parents", [False, True])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_memory_that_others_have_makes_the_budget_smaller(
    graph: og.Graph, kernel: str, original_parents: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    least = cuda_pinned.least_device_bytes(graph, kernel, original_parents=original_parents)
    beside = cuda_pinned.answer_device_bytes(graph) if original_parents else 0
    budgets: list[int] = []

    def search_within(
        _graph: object, _kernel: str, budget_bytes: int, *_: object
    ) -> tuple[None, None]:
        budgets.append(budget_bytes)
        return None, None

    monkeypatch.setattr(cuda_pinned, "search_within", search_within)
    monkeypatch.setattr(process, "device", lambda _: None)
    monkeypatch.setattr(pinned_strategy, "PinnedAllocator", lambda _: np.empty)
    strategy = Pinned()
    reserved = Reservation(strategy.name, device_bytes=2 * least, original_parents=original_parents)
    for free in (least - 1, least, 3 * least):
        there = free + beside
        monkeypatch.setattr(cuda_modules, "device_bytes", lambda n=there: (n, 4 * n))
        if free < least:
            needed = f"needs {least + beside:,} bytes of device memory"
            with pytest.raises(DeviceBusyError, match=needed):
                strategy.load(graph, kernel, reserved)
        else:
            strategy.load(graph, kernel, reserved)
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
    with pytest.raises(MemoryBudgetError, match="refused"):
        cuda_pinned.search_within(graph, kernel, 1 << 40, None, None, None, None)  # type: ignore[arg-type]
    sizes = [plan.bytes for plan in tried]
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[-1] <= cuda_pinned.least_device_bytes(graph, kernel)
    assert len(sizes) > 1
    # Nothing is left that could be given up.
    last = tried[-1]
    assert last == type(last)(last.facts, last.budget_bytes)


@pytest.mark.usefixtures("a_device")
def test_host_memory_that_is_refused_does_not_pin_rows(graph: og.Graph) -> None:
    there = just_enough(graph, "bfs")
    first = plan_at(there, graph, Request("bfs"))
    plans = followed(first, there, MemoryBudgetError("the device's"))
    assert [one.strategy.name for one in plans] == ["cuda/memory", "cuda/pinned"]
    # Rows in pinned memory would take as much of the host's; nothing may stay in the store here.
    in_turn = InTurn([MemoryError()])
    with pytest.raises(MemoryBudgetError, match="host memory was refused; use --device cpu"):
        execute(first, there, Said(), in_turn.run)
    assert in_turn.plans == [first]


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_on_the_cpu_only_the_systems_refusals_count(graph: og.Graph, kernel: str) -> None:
    here = ThisProcess(HOST, "cpu")
    first = plan_at(here, graph, Request(kernel))
    assert first.strategy.name == "cpu/memory"
    for error, said in (
        # What takes less is looked for, and so small a graph has nothing.
        (MemoryError(), "bytes at least in one worker, and the system refuses them"),
        (MemoryBudgetError("a plan's"), "^a plan's$"),
    ):
        in_turn = InTurn([error])
        with pytest.raises(MemoryBudgetError, match=said):
            execute(first, here, Said(), in_turn.run)
        assert in_turn.plans == [first]


@pytest.mark.usefixtures("a_device")
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_limit_of_pinned_memory_holds_on_the_way_down(graph: og.Graph, kernel: str) -> None:
    needed = graph.stored_arcs * (4 if kernel == "bfs" else 8)
    for limit, times in ((needed - 1, 1), (needed, 2), (None, 2)):
        there = just_enough(graph, kernel, limit)
        in_turn = InTurn([MemoryBudgetError("refused")] * 3)
        with pytest.raises(MemoryBudgetError, match="refused"):
            execute(plan_at(there, graph, Request(kernel)), there, Said(), in_turn.run)
        names = [one.strategy.name for one in in_turn.plans]
        assert names == ["cuda/memory", "cuda/pinned"][:times]


@pytest.mark.usefixtures("a_device")
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_a_device_that_others_use_in_part_has_rows_pinned(graph: og.Graph, kernel: str) -> None:
    """Where CUDA was asked for; ``auto`` leaves such a device."""
    busy = DeviceBusyError("others use the rest")
    for wanted, names in (("cuda", ["cuda/memory", "cuda/pinned"]), ("auto", ["cuda/memory"])):
        there, said = just_enough(graph, kernel), Said()
        there.wanted = wanted
        plans = followed(plan_at(there, graph, Request(kernel)), there, busy, progress=said)
        assert [one.strategy.name for one in plans if one.device == "cuda"] == names
        assert len(plans) == 2
        (note,) = said.notes
        if wanted == "cuda":
            assert note.startswith("others have memory of the device: ")
            assert f"{kernel} keeps its rows in host memory" in note
        else:
            assert note == f"{kernel} on the CPU: others use the rest"


@pytest.mark.usefixtures("a_device")
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_what_pinning_lacks_is_no_reason_to_want_another_device(
    graph: og.Graph, kernel: str
) -> None:
    needed, busy = (
        graph.stored_arcs * (4 if kernel == "bfs" else 8),
        DeviceBusyError("others use the rest"),
    )
    for limit, errors, said in (
        (None, [busy, MemoryBudgetError("pinned memory is refused")], "others use the rest"),
        (None, [busy, DeviceBusyError("even the least")], "even the least"),
        (needed - 1, [busy], "others use the rest"),
    ):
        there, in_turn = just_enough(graph, kernel, limit), InTurn(errors)
        with pytest.raises(DeviceBusyError, match=said):
            execute(plan_at(there, graph, Request(kernel)), there, Said(), in_turn.run)
        assert len(in_turn.plans) == len(errors)
