"""Chunks of many sources are recorded as their batches end, and nothing is that was given up."""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.asked import answer_specs
from ooc_graph.errors import DiskFullError, RetryableError
from ooc_graph.kernels.common.completion import OnDone, current_event
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many import bfs_search as many_bfs_search
from ooc_graph.kernels.cpu.many import choice as many_choice
from ooc_graph.kernels.cpu.many import search as many_search
from ooc_graph.kernels.cpu.many.bfs_search import CpuManyBfs
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime import engine_cache, process, this_process
from ooc_graph.search import many
from ooc_graph.sinks.in_store import InStore
from ooc_graph.strategies.many import dividing
from ooc_graph.strategies.many import tasks as many_tasks
from ooc_graph.types import NoProgress, Rows
from tests.said import Said
from tests.test_pairs_stored import edges

THREADS, BATCH, BATCHES = 2, 32, 4
WAIT_S = 120.0


@pytest.fixture(autouse=True)
def _batches_are_chunks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads, tasks of four batches for each of them, chunks of a batch."""

    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=BATCH) for spec in answer_specs(*given))

    engine_cache.release()
    monkeypatch.setattr(many, "answer_specs", specs)
    monkeypatch.setattr(dividing, "BATCH_SIZES", (BATCH, BATCH // 2))
    monkeypatch.setattr(dividing, "BFS_FACTOR", 1)
    monkeypatch.setattr(dividing, "TASK_BATCHES", BATCHES)
    # Nothing but batches of the task, whether they pay or not.
    monkeypatch.setattr(many_choice.Chooser, "_look", lambda *_: 0)
    monkeypatch.setattr(many_search, "PRUNED_FROM", 1 << 30)
    monkeypatch.setattr(many_bfs_search, "WORTH", 0)
    monkeypatch.setattr(this_process, "cores", lambda: THREADS)
    monkeypatch.setattr(process, "cores", lambda: THREADS)
    monkeypatch.setattr(process, "_devices", {})
    yield
    engine_cache.release()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Weights of both signs, and ones of 0 or more."""
    folder = tmp_path_factory.mktemp("recorded")
    made = {}
    for height in (100, 0):
        made[height] = folder / f"{height}.zarr"
        og.build(edges("float64", height), made[height], directed=True)
    return made


KINDS: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "negative": (og.johnson, 100, {}),
    "parents": (og.johnson, 100, {"parents": True}),
    "weighted": (og.johnson, 0, {}),
    "sums": (og.johnson, 0, {"reduce": "sum"}),
    "levels": (og.multi_source_bfs, 0, {}),
    "sums of levels": (og.multi_source_bfs, 0, {"reduce": "sum"}),
}


class Batches:
    """Stands before `search_batch`, of both kinds: calls ``before`` with the number of the call."""

    def __init__(self, patch: pytest.MonkeyPatch, before: Callable[[int], None]) -> None:
        self.begun, self._before, self._lock = 0, before, threading.Lock()
        for module in (many_search, many_bfs_search):
            patch.setattr(module, "search_batch", partial(self._search, module.search_batch))

    def _search(self, search: Any, *given: Any) -> Any:
        with self._lock:
            number, self.begun = self.begun, self.begun + 1
        self._before(number)
        return search(*given)


class Finished:
    """Stands for `write_checkpoint` and keeps the numbers that were recorded."""

    def __init__(
        self, patch: pytest.MonkeyPatch, before: Callable[[int], None] = lambda _: None
    ) -> None:
        self.numbers: list[int] = []
        self._calls, self._before, self._real = 0, before, many_tasks.write_checkpoint
        self.changed = threading.Condition()
        patch.setattr(many_tasks, "write_checkpoint", self)

    def __call__(self, folder: Path, attempt: Path, number: int, *rest: Any) -> Any:
        with self.changed:
            call, self._calls = self._calls, self._calls + 1
        self._before(call)
        unit = self._real(folder, attempt, number, *rest)
        with self.changed:
            self.numbers.append(number)
            self.changed.notify_all()
        return unit

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.numbers) >= count, WAIT_S)


def searcher(stores: dict[int, Path], kind: str) -> Any:
    find, height, options = KINDS[kind]
    return partial(find, stores[height], device="cpu", **options)


def recorded(folder: Path) -> set[int]:
    (left,) = folder.glob("d.zarr.partial-*")
    return {int(path.stem) for path in (left / "spill/done").glob("*.json")}


