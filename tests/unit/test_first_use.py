"""Kernels are compiled by one process for all, whatever happens to that process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numba
import numpy as np
import psutil
import pytest

from ooc_graph import forked, from_edges
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.runtime import compile_ahead as ahead
from ooc_graph.runtime import warmup
from ooc_graph.runtime.compile_ahead import Part, can_be_kept, is_compiled, turn
from ooc_graph.runtime.compile_parts import parts_of_graph500
from ooc_graph.runtime.process import device
from ooc_graph.runtime.warmup import RANKS, TIER_RANKS, TIERS

ROOT = Path(__file__).parents[2]
PART = Part("bfs")
CHECKS = [Part("check-bfs"), Part("check-sssp", weights="float32")]
WITHIN_S = 120.0


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
    return folder


@contextmanager
def program(text: str, cache: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of the package that prints when it is where it should be; killed at the end."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    call = [sys.executable, "-c", text]
    with subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_start", lambda *_: pytest.fail("a process was started"))


def until(met: Callable[[], object]) -> Iterator[None]:
    """Pauses until something is met; fails after a while."""
    begun = time.monotonic()
    while not met():
        assert time.monotonic() - begun < WITHIN_S
        yield time.sleep(0.01)


def test_a_part_is_compiled_once() -> None:
    assert not is_compiled(PART)
    with turn(PART, wait=False) as mine:
        assert mine
        assert not is_compiled(PART)
        with turn(PART, wait=False) as other:
            assert not other
        assert not is_compiled(PART)
        with turn(Part("sssp"), wait=False) as another:
            assert another
    assert is_compiled(PART)
    with turn(PART) as mine:
        assert mine


def test_who_comes_second_waits() -> None:
    order: list[str] = []

    def second() -> None:
        with turn(PART):
            order.append("second")

    with turn(PART):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(4 * forked.POLL_S)
        order.append("first")
    thread.join(WITHIN_S)
    assert order == ["first", "second"]


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PATIENCE_S", 0.1)
    with turn(PART):
        with turn(PART) as mine:
            assert mine
        # Who did not have its turn cannot say that the part is there.
        assert not is_compiled(PART)


def test_what_failed_is_not_there() -> None:
    with pytest.raises(ZeroDivisionError), turn(PART):
        raise ZeroDivisionError
    assert not is_compiled(PART)


def test_a_killed_process_leaves_its_turn(cache: Path) -> None:
    text = (
        "import time\n"
        "from ooc_graph.runtime.compile_ahead import Part, turn\n"
        "with turn(Part('bfs')):\n"
        "    print('compiling', flush=True)\n"
        "    time.sleep(600)\n"
    )
    with program(text, cache) as holder:
        assert line_of(holder) == "compiling"
        with turn(PART, wait=False) as mine:
            assert not mine
    assert not is_compiled(PART)
    with turn(PART, wait=False) as mine:
        assert mine


@pytest.mark.parametrize(
    "other", [Part("bfs", directed=True), Part("bfs", ids="uint64"), Part("bfs", variant="ranks")]
)
def test_kernels_of_other_types_are_other_parts(other: Part) -> None:
    with turn(PART):
        pass
    assert not is_compiled(other)


def test_another_processor_or_source_compiles_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with turn(PART):
        pass
    monkeypatch.setattr(ahead, "_machine", lambda: b"another")
    assert not is_compiled(PART)


def test_a_cache_that_cannot_be_written_hinders_nobody(cache: Path, no_process: None) -> None:
    cache.mkdir()
    (cache / "parts").write_text("in the way")
    assert not can_be_kept()
    with turn(PART) as mine:
        assert mine
    assert not is_compiled(PART)
    ahead.compile_ahead(CHECKS, processes=2)


def test_nothing_is_started_where_all_is_there(no_process: None) -> None:
    for part in CHECKS:
        with turn(part):
            pass
    ahead.compile_ahead(CHECKS, processes=2)


def test_one_missing_part_is_no_reason_for_a_process(no_process: None) -> None:
    with turn(CHECKS[0]):
        pass
    ahead.compile_ahead(CHECKS, processes=2)


def test_without_compiling_there_is_nothing_to_wait_for(
    monkeypatch: pytest.MonkeyPatch, no_process: None, cache: Path
) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    ahead.compile_ahead(CHECKS, processes=2)
    with turn(PART) as mine:
        assert mine
    assert not cache.exists()


def test_processes_that_fail_are_only_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_PROGRAM", "raise SystemExit(3)")
    ahead.compile_ahead(CHECKS, processes=2)
    monkeypatch.setattr(ahead.sys, "executable", "/nowhere/python")
    ahead.compile_ahead(CHECKS, processes=2)
    assert not any(map(is_compiled, CHECKS))


def test_no_process_outlives_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        def wait(self, timeout: float | None = None) -> int:
            if timeout is not None:
                raise KeyboardInterrupt
            return super().wait()

    monkeypatch.setattr(ahead.subprocess, "Popen", Interrupted)
    before = set(psutil.Process().children())
    with pytest.raises(KeyboardInterrupt):
        ahead.compile_ahead(CHECKS, processes=2)
    assert not set(psutil.Process().children()) - before


def test_no_process_outlives_its_starter(cache: Path) -> None:
    text = (
        "import time\n"
        "from ooc_graph.runtime.compile_ahead import Part, _start\n"
        "print(_start([Part('sssp', weights='float32')], '/tmp').pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with program(text, cache) as starter:
        child = psutil.Process(int(line_of(starter)))
        for _ in until(lambda: list((cache / "parts").glob("*.lock"))):
            pass
    for _ in until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE):
        pass
    # It did not live to the end of its work.
    assert not list((cache / "parts").glob("*.done"))


def test_processes_fill_the_cache(cache: Path) -> None:
    before = set(psutil.Process().children())
    parts = [Part("check-bfs"), Part("generate")]
    ahead.compile_ahead(parts, processes=2)
    assert not set(psutil.Process().children()) - before
    assert all(map(is_compiled, parts))
    text = (
        "from ooc_graph.runtime.compile_parts import check_pair\n"
        "from ooc_graph.validate import edge_loops, loops, plane_loops\n"
        "check_pair('bfs', False)\n"
        "used = [loops.take_column, edge_loops.look, plane_loops.look_at_planes]\n"
        "print([(len(f.stats.cache_hits), len(f.stats.cache_misses)) for f in used])\n"
    )
    with program(text, cache) as checker:
        assert line_of(checker) == "[(2, 0), (1, 0), (2, 0)]"


@pytest.mark.slow
def test_the_parts_of_graph500_are_all_that_it_compiles(cache: Path, tmp_path: Path) -> None:
    parts = parts_of_graph500(Kronecker(10), ("bfs", "sssp"), True)
    ahead.compile_ahead(parts, processes=2)
    assert all(map(is_compiled, parts))
    text = (
        "from pathlib import Path\n"
        "from numba.core import event\n"
        "from ooc_graph.graph500.job import graph500\n"
        "from ooc_graph.graph500.run import Graph500Options\n"
        "from ooc_graph.types import NoProgress\n"
        "recorder = event.RecordingListener()\n"
        "event.register('numba:compile', recorder)\n"
        f"graph500(Graph500Options(10, searches=4), Path({str(tmp_path / 'out')!r}), client=None,"
        " memory_limit_bytes=None, progress=NoProgress(), overwrite=False)\n"
        "print([e.data['dispatcher'].py_func.__name__ for _, e in recorder.buffer])\n"
    )
    with program(text, cache) as run:
        assert line_of(run) == "[]"


@pytest.mark.parametrize(
    ("variant", "by_another"), [("", False), (TIERS, True), (TIER_RANKS, True), (RANKS, False)]
)
def test_who_is_short_of_memory_has_another_process_compile(
    variant: str, by_another: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[Part]] = []
    monkeypatch.setattr(warmup, "_done", set())
    monkeypatch.setattr(warmup, "compile_ahead", lambda parts, least: begun.append(parts))
    monkeypatch.setattr(warmup, "warm_part", lambda *_: None)
    graph = from_edges(np.array([0]), np.array([1]))
    warmup.warm("bfs", graph, device(), variant=variant)
    warmup.warm("bfs", graph, device(), variant=variant)
    assert [part.variant for parts in begun for part in parts] == [variant] * by_another
