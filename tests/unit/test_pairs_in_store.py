"""Many sources on a CUDA device that is made up, with arcs in the store: when, how, and what next.

The store is read as on a device; what is searched along it is the CPU's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.asked import Asked, answer_specs
from ooc_graph.errors import DeviceBusyError, InputError, MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cuda.disk import DiskPlan
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import HOST, Refusal, Reservation
from ooc_graph.model.resources import AUTO, CUDA, CudaLimits
from ooc_graph.runtime import engine_cache, this_process
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.search.plan import Plan
from ooc_graph.shards.device_tiers import DeviceTierSearch, HostAllocator, PinningRefusedError
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.cuda.on_disk import OnDisk
from ooc_graph.strategies.many.one_by_one import OneByOne
from ooc_graph.strategies.many.task import Division
from ooc_graph.strategies.many.tiers import ONE_BY_ONE
from tests import made_up_device as made
from tests.command_line import call
from tests.made_up_device import (
    BATCHES,
    FIND,
    GIB,
    PINNED,
    RESIDENT,
    MadeUp,
    build_hubs,
    columns,
    put_in_place,
    refusing,
)
from tests.refused_in_turn import all_in_turn
from tests.said import Said
from tests.small_pairs import _no_cluster
from tests.unit.test_pairs_ways import IN_HOST, OPTIONS, asking, names_of, no_room_for_batches

IN_STORE = "in store"
LEFT_THERE = "cuda/disk, one by one"
KERNELS = pytest.mark.parametrize("kernel", ["apsp", "bfs"])
SINGLE = {"apsp": "sssp", "bfs": "bfs"}


class Plans(list[DiskPlan]):
    """Those that searches were loaded by; ``refuses`` is asked before each is."""

    refuses: Callable[[DiskPlan], Exception | None] = staticmethod(lambda _: None)

    def loader(self, device: MadeUp, kernel: str) -> Callable[..., DeviceTierSearch]:
        """Loads what a CPU wants at least of a store, as a device's search."""

        def load(graph: og.Graph, plan: DiskPlan, *, threads: int) -> DeviceTierSearch:
            assert threads
            self.append(plan)
            if error := self.refuses(plan):
                raise error
            device.load(IN_STORE)
            least = cpu_disk.least_within(graph, kernel)
            found = cpu_disk.load_within(graph, kernel, least, made.CPU)
            search = made.Single(device, found.search, IN_STORE)
            return DeviceTierSearch(search, found.sides, plan, HostAllocator(plan.pins, threads))

        return load


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return build_hubs(tmp_path_factory.mktemp("graphs") / "hubs.zarr")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[MadeUp]:
    may_stay = cuda_disk.may_stay
    device = put_in_place(monkeypatch)
    monkeypatch.setattr(cuda_disk, "may_stay", may_stay)
    engine_cache.release()
    yield device
    engine_cache.release()


@pytest.fixture
def plans(device: MadeUp, monkeypatch: pytest.MonkeyPatch) -> Plans:
    found = Plans()
    loaders = {kernel: found.loader(device, kernel) for kernel in ("bfs", "sssp")}
    monkeypatch.setattr(cuda_disk, "LOADERS", loaders)
    return found


def limits(graph: og.Graph, kernel: str) -> dict[str, int]:
    """Budgets into which rows fit nowhere, and into which some arcs do."""
    single = SINGLE[kernel]
    host_bytes = cuda_pinned.pinned_bytes(graph, single) - 1
    return {"device_memory": cuda_memory.cuda_bytes(graph, single) - 1, "host_memory": host_bytes}


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize(("kernel", "options"), OPTIONS, ids=str)
def test_arcs_in_the_store_give_the_bytes_of_the_cpu(
    graph: og.Graph,
    device: MadeUp,
    plans: Plans,
    kernel: str,
    options: dict[str, Any],
    written: bool,
    tmp_path: Path,
) -> None:
    ids, find, said = graph.original_ids(), FIND[kernel], Said()
    given = {"targets": ids[3::5], **options}
    right = columns(find(graph, ids[::29], device="cpu", **given))
    budgets = limits(graph, kernel)
    out = (tmp_path / "d.zarr") if written else None
    more = {"device": CUDA, "out": out, "progress": said, **budgets}
    assert columns(find(graph, ids[::29], **given, **more)) == right
    assert device.used == [IN_STORE]
    (plan,) = plans
    assert plan.device_bytes <= plan.device_budget_bytes == budgets["device_memory"]
    assert plan.host_budget_bytes == budgets["host_memory"]
    assert said.notes[0].startswith(f"{kernel_name(kernel)} one by one on the CUDA device, arcs in")
    assert f"searched one by one on the CUDA device: {SINGLE[kernel]} had" in said.notes[-1]
    (held,) = engine_cache._engines.values()
    io_stats = held.io_stats
    assert io_stats is not None
    # With what was read while it was loaded.
    read = int(said.notes[-1].split("and read ")[1].split(" bytes")[0].replace(",", ""))
    assert 0 < read <= io_stats.bytes