def chunks_of(whole: Path) -> int:
    return -(-len(og.Result.open(whole).read("source")) // BATCH)


def same(folder: Path) -> bool:
    found, whole = (Stored.open(folder / f"{name}.zarr") for name in ("d", "whole"))
    return found.identity == whole.identity


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_recorded_while_their_task_is_searched(
    stores: dict[int, Path], tmp_path: Path, kind: str
) -> None:
    """And every thread has one under way: it records what it has found before it goes on."""
    search = searcher(stores, kind)
    search(out=tmp_path / "whole.zarr")
    # Later calls may find no batch left.
    most, task = THREADS, THREADS * BATCHES
    begun, behind, changed = 0, [0], threading.Condition()

    def searched(_: int) -> None:
        nonlocal begun
        with changed:
            begun = min(begun + 1, task)
            behind.append(begun - len(finished.numbers))
            changed.notify_all()

    def written(call: int) -> None:
        """Not before as many are under way as may be."""
        with changed:
            assert changed.wait_for(lambda: begun >= min(most + call, task), WAIT_S)

    with pytest.MonkeyPatch.context() as patch:
        finished = Finished(patch, written)
        Batches(patch, searched)
        search(out=tmp_path / "d.zarr")
    assert max(behind) == most
    assert sorted(finished.numbers) == list(range(chunks_of(tmp_path / "whole.zarr")))
    assert same(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_memory_refused_in_the_middle_of_a_task_costs_no_batch_that_was_searched(
    stores: dict[int, Path], tmp_path: Path, kind: str
) -> None:
    search = searcher(stores, kind)
    search(out=tmp_path / "whole.zarr")
    engine_cache.release()
    before: list[int] = []

    class Noting(NoProgress):
        def note(self, text: str) -> None:
            if "memory was refused" in text:
                before.append(len(finished.numbers))

    def refuse(number: int) -> None:
        if number == 5:
            finished.wait_for(2)
            raise MemoryError("no room")

    with pytest.MonkeyPatch.context() as patch:
        finished = Finished(patch)
        Batches(patch, refuse)
        search(out=tmp_path / "d.zarr", progress=Noting())
    (kept,) = before
    chunks = chunks_of(tmp_path / "whole.zarr")
    assert 2 <= kept < chunks
    assert sorted(finished.numbers) == list(range(chunks))
    assert same(tmp_path)


@pytest.mark.parametrize("kind", ["parents", "sums of levels"])
def test_an_interrupted_run_goes_on_after_its_last_batch(
    stores: dict[int, Path], tmp_path: Path, kind: str
) -> None:
    search = searcher(stores, kind)
    search(out=tmp_path / "whole.zarr")
    engine_cache.release()

    is_interrupted = threading.Event()

    def interrupt(number: int) -> None:
        is_over = current_event()
        if number < 3 or is_interrupted.is_set():
            return
        if is_over is not None:
            # The thread of the task, which is one of those that search.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            assert is_over.wait(WAIT_S)
            is_interrupted.set()
        assert is_interrupted.wait(WAIT_S)

    with pytest.MonkeyPatch.context() as patch:
        Batches(patch, interrupt)
        first = Finished(patch)
        with pytest.raises(KeyboardInterrupt):
            search(out=tmp_path / "d.zarr")
    done = recorded(tmp_path)
    assert set(first.numbers) == done
    # Not all of the task: it is left after the batches that were searched.
    assert 3 <= len(done) < THREADS * BATCHES
    with pytest.MonkeyPatch.context() as patch:
        again = Finished(patch)
        search(out=tmp_path / "d.zarr")
    chunks = chunks_of(tmp_path / "whole.zarr")
    assert sorted([*first.numbers, *again.numbers]) == list(range(chunks))
    assert same(tmp_path)


def test_a_chunk_that_cannot_be_written_ends_the_search(
    stores: dict[int, Path], tmp_path: Path
) -> None:
    def full(call: int) -> None:
        if call == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        finished = Finished(patch, full)
        with pytest.raises(DiskFullError, match="continues with what there is"):
            searcher(stores, "weighted")(out=tmp_path / "d.zarr")
    # Nobody writes any more.
    assert recorded(tmp_path) == set(finished.numbers)
    said = Said()
    searcher(stores, "weighted")(out=tmp_path / "d.zarr", cutoff=3.0, progress=said)
    assert said.notes[0] == "what a stopped run left is not used: cutoff changed"


def test_a_batch_of_levels_that_was_left_is_told_to_nobody() -> None:
    """One thread fails while another is in the middle of a batch."""
    rows = 100_000
    # A long path, and a pair of rows apart.
    ends = np.append(np.arange(rows - 3), rows - 2)
    u, v = np.append(ends, ends + 1), np.append(ends + 1, ends)
    order = np.argsort(u, kind="stable")
    offsets = np.zeros(rows + 1, np.uint64)
    offsets[1:] = np.cumsum(np.bincount(u, minlength=rows))
    graph = Rows(offsets, v[order].astype(np.uint32), None)
    search = CpuManyBfs(graph, graph, Team(2))
    sources = np.append(np.full(BATCH, rows - 2), np.zeros(BATCH, np.int64))
    answer = np.empty((len(sources), rows), np.int32)
    lengths: list[int] = []

    def hear(begin: int, end: int) -> None:
        lengths.extend(answer[begin:end].max(axis=1, where=answer[begin:end] < rows, initial=0))
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        search.run(sources, answer, batch_size=BATCH, on_done=OnDone(hear))
    assert set(lengths) <= {1, rows - 3}


@pytest.mark.parametrize("kind", ["weighted", "sums of levels"])
def test_a_record_that_cannot_be_read_at_the_end_is_made_again(
    kind: str, stores: dict[int, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = searcher(stores, kind)
    search(out=tmp_path / "whole.zarr")
    plain = InStore.finish

    def finish(store: InStore) -> Stored:
        next(tmp_path.glob("d.zarr.partial-*/spill/done/0.json")).unlink()
        return plain(store)

    with monkeypatch.context() as patched:
        patched.setattr(InStore, "finish", finish)
        with pytest.raises(RetryableError, match=r"cannot be read any more \(\[0\]\)"):
            search(out=tmp_path / "d.zarr")
    again = Finished(monkeypatch)
    search(out=tmp_path / "d.zarr")
    assert again.numbers == [0]
    assert same(tmp_path)
