"""Many sources where the system refuses memory that was reckoned with: less is held, same bytes."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.answers import many as answers_many
from ooc_graph.answers import scatter
from ooc_graph.answers.asked import answer_specs
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.many import bellman_ford, bellman_ford_search
from ooc_graph.kernels.common.many import parents as many_parents
from ooc_graph.kernels.common.store import rows as tier_rows
from ooc_graph.kernels.cpu.many import bfs_search as many_bfs_search
from ooc_graph.kernels.cpu.many import johnson as many_johnson
from ooc_graph.kernels.cpu.many import search as many_search
from ooc_graph.kernels.cpu.store import bellman_ford as tier_falling
from ooc_graph.kernels.cpu.store import johnson as tier_johnson
from ooc_graph.kernels.cpu.store import one_by_one as tier_singly
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu import disk, plan
from ooc_graph.runtime import engine_cache, process
from ooc_graph.search import many
from ooc_graph.shards import load, tiers
from ooc_graph.sinks import in_memory
from ooc_graph.strategies.many import dividing, searches
from ooc_graph.strategies.many import tasks as many_tasks
from tests import small_pairs
from tests.said import Said
from tests.small_pairs import Call
from tests.test_pairs_stored import no_room
from tests.unit.test_tier_memory import Scarce

called = small_pairs.called
SOME = (answers_many, searches, many_tasks, many_johnson, many_search)
ALLOCATING = (
    *(*SOME, scatter, disk, load, tiers, many_bfs_search, many_parents),
    *(bellman_ford, bellman_ford_search, tier_falling, tier_johnson, tier_rows, tier_singly),
)
REFUSED = r"memory was refused: apsp (.*) within ([\d,]+) bytes"


@pytest.fixture(autouse=True)
def _released(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # It is more than all that small graphs take.
    monkeypatch.setattr(plan, "RESERVE_BYTES", 0)
    yield
    engine_cache.release()


def edges(vertices: int, count: int) -> tuple[np.ndarray, ...]:
    """Weights of both signs and no negative cycle."""
    random = np.random.default_rng(6)
    u, v = random.integers(0, vertices, (2, count))
    by = random.integers(0, 100, vertices)
    keep = u != v
    return u[keep], v[keep], (random.integers(1, 50, count) + by[u] - by[v])[keep]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("refused") / "g.zarr"
    og.build(edges(600, 60_000), path, directed=True)
    return path


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So many arcs that levels are found in less memory with arcs in the store."""
    path = tmp_path_factory.mktemp("larger") / "g.zarr"
    og.build(edges(2000, 800_000)[:2], path, directed=True)
    return path


