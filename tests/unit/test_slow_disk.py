"""A disk that is slow shows in progress; seconds by a clock that the tests turn."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.graph500.job import graph500
from ooc_graph.graph500.run import Graph500Options
from ooc_graph.memory.cpu import columns, disk
from ooc_graph.memory.cpu.disk import DiskBlocks
from ooc_graph.memory.cpu.plan import least_bytes
from ooc_graph.memory.io_stats import (
    BEST_BYTES,
    SLOWER,
    IoStats,
    Meter,
    Watch,
    current_watch,
    watched_by,
)
from ooc_graph.runtime import cluster, engine_cache, io_progress
from ooc_graph.runtime.io_progress import AtGrowingIntervals
from ooc_graph.shards.load import Graph
from ooc_graph.strategies import ranks
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.many import tiers as many_tiers
from ooc_graph.types import NoProgress
from tests.command_line import call
from tests.said import Said
from tests.slow_disk import PATIENCE_S, Clock, of_reading, slow_down

MB = 1_000_000
KERNELS = ("bfs", "sssp")


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    engine_cache.release()
    yield
    engine_cache.release()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("slow") / "g.zarr"
    og.build(og.Kronecker(15, edge_factor=64), path)
    return path


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Clock]:
    """Has every request take so many seconds, by a clock of its own, once the search waits."""
    return partial(slow_down, monkeypatch)


def reads(meter: Meter, clock: Clock, bytes_: int, seconds: float, *, waits: bool = True) -> None:
    """So much is read in so many seconds."""
    with meter.reading(1):
        if waits:
            with meter.waiting():
                clock.pass_by(seconds)
        else:
            clock.pass_by(seconds)
        meter.count(bytes_)


def looked_at(*turns: tuple[int, float, bool]) -> list[str]:
    """What is said of reads, each of bytes and seconds, for which the search waits or not."""
    clock, said = Clock(), []
    meter, watching = Meter(clock), Watch(said.append)
    watching.begin(meter)
    for bytes_, seconds, waits in turns:
        reads(meter, clock, bytes_, seconds, waits=waits)
        watching.look()
    return said


def test_a_fast_disk_says_nothing() -> None:
    assert looked_at(*[(200 * MB, 0.4, True)] * 12) == []


def test_a_slow_disk_is_told_of_with_figures() -> None:
    assert looked_at(*[(2 * MB, 1.0, True)] * 5) == [
        "read 10.0 MB of the store in 5 s of reading, 2.0 MB/s of late; it waited for the disk in "
        "100 % of that time; the disk is slower than expected: it gives 2.0 MB/s, where 50 MB/s "
        "are the least to be expected"
    ]


def test_lines_come_at_growing_intervals() -> None:
    said = looked_at(*[(2 * MB, 1.0, True)] * 1000)
    begun = [int(line.split(" in ")[1].split(" s ")[0]) for line in said]
    assert begun == [5, 10, 20, 40, 80, 160, 320, 640]


def test_a_disk_is_expected_to_give_what_it_gave() -> None:
    fast, slow = (BEST_BYTES, BEST_BYTES / 800e6, True), (100 * MB, 1.0, True)
    (line,) = looked_at(fast, *[slow] * 5)
    assert "it gives 102.9 MB/s, and gave 800 MB/s before" in line
    # A quarter of that is no sign of anything, and a few bytes are no measure.
    (line,) = looked_at(fast, *[(250 * MB, 1.0, True)] * 5)
    assert "slower" not in line
    few = (BEST_BYTES // 2, BEST_BYTES / 800e6, True)
    (line,) = looked_at(few, *[slow] * 5)
    assert "slower" not in line


def test_a_disk_that_becomes_slow_is_told_of_at_once_and_then_seldom() -> None:
    fast, slow = (200 * MB, 1.0, True), (1 * MB, 1.0, True)
    said = looked_at(*[fast] * 45, *[slow] * 30)
    seconds = [int(line.split(" in ")[1].split(" s ")[0]) for line in said]
    assert seconds == [5, 10, 20, 40, 50]
    assert ["slower" in line for line in said] == [False] * 4 + [True]
    # By turns: what was said once waits for its time.
    said = looked_at(*([fast] * 5 + [slow] * 5) * 30)
    assert len(said) <= 8


def test_reading_beside_the_search_makes_no_disk_slow() -> None:
    (line,) = looked_at(*[(1 * MB, 1.0, False)] * 5)
    assert "waited for the disk in 0 % of that time" in line
    assert "slower" not in line


def test_what_was_read_before_is_not_this_search_s() -> None:
    clock, said = Clock(), []
    meter, other = Meter(clock), Meter(clock)
    reads(meter, clock, 500 * MB, 100)
    watching = Watch(said.append)
    watching.begin(meter)
    reads(meter, clock, 3 * MB, 3)
    watching.begin(meter)
    watching.begin(other)
    reads(other, clock, 4 * MB, 3)
    watching.look()
    (line,) = said
    assert line.startswith("read 7.0 MB of the store in 6 s")


def test_reads_under_way_count() -> None:
    clock = Clock()
    meter = Meter(clock)
    with meter.reading(1), meter.waiting():
        clock.pass_by(3)
        assert meter.now() == IoStats(reading_s=3, waited_s=3)
    clock.pass_by(3)
    assert meter.now() == IoStats(reading_s=3, waited_s=3)


def test_a_disk_that_gives_nothing_at_all_is_told_of(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the one read that there is has not come back."""
    clock, said, has_said = Clock(), [], threading.Event()
    read = columns.LastFile.read

    def stuck(last: columns.LastFile, path: str, offset: int, buffer: memoryview) -> int:
        clock.pass_by(7)
        assert has_said.wait(PATIENCE_S)
        return read(last, path, offset, buffer)

    def say(text: str) -> None:
        said.append(text)
        has_said.set()

    monkeypatch.setattr(columns.LastFile, "read", stuck)
    monkeypatch.setattr(disk, "LOOK_EVERY_S", 0.01)
    graph = og.open(store)
    arrays = cpu_disk.require_stored(graph, "bfs")[0], [["shards/00000/out/hub/neighbors"]]
    units = DiskBlocks(*arrays, np.zeros(1, np.int64), batch_blocks=2, meter=Meter(clock))
    with closing(units), watched_by(Watch(say)):
        for _ in units.stage(iter([[np.array([0])]])):
            pass
    assert said[0].startswith("read 0.0 MB of the store in 7 s of reading, 0.0 MB/s of late")
    assert "it gives 0.0 MB/s" in said[0]


