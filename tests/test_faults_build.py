"""Builds that are interrupted: what stays behind, and what the next run makes of it."""

from __future__ import annotations

import errno
import fcntl
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph.layout.chunks as chunks_module
import ooc_graph.layout.commit as commit_module
import ooc_graph.shards.build as build_module
import ooc_graph.shards.merge_writer as writer_module
from ooc_graph.edges.opening import open_source
from ooc_graph.errors import (
    DiskFullError,
    InputError,
    NotAStoreError,
    OutputBusyError,
    OutputExistsError,
    UsageError,
)
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.stored import Stored
from ooc_graph.shards import input_stages, plan
from ooc_graph.shards.build_options import BuildOptions
from ooc_graph.shards.workforce import Workforce
from ooc_graph.types import NoProgress
from tests import small_disks
from tests.command_line import REPOSITORY
from tests.dying import in_child
from tests.small_disks import fill
from tests.unit.test_build_oracle import ListSource, build_here, check_store, small_steps

small_disk = small_disks.small_disk

INPUT, BUILD = "ooc_graph.shards.input_stages", "ooc_graph.shards.build"
WRITER = "ooc_graph.shards.merge_writer"
COMMIT = "ooc_graph.layout.commit"
MOMENTS = {
    "staging": (INPUT, "stage_unit", "kill"),
    "counting": (INPUT, "count_ids", "kill"),
    "renumbered": (BUILD, "renumber_counted", "kill after"),
    "sorting runs": (BUILD, "write_run", "kill"),
    "merging": (WRITER, "merge_buckets", "kill"),
    "writing offsets": (WRITER, "write_offsets", "kill"),
    "writing chunks": (WRITER, "write_strips", "kill"),
    "writing metadata": (COMMIT, "write_durably", "kill"),
    "manifest written": (COMMIT, "sync_folders", "kill before"),
    "before the rename": (COMMIT, "rename_durably", "kill before"),
    "after the rename": (COMMIT, "rename_durably", "kill after"),
}


