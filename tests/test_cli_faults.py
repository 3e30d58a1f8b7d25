"""Every refusal of the command: one clear line, the right exit code, nothing written.

Most run in this process. Where the refusal needs the content of a file, the work is done by threads
of this process instead of a cluster's; one test has it come back from a real worker.
"""

from __future__ import annotations

import errno
import gzip
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.runtime import cluster, joined_cluster
from tests import refusing
from tests.command_line import Ended, call, command, listing, running
from tests.refusing import GOOD, Call, made, refused, write

here, at_once, in_process = refusing.here, refusing.at_once, refusing.in_process


def test_missing_file(at_once: Call, here: Path) -> None:
    refused(at_once("build", "none.txt", "g.zarr"), "none.txt")
    assert listing(here) == {}


def test_empty_directory(at_once: Call, here: Path) -> None:
    (here / "folder").mkdir()
    refused(at_once("build", "folder", "g.zarr"), "folder")
    assert listing(here) == {"folder": "folder"}


CONTENT = {
    "empty file": ("e.txt", "", ["e.txt"]),
    "only comments": ("e.txt", "# nothing\n# more\n", ["e"]),
    "header only": ("e.csv", "source,target\n", ["no edges"]),
    "one field": ("e.txt", "1 2\n3\n", ["e.txt:2"]),
    "text": ("e.txt", "1 2\nx 3\n", ["e.txt:2", "x"]),
    "negative id": ("e.txt", "1 2\n-3 4\n", ["e.txt:2", "-3"]),
    "id over 2**63": ("e.txt", "1 2\n9223372036854775808 1\n", ["e.txt:2", "9223372036854775808"]),
    "NaN weight": ("e.txt", "1 2 0.5\n2 3 nan\n", ["e.txt:2", "nan"]),
    "infinite weight": ("e.txt", "1 2 0.5\n2 3 inf\n", ["e.txt:2", "inf"]),
    "wrong count": (
        "e.mtx",
        "%%MatrixMarket matrix coordinate pattern general\n3 3 5\n1 2\n2 3\n",
        ["e.mtx", "5"],
    ),
    "complex": (
        "e.mtx",
        "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 2 0.5 0.5\n",
        ["e.mtx", "complex"],
    ),
    "truncated gzip": ("e.txt.gz", gzip.compress(GOOD.encode() * 1000)[:-20], ["e.txt.gz"]),
}


@pytest.mark.parametrize("case", CONTENT)
def test_content(in_process: Call, here: Path, case: str) -> None:
    name, content, said = CONTENT[case]
    write(here / name, content)
    before = listing(here)
    refused(in_process("build", name, "g.zarr", "--quiet"), *said)
    assert listing(here) == before


def test_refusal_comes_back_from_a_worker(tmp_path: Path) -> None:
    write(tmp_path / "e.txt", "1 2\nx 3\n")
    before = listing(tmp_path)
    refused(command("build", "e.txt", "g.zarr", "--quiet", cwd=tmp_path), "e.txt:2", "x")
    assert listing(tmp_path) == before


def test_negative_weights_can_be_built_but_not_searched_by_sssp(
    in_process: Call, here: Path
) -> None:
    write(here / "e.txt", "1 2 5\n2 3 -4\n")
    assert in_process("build", "e.txt", "g.zarr", "--quiet").code == 0
    before = listing(here)
    done = in_process("sssp", "g.zarr", "--source", 1, "--out", "r.zarr", "--quiet")
    refused(done, "g.zarr", "-4", "apsp")
    assert listing(here) == before


def test_existing_outputs(at_once: Call, here: Path) -> None:
    graph = made(here / "g.zarr")
    og.bfs(graph, 1, out=here / "r.zarr")
    write(here / "r.csv", "keep me")
    (here / "run" / "graph.zarr").mkdir(parents=True)
    before = listing(here)
    calls = [
        ("build", "g.txt", "g.zarr"),
        ("bfs", "g.zarr", "--source", 1, "--out", "r.zarr"),
        ("export", "r.zarr", "r.csv"),
        ("graph500", "--scale", 10, "--out", "run"),
    ]
    for words in calls:
        refused(at_once(*words), "exists already", "--overwrite")
    assert listing(here) == before


