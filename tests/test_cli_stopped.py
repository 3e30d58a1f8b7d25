"""The command is stopped by signals: one line, the right exit code, nothing left."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

import ooc_graph as og
from ooc_graph.graph500 import job
from ooc_graph.graph500.report import FILES
from tests.command_line import LIMIT_S, Ended, listing, running
from tests.graph500_runs import run
from tests.refusing import GOOD, made, write


def _stopped(folder: Path, number: int, *, group: bool, workers: int) -> Ended:
    """Send a signal to a run that is counting degrees, and wait for its end."""
    words = ["-m", "ooc_graph", "graph500", "--scale", 20, "--kernels", "bfs", "--out", folder]
    words += ["--device", "cpu", *(["--workers", workers] if workers else [])]
    with running(words) as process:
        assert process.stderr is not None
        said = ""
        while "counting degrees" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        children = psutil.Process(process.pid).children(recursive=True)
        assert bool(children) == bool(workers)
        (os.killpg if group else os.kill)(process.pid, number)
        out, err = process.communicate(timeout=LIMIT_S)
        _, left = psutil.wait_procs(children, 120)
        assert left == []
        return Ended(process.returncode, out, said + err)


@pytest.mark.parametrize(
    ("number", "group", "is_repeated"),
    [
        pytest.param(signal.SIGTERM, False, False, id="SIGTERM"),
        pytest.param(signal.SIGHUP, True, False, id="a terminal that is closed"),
        # A terminal sends it to the workers too.
        pytest.param(signal.SIGINT, True, False, id="Ctrl-C"),
        pytest.param(signal.SIGINT, True, True, id="Ctrl-C, again and again"),
    ],
)
def test_stopped_while_workers_start(
    tmp_path: Path, number: signal.Signals, group: bool, is_repeated: bool
) -> None:
    """A signal at the first sight of a worker's process, which has hardly begun itself."""
    code, said = 143, f"stopped by {number.name}"
    if number == signal.SIGINT:
        code, said = 130, "interrupted"
    write(tmp_path / "e.txt", GOOD)
    before = listing(tmp_path)
    words = ["-m", "ooc_graph", "build", tmp_path / "e.txt", tmp_path / "g.zarr", "--device", "cpu"]
    with as_under_a_terminal(), running([*words, "--workers", 2]) as process:
        parent, workers = psutil.Process(process.pid), []
        while not workers:
            assert process.poll() is None
            workers = [child for child in parent.children() if _is_worker(child)]
        send = os.killpg if group else os.kill
        send(process.pid, number)
        while is_repeated and process.poll() is None:
            send(process.pid, number)
            time.sleep(0.1)
        out, err = process.communicate(timeout=LIMIT_S)
        _, left = psutil.wait_procs(workers, 120)
    assert (process.returncode, out) == (code, ""), err
    # Of an interrupt click ends the line that has the terminal's ^C; who is interrupted while
    # telling it tells it once more.
    assert set(err.splitlines()) - {""} == {f"ooc-graph: {said}"}
    assert left == []
    assert listing(tmp_path) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_during_a_search(
    tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has no worker, while it compiles its kernels."""
    store = made(tmp_path / "g.zarr")
    before = listing(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = tmp_path / "r.zarr"
    words = ["-m", "ooc_graph", "bfs", store, "--source", 1, "--out", out, "--device", "cpu"]
    with running(words) as process:
        assert process.stderr is not None
        assert "bfs from 1" in process.stderr.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=LIMIT_S)
    said = "interrupted" if number == signal.SIGINT else "stopped by SIGTERM"
    *stages, last = err.strip().splitlines()
    assert (process.returncode, last) == (128 + number, f"ooc-graph: {said}")
    assert all(line.startswith("bfs from 1: failed") for line in stages if line)
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    assert listing(tmp_path) == before


@contextmanager
def as_under_a_terminal() -> Iterator[None]:
    """Context whose processes do not inherit that SIGHUP is ignored, as under ``nohup`` it is."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _is_worker(process: psutil.Process) -> bool:
    try:
        return any("spawn_main" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("number", "group", "code", "said"),
    [
        pytest.param(signal.SIGTERM, False, 143, "SIGTERM", id="SIGTERM"),
        # A terminal sends it to the workers too.
        pytest.param(signal.SIGINT, True, 130, "interrupted", id="Ctrl-C"),
    ],
)
@pytest.mark.parametrize("workers", [0, 1])
def test_stopped_during_a_build(
    tmp_path: Path, number: int, group: bool, code: int, said: str, workers: int
) -> None:
    done = _stopped(tmp_path / "run", number, group=group, workers=workers)
    assert done.code == code, done
    assert done.out == ""
    assert "Traceback" not in done.err
    assert done.err.splitlines()[-1].startswith("ooc-graph: ")
    assert said in done.err.splitlines()[-1]
    assert listing(tmp_path) == {}


@pytest.mark.parametrize(
    ("step", "is_replaced"), [("build_with_report", False), ("search_all", True)]
)
def test_a_stopped_run_leaves_no_report_of_another_graph(
    step: str, is_replaced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the graph is replaced, graph and report stay those of the run before."""
    run(6, tmp_path)
    before = listing(tmp_path)
    assert before.keys() >= set(FILES)

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "_warm_up", lambda *_: None)
    monkeypatch.setattr(job, step, stopped)
    with pytest.raises(KeyboardInterrupt):
        run(7, tmp_path)
    if is_replaced:
        assert og.open(tmp_path / "graph.zarr").vertices == 1 << 7
        assert not listing(tmp_path).keys() & set(FILES)
    else:
        assert listing(tmp_path) == before
