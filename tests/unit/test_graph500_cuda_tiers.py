"""Graph500 on a CUDA device whose memory has no room for the rows; the CPU searches in its place.

What kernels do is for the tests on a device. Here is shown which way is taken, what is done where
memory is refused, and what report and record say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError, UsageError
from ooc_graph.graph500 import on_device, report, tiers
from ooc_graph.graph500.batches import _at_once, check_bytes
from ooc_graph.graph500.job import graph500
from ooc_graph.graph500.on_host import search_batch
from ooc_graph.graph500.run import BatchTask, Graph500Options, Run, Searched
from ooc_graph.graph500.searches import search_all, warm_up
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.cpu import plan
from ooc_graph.memory.cuda.pinned_plan import plan_device
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import Key, Reservation
from ooc_graph.model.resources import CUDA, CudaLimits, Device
from ooc_graph.model.task import SearchTask, Trace
from ooc_graph.runtime import building, engine_cache, process, same_graph, this_process
from ooc_graph.runtime.engine_keys import Kept
from ooc_graph.search.plan import Plan
from ooc_graph.shards.build import build as build_on_cpu
from ooc_graph.shards.device_tiers import DeviceTierSearch
from ooc_graph.strategies.cpu import in_memory as cpu_memory
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.cuda.on_disk import OnDisk
from ooc_graph.strategies.cuda.pinned import Pinned
from ooc_graph.types import NoProgress
from ooc_graph.validate.batch import batch_bytes
from tests.command_line import call
from tests.made_up_place import CudaHere
from tests.said import Said

KERNELS = ("bfs", "sssp")
SMALL = 28_000_000


class Uncounted:
    """A CPU's search, as that of a device which counts arcs only when it is told to."""

    def __init__(self, search: Any) -> None:
        self._search, self._counts = search, False
        self._tree: Any = None

    def run(self, root: int) -> Any:
        tree = self._tree = self._search.run(root)
        return replace(tree, level_arcs=-tree.level_arcs - 1) if hasattr(tree, "level") else tree

    run_on_device = run

    def count_arcs(self, on: bool) -> None:
        self._counts = on

    def level_trace(self) -> Any:
        assert self._counts
        tree, names = self._tree, ("found", "pushed", "examined", "pull")
        trace = np.zeros(len(tree.level_arcs) + 1, [(name, np.int64) for name in names])
        trace["found"][:-1] = tree.level_vertices
        trace["pushed"][1:], trace["pull"][1:] = tree.level_arcs, tree.level_direction
        return trace


def held_by_cpu(task: BatchTask) -> Engine:
    """What a device would hold of a graph, as the task says."""
    reserved = task.search.reserved
    graph = same_graph.open_same(task.search.path, task.search.identity)
    device, ids = process.device(), load_ids(graph)
    if reserved.strategy == "cuda/disk":
        within = reserved.device_bytes, reserved.host_bytes
        there = cuda_disk.plan_within(cuda_disk.known_facts(graph, task.kernel), *within)
        found = cpu_disk.load_within(graph, task.kernel, 1 << 30, device)
        search: Any = DeviceTierSearch(found.search, found.sides, there, None)  # type: ignore[arg-type]
        return Engine(task.kernel, search, graph, ids, None)
    shard = graph.load(ORDER_OF[task.kernel])
    search = getattr(device, task.kernel)(shard)
    if task.device != CUDA:
        return Engine(task.kernel, search, graph, ids, shard.tuples)
    facts, pinned = cuda_pinned.known_facts(graph, task.kernel), None
    if reserved.strategy == "cuda/pinned":
        pinned = plan_device(task.kernel, facts, reserved.device_bytes, 1 << 40)
    given = graph, ids, shard.tuples
    return Engine(task.kernel, Uncounted(search), *given, pinned=pinned)