def kernel_name(kernel: str) -> str:
    return "apsp" if kernel == "apsp" else "multi_source_bfs"


@KERNELS
def test_nothing_is_pinned_and_the_search_goes_on(
    graph: og.Graph, device: MadeUp, plans: Plans, kernel: str
) -> None:
    sources = graph.original_ids()[::50]
    right = columns(FIND[kernel](graph, sources, device="cpu"))
    given = {**limits(graph, kernel), "host_memory": 0}
    assert columns(FIND[kernel](graph, sources, device=CUDA, **given)) == right
    assert device.used == [IN_STORE]
    assert [plan.pinned_bytes for plan in plans] == [0]


def in_turn(graph: og.Graph, asked: Asked, there: ThisProcess) -> list[Plan]:
    """The plans that follow each other if the memory of the device is refused."""
    return all_in_turn(graph, asking(graph, asked), there)


def within(reserved: Reservation) -> tuple[int, int]:
    """Device memory and host memory for arcs."""
    return reserved.device_bytes, reserved.host_bytes


@pytest.mark.usefixtures("device")
@KERNELS
def test_it_is_the_last_plan_of_a_device(graph: og.Graph, kernel: str) -> None:
    asked, budgets = Asked(hops=kernel == "bfs"), limits(graph, kernel)
    memory, pinned = budgets["device_memory"], budgets["host_memory"]
    (plan,) = in_turn(graph, asked, ThisProcess(GIB, CUDA, CudaLimits(memory, pinned)))
    assert names_of([plan]) == [LEFT_THERE]
    assert within(plan.reserved) == (memory, pinned)
    assert plan.reserved.method == ONE_BY_ONE
    assert "bytes of device memory in one worker" in plan.why
    how = "one by one on the CUDA device, arcs in the store: "
    assert plan.why.startswith(f"{kernel_name(kernel)} {how}")
    both = in_turn(graph, asked, ThisProcess(GIB, CUDA, CudaLimits(memory, pinned + 1)))
    assert names_of(both) == [IN_HOST, LEFT_THERE]
    assert within(both[1].reserved) == (memory, pinned + 1)
    least = cuda_disk.least_device_bytes(graph, SINGLE[kernel])
    (plan,) = in_turn(graph, asked, ThisProcess(GIB, CUDA, CudaLimits(least, 0)))
    assert within(plan.reserved) == (least, 0)
    with pytest.raises(MemoryBudgetError, match=f"at least {least:,} bytes of device memory"):
        in_turn(graph, asked, ThisProcess(GIB, CUDA, CudaLimits(least - 1, 0)))


