"""A disk that is full: the error names its folder, and nothing half-written stays."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import DiskFullError
from ooc_graph.graph500 import report
from ooc_graph.layout.whole_file import content_of, disk_full_reported, whole_file
from ooc_graph.report.data import ReportData, write_report_data
from ooc_graph.report.page import write_page
from ooc_graph.report.records import append_record
from ooc_graph.runtime.building import write_run_facts
from ooc_graph.runtime.cluster import local_cluster
from tests import small_disks
from tests.command_line import call
from tests.conftest import WORKERS_BEGIN
from tests.graph500_runs import run
from tests.small_disks import fill

small_disk = small_disks.small_disk


def edges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return *random.integers(0, 20_000, (2, 100_000)), random.integers(1, 9, 100_000)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On another disk than the one that is full."""
    path = tmp_path_factory.mktemp("store") / "g.zarr"
    og.bfs(og.build(edges(), path), int(edges()[0][0]), out=path.with_name("r.zarr"))
    return path


def listing(folder: Path) -> dict[str, bytes]:
    """Files that have something in them: of records the lines are counted."""
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {name: content for name, content in found.items() if content}


def refused(write: Callable[[], object], folder: Path, full: Path) -> str:
    """A full disk is an error that names ``full``, and ``folder`` is as it was."""
    before = listing(folder)
    with pytest.raises(DiskFullError) as caught:
        write()
    told = str(caught.value)
    assert told.startswith(f"{full}: the disk is full; ")
    assert caught.value.exit_code == 75
    assert isinstance(caught.value.__cause__, OSError)
    assert listing(folder) == before
    assert not list(folder.glob("*partial*"))
    return told


SOURCE = int(edges()[0][0])
PAGE = "{}\n" * 1365 + "\n"
"""As much as a page, so that no more fits into it."""
WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "build": lambda store, disk: og.build(edges(), disk / "g.zarr"),
    "bfs": lambda store, disk: og.bfs(store, SOURCE, out=disk / "r.zarr"),
    "sssp": lambda store, disk: og.sssp(store, SOURCE, out=disk / "r.zarr"),
    "components": lambda store, disk: og.components(store, out=disk / "r.zarr"),
    "csv": lambda store, disk: og.export(og.Result.open(store.parent / "r.zarr"), disk / "r.csv"),
    "npz": lambda store, disk: og.export(og.Result.open(store.parent / "r.zarr"), disk / "r.npz"),
    "parquet": lambda store, disk: og.export(
        og.Result.open(store.parent / "r.zarr"), disk / "r.parquet"
    ),
    "page": lambda _, disk: write_page(disk / "report.html", ReportData("x")),
    "data": lambda _, disk: write_report_data(disk / "report.json", ReportData("x")),
    "record": lambda _, disk: append_record(disk / "records.jsonl", {"n": 1}),
    "record in a new folder": lambda _, disk: append_record(disk / "new/r.jsonl", {"n": 1}),
}


@pytest.mark.parametrize(
    ("name", "left_bytes"),
    [(name, 0) for name in WRITERS] + [(name, 8 << 10) for name in list(WRITERS)[:7]],
)
def test_writers(name: str, left_bytes: int, store: Path, small_disk: Path) -> None:
    for earlier in ("report.html", "report.json", "records.jsonl"):
        (small_disk / earlier).write_text(PAGE)
    fill(small_disk, left_bytes)
    full = small_disk / "new" if name.endswith("new folder") else small_disk
    refused(lambda: WRITERS[name](store, small_disk), small_disk, full)


def test_many_sources_of_which_none_was_recorded(store: Path, small_disk: Path) -> None:
    fill(small_disk, 64 << 10)

    def search(**options: Any) -> object:
        return og.johnson(store, [SOURCE], out=small_disk / "r.zarr", **options)

    with pytest.raises(DiskFullError, match=r"r\.zarr: needs .* bytes more"):
        search()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ooc_graph.sinks.in_store._require_space", lambda *_: None)
        with pytest.raises(DiskFullError) as caught:
            search()
    assert str(caught.value).startswith(
        f"{small_disk}: the disk is full; nothing of r.zarr was kept"
    )
    assert listing(small_disk).keys() == {"filler"}