def reached_tuples(parent: Any, tuples: Any) -> tuple[int, int]:
    """As a device says it of a tree."""
    reached = parent != np.iinfo(parent.dtype).max
    return int(reached.sum()), int(tuples[reached].sum(dtype=np.int64))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[BatchTask]:
    """The tasks that a device of this machine was asked for; there is none, and nobody minds."""
    tasks: list[BatchTask] = []

    @contextmanager
    def engine(task: BatchTask) -> Iterator[Engine]:
        tasks.append(task)
        yield held_by_cpu(task)

    def build(there: Any, source: Any, out: Path, options: Any, progress: Any) -> Any:
        with there.workforce() as workforce:
            return build_on_cpu(
                source, out, options=options, workforce=workforce, progress=progress
            )

    monkeypatch.setattr(BatchTask, "engine", engine)
    monkeypatch.setattr(building, "_on_device", build)
    monkeypatch.setattr(this_process, "choose_in_process", lambda wanted: Device(wanted, 1 << 40))
    monkeypatch.setattr(report, "cuda_facts", lambda: {"CUDA device": "none"})
    monkeypatch.setattr(on_device, "within_memory", lambda _: nullcontext())
    monkeypatch.setattr(on_device, "cuda", lambda: np)
    monkeypatch.setattr(on_device, "on_device", np.asarray)
    monkeypatch.setattr(on_device, "OriginalOrder", lambda _: None)
    monkeypatch.setattr(on_device, "reached_tuples", reached_tuples)
    monkeypatch.setattr(plan, "rules", lambda _: iter([plan.HeadRule(1)]))
    return tasks


def run(folder: Path, said: Said, **given: Any) -> tuple[Any, dict[str, Any], str]:
    options = Graph500Options(scale=11, searches=3, energy=False)
    where: dict[str, Any] = {"client": None, "memory_limit_bytes": None, "overwrite": False}
    outcome = graph500(options, folder, device="cuda", progress=said, **where, **given)
    report = json.loads((folder / "report.json").read_text())
    (line,) = (folder / "records.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["tiers"] == report["tiers"]
    assert record["parameters"] == report["parameters"]
    return outcome, report, (folder / "report.html").read_text()


def where(task: BatchTask) -> str:
    """The strategy that a batch is searched by."""
    return task.search.reserved.strategy


def of_kernel(report: dict[str, Any], kernel: str) -> list[dict[str, Any]]:
    return [search for search in report["searches"] if search["kernel"] == kernel]


def test_rows_are_pinned_where_the_device_is_too_small(
    asked: list[BatchTask], tmp_path: Path
) -> None:
    said = Said()
    outcome, report, page = run(tmp_path, said, device_memory=SMALL)
    assert outcome.failure is None
    assert report["validation"]["status"] == "passed"
    assert {where(task) for task in asked} == {"cuda/pinned"}
    assert not any(task.stays_there for task in asked)
    assert said.notes == [
        f"{kernel} has its rows in pinned host memory; its answers go to host memory, and are "
        "validated on the CPU"
        for kernel in KERNELS
    ]
    assert report["parameters"]["device memory limit (bytes)"] == SMALL
    for kernel in KERNELS:
        facts, mine = report["tiers"][kernel], of_kernel(report, kernel)
        assert facts["tier"] == "pinned"
        assert facts["device bytes: in all"] <= facts["device budget"] == SMALL
        assert not any(name.startswith("disk: ") for name in facts)
        for one in mine:
            assert one["read_bytes"] is None
            # Of a BFS they were counted once all were timed.
            assert one["levels"]
            assert all(level["arcs"] >= 0 for level in one["levels"])
    assert page.count("Memory and link: ") == 2
    assert "rows fetched</th>" not in page


def test_arcs_stay_in_the_store_where_nothing_may_be_pinned(
    asked: list[BatchTask], tmp_path: Path
) -> None:
    said = Said()
    outcome, report, page = run(tmp_path, said, device_memory=SMALL, host_memory=0)
    assert outcome.failure is None
    assert {(where(task), task.search.reserved.host_bytes) for task in asked} == {("cuda/disk", 0)}
    assert [note.split("; ")[0] for note in said.notes] == [
        f"{kernel} has its rows in the store" for kernel in KERNELS
    ]
    assert report["parameters"]["host memory limit for rows (bytes)"] == 0
    for kernel in KERNELS:
        facts, mine = report["tiers"][kernel], of_kernel(report, kernel)
        assert facts["tier"] == "disk"
        assert facts["device bytes: in all"] <= SMALL
        assert facts["bytes of pinned host memory"] == 0
        assert facts["bytes read of the store"] == sum(one["read_bytes"] for one in mine)
        assert facts["rows fetched"] == sum(one["fetched_rows"] for one in mine) > 0
        assert facts["disk: bytes a second in sequence"] > 0
    assert page.count("Memory and store: ") == 2
    assert "rows fetched</th>" in page


def test_answers_that_the_device_has_no_room_for_are_validated_on_the_cpu(
    asked: list[BatchTask], tmp_path: Path
) -> None:
    """All rows are on the device; beside them there is less than a validation needs."""

    def refused(*_: object, **given: Any) -> int:
        raise MemoryBudgetError("validation wants more on the device")

    said = Said()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_device, "largest_batch", refused)
        patch.setattr(on_device, "_free_bytes", lambda _: 0)
        outcome, report, _ = run(tmp_path, said, device_memory="1GiB")
    assert outcome.failure is None
    assert report["tiers"] == {}
    assert said.notes == [
        f"{kernel} validated on the CPU: validation wants more on the device" for kernel in KERNELS
    ]
    for kernel in KERNELS:
        mine = [task for task in asked if task.kernel == kernel]
        # Each is warmed up and searched; the levels of the last are asked for, too.
        assert [task.on_host for task in mine] == [False, False, True, True, True]
        # In batches of what host memory has room for: all three at a time.
        assert mine[-1].at_once >= 3
        assert all(one["validate_s"] > 0 for one in of_kernel(report, kernel))
        assert all(level["arcs"] >= 0 for s in of_kernel(report, kernel) for level in s["levels"])


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "kronecker.zarr"
    return og.build(og.Kronecker(11), path, rows="both")


