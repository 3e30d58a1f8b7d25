"""The command, and a job, while their workers are killed and frozen: they end in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

import ooc_graph as og
from ooc_graph.jobs.shipped import EXAMPLES
from tests.command_line import listing

SCALE = 14
LIMITS = {"DASK_OOC_GRAPH__ANSWER_TIMEOUT": "3s", "DASK_OOC_GRAPH__PATIENCE": "10s"}
LONGEST_S = 90.0


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command")
    og.build(og.Kronecker(SCALE, edge_factor=8), folder / "g.zarr")
    return folder / "g.zarr"


@pytest.fixture(scope="module")
def unharmed(graph: Path) -> Callable[[str], dict[str, str]]:
    """What a command leaves; from then on its kernels are compiled, which may take minutes."""
    return cache(lambda name: finish(name, graph, graph.with_name(f"{name}.zarr"), 600))


def _sssp(graph: Path, out: Path) -> list[Any]:
    root = og.Kronecker(SCALE, edge_factor=8).search_keys(1)[0]
    return ["-m", "ooc_graph", "sssp", graph, "--source", root, "--out", out, "--overwrite"]


def _apsp(graph: Path, out: Path) -> list[Any]:
    words = ["apsp", graph, "--sources", 2000, "--reduce", "eccentricity"]
    return ["-m", "ooc_graph", *words, "--out", out, "--overwrite"]


def _components(graph: Path, out: Path) -> list[Any]:
    return ["-m", "ooc_graph", "components", graph, "--out", out, "--overwrite", "--workers", 2]


def _graph500(graph: Path, out: Path) -> list[Any]:
    del graph
    words = ["graph500", "--scale", 12, "--searches", 6, "--no-energy", "--workers", 2]
    return ["-m", "ooc_graph", *words, "--out", out.with_suffix("")]


def _job(graph: Path, out: Path) -> list[Any]:
    del graph
    settings = ["source.scale=12", "stage.bfs.keys=6", "stage.sssp.keys=6", "cluster.kind=local"]
    given = [word for one in [*settings, "retries.times=0"] for word in ("--set", one)]
    job = EXAMPLES / "graph500.toml"
    return ["-m", "ooc_graph", "run", job, *given, "--out", out.with_suffix("")]


WORDS = {
    "sssp": _sssp,
    "apsp": _apsp,
    "components": _components,
    "graph500": _graph500,
    "job": _job,
}


def begin(name: str, graph: Path, out: Path) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own; what it says goes beside its output."""
    with said_by(out).open("wb") as said:
        return subprocess.Popen(
            [sys.executable, *map(str, WORDS[name](graph, out))],
            env={**os.environ, **LIMITS},
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def said_by(out: Path) -> Path:
    return out.with_suffix(".txt")


def finish(name: str, graph: Path, out: Path, longest_s: float = LONGEST_S) -> dict[str, str]:
    """Run a command to its end, unharmed; see `stores`."""
    assert begin(name, graph, out).wait(longest_s) == 0, said_by(out).read_text()
    return stores(out)


@contextmanager
def running(name: str, graph: Path, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Context with a command; nothing of it survives."""
    process = begin(name, graph, out)
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


def stores(out: Path) -> dict[str, str]:
    """Hashes of the files that a command left, less those with times in them."""
    found = listing(out if out.exists() else out.with_suffix(""))
    timed = (".json", ".jsonl", ".html", ".txt")
    return {name: text for name, text in found.items() if Path(name).suffix not in timed}


def harm(
    name: str, kind: int, graph: Path, wanted: dict[str, str], folder: Path, moments: list[float]
) -> None:
    for moment_s in moments:
        out = folder / f"{moment_s}.zarr"
        with running(name, graph, out) as process:
            begun_s = time.monotonic()
            pids = workers_of(process)
            time.sleep(moment_s)
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, kind)
            code = process.wait(LONGEST_S)
            said = said_by(out).read_text()
            print(f"{name}, {signal.Signals(kind).name} after {moment_s} s: {code}")
            assert code in (0, 75), said
            assert "Traceback" not in said, said
            assert time.monotonic() - begun_s < LONGEST_S
        assert (finish(name, graph, out) if code else stores(out)) == wanted


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["sssp", "apsp"])
def test_the_only_worker_is_killed(
    name: str, graph: Path, unharmed: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    harm(name, signal.SIGKILL, graph, unharmed(name), tmp_path, [1.5])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("name", sorted(WORDS))
def test_all_workers_are_harmed(
    name: str, kind: int, graph: Path, unharmed: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    harm(name, kind, graph, unharmed(name), tmp_path, [0.2, 1.0, 2.0, 3.0, 4.0])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(WORDS))
def test_the_whole_group_is_killed_and_the_same_command_ends(
    name: str, graph: Path, unharmed: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    wanted = unharmed(name)
    for moment_s in (1.0, 2.5, 4.0):
        out = tmp_path / f"{moment_s}.zarr"
        with running(name, graph, out) as process:
            time.sleep(moment_s)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert finish(name, graph, out) == wanted


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(WORDS))
def test_a_stop_while_workers_are_frozen_ends_the_command(
    name: str, graph: Path, unharmed: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    unharmed(name)
    out = tmp_path / "r.zarr"
    with running(name, graph, out) as process:
        pids = workers_of(process)
        time.sleep(1.5)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        process.terminate()
        assert process.wait(LONGEST_S) in (0, 143), said_by(out).read_text()
    assert all(not psutil.pid_exists(pid) for pid in pids)