def limit_of(graph: Graph, kernel: str) -> int:
    return cpu_disk.least_within(graph, kernel)


@contextmanager
def worker_here(_: int) -> Iterator[Client]:
    """A worker as the command starts one, in this process, where the disk is slowed down."""
    given = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with Client(processes=False, **given) as one:
        yield one


@pytest.mark.parametrize("seconds", [1.0, 1e-6])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_command_says_that_the_disk_is_slow(
    kernel: str,
    seconds: float,
    store: Path,
    tmp_path: Path,
    slow_disk: Callable[[float], Clock],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    graph = og.open(store)
    source, limit = int(graph.original_of()[9]), limit_of(graph, kernel)
    clock = slow_disk(seconds)
    monkeypatch.setattr(cluster, "local_cluster", worker_here)
    words = (kernel, store, "--source", source, "--out", tmp_path / "r.zarr")
    words = (*words, "--memory-limit", limit, "--device", "cpu", "--workers", 1)
    ended = call(monkeypatch, capsys, *words)
    assert ended.code == 0
    assert f"{kernel} held " in ended.err
    begins = re.escape(f"{kernel} from {source}: worker ") + r"\S+: "
    lines = re.findall(begins + r"read [\d,.]+ MB of the store in (\d+) s .*", ended.err)
    if seconds < 1:
        assert (lines, "slower" in ended.err) == ([], False)
        return
    assert clock.now_s >= 5, ended.err
    assert int(lines[0]) >= 5
    assert 1 <= len(lines) <= 2 + np.log2(clock.now_s / 5)
    assert "the disk is slower than expected: it gives " in ended.err


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_search_that_is_held_tells_of_its_own_reads(
    kernel: str, store: Path, slow_disk: Callable[[float], Clock]
) -> None:
    graph = og.open(store)
    source, limit = int(graph.original_of()[9]), limit_of(graph, kernel)
    first, again = Said(), Said()
    given: dict[str, Any] = {"memory_limit": limit + 24 * graph.vertices, "device": "cpu"}
    clock = slow_disk(1.0)
    getattr(og, kernel)(graph, source, progress=first, **given)
    loaded_s = clock.now_s
    getattr(og, kernel)(graph, source, progress=again, **given)
    assert of_reading(first)
    assert len(of_reading(again)) <= (clock.now_s - loaded_s) // 5
    assert io_progress._subscribers == []


@pytest.mark.parametrize("written", [False, True])
def test_many_sources_say_it_too(
    written: bool, store: Path, tmp_path: Path, slow_disk: Callable[[float], Clock]
) -> None:
    graph, said = og.open(store), Said()
    limit = least_bytes(many_tiers.known_facts(graph, "multi_source_bfs", many_tiers.ONE_BY_ONE))
    clock = slow_disk(1.0)
    og.multi_source_bfs(
        graph,
        graph.original_of()[:3],
        targets=graph.original_of()[:5],
        memory_limit=limit + (8 << 20),
        device="cpu",
        progress=said,
        out=tmp_path / "r.zarr" if written else None,
    )
    assert any("leaves arcs in the store" in note for note in said.notes)
    assert of_reading(said)
    assert of_reading(said)[0].startswith("multi_source_bfs: read ")
    assert len(of_reading(said)) <= 2 + np.log2(clock.now_s / 5)


def test_graph500_says_it_too(
    tmp_path: Path, slow_disk: Callable[[float], Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "STATE_BYTES", dict.fromkeys(KERNELS, 1 << 20))
    slow_disk(6.0)
    said = Said()
    outcome = graph500(
        Graph500Options(scale=10, searches=2, energy=False),
        tmp_path / "run",
        client=None,
        device="cpu",
        memory_limit_bytes=60 << 20,
        progress=said,
        overwrite=False,
    )
    assert outcome.failure is None
    assert {line.split(":")[0] for line in of_reading(said)} == set(KERNELS)


def test_what_workers_say_together_is_no_flood() -> None:
    clock, lines = Clock(), []
    note = AtGrowingIntervals(lines.append, clock)
    for second in range(100):
        clock.now_s = float(second)
        for worker in range(3):
            note(f"{worker} {second}")
    assert lines == ["0 0", "0 5", "0 15", "0 35", "0 75"]


def test_that_a_disk_is_slow_is_passed_on_at_once_and_once() -> None:
    clock, lines = Clock(), []
    note = AtGrowingIntervals(lines.append, clock)
    for second in range(10):
        clock.now_s = second / 10
        note(f"{second}" if second < 3 else f"{second}: {SLOWER}")
    assert lines == ["0", f"3: {SLOWER}"]


def test_short_tasks_of_a_worker_are_watched_together() -> None:
    """Each reads for too short a time to say anything."""
    clock, events = Clock(), []
    worker = SimpleNamespace(
        name="w", address="here", log_event=lambda topic, text: events.append((topic, text))
    )
    meter = Meter(clock)
    for _ in range(6):
        with io_progress.watched("a graph", worker):
            watching = current_watch()
            assert watching is not None
            watching.begin(meter)
            reads(meter, clock, 2 * MB, 2.0)
            watching.look()
    assert [text.split(" of reading")[0] for _, text in events] == [
        "worker w: read 6.0 MB of the store in 6 s",
        "worker w: read 12.0 MB of the store in 12 s",
    ]
    with io_progress.watched("another", worker):
        assert current_watch() is not watching


def test_nobody_is_watched_unless_somebody_hears_of_it() -> None:
    with io_progress.watched("a graph", None):
        assert current_watch() is None
    with io_progress.reported("a graph", "bfs", None, NoProgress()):
        with io_progress.watched("another", None):
            assert current_watch() is None
        with io_progress.watched("a graph", None):
            assert current_watch() is not None
    assert current_watch() is None