@pytest.fixture
def a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which nothing is asked but its number, and how much memory is free."""
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (1 << 40, 1 << 40))
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    engine_cache.release()


class There(CudaHere):
    """A place where one function of a batch is refused, one error each, and all else is done.

    Parameters
    ----------
    refuses
        The function: the warm-up, or the searches that follow it.
    device_bytes, pinned_bytes
        As of `CudaLimits`.
    """

    def __init__(
        self,
        refuses: Callable[..., Any],
        errors: list[Exception],
        device_bytes: int,
        pinned_bytes: int | None = None,
    ) -> None:
        super().__init__(1 << 40, CudaLimits(device_bytes, pinned_bytes))
        self._refuses, self._errors = refuses, list(errors)
        self.tasks: list[BatchTask] = []
        self.asked: list[Callable[..., Any]] = []

    @property
    def tried(self) -> list[tuple[str, bool]]:
        """Strategies by which the function was called, and whether answers went to the host."""
        return [(where(task), task.on_host) for task in self.tasks]

    def call(self, function: Callable[..., Any], *given: Any) -> Any:
        """Calls nothing that searches."""
        if not isinstance(given[0], BatchTask):
            self.asked.append(function)
            return function(*given)
        task, *more = given
        if function is self._refuses:
            self.tasks.append(task)
            if self._errors:
                raise self._errors.pop(0)
        if function is search_batch:
            return [Searched(key, Trace(0.0, ()), None, 0.0, 1, 1) for key in more[0].tolist()]
        if function is on_device.with_levels:
            return more[1]
        return {} if function is tiers.describe_engine else None


def searched(graph: og.Graph, kernel: str, there: There, *, validate: bool = True) -> list[str]:
    """Notes of searches that are made there."""
    options = Graph500Options(11, searches=3, kernels=(kernel,), validate=validate, energy=False)
    said, keys = Said(), graph.original_of()[:3].astype(np.int64)
    run = Run(options, graph.path, there, said)
    found, _ = search_all(run, graph, og.Kronecker(11), kernel, keys)
    assert [one.root for one in found] == keys.tolist()
    return said.notes


@pytest.mark.usefixtures("a_device")
@pytest.mark.parametrize("kernel", KERNELS)
def test_refused_memory_goes_one_step_down(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, refused = cuda_memory.cuda_bytes(graph, kernel), MemoryBudgetError("refused")
    device, pinned, store = ((f"cuda/{name}", False) for name in ("memory", "pinned", "disk"))

    def there(errors: list[Exception], pinned_bytes: int | None = None) -> There:
        return There(warm_up, errors, whole, pinned_bytes)

    plain = there([])
    assert searched(graph, kernel, plain) == []
    assert plain.tried == [device]
    twice = there([refused] * 2)
    notes = [note for note in searched(graph, kernel, twice) if "refused" in note]
    assert twice.tried == [device, pinned, store]
    assert "keeps its rows in host memory" in notes[0]
    assert "leaves arcs in the store" in notes[1]
    # Where no rows may be pinned, at once there.
    none_pinned = there([refused], 0)
    searched(graph, kernel, none_pinned)
    assert none_pinned.tried == [device, store]
    with pytest.raises(MemoryBudgetError, match="refused"):
        searched(graph, kernel, there([refused] * 3))
    # Where arcs may not stay, not at all.
    monkeypatch.setattr(cuda_disk, "LOADERS", {})
    with pytest.raises(MemoryBudgetError, match="refused"):
        searched(graph, kernel, there([refused] * 2))


@pytest.mark.usefixtures("a_device")
@pytest.mark.parametrize("kernel", KERNELS)
def test_who_asks_for_a_device_has_rows_pinned_also_where_others_have_its_memory(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, busy = cuda_memory.cuda_bytes(graph, kernel), DeviceBusyError("others have it")
    for wanted, expected, note in (
        ("cuda", "cuda/pinned", "others have memory of the device: "),
        ("auto", "cpu/memory", f"{kernel} on the CPU: others have it"),
    ):
        there = There(warm_up, [busy], whole)
        there.wanted = wanted
        notes = searched(graph, kernel, there)
        assert there.tried == [("cuda/memory", False), (expected, False)]
        assert notes[0].startswith(note)
    monkeypatch.setattr(cuda_disk, "LOADERS", {})
    with pytest.raises(DeviceBusyError, match="others have it"):
        searched(graph, kernel, There(warm_up, [busy, MemoryBudgetError("refused")], whole))


@pytest.mark.usefixtures("a_device")
def test_how_to_go_on_is_asked_where_the_graph_is(graph: og.Graph) -> None:
    """It depends on what that process holds, and this one may hold nothing."""
    whole = cuda_memory.cuda_bytes(graph, "bfs")
    there = There(warm_up, [MemoryBudgetError("refused")], whole)
    searched(graph, "bfs", there)
    assert there.asked == [engine_cache.give_up, engine_cache.use_instead]


@pytest.mark.usefixtures("a_device")
@pytest.mark.parametrize(
    ("error", "expected", "note"),
    [
        (MemoryError("no more"), ("cuda/disk", False), "host memory was refused: bfs leaves arcs"),
        (
            DeviceBusyError("others have it"),
            ("cuda/pinned", False),
            "others have memory of the device",
        ),
        (
            MemoryBudgetError("full"),
            ("cuda/memory", True),
            "bfs validated on the CPU: full",
        ),
    ],
)
def test_a_search_that_was_refused_is_not_made_again_as_it_was(
    graph: og.Graph, error: Exception, expected: tuple[str, bool], note: str
) -> None:
    """Answers that stay on the device are moved first, where it is their memory that is refused."""
    there = There(search_batch, [error], cuda_memory.cuda_bytes(graph, "bfs"))
    notes = searched(graph, "bfs", there)
    assert there.tried == [("cuda/memory", False), expected]
    assert notes[0].startswith(note)
    assert all("has its rows" in one for one in notes[1:])
    # It goes on so, with as many answers at a time as there is room for then.
    last = there.tasks[-1]
    plan = Plan(
        *(graph, last.search.request, there.resources()),
        *(last.search.strategy, last.search.reserved),
    )
    assert last.at_once == _at_once(plan, there.resources().process_limit_bytes) > 1


@pytest.mark.usefixtures("a_device")
def test_searches_go_down_step_by_step(graph: og.Graph) -> None:
    whole = cuda_memory.cuda_bytes(graph, "bfs")
    there = There(search_batch, [MemoryBudgetError("refused")] * 3, whole)
    notes = [one for one in searched(graph, "bfs", there, validate=False) if "refused" in one]
    host = [(f"cuda/{name}", True) for name in ("memory", "pinned", "disk")]
    assert there.tried == [("cuda/memory", False), *host]
    assert notes[0] == "bfs answers go to host memory: refused"
    assert "keeps its rows in host memory" in notes[1]
    assert "leaves arcs in the store" in notes[2]
    assert len(notes) == 3


@pytest.mark.usefixtures("a_device")
def test_a_kernel_and_its_validation_have_all_memory(graph: og.Graph) -> None:
    """What the kernel before has loaded is released first."""
    whole = cuda_memory.cuda_bytes(graph, "sssp")
    there = There(warm_up, [], whole)
    held = Reservation("cuda/memory", 1, cuda_memory.cuda_bytes(graph, "bfs"))
    key = Key(str(graph.path), graph.identity, "bfs", CUDA, held)
    engine: Any = SimpleNamespace(close=lambda: None)
    engine_cache._engines[Kept(key, "0")] = engine
    searched(graph, "sssp", there)
    assert not engine_cache.keeps_any()


@pytest.mark.usefixtures("a_device")
def test_what_was_found_before_memory_was_refused_is_not_searched_again(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = There(print, [], SMALL)
    keys: list[list[int]] = []
    call = there.call

    def refuse_the_second(function: Callable[..., Any], *given: Any) -> Any:
        if function is search_batch:
            keys.append(given[1].tolist())
            if len(keys) == 2:
                raise MemoryError
        return call(function, *given)

    monkeypatch.setattr(there, "call", refuse_the_second)
    monkeypatch.setattr("ooc_graph.graph500.batches._at_once", lambda *_: 1)
    searched(graph, "bfs", there)
    first, second, third = graph.original_of()[:3].tolist()
    assert keys == [[first], [second], [second], [third]]


@pytest.mark.usefixtures("a_device")
def test_a_search_is_refused_what_nothing_takes_less_of(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_disk, "LOADERS", {})
    whole = cuda_memory.cuda_bytes(graph, "bfs")
    for error, kind in (
        (MemoryError("no more"), MemoryBudgetError),
        (DeviceBusyError("others have it"), DeviceBusyError),
    ):
        there = There(search_batch, [error], whole, 0)
        with pytest.raises(kind, match=str(error)):
            searched(graph, "bfs", there)
        assert there.tried == [("cuda/memory", False)]


@pytest.mark.parametrize("error", [MemoryError(), MemoryBudgetError("it"), DeviceBusyError("it")])
def test_searches_are_kept_if_memory_is_refused_to_what_is_told_of_them(
    asked: list[BatchTask],
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(on_device, "with_levels", refuse)
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (1 << 40, 1 << 40))
    said = Said()
    outcome, report, _ = run(tmp_path, said, device_memory=SMALL)
    assert outcome.failure is None
    assert report["validation"]["status"] == "passed"
    for kernel in KERNELS:
        assert report["tiers"][kernel]["tier"] == "pinned"
        assert any(n.startswith(f"{kernel}: levels or energy are left out") for n in said.notes)
    assert all(task.device == CUDA for task in asked)


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_answers_in_host_memory_are_validated_so_many_at_a_time(
    graph: og.Graph, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = cpu_memory.InMemory()
    whom = str(graph.path), graph.identity, Request("bfs"), -1, None
    search = SearchTask(*whom, strategy, Reservation(strategy.name))
    task = BatchTask(search, og.Kronecker(11), True)
    held = held_by_cpu(task)
    monkeypatch.setattr(BatchTask, "engine", lambda _: nullcontext(held))
    keys = graph.original_of()[:5].astype(np.int64)
    found = search_batch(replace(task, at_once=at_once), keys)
    assert [one.root for one in found] == keys.tolist()
    assert all(one.verdict is not None and one.verdict.ok for one in found)
    # Equal shares of one pass.
    assert len({one.validate_s for one in found}) == -(-5 // at_once)


def test_what_the_host_has_beside_the_rows_is_for_answers(graph: og.Graph) -> None:
    resources = CudaHere(1 << 40, CudaLimits(SMALL)).resources()
    tables = 48 * graph.rows + 12 * graph.vertices
    facts = cuda_disk.known_facts(graph, "bfs")
    stored = cuda_disk.plan_within(facts, SMALL, 1 << 20).host_bytes
    for strategy, rows in ((Pinned(), 4 * graph.stored_arcs), (OnDisk(), stored)):
        reserved = Reservation(strategy.name, 1 << 20, SMALL)
        plan = Plan(graph, Request("bfs"), resources, strategy, reserved)
        first = rows + tables + check_bytes(graph, "bfs")
        alone = batch_bytes(graph.vertices, 1, np.dtype(np.uint8))
        for count in (1, 2, 4):
            batch = batch_bytes(graph.vertices, count, np.dtype(np.uint8)) - alone
            assert _at_once(plan, first + batch) == count
        assert _at_once(plan, 1) == 1
        assert _at_once(plan, 1 << 40) == 64


def test_what_was_read_of_the_store_is_summed() -> None:
    found = [Searched(1, Trace(0.5, ()), None, 0.0, 1, 1, IoStats(blocks=2, bytes=100, rows=3))] * 2
    facts = tiers.tier_facts({"tier": "disk"}, found)
    assert (facts["bytes read of the store"], facts["rows fetched"]) == (200, 6)
    held = {"tier": "pinned", "device budget": 5}
    assert tiers.tier_facts(held, found) == held
    assert tiers.tier_facts({}, found) == {}


def test_validation_on_the_device_keeps_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = SimpleNamespace(used_bytes=lambda: 300)
    monkeypatch.setattr(
        on_device, "cuda", lambda: SimpleNamespace(get_default_memory_pool=lambda: pool)
    )
    monkeypatch.setattr(on_device, "device_bytes", lambda: (500, 2000))
    assert on_device._free_bytes(None) is None
    assert [on_device._free_bytes(limit) for limit in (200, 700, 1000)] == [0, 400, 500]


def test_limits_are_not_for_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["graph500", "--scale", "8", "--out", out, "--device", "cpu", "--quiet"]
    for option in ("--device-memory", "--host-memory"):
        done = call(monkeypatch, capsys, *words, option, "1GiB")
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "are for CUDA devices" in done.err
    done = call(monkeypatch, capsys, *words[:-2], "cuda", "--device-memory", "0")
    assert (done.code, done.err.count("\n")) == (2, 1)
    given: dict[str, Any] = {"client": None, "memory_limit_bytes": None, "overwrite": False}
    with pytest.raises(UsageError, match="are for CUDA devices"):
        graph500(
            Graph500Options(8), out, device="cpu", host_memory=0, progress=NoProgress(), **given
        )
    assert not out.exists()