def test_run_facts_of_a_full_disk_are_left_out(small_disk: Path) -> None:
    """The store stands; facts of another would be wrong, and half a file as well."""
    (small_disk / "g.run.json").write_text("{}")
    fill(small_disk)
    write_run_facts(small_disk / "g.zarr", {"stages": "x" * (1 << 20)})
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_graph500_from_the_beginning(small_disk: Path) -> None:
    fill(small_disk)
    with pytest.raises(DiskFullError, match=f"^{small_disk}/run: the disk is full") as caught:
        run(6, small_disk / "run", kernels=("bfs",), energy=True)
    assert isinstance(caught.value.__cause__, OSError)
    assert listing(small_disk).keys() == {"filler"}


@pytest.mark.parametrize("name", ["write_report_data", "append_record"])
def test_graph500_at_its_end(name: str, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written by then stays; what was not is not there by half."""
    real = getattr(report, name)

    def full(path: Path, what: Any) -> None:
        fill(small_disk)
        refused(lambda: real(path, what), small_disk, small_disk / "run")
        real(path, what)

    monkeypatch.setattr(report, name, full)
    with pytest.raises(DiskFullError, match=f"^{small_disk}/run: the disk is full"):
        run(6, small_disk / "run", kernels=("bfs",), energy=True)
    names = {path.name for path in (small_disk / "run").iterdir()}
    assert names >= {"graph.zarr", "report.html"}
    assert not any("partial" in name for name in names)


def test_the_folder_of_workers(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    fill(small_disk)

    def start() -> None:
        # As users start them: see `conftest.forked_workers`.
        with dask.config.set({WORKERS_BEGIN: "spawn"}), local_cluster(1):
            pass

    assert "no workers were started" in refused(start, small_disk, small_disk)


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['a']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with (
        pytest.raises(DiskFullError, match=r"found in \['a'\]: they are full .* set TMPDIR"),
        local_cluster(1),
    ):
        pass


@pytest.mark.parametrize(
    ("named", "full"),
    [(None, "out"), ("out/r.zarr.partial-1/a/b", "out"), ("elsewhere/x", "elsewhere"), (3, "out")],
)
def test_the_folder_of_the_file_that_the_error_names(
    named: Any, full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(DiskFullError, match=f"^{tmp_path / full}: the disk is full; nothing of r"),
        disk_full_reported(Path("out/r.zarr")),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), named)


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("before")

    def write() -> None:
        with whole_file(tmp_path / "x") as partial:
            partial.write_text("half")
            raise PermissionError

    with pytest.raises(PermissionError):
        write()
    assert listing(tmp_path) == {"x": b"before"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_standard_output(store: Path) -> None:
    command = [sys.executable, "-m", "ooc_graph", "info", str(store)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    told = f"ooc-graph: standard output: [Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}; free"
    assert done.returncode == 75
    assert done.stderr.startswith(told)
    assert done.stderr.count("\n") == 1


def test_the_command_names_the_folder(
    store: Path,
    small_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(small_disk)
    words = ("bfs", store, "--source", SOURCE, "--out", small_disk / "r.zarr", "--quiet")
    ended = call(monkeypatch, capsys, *words)
    assert ended.code == 75
    assert ended.err.startswith(f"ooc-graph: {small_disk}: the disk is full; nothing of r.zarr")
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that cannot be read")
def test_a_file_whose_reading_fails_is_named() -> None:
    # Nothing is mapped at its begin.
    with pytest.raises(OSError, match=r"Input/output error: '/proc/self/mem'"):
        content_of(Path("/proc/self/mem"))