@pytest.fixture
def chunks_of_ten(store: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Chunks of ten sources, one a task; how many chunks."""

    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=10) for spec in answer_specs(*given))

    monkeypatch.setattr(many, "answer_specs", specs)
    monkeypatch.setattr(dividing, "BATCH_SIZES", (4, 1))
    monkeypatch.setattr(dividing, "TASK_BATCHES", 1)
    return -(-og.open(store).vertices // 10)


class Refusing:
    """Stands in for a function and refuses memory in some of its calls."""

    def __init__(self, function: Any, calls: Any) -> None:
        self.function, self.calls, self.count = function, calls, 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.count += 1
        if self.count in self.calls:
            raise MemoryError("no room")
        return self.function(*arguments, **named)


ALWAYS = range(1 << 30)


@pytest.mark.parametrize(
    ("kernel", "begun", "written", "modules"),
    [
        ("apsp", "in memory", False, SOME),
        *(
            pytest.param(kernel, begun, written, ALLOCATING, marks=pytest.mark.slow)
            for kernel in ("apsp", "bfs")
            for begun in ("in memory", "in the store")
            for written in (False, True)
        ),
    ],
)
def test_memory_refused_at_any_allocation_is_done_without(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kernel: str,
    begun: str,
    written: bool,
    modules: Any,
) -> None:
    store = request.getfixturevalue("store" if kernel == "apsp" else "larger")
    graph, said = og.open(store), Said()
    sources = graph.original_ids()[:70]
    find, options = (
        (og.johnson, {"parents": True}) if kernel == "apsp" else (og.multi_source_bfs, {})
    )
    given = {"device": "cpu", "progress": said, **options}

    def found(out: Path | None) -> list[bytes]:
        answer = find(graph, sources, out=out, overwrite=True, **given)
        return [answer.read(name).tobytes() for name in answer.names]

    # Kernels are not compiled with what stands in for numpy.
    wanted = found(None)
    out = tmp_path / "d.zarr" if written else None
    with no_room():
        assert found(out) == wanted
    in_store = begun == "in the store"
    scarce, went_on = Scarce(), 0
    for module in modules:
        monkeypatch.setattr(module, "np", scarce)
    with no_room() if in_store else nullcontext():
        while True:
            engine_cache.release()
            scarce.has_refused, said.notes = False, []
            assert found(out) == wanted
            if not scarce.has_refused:
                break
            # Where nothing was held yet, it is asked for again.
            went_on += any(re.match("memory was refused: .* goes? on", note) for note in said.notes)
    assert not any("refused" in note for note in said.notes)
    assert len(scarce.places) > (3 if modules is SOME else 10)
    assert went_on > 0.8 * len(scarce.places)


@pytest.mark.parametrize("always", [False, True])
def test_a_thread_that_is_refused_is_refused_memory(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    """Where memory is short, a thread's stack is refused as soon as an array."""
    graph, said = og.open(store), Said()
    sources = graph.original_ids()[:70]
    wanted = og.johnson(graph, sources, device="cpu").read("distance").tobytes()
    start, refused = threading.Thread.start, 0

    def refusing(thread: threading.Thread) -> None:
        nonlocal refused
        if thread.name.startswith("ooc-graph_") and (always or not refused):
            refused += 1
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refusing)
    given = {"device": "cpu", "progress": said, "out": tmp_path / "d.zarr"}
    if always:
        with pytest.raises(MemoryBudgetError, match="the system refuses"):
            og.johnson(graph, sources, **given)
    else:
        assert og.johnson(graph, sources, **given).read("distance").tobytes() == wanted
        assert re.search(REFUSED, said.notes[0])
    assert refused


def test_chunks_that_are_written_stay(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks_of_ten: int
) -> None:
    og.johnson(store, out=tmp_path / "whole.zarr")
    finished = []
    finish = many_tasks.write_checkpoint

    def finishing(folder: Path, attempt: Path, number: int, *rest: Any) -> Any:
        unit = finish(folder, attempt, number, *rest)
        finished.append(number)
        return unit

    real, said, refused = many_tasks._search, Said(), [0, 0]
    counting = threading.Lock()

    def search(*given: Any) -> Any:
        """Refuse once before the first note and once after it, each time after a few searches."""
        with counting:
            turn = sum("refused" in note for note in said.notes)
            if turn < len(refused):
                refused[turn] += 1
                if refused[turn] == (10, 5)[turn]:
                    raise MemoryError("no room")
        return real(*given)

    monkeypatch.setattr(many_tasks, "write_checkpoint", finishing)
    monkeypatch.setattr(many_tasks, "_search", search)
    og.johnson(store, out=tmp_path / "d.zarr", progress=said)
    assert sorted(finished) == list(range(chunks_of_ten))
    notes = [re.match(REFUSED, note) for note in said.notes if "refused" in note]
    (_, first), (how, second) = [note.groups() for note in notes if note]
    assert how == "leaves arcs in the store and goes on"
    assert int(second.replace(",", "")) < int(first.replace(",", ""))
    whole, found = (Stored.open(tmp_path / f"{name}.zarr") for name in ("whole", "d"))
    assert found.identity == whole.identity


@pytest.mark.usefixtures("chunks_of_ten")
@pytest.mark.parametrize("reduce", [None, "sum"])
def test_answers_that_are_found_stay(
    store: Path, monkeypatch: pytest.MonkeyPatch, reduce: str | None
) -> None:
    wanted = og.johnson(store, reduce=reduce)
    sources: list[int] = []
    search = Refusing(many_tasks._search, {10, 20})

    def searching(task: Any, places: Any, *rest: Any) -> Any:
        found = search(task, places, *rest)
        sources.extend(places.tolist())
        return found

    monkeypatch.setattr(many_tasks, "_search", searching)
    found = og.johnson(store, reduce=reduce)
    assert sources == list(range(og.open(store).vertices))
    for name in wanted.names:
        assert found.read(name).tobytes() == wanted.read(name).tobytes()