def build_until(out: Path, module: str, name: str, action: str, overwrite: bool = False) -> None:
    """Build a small graph; kill this process on the second call of a function, or hang there."""
    patch = pytest.MonkeyPatch()
    patch.setattr(plan, "run_edges", lambda *_: 500)
    patch.setattr(plan, "bucket_arcs", lambda *_: 300)
    patch.setattr(input_stages, "_STAGE_EDGES", 500)
    holder, calls = importlib.import_module(module), 0
    original = getattr(holder, name)

    def fatal(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        last = calls == 2 or action == "kill before"
        if action != "kill before" or not last:
            done = original(*arguments, **named)
        if last and action == "hang":
            sys.stdout.write("hanging\n")
            sys.stdout.flush()
            time.sleep(600)
        if last or action == "kill after":
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    patch.setattr(holder, name, fatal)
    rng = np.random.default_rng(3000)
    u, v = rng.integers(0, 2000, (2, 3000))
    source = open_source((u, v, rng.random(3000)), directed=True)
    if name == "stage_unit":
        object.__setattr__(source, "rereadable", False)
    with ThreadPoolExecutor(2) as executor:
        build_module.build(
            source,
            out,
            options=BuildOptions(shards=2, overwrite=overwrite),
            workforce=Workforce(executor, plan.BuildBudget(1 << 30, 1, 2), lambda f: f()),
            progress=NoProgress(),
        )


def kill_child(out: Path, moment: str, overwrite: bool = False) -> None:
    assert in_child(build_until, out, *MOMENTS[moment], overwrite) == -signal.SIGKILL
    assert (out.parent / "g.zarr.lock").exists(), "it was not killed in the middle"


def small_source(edges: int = 3000, seed: int = 1) -> ListSource:
    rng = np.random.default_rng(seed)
    u, v = rng.integers(0, 1500, (2, edges))
    return ListSource(u, v, rng.random(edges), directed=True)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_build_leaves_no_store_that_opens(moment: str, tmp_path: Path) -> None:
    out = tmp_path / "g.zarr"
    kill_child(out, moment)
    if moment == "after the rename":
        Stored.open(out).verify()
        out.rename(tmp_path / "complete.zarr")
    else:
        assert any(name.startswith("g.zarr.partial-") for name in names_in(tmp_path))
        with pytest.raises(NotAStoreError):
            Stored.open(out)
    source = small_source()
    build_here(source, out, shards=2)
    check_store(out, source, None, 2)
    assert set(names_in(tmp_path)) <= {"g.zarr", "complete.zarr"}


@pytest.mark.parametrize("moment", ["merging", "manifest written", "before the rename"])
def test_overwriting_keeps_the_old_store_until_the_new_is_whole(
    moment: str, tmp_path: Path
) -> None:
    out, source = tmp_path / "g.zarr", small_source()
    build_here(source, out)
    before = Stored.open(out).manifest.sha256
    kill_child(out, moment, overwrite=True)
    stored = check_store(out, source, None, 1)
    assert stored.manifest.sha256 == before
    kill_child(out, "after the rename", overwrite=True)
    stored = Stored.open(out)
    stored.verify()
    assert stored.manifest.sha256 != before
    build_here(source, out, overwrite=True)
    assert Stored.open(out).manifest.sha256 == before
    assert names_in(tmp_path) == ["g.zarr"]


def test_a_second_run_is_refused_at_once_and_told_by_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, asked, flock = tmp_path / "g.zarr", [], fcntl.flock

    def asked_once(descriptor: int, how: int) -> None:
        asked.append(how)
        flock(descriptor, how)

    hang = "import sys, pathlib; from tests.test_faults_build import BUILD, build_until; "
    hang += "build_until(pathlib.Path(sys.argv[1]), BUILD, 'write_run', 'hang')"
    words = [sys.executable, "-c", hang, str(out)]
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "hanging\n"
            monkeypatch.setattr(fcntl, "flock", asked_once)
            with pytest.raises(OutputBusyError, match=r"g\.zarr: another run is writing") as caught:
                build_here(small_source(), out)
            monkeypatch.undo()
            # At once: nobody waits for the lock, or asks again.
            assert asked == [fcntl.LOCK_EX | fcntl.LOCK_NB]
            assert f"process {child.pid} on" in str(caught.value)
            assert socket.gethostname() in str(caught.value)
            assert caught.value.exit_code == 75
            build_here(small_source(), tmp_path / "other.zarr")
            assert any(name.startswith("g.zarr.partial-") for name in names_in(tmp_path))
        finally:
            child.kill()
    build_here(small_source(), out)
    assert names_in(tmp_path) == ["g.zarr", "other.zarr"]


def test_only_one_of_many_starters_writes(tmp_path: Path) -> None:
    out = tmp_path / "g.zarr"

    def attempt(number: int) -> str:
        try:
            with partial_store(out, "graph", overwrite=False) as partial:
                time.sleep(0.02)
                partial.commit("graph", {"number": number}, [], [])
        except (OutputBusyError, OutputExistsError) as error:
            return type(error).__name__
        return "written"

    with ThreadPoolExecutor(8) as executor:
        ends = list(executor.map(attempt, range(40)))
    assert ends.count("written") == 1, "a store was replaced without overwrite"
    assert Stored.open(out).attributes == {"number": ends.index("written")}
    assert names_in(tmp_path) == ["g.zarr"]


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt()])
@pytest.mark.parametrize(
    "function", ["stage_unit", "count_ids", "write_run", "merge_buckets", "write_strips"]
)
def test_an_error_leaves_nothing(
    error: BaseException, function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise error

    modules = (input_stages, build_module, writer_module)
    holder = next(module for module in modules if hasattr(module, function))
    monkeypatch.setattr(holder, function, fail)
    source = small_source()
    source = ListSource(source.u, source.v, rereadable=function != "stage_unit")
    with pytest.raises(type(error)):
        build_here(source, tmp_path / "g.zarr")
    assert names_in(tmp_path) == []


def test_an_input_error_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    class Broken(ListSource):
        def read(self, unit: Any, block_edges: int) -> Iterator[Any]:
            yield from super().read(unit, block_edges)
            raise InputError("bad line", path="x.txt", line=7)

    source = Broken(np.array([1]), np.array([2]))
    with pytest.raises(InputError, match=r"x\.txt:7: bad line"):
        build_here(source, tmp_path / "g.zarr")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(("name", "stage"), [("e.csv", "stage_unit"), ("e.npy", "count_ids")])
def test_files_that_change_while_they_are_read_are_refused(
    name: str, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, edges = tmp_path / name, np.arange(20).reshape(10, 2)
    plain = getattr(input_stages, stage)

    def write(table: Any) -> None:
        if path.suffix == ".npy":
            np.save(path, table)
        else:
            np.savetxt(path, table, "%d", ",")

    def change(*given: Any) -> Any:
        found = plain(*given)
        write(edges[::-1])
        return found

    write(edges)
    source = open_source(str(path))
    monkeypatch.setattr(input_stages, stage, change)
    with pytest.raises(InputError, match="changed while they were read"):
        build_here(source, tmp_path / "g.zarr")
    assert [left.name for left in tmp_path.iterdir()] == [name]


def test_a_signal_while_what_was_written_is_removed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove, calls = shutil.rmtree, list[Path]()

    def interrupted(path: Path, **given: Any) -> None:
        calls.append(path)
        if len(calls) == 1:
            (path / "begun").rename(path / "half")
            raise KeyboardInterrupt
        remove(path, **given)

    monkeypatch.setattr(commit_module.shutil, "rmtree", interrupted)

    def stopped(partial: Any) -> None:
        (partial.folder / "begun").write_text("half")
        raise RuntimeError("stopped by the first signal")

    partly = partial_store(tmp_path / "g.zarr", "graph", overwrite=False)
    with pytest.raises(KeyboardInterrupt), partly as partial:
        stopped(partial)
    assert len(calls) == 2
    assert names_in(tmp_path) == []


def test_a_name_leaves_room_for_what_is_added_while_it_is_written(tmp_path: Path) -> None:
    said = "too long to write it here; give one of 225 bytes"
    long = partial_store(tmp_path / ("x" * 226), "graph", overwrite=False)
    with pytest.raises(UsageError, match=said), long:
        pass
    inside = partial_store(tmp_path / ("x" * 300) / "g.zarr", "graph", overwrite=False)
    with pytest.raises(UsageError, match="cannot be written here"), inside:
        pass
    assert names_in(tmp_path) == []
    with partial_store(tmp_path / ("x" * 225), "graph", overwrite=False) as partial:
        assert partial.spill.is_dir()
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("there", ["file", "folder", "link", "store"])
def test_an_output_that_exists(there: str, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "g.zarr", tmp_path / "elsewhere"
    if there == "file":
        out.write_text("mine")
    elif there == "folder":
        out.mkdir()
    elif there == "link":
        elsewhere.mkdir()
        out.symlink_to(elsewhere)
    else:
        build_here(small_source(seed=9), out)
    before = names_in(tmp_path)
    with pytest.raises(OutputExistsError, match=r"g\.zarr: exists already; give --overwrite"):
        build_here(small_source(), out)
    assert names_in(tmp_path) == before
    if there == "store":
        build_here(small_source(), out, overwrite=True)
        check_store(out, small_source(), None, 1)
    else:
        # What is not a store may be somebody's own: it is never replaced.
        with pytest.raises(OutputExistsError, match=r"g\.zarr: is not a store of this package"):
            build_here(small_source(), out, overwrite=True)
    assert names_in(tmp_path) == before


def test_no_folder_to_write_into(tmp_path: Path) -> None:
    with pytest.raises(OutputExistsError, match="no such folder"):
        build_here(small_source(), tmp_path / "none" / "g.zarr")
    assert names_in(tmp_path) == []


def test_leftovers_of_other_stores_are_left_alone(tmp_path: Path) -> None:
    for name in ("h.zarr.partial-1", "g.zarr.old", "gx.zarr.partial-2"):
        (tmp_path / name).mkdir()
    (tmp_path / "[g].zarr.partial-abc").mkdir()
    before = [*names_in(tmp_path), "g.zarr"]
    build_here(small_source(), tmp_path / "g.zarr")
    assert names_in(tmp_path) == sorted(before)
    build_here(small_source(), tmp_path / "[g].zarr")
    after = {*before, "[g].zarr"} - {"[g].zarr.partial-abc"}
    assert names_in(tmp_path) == sorted(after)


def test_exchange_falls_back_to_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "g.zarr"
    build_here(small_source(seed=9), out)
    monkeypatch.setattr(commit_module.ctypes, "CDLL", lambda *_, **__: object())
    build_here(small_source(), out, overwrite=True)
    check_store(out, small_source(), None, 1)
    assert names_in(tmp_path) == ["g.zarr"]


def test_a_store_moved_aside_by_a_killed_run_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file system cannot exchange, a kill between two renames leaves no store."""
    out = tmp_path / "g.zarr"
    build_here(small_source(), out)
    out.rename(tmp_path / "g.zarr.partial-replaced-0123456789ab")
    (tmp_path / "g.zarr.partial-aaaa").mkdir()
    with pytest.raises(OutputExistsError):
        build_here(small_source(seed=9), out)
    check_store(out, small_source(), None, 1)
    assert names_in(tmp_path) == ["g.zarr"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("write", [1, 5, 12])
def test_no_space_by_injection(
    code: int, write: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_here(small_source(seed=9), tmp_path / "earlier.zarr")
    real, calls = os.write, 0

    def full(descriptor: int, data: Any) -> int:
        nonlocal calls
        calls += 1
        if calls >= write:
            raise OSError(code, os.strerror(code))
        return real(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(chunks_module.os, "write", full)
        with pytest.raises(DiskFullError, match=r"the disk is full; nothing of g\.zarr") as caught:
            build_here(small_source(), tmp_path / "g.zarr")
    assert caught.value.exit_code == 75
    assert names_in(tmp_path) == ["earlier.zarr"]
    check_store(tmp_path / "earlier.zarr", small_source(seed=9), None, 1)
    build_here(small_source(), tmp_path / "g.zarr")
    check_store(tmp_path / "g.zarr", small_source(), None, 1)


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(chunks_module.os, "write", lambda fd, data: real(fd, data[:1000]))
        build_here(small_source(), tmp_path / "g.zarr")
    check_store(tmp_path / "g.zarr", small_source(), None, 1)


@pytest.mark.parametrize("rereadable", [True, False])
def test_no_space_on_a_real_disk(small_disk: Path, rereadable: bool) -> None:
    source = small_source(40_000)
    source = ListSource(source.u, source.v, source.w, rereadable=rereadable)
    build_here(small_source(seed=9), small_disk / "earlier.zarr")
    out, full = small_disk / "g.zarr", 0
    for left in [0, 4, 16, 64, 100, 200, 300, 400, 600, 800, 1000, 1300, 1600, 2000, 2500, 3000]:
        filler = fill(small_disk, left * 1024)
        error = None
        try:
            with small_steps(run=10_000, unit=20_000):
                build_here(source, out)
        except DiskFullError as caught:
            error = caught
        filler.unlink()
        if error is None:
            break
        full += 1
        assert "g.zarr" in str(error)
        assert error.exit_code == 75
        assert names_in(small_disk) == ["earlier.zarr"]
        check_store(small_disk / "earlier.zarr", small_source(seed=9), None, 1)
    assert full > 5
    build_here(source, out, overwrite=True)
    check_store(out, source, None, 1)


def test_a_task_that_writes_on_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To Dask a cancelled task is gone, while its thread goes on to the end."""
    spec, values = ArraySpec("a/b", 4, np.dtype(np.uint8)), [np.arange(4, dtype=np.uint8)]
    refused: list[bool] = []
    rmtree = shutil.rmtree

    def write_meanwhile(path: Path, **named: Any) -> None:
        with pytest.raises(FileNotFoundError):
            chunks_module.write_chunk(partial.folder, spec, 0, values)
        with pytest.raises(FileNotFoundError):
            np.save(partial.spill / "0.npy", values[0])
        rmtree(path, **named)
        refused.append(True)

    monkeypatch.setattr(shutil, "rmtree", write_meanwhile)
    with partial_store(tmp_path / "g.zarr", "graph", overwrite=False) as partial:
        chunks_module.write_chunk(partial.folder, spec, 0, values)
    assert refused
    # Nor once all is removed.
    with pytest.raises(FileNotFoundError):
        chunks_module.write_chunk(partial.folder, spec, 0, values)
    assert names_in(tmp_path) == []


def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    with partial_store(tmp_path / "g.zarr", "graph", overwrite=False) as partial:
        holder = json.loads((tmp_path / "g.zarr.lock").read_text())
        age = datetime.now(UTC) - datetime.fromisoformat(holder.pop("since"))
        assert 0 <= age.total_seconds() < 60
        assert holder == {
            "run": partial.run_id,
            "pid": os.getpid(),
            "host": socket.gethostname(),
        }
    assert names_in(tmp_path) == []