@pytest.mark.usefixtures("device")
@KERNELS
def test_auto_takes_the_cpu_where_it_has_room_for_batches(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, budgets = Asked(hops=kernel == "bfs"), limits(graph, kernel)
    auto = ThisProcess(GIB, AUTO, CudaLimits(budgets["device_memory"], 0))
    assert names_of(in_turn(graph, asked, auto)) == ["cpu/batches"]
    no_room_for_batches(monkeypatch)
    found = in_turn(graph, asked, auto)
    assert names_of(found) == [LEFT_THERE, "cpu/batches"]
    assert found[0].reserved.host_bytes == 0
    # Nothing is gained by pulling: many small steps, each of which may read, are the CPU's.
    monkeypatch.setattr(cuda_pinned, "_pulling_pays", lambda *_: False)
    found = in_turn(graph, asked, auto)
    assert names_of(found) == [LEFT_THERE] * asked.hops + ["cpu/batches"]
    auto.wanted = CUDA
    found = in_turn(graph, asked, auto)
    assert names_of(found) == [LEFT_THERE]
    assert found[0].reserved.host_bytes == 0


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("weights", ["float64", "int64", "negative"])
def test_other_weights_do_without(tmp_path: Path, weights: str) -> None:
    random = np.random.default_rng(3)
    ends = (300 * random.random((2, 3000)) ** 3).astype(np.int64)
    by = 20 * random.random(300) * (weights == "negative")
    weight = random.integers(1, 9, 3000) + by[ends[0]] - by[ends[1]]
    edges = (*ends[:, ends[0] != ends[1]], weight[ends[0] != ends[1]])
    dtype = "float32" if weights == "negative" else weights
    path = tmp_path / "g.zarr"
    other = og.build((*edges[:2], edges[2].astype(dtype)), path, rows="both", directed=True)
    assert other.has_negative_weights == (weights == "negative")
    memory = min(cuda_memory.cuda_bytes(other, kernel) for kernel in ("bfs", "sssp")) - 1
    small = ThisProcess(GIB, CUDA, CudaLimits(memory, 0))
    # Potentials make weights that are not the store's, so these are not pinned either.
    wanting = "device memory in one worker" if weights == "negative" else "pinned host memory"
    with pytest.raises(MemoryBudgetError, match=wanting):
        in_turn(other, Asked(), small)
    assert names_of(in_turn(other, Asked(hops=True), small)) == [LEFT_THERE]


@pytest.mark.usefixtures("device")
@KERNELS
def test_answers_are_beside_the_host_budget(graph: og.Graph, kernel: str) -> None:
    asked, single = Asked(hops=kernel == "bfs"), SINGLE[kernel]
    request, strategy = asking(graph, asked), OneByOne(OnDisk())
    memory = cuda_memory.cuda_bytes(graph, single) - 1
    least = cuda_disk.least_plan(cuda_disk.known_facts(graph, single)).host_bytes

    def budgets(limit: int) -> tuple[int, int]:
        there = ThisProcess(limit, CUDA, CudaLimits(memory)).resources()
        return within(strategy.reserve(Job(graph, request, there)))

    # What is left for the search is what its plan may take.
    _, host_bytes = budgets(GIB)
    job = Job(graph, request, ThisProcess(GIB, CUDA, CudaLimits(memory)).resources())
    plan = strategy.reserve(job)
    assert isinstance(plan, Division)
    assert (plan.method, *within(plan)) == (ONE_BY_ONE, memory, host_bytes)
    needed = GIB - host_bytes + least
    assert needed > least + cuda_disk.beside_bytes(graph) + 10 * graph.vertices * 4
    assert budgets(needed) == (memory, least)
    with pytest.raises(MemoryBudgetError, match=f"needs at least {needed:,} bytes of host memory"):
        budgets(needed - 1)
    without = strategy.after(job, Refusal(plan, HOST, "refused"))
    assert isinstance(without, Division)
    assert (without.method, *within(without)) == (ONE_BY_ONE, memory, 0)
    assert without.needed_bytes == needed <= plan.needed_bytes <= GIB


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("wanted", [AUTO, CUDA])
def test_what_is_refused_goes_to_the_store_and_on(
    graph: og.Graph,
    device: MadeUp,
    plans: Plans,
    wanted: str,
    loaded: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_room_for_batches(monkeypatch)
    sources = graph.original_ids()[::20]
    right = columns(og.johnson(graph, sources, device="cpu"))
    every = [BATCHES, RESIDENT, PINNED, IN_STORE]
    for refused in (every[:3], every):
        engine_cache.release()
        device.used.clear()
        # Batches are refused only what they search.
        device.refuses, said = refusing(*refused, loaded=loaded), Said()
        given = {"device": wanted, "out": tmp_path / f"{len(refused)}.zarr", "progress": said}
        if wanted == CUDA and refused == every:
            with pytest.raises(MemoryBudgetError, match="in store does not fit the device"):
                og.johnson(graph, sources, **given)
            assert not engine_cache._engines
        else:
            assert columns(og.johnson(graph, sources, **given)) == right
        # With less and less of the device's where loading is refused.
        assert list(dict.fromkeys(device.used)) == every
        why = "device memory was refused: apsp one by one on the CUDA device"
        rows = "all rows there", "rows in pinned host memory", "arcs in the store"
        went_on = [f"{why}, {where}" for where in rows]
        # It may be pinned memory, too.
        went_on[-1] = went_on[-1].removeprefix("device ")
        if refused == every and wanted == AUTO:
            went_on.append("apsp on the CPU: in store does not fit the device")
        assert said.notes[: len(went_on)] == went_on
    assert set(device.graph_held) == {0}
    assert len(plans) >= 2


@pytest.mark.parametrize("wanted", [AUTO, CUDA])
def test_refused_host_memory_leaves_arcs_in_the_store(
    graph: og.Graph, device: MadeUp, plans: Plans, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows on their way take much of it; pinned ones as much. Then none of it holds arcs."""
    no_room_for_batches(monkeypatch)
    sources = graph.original_ids()[::20]
    right = columns(og.johnson(graph, sources, device="cpu"))
    engine_cache.release()

    def refuses(kind: str, loads: bool, count: int) -> Exception | None:
        if kind == BATCHES and loads:
            return MemoryBudgetError("batches do not fit the device")
        if kind == RESIDENT and loads:
            return MemoryError("no room")
        is_full = kind == IN_STORE and plans[-1].host_budget_bytes > 0
        return MemoryError("no room") if is_full and count > 3 else None

    device.refuses, said = refuses, Said()
    given = {"device": wanted, "progress": said}
    assert columns(og.johnson(graph, sources, **given)) == right
    assert device.used == [BATCHES, RESIDENT, IN_STORE, IN_STORE]
    assert [plan.host_budget_bytes > 0 for plan in plans] == [True, False]
    why = "host memory was refused: apsp one by one on the CUDA device, arcs in the store"
    assert said.notes[1:3] == [why] * 2
    # The least is refused: then nothing on the device does.
    engine_cache.release()
    device.refuses = refusing(RESIDENT, IN_STORE, loaded=False, error=MemoryError)
    given |= limits(graph, "apsp")
    if wanted == CUDA:
        with pytest.raises(
            MemoryBudgetError, match=r"host memory was refused: .* use device='cpu'"
        ):
            og.johnson(graph, sources, **given)
        assert not engine_cache._engines
    else:
        assert columns(og.johnson(graph, sources, **given)) == right
        assert any("apsp on the CPU" in note for note in said.notes)


@KERNELS
def test_refused_plans_are_followed_by_smaller_ones(
    graph: og.Graph, device: MadeUp, plans: Plans, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that there is room for more than the least, as small as the graph is.
    monkeypatch.setattr(cuda_pinned, "may_pin", lambda *_: False)
    least = cuda_disk.least_plan(cuda_disk.known_facts(graph, SINGLE[kernel])).host_bytes
    sources, said, errors = graph.original_ids()[::50], Said(), list[Exception]()
    right = columns(FIND[kernel](graph, sources, device="cpu"))
    errors += [PinningRefusedError("not pinned"), MemoryBudgetError("refused"), MemoryError()]
    plans.refuses = lambda _: errors.pop(0) if errors else None  # type: ignore[method-assign]
    given = {"device": CUDA, "progress": said, **limits(graph, kernel), "host_memory": 3 * least}
    assert columns(FIND[kernel](graph, sources, **given)) == right
    assert device.used == [IN_STORE]
    assert [plan.pins for plan in plans] == [True, False, False, False]
    budgets = [(plan.device_budget_bytes, plan.host_budget_bytes) for plan in plans]
    assert len(budgets) == 4
    steps = [(b[0] < a[0], b[1] < a[1]) for a, b in pairwise(budgets)]
    assert steps == [(False, False), (True, False), (False, True)]
    assert "; not pinned; it went on within" in said.notes[-1]
    assert said.notes[-1].count("were planned, since memory was refused") == 2


def chunks_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=2) for spec in answer_specs(*given))

    monkeypatch.setattr("ooc_graph.search.many.answer_specs", specs)


@pytest.mark.parametrize("options", [{}, {"parents": True}, {"reduce": "sum"}], ids=str)
@pytest.mark.usefixtures("plans")
def test_a_run_that_was_stopped_is_gone_on_with(
    graph: og.Graph,
    device: MadeUp,
    options: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chunks_of_two(monkeypatch)
    sources, searched = graph.original_ids()[:60], list[int]()
    has_row = int((graph.internal_of()[:60] >= 0).sum())
    og.johnson(graph, sources, out=tmp_path / "cpu.zarr", device="cpu", **options)

    def run(most: int, said: Said) -> None:
        def use(_: str, root: int) -> None:
            searched.append(root)
            if len(searched) > most:
                raise KeyboardInterrupt

        monkeypatch.setattr(device, "use", use)
        given = {"out": tmp_path / "d.zarr", "device": CUDA, "progress": said, **options}
        og.johnson(graph, sources, **given, **limits(graph, "apsp"))

    with pytest.raises(KeyboardInterrupt):
        run(20, Said())
    stopped, said = len(searched), Said()
    searched.clear()
    run(1 << 30, said)
    assert any(note.startswith("going on with") for note in said.notes)
    # What was searched last is done again: a chunk, and those whose record was on its way.
    assert has_row - stopped < len(searched) < has_row
    same = Stored.open(tmp_path / "d.zarr").identity == Stored.open(tmp_path / "cpu.zarr").identity
    assert same


@KERNELS
def test_the_search_before_is_taken_again(
    graph: og.Graph, device: MadeUp, plans: Plans, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it holds is not free any more, and the next one needs nothing more."""
    sources, budgets = graph.original_ids()[::50], limits(graph, kernel)
    plain = this_process.default_limit_bytes
    free = GIB
    monkeypatch.setattr(this_process, "default_limit_bytes", lambda: free)
    for _ in range(2):
        found = FIND[kernel](graph, sources, device=CUDA, **budgets)
        free = 1 << 23
    assert (device.used, len(plans)) == ([IN_STORE], 1)
    monkeypatch.setattr(this_process, "default_limit_bytes", plain)
    assert columns(found) == columns(FIND[kernel](graph, sources, device="cpu"))
    # With another limit it is made anew.
    FIND[kernel](graph, sources, device=CUDA, **{**budgets, "host_memory": 0})
    assert device.used == [IN_STORE] * 2


@KERNELS
@pytest.mark.usefixtures("plans")
def test_a_device_whose_memory_others_have(
    graph: og.Graph, device: MadeUp, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, budgets = graph.original_ids()[::50], limits(graph, kernel)
    least = cuda_disk.least_device_bytes(graph, SINGLE[kernel])
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (least - 1, GIB))
    with pytest.raises(DeviceBusyError, match=f"needs {least:,} bytes"):
        FIND[kernel](graph, sources, device=CUDA, **budgets)
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (least, GIB))
    found = columns(FIND[kernel](graph, sources, device=CUDA, **budgets))
    assert device.used == [IN_STORE]
    assert found == columns(FIND[kernel](graph, sources, device="cpu"))


@pytest.mark.usefixtures("plans")
def test_sums_that_might_overflow_are_refused_and_the_store_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, closed = np.arange(300), list[DeviceTierSearch]()
    weight = np.full(300, 2e37, np.float32)
    heavy = og.build((at, at + 1, weight), tmp_path / "g.zarr", rows="both", directed=True)
    plain = DeviceTierSearch.close

    def close(search: DeviceTierSearch) -> None:
        closed.append(search)
        plain(search)

    monkeypatch.setattr(DeviceTierSearch, "close", close)
    with pytest.raises(InputError):
        og.johnson(heavy, [0], device=CUDA, **limits(heavy, "apsp"))
    assert len(closed) == 1


@pytest.mark.parametrize("command", ["apsp", "bfs"])
@pytest.mark.usefixtures("plans")
def test_the_commands_leave_arcs_in_the_store(
    graph: og.Graph,
    device: MadeUp,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("local_cluster", "local_cuda_cluster"):
        monkeypatch.setattr(f"ooc_graph.runtime.cluster.{name}", _no_cluster)
    budgets, out = limits(graph, command), tmp_path / "d.zarr"
    words = graph.path, "--sources", 5, "--out", out, "--device", CUDA, "--host-memory", 0
    least = cuda_disk.least_device_bytes(graph, SINGLE[command])
    ended = call(monkeypatch, capsys, command, *words, "--device-memory", least - 1, "--quiet")
    assert (ended.code, ended.err.count("\n")) == (2, 1), ended
    assert f"at least {least:,} bytes of device memory" in ended.err
    assert not list(tmp_path.iterdir())
    memory = "--device-memory", budgets["device_memory"]
    ended = call(monkeypatch, capsys, command, *words, *memory)
    assert ended.code == 0, ended
    assert "bytes of the store for" in ended.err
    assert device.used == [IN_STORE]
    found = og.Result.open(out)
    right = columns(FIND[command](graph, found.read("source"), device="cpu"))
    assert {name: columns(found)[name] for name in right} == right