@pytest.mark.parametrize("written", [False, True])
def test_the_least_that_is_refused_is_one_clear_error(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    monkeypatch.setattr(many_tasks, "_search", Refusing(None, ALWAYS))
    said, out = Said(), tmp_path / "d.zarr" if written else None
    with pytest.raises(MemoryBudgetError, match="and the system refuses them") as caught:
        og.johnson(store, out=out, progress=said)
    notes = [re.match(REFUSED, note) for note in said.notes if "refused" in note]
    ways = [(note[1], int(note[2].replace(",", ""))) for note in notes if note]
    assert ways[-1][0] == "leaves arcs in the store and goes on"
    sizes = [within for _, within in ways]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes) > 1
    assert f"needs {sizes[-1]:,} bytes at least in one worker" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_command_ends_as_searches_do(
    larger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Call
) -> None:
    monkeypatch.setattr(many_tasks, "_search", Refusing(None, ALWAYS))
    words = ["bfs", larger, "--sources", 5, "--out", tmp_path / "d.zarr", "--device", "cpu"]
    ended = called(*words)
    assert ended.code == 2, ended
    *before, last = ended.err.splitlines()
    assert last.startswith("ooc-graph: multi_source_bfs on ")
    assert last.endswith("and the system refuses them (no room)")
    assert any("leaves arcs in the store and goes on within" in line for line in before)


def test_a_graph_in_memory_has_no_store_to_leave_arcs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.from_edges(*edges(600, 60_000), directed=True)
    monkeypatch.setattr(many_tasks, "_search", Refusing(None, ALWAYS))
    said = Said()
    with pytest.raises(MemoryBudgetError, match="and the system refuses them"):
        og.johnson(graph, progress=said)
    notes = [note for note in said.notes if "refused" in note]
    assert notes
    assert all("goes on in batches of" in note for note in notes)


def test_an_answer_that_is_refused_can_be_written(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoRoom:
        empty = Refusing(None, ALWAYS)

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

    monkeypatch.setattr(in_memory, "np", NoRoom())
    with pytest.raises(MemoryBudgetError, match="memory of the answer; give out= to write it"):
        og.johnson(store)
    og.johnson(store, out=tmp_path / "d.zarr")


def test_another_graph_is_given_up_first(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    og.bfs(store, int(og.open(store).original_ids()[0]))
    assert engine_cache._engines
    monkeypatch.setattr(in_memory, "ids_of", Refusing(in_memory.ids_of, {1}))
    held = []
    prepare = many_tasks._search
    monkeypatch.setattr(
        many_tasks,
        "_search",
        lambda *given: held.append(len(engine_cache._engines)) or prepare(*given),
    )
    said = Said()
    og.johnson(store, device="cpu", progress=said)
    assert held[0] == 0
    assert said.notes == []


def test_an_error_does_not_keep_what_was_held() -> None:
    class Array(np.ndarray):
        pass

    seen = []

    def fail() -> None:
        array = np.zeros(3).view(Array)
        seen.append(weakref.ref(array))
        raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room") as caught:
        process.without_traceback(fail)
    assert seen[0]() is None
    assert caught.value.__context__ is None


@pytest.mark.slow
def test_memory_refused_to_a_worker_is_done_without(store: Path, tmp_path: Path) -> None:
    wanted = og.johnson(store)

    def scarce() -> None:
        from ooc_graph.strategies.many import tasks

        search = tasks._search

        def refusing(task: Any, places: Any, *rest: Any) -> Any:
            if task.strategy.name != "cpu/disk" and len(places):
                raise MemoryError("no room")
            return search(task, places, *rest)

        tasks._search = refusing

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as workers,
        Client(workers) as client,
    ):
        client.run(scarce)
        said = Said()
        og.johnson(store, out=tmp_path / "d.zarr", client=client, progress=said)
        held = og.johnson(store, client=client)
    assert any("leaves arcs in the store and goes on" in note for note in said.notes)
    for found in (og.Result.open(tmp_path / "d.zarr"), held):
        assert found.read("distance").tobytes() == wanted.distance.tobytes()
