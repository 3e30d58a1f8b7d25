"""The command ``doctor``: what it finds, what it says of problems, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest

import ooc_graph as og
from ooc_graph.errors import DeviceError
from ooc_graph.runtime import checkup
from tests.command_line import Ended, call


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def called(*words: Any) -> Ended:
        return call(monkeypatch, capsys, "doctor", *words)

    return called


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    edges = og.Kronecker(8, weighted=True)
    return og.build(edges, tmp_path_factory.mktemp("g") / "g.zarr", client=False)


def test_a_machine_that_works(doctor: Any, graph: og.Graph) -> None:
    with dask.config.set({"ooc-graph.device": "cpu"}):
        done = doctor(graph.path, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    checks = {one["name"]: one for one in found["checks"]}
    assert not any(one["stops"] for one in checks.values())
    for name in ("Python", "dask", "distributed", "zarr", "numpy", "numba", "threads of a search"):
        assert checks[name]["found"] != "missing"
    for name in ("disk, written", "disk, read"):
        assert float(checks[name]["found"].removesuffix(" MB/s").replace(",", "")) > 0
    for one in checks.values():
        assert bool(one["problem"]) == bool(one["advice"])
    chosen = {one["search"]: one["strategy"] for one in found["plans"] if not one["refused"]}
    assert chosen == dict.fromkeys(("bfs", "sssp", "components"), "cpu/memory")


def test_strategies_are_refused_with_a_reason(doctor: Any, graph: og.Graph) -> None:
    with dask.config.set({"ooc-graph.memory-limit": "1kB", "ooc-graph.device": "cpu"}):
        found = json.loads(doctor(graph.path, "--json").out)
        table = doctor(graph.path).out
    refused = {one["strategy"]: one["refused"] for one in found["plans"] if one["search"] == "bfs"}
    assert {"cpu/memory", "cpu/disk"} <= set(refused)
    assert "bytes" in refused["cpu/memory"]
    assert all(refused.values())
    assert refused["cpu/memory"] in table
    names = [one["name"] for one in found["checks"]]
    assert "setting ooc-graph.memory-limit" in names
    assert "setting ooc-graph.patience" not in names


def test_a_missing_cupy_is_a_problem_if_there_is_a_driver(
    doctor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without() -> dict[str, str]:
        raise DeviceError("a CUDA device needs CuPy, which is not installed: pip install it")

    monkeypatch.setattr(checkup, "cuda_checked", without)
    monkeypatch.setattr(checkup, "_DRIVER", tmp_path / "version")
    assert "no problems" in doctor().out
    (tmp_path / "version").write_text("NVRM version: NVIDIA 580.1\nGCC\n")
    done = doctor()
    assert done.code == 0
    assert "NVIDIA 580.1" in done.out
    assert "a CUDA device needs CuPy, which is not installed; pip install it" in done.out
    assert done.out.endswith("\n1 problem\n")


def test_what_stops_all_work_is_exit_code_1(
    doctor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "gettempdir", lambda: str(tmp_path / "none"))
    done = doctor()
    assert done.code == 1
    said = "cannot be used: No such file or directory; set TMPDIR to a folder that can be written"
    assert said in done.out
    assert done.err == f"ooc-graph: temporary files in {tmp_path / 'none'}: {said}\n"


def test_a_required_package_that_is_missing_stops_all_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkup, "_REQUIRED", ("no-such-package",))
    found: Iterator[checkup.Check] = checkup._versions()
    (missing,) = [one for one in found if one.stops]
    assert (missing.name, missing.advice) == ("no-such-package", "pip install ooc-graph")


def test_ports_that_cannot_be_opened_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(checkup.socket, "create_server", refused)
    monkeypatch.setattr(checkup, "new_memory", refused)
    ports, shared = checkup._cluster()
    assert "Operation not permitted" in ports.problem
    assert "--workers" in ports.advice
    assert not ports.stops
    assert shared.problem


def test_a_setting_that_cannot_be_used_is_a_problem(doctor: Any) -> None:
    with dask.config.set({"ooc-graph.patience": "banana"}):
        assert "banana" in doctor().out
