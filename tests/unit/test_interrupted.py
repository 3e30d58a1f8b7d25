"""Ctrl-C while modules are imported or rows read; signals that wait for what cannot be left."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.layout import names, stored
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.signals import Terminated, exit_on_sigterm, signals_deferred
from tests.command_line import script

# Ctrl-C comes when a certain module is looked for.
CHILD = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

wanted, how = sys.argv[1], sys.argv[2]
signal.signal(signal.SIGINT, signal.SIG_IGN if how == "ignored" else signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = sys.argv[3:] or ["bfs", "--help"]
if how == "module":
    runpy.run_module("ooc_graph", run_name="__main__")
else:
    from ooc_graph.cli import main
    main()
"""


@pytest.mark.parametrize("how", ["script", "module"])
@pytest.mark.parametrize(
    "module", ["click", "numpy", "ooc_graph.report.data", "ooc_graph.cli.entry"]
)
def test_an_interrupt_while_modules_are_imported_is_one_line(module: str, how: str) -> None:
    ended = script("-c", CHILD, module, how)
    assert (ended.code, ended.out, ended.err) == (130, "", "ooc-graph: interrupted\n")


@pytest.mark.parametrize("module", ["llvmlite", "numba.core.types", "ooc_graph.kernels.cpu.bfs"])
def test_an_interrupt_while_a_search_imports_its_kernels(module: str, tmp_path: Path) -> None:
    store, out = og.build((np.array([0]), np.array([1])), tmp_path / "g.zarr").path, tmp_path / "r"
    words = ["bfs", store, "--source", 0, "--out", out, "--quiet"]
    ended = script("-c", CHILD, module, "script", *words)
    # click ends the line that has the terminal's ^C.
    assert (ended.code, ended.out, ended.err.strip()) == (130, "", "ooc-graph: interrupted")
    assert not [*tmp_path.glob("r*")]


def test_an_interrupt_that_is_ignored_stays_so() -> None:
    ended = script("-c", CHILD, "ooc_graph.report.data", "ignored")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("Usage: ooc-graph bfs")


@contextmanager
def interruptible() -> Iterator[None]:
    """Also where who runs the tests ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _hear(numbers: list[int], done: list[str], error: Exception | None = None) -> None:
    with signals_deferred():
        for number in numbers:
            signal.raise_signal(number)
        if error is not None:
            raise error
        done.append("all")


@pytest.mark.parametrize(
    ("numbers", "raised"),
    [
        ([signal.SIGINT], KeyboardInterrupt),
        ([signal.SIGTERM], Terminated),
        ([signal.SIGTERM, signal.SIGINT, signal.SIGTERM], Terminated),
    ],
)
def test_signals_wait_for_the_end(numbers: list[int], raised: Any) -> None:
    done: list[str] = []
    with interruptible(), exit_on_sigterm():
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        with pytest.raises(raised):
            _hear(numbers, done)
        assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before
    assert done == ["all"]


def test_an_interrupt_comes_before_an_error() -> None:
    """Whoever interrupts what fails then wants no advice about the failure."""
    with interruptible(), pytest.raises(KeyboardInterrupt):
        _hear([signal.SIGINT], [], TimeoutError())


def test_an_ignored_signal_is_not_held() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals_deferred():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("shards", [1, 16])
def test_rows_are_read_no_further_after_an_interrupt(
    shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one shard, by threads, and of many, by one; here with chunks of a few numbers."""
    monkeypatch.setattr(names, "CHUNK_BYTES", 64)
    ring = np.arange(1024), np.arange(1024) ^ 1
    graph = og.build(ring, tmp_path / "g.zarr", shards=shards, directed=True)
    # With all kernels at hand: numba is not interrupted well.
    og.bfs(graph, 0)
    engine_cache.release()
    read, looked, is_seen = stored.read_chunk, [], threading.Event()
    waiting = threading.main_thread().ident
    assert waiting is not None

    def see(*_: object) -> None:
        is_seen.set()
        raise KeyboardInterrupt

    def read_slowly(*given: Any) -> None:
        looked.append(given)
        if len(looked) == 4:
            # To the thread that waits, as Ctrl-C is.
            signal.pthread_kill(waiting, signal.SIGINT)
            assert is_seen.wait(60)
        threading.Event().wait(0.02)
        read(*given)

    monkeypatch.setattr(stored, "read_chunk", read_slowly)
    before = signal.signal(signal.SIGINT, see)
    try:
        with pytest.raises(KeyboardInterrupt):
            og.bfs(graph, 0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(looked) < 40
    monkeypatch.setattr(stored, "read_chunk", read)
    assert og.bfs(graph, 0).level[:2].tolist() == [0, 1]