@pytest.mark.parametrize("error", [TimeoutError(), RuntimeError("Cluster failed to start: no")])
def test_a_local_cluster_that_does_not_start(
    at_once: Call, here: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Dask's timeouts say nothing; the line says what to do, and the code that it may help."""

    def late(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(cluster, "LocalCluster", late)
    write(here / "e.txt", GOOD)
    before = listing(here)
    done = at_once("build", "e.txt", "g.zarr", "--quiet", "--workers", 2)
    refused(done, "did not start", str(error) or "TimeoutError", code=75)
    assert listing(here) == before


def test_a_local_cluster_that_hangs_while_it_starts(
    at_once: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(*_: Any, **__: Any) -> None:
        threading.Event().wait()

    monkeypatch.setattr(cluster, "LocalCluster", wait)
    monkeypatch.setattr(cluster, "GRACE_S", 0.5)
    write(here / "e.txt", GOOD)
    before = listing(here)
    with dask.config.set({"ooc-graph.patience": "0.5s"}):
        done = at_once("build", "e.txt", "g.zarr", "--quiet", "--workers", 2)
    refused(done, "did not start", "TimeoutError", code=75)
    assert listing(here) == before


def test_pipes_and_stores_are_no_edge_files(at_once: Call, here: Path) -> None:
    os.mkfifo(here / "pipe.csv")
    made(here / "store.zarr")
    before = listing(here)
    refused(at_once("build", "pipe.csv", "g.zarr"), "pipe.csv: is a pipe", "give a file")
    refused(at_once("build", "store.zarr", "g.zarr"), "store.zarr: is a store")
    assert listing(here) == before


@pytest.mark.parametrize("text", ["from,to\r1,2\r3,4\r", "from,to\n" + "x" * 200_000 + ",2\n"])
def test_lines_that_no_reader_of_csv_takes(at_once: Call, here: Path, text: str) -> None:
    (here / "e.csv").write_bytes(text.encode())
    refused(at_once("build", "e.csv", "g.zarr"), "e.csv: cannot be read as separated values")


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_standard_streams_may_be_closed(here: Path, closed: tuple[int, ...]) -> None:
    """As daemons have it; what is written then must not go into files that took their numbers."""
    made(here / "g.zarr")
    words = ["bfs", "g.zarr", "--source", "1", "--out", "r.zarr", "--device", "cpu"]
    program = f"import os; [os.close(n) for n in {closed}]; os.execv({sys.executable!r}, "
    program += f"[{sys.executable!r}, '-m', 'ooc_graph', *{words!r}])"
    assert subprocess.run([sys.executable, "-c", program], cwd=here, check=False).returncode == 0
    assert og.Result.open(here / "r.zarr").root == 1
    program = program.replace(repr(words), repr(["info", "g.zarr"]))
    assert subprocess.run([sys.executable, "-c", program], cwd=here, check=False).returncode == 0


def test_too_little_memory_for_graph500_leaves_no_folder(in_process: Call, here: Path) -> None:
    refused(in_process("graph500", "--scale", 10, "--quiet", "--memory-limit", "1MiB"), "bytes")
    assert listing(here) == {}


def test_not_a_store(at_once: Call, here: Path) -> None:
    write(here / "file", "x")
    (here / "folder").mkdir()
    before = listing(here)
    for name in ("none", "file", "folder"):
        refused(at_once("info", name), name)
        refused(at_once("verify", name), name)
        refused(at_once("export", name, "x.csv"), name)
        refused(at_once("bfs", name, "--source", 1, "--out", "r.zarr"), name)
    assert listing(here) == before


def test_graph_and_result_are_not_taken_for_each_other(at_once: Call, here: Path) -> None:
    graph = made(here / "g.zarr")
    og.bfs(graph, 1, out=here / "r.zarr")
    refused(at_once("export", "g.zarr", "x.csv"), "g.zarr", "graph", "result")
    refused(at_once("bfs", "r.zarr", "--source", 1, "--out", "x.zarr"), "r.zarr", "graph")


def test_export_refuses_what_it_cannot_write(at_once: Call, here: Path) -> None:
    og.bfs(made(here / "g.zarr"), 1, out=here / "r.zarr")
    before = listing(here)
    refused(at_once("export", "r.zarr", "x.xlsx"), ".xlsx", ".parquet")
    refused(at_once("export", "r.zarr", "none/x.csv"), "none")
    assert listing(here) == before


def test_nothing_is_written_into_a_store(at_once: Call, here: Path) -> None:
    """The store would be damaged by it."""
    og.bfs(made(here / "g.zarr"), 1, out=here / "r.zarr")
    before = listing(here)
    refused(at_once("bfs", "g.zarr", "--source", 1, "--out", "g.zarr/r.zarr"), "inside the store")
    refused(at_once("components", "g.zarr", "--out", "r.zarr/c.zarr"), "inside the store")
    refused(at_once("build", "g.txt", "g.zarr/shards/g.zarr"), "inside the store")
    refused(at_once("export", "r.zarr", "r.zarr/r.csv"), "inside the store")
    with pytest.raises(og.errors.OutputExistsError, match="inside the store"):
        og.bfs(here / "g.zarr", 1, out=here / "g.zarr/r.zarr")
    assert listing(here) == before


def test_a_folder_that_cannot_be_written(
    in_process: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here / "e.txt", GOOD)
    before, opened = listing(here), os.open

    def forbidden(path: Any, *rest: Any, **named: Any) -> int:
        if str(path).endswith(".lock"):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *rest, **named)

    monkeypatch.setattr("ooc_graph.layout.commit.os.open", forbidden)
    refused(in_process("build", "e.txt", "g.zarr", "--quiet"), "g.zarr", "Permission denied")
    monkeypatch.undo()
    assert listing(here) == before


def test_a_graph_beyond_memory_is_refused_before_its_parts_are_listed(
    in_process: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four million parts take a quarter of a minute."""

    def listed(*_: Any) -> None:
        raise AssertionError("all parts were listed for a refusal that needs none")

    monkeypatch.setattr(og.Kronecker, "units", listed)
    with pytest.raises(og.errors.MemoryBudgetError, match="too small"):
        og.build(og.Kronecker(40), here / "g.zarr", memory_limit="4GiB")
    assert listing(here) == {}


def test_graph500_below_a_file(at_once: Call, here: Path) -> None:
    write(here / "file", "x")
    refused(at_once("graph500", "--scale", 4, "--out", "file/a/b"), "file: is a file")


def test_a_graph_without_vertices(at_once: Call, here: Path) -> None:
    made(here / "g.mtx", "%%MatrixMarket matrix coordinate pattern general\n0 0 0\n")
    refused(at_once("bfs", "g.mtx", "--source", 1, "--out", "r.zarr"), "it has no vertices")


def test_damaged_store_fails_with_the_chunk_named(at_once: Call, here: Path) -> None:
    made(here / "g.zarr")
    chunk = here / "g.zarr/shards/00000/out/hub/neighbors/c/0"
    content = bytearray(chunk.read_bytes())
    content[0] ^= 1
    chunk.write_bytes(content)
    refused(at_once("verify", "g.zarr", "--quiet"), "neighbors", "chunk 0", code=1)


def test_nobody_at_the_address_is_worth_a_retry(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here / "e.txt", GOOD)
    before = listing(here)
    monkeypatch.setattr(joined_cluster, "CONNECT_S", 1)
    done = call(monkeypatch, capsys, "build", "e.txt", "g.zarr", "--scheduler", "tcp://127.0.0.1:1")
    refused(done, "tcp://127.0.0.1:1", code=75)
    assert listing(here) == before


def test_a_scheduler_that_ends_is_one_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here / "e.txt", GOOD)
    before = listing(here)
    for name in ("PATIENCE", "ANSWER_TIMEOUT"):
        monkeypatch.setenv(f"DASK_OOC_GRAPH__{name}", "2s")
    words = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    with running(["-m", *words, "--no-dashboard"]) as scheduler:
        assert scheduler.stderr is not None
        address = next(line for line in scheduler.stderr if "Scheduler at" in line).split()[-1]
        build = ["build", here / "e.txt", here / "g.zarr", "--scheduler", address]
        with running(["-m", "ooc_graph", *build]) as process:
            assert process.stderr is not None
            next(line for line in process.stderr if "waiting for a worker" in line)
            scheduler.kill()
            left = process.stderr.read()
    refused(Ended(process.returncode, "", left), "the Dask scheduler has not answered", code=75)
    assert listing(here) == before


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "disk is full"), (errno.EFBIG, "raise the limit (ulimit")]
)
def test_full_disk_is_worth_a_retry(
    in_process: Call, here: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    write(here / "e.txt", GOOD)
    before = listing(here)

    def full(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr("ooc_graph.layout.chunks.os.write", full)
        refused(in_process("build", "e.txt", "g.zarr", "--quiet"), said, code=75)
    assert listing(here) == before
    assert in_process("build", "e.txt", "g.zarr", "--quiet").code == 0


def test_int64_answers_do_not_wrap(in_process: Call, here: Path) -> None:
    """Distances that no int64 holds are refused or exact, never negative."""
    big = np.iinfo(np.int64).max - 1
    write(here / "e.txt", f"1 2 {big}\n2 3 {big}\n")
    done = in_process("build", "e.txt", "g.zarr", "--quiet")
    if done.code == 0:
        done = in_process("sssp", "g.zarr", "--source", 1, "--out", "r.zarr", "--quiet")
    if done.code == 0:
        assert np.all(og.Result.open(here / "r.zarr").read("distance") >= 0)
    else:
        refused(done)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="nobody can write to /proc")
@pytest.mark.parametrize(
    "words",
    [
        ["export", "r.zarr", "/proc/r.csv"],
        ["bfs", "g.zarr", "--source", 1, "--out", "/proc/r.zarr"],
        ["build", "g.txt", "/proc/g.zarr"],
        ["graph500", "--scale", 8, "--searches", 2, "--out", "/proc"],
        ["graph500", "--scale", 8, "--searches", 2, "--out", "/proc/new"],
    ],
)
def test_a_folder_that_takes_no_file(at_once: Call, here: Path, words: list[Any]) -> None:
    og.bfs(made(here / "g.zarr"), 1, out=here / "r.zarr")
    write(here / "g.txt", GOOD)
    before = listing(here)
    refused(at_once(*words), f"{words[-1]}: cannot be written here (")
    assert listing(here) == before
