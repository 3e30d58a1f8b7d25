"""The command and the pipelines while their workers are killed and frozen: they end in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import ooc_graph as og
from tests.command_line import REPOSITORY, listing

SCALE = 14
LIMITS = {"DASK_OOC_GRAPH__ANSWER_TIMEOUT": "3s", "DASK_OOC_GRAPH__PATIENCE": "10s"}
LONGEST_S = 90.0


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command")
    og.build(og.Kronecker(SCALE, edge_factor=8), folder / "g.zarr")
    # What follows is not to be about compiling.
    for words in WORDS.values():
        out = folder / "warm.zarr"
        assert begin(words(folder / "g.zarr", out), folder).wait(600) == 0
    return folder / "g.zarr"


def _sssp(graph: Path, out: Path) -> list[Any]:
    root = og.Kronecker(SCALE, edge_factor=8).search_keys(1)[0]
    return ["-m", "ooc_graph", "sssp", graph, "--source", root, "--out", out, "--overwrite"]


def _apsp(graph: Path, out: Path) -> list[Any]:
    words = ["apsp", graph, "--sources", 2000, "--reduce", "eccentricity"]
    return ["-m", "ooc_graph", *words, "--out", out, "--overwrite"]


def _components(graph: Path, out: Path) -> list[Any]:
    return ["-m", "ooc_graph", "components", graph, "--out", out, "--overwrite", "--workers", 2]


def _pipeline(graph: Path, out: Path) -> list[Any]:
    del graph
    program = REPOSITORY / "pipelines" / "graph500.py"
    return [program, "--scale", 12, "--searches", 6, "--folder", out.with_suffix("")]


WORDS = {"sssp": _sssp, "apsp": _apsp, "components": _components, "pipeline": _pipeline}


def begin(words: list[Any], folder: Path) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own."""
    with (folder / "said.txt").open("wb") as said:
        return subprocess.Popen(
            [sys.executable, *map(str, words)],
            env={**os.environ, **LIMITS},
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@contextmanager
def running(words: list[Any], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Context with a command; nothing of it survives."""
    process = begin(words, folder)
    try:
        yield process
    finally:
        for number in (signal.SIGCONT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        process.wait()


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Worker processes of a command, once there are some."""
    deadline_s = time.monotonic() + LONGEST_S
    while process.poll() is None and time.monotonic() < deadline_s:
        found = []
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if any("spawn_main" in word for word in child.cmdline()):
                        found.append(child.pid)
        if found:
            return found
        time.sleep(0.02)
    return []


def right(name: str, graph: Path, folder: Path) -> dict[str, str]:
    """What the command leaves if nobody harms it, but for what varies from run to run."""
    out = folder / "right.zarr"
    assert begin(WORDS[name](graph, out), folder).wait(600) == 0
    return stores(out)


def stores(out: Path) -> dict[str, str]:
    found = listing(out if out.exists() else out.with_suffix(""))
    return {name: text for name, text in found.items() if "json" not in Path(name).suffix}


def harm(name: str, kind: int, graph: Path, folder: Path, moments: list[float]) -> None:
    wanted = right(name, graph, folder)
    for moment_s in moments:
        out = folder / f"{moment_s}.zarr"
        with running(WORDS[name](graph, out), folder) as process:
            begun_s = time.monotonic()
            pids = workers_of(process)
            time.sleep(moment_s)
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, kind)
            code = process.wait(LONGEST_S)
            said = (folder / "said.txt").read_text()
            print(f"{name}, {signal.Signals(kind).name} after {moment_s} s: {code}")
            assert code in (0, 75), said
            assert "Traceback" not in said, said
            assert time.monotonic() - begun_s < LONGEST_S
        if code:
            assert begin(WORDS[name](graph, out), folder).wait(LONGEST_S) == 0
        assert stores(out) == wanted


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["sssp", "apsp"])
def test_the_only_worker_is_killed(name: str, graph: Path, tmp_path: Path) -> None:
    harm(name, signal.SIGKILL, graph, tmp_path, [1.5])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("name", sorted(WORDS))
def test_all_workers_are_harmed(name: str, kind: int, graph: Path, tmp_path: Path) -> None:
    harm(name, kind, graph, tmp_path, [0.2, 1.0, 2.0, 3.0, 4.0])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(WORDS))
def test_the_whole_group_is_killed_and_the_same_command_ends(
    name: str, graph: Path, tmp_path: Path
) -> None:
    wanted = right(name, graph, tmp_path)
    for moment_s in (1.0, 2.5, 4.0):
        out = tmp_path / f"{moment_s}.zarr"
        with running(WORDS[name](graph, out), tmp_path) as process:
            time.sleep(moment_s)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert begin(WORDS[name](graph, out), tmp_path).wait(LONGEST_S) == 0
        assert stores(out) == wanted


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(WORDS))
def test_a_stop_while_workers_are_frozen_ends_the_command(
    name: str, graph: Path, tmp_path: Path
) -> None:
    with running(WORDS[name](graph, tmp_path / "r.zarr"), tmp_path) as process:
        pids = workers_of(process)
        time.sleep(1.5)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        process.terminate()
        assert process.wait(LONGEST_S) in (0, 143), (tmp_path / "said.txt").read_text()
    assert all(not psutil.pid_exists(pid) for pid in pids)
