"""Every refusal of the command: one clear line, the right exit code, nothing written.

Most run in this process. Where the refusal needs the content of a file, the work is done by threads
of this process instead of a cluster's; one test has it come back from a real worker.
"""

from __future__ import annotations

import gzip
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import ooc_graph as og
from ooc_graph.session import cluster
from tests.command_line import LIMIT_S, Ended, call, command, listing, running

Call = Callable[..., Ended]

GOOD = "1 2\n2 3\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def at_once(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Call the command where starting or joining a cluster is an error."""

    def no_cluster(*_: Any, **__: Any) -> None:
        raise AssertionError("a cluster was started or joined for a refusal that needs none")

    monkeypatch.setattr(cluster, "LocalCluster", no_cluster)
    monkeypatch.setattr(cluster, "Client", no_cluster)
    return lambda *words: call(monkeypatch, capsys, *words)


@pytest.fixture
def in_process(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Call the command where threads of this process do what a cluster would."""

    @contextmanager
    def nothing(workers: int = 1) -> Iterator[None]:
        yield None

    monkeypatch.setattr(cluster, "local_cluster", nothing)
    return lambda *words: call(monkeypatch, capsys, *words)


def refused(done: Ended, *said: str, code: int = 2) -> None:
    assert done.code == code, done
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("ooc-graph: ")
    for part in said:
        assert part in line


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def made(path: Path, content: str = GOOD, **options: Any) -> Path:
    og.build(write(path.with_suffix(".txt"), content), path, **options)
    return path


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


def test_unknown_source_vertex(at_once: Call, here: Path) -> None:
    made(here / "gaps.zarr", "10 20\n20 40\n")
    made(here / "dense.zarr")
    before = listing(here)
    for graph in ("gaps.zarr", "dense.zarr"):
        for source in (-1, 15, 1 << 62):
            done = at_once("bfs", graph, "--source", source, "--out", "r.zarr")
            refused(done, f"vertex {source}", graph)
    assert listing(here) == before


def test_source_must_be_a_64_bit_integer(at_once: Call, here: Path) -> None:
    made(here / "g.zarr")
    refused(at_once("bfs", "g.zarr", "--source", "x", "--out", "r.zarr"), "--source", "'x'")
    refused(at_once("bfs", "g.zarr", "--source", 1 << 70, "--out", "r.zarr"), str(1 << 70))


def test_an_empty_word_is_no_path(at_once: Call, here: Path) -> None:
    """As of a variable that is not set; pathlib takes it for the folder that we are in."""
    made(here / "g.zarr", "1 2 3\n2 3 4\n")
    before = listing(here)
    sources, out = ("--source", 1), ("--out", "r.zarr")
    calls: list[tuple[Any, ...]] = [
        ("build", "", "x.zarr"),
        ("build", "g.txt", ""),
        ("build", "g.txt", "", "--overwrite"),
        ("info", ""),
        ("verify", ""),
        ("plan", ""),
        ("export", "", "x.csv"),
        ("export", "g.zarr", ""),
        ("bfs", "", *sources, *out),
        ("bfs", "g.zarr", *sources, "--out", ""),
        ("sssp", "g.zarr", *sources, "--out", ""),
        ("components", "g.zarr", "--out", ""),
        ("apsp", "g.zarr", "--targets", "", *out),
        ("apsp", "g.zarr", "--sources", "", *out),
        ("graph500", "--scale", 10, "--out", ""),
    ]
    for words in calls:
        refused(at_once(*words), "an empty word is no")
    assert listing(here) == before


def test_what_options_and_attributes_tell_is_refused_at_once(at_once: Call, here: Path) -> None:
    made(here / "hops.zarr")
    made(here / "floats.zarr", "1 2 0.5\n2 3 1.5\n")
    made(here / "loop.zarr", "1 2 5\n2 2 -1\n")
    og.bfs(here / "hops.zarr", 1, out=here / "result.zarr")
    (here / "folder").mkdir()
    (here / "run" / "graph.zarr").mkdir(parents=True)
    before = listing(here)
    source, out = ("--source", 1), ("--out", "r.zarr")
    bins = ("--reduce", "histogram")
    over = ("--out", "folder", "--overwrite")
    calls: list[tuple[tuple[Any, ...], str]] = [
        (
            ("bfs", "hops.zarr", *source, *out, "--method", "edges", "--exchange", "local"),
            "one ran",
        ),
        (("bfs", "hops.zarr", *source, *out, "--method", "edges", "--device", "cuda"), "CPU only"),
        (("components", "hops.zarr", *out, "--device", "cuda"), "on the CPU only"),
        (("apsp", "floats.zarr", *out, *bins), "needs a bin width"),
        (("bfs", "hops.zarr", "--sources", "all", *out, *bins, "--bin-width", 0.5), "an integer"),
        (("apsp", "floats.zarr", *out, *bins, "--bins", 10**14), "2,097,152 at most"),
        (("bfs", "hops.zarr", *source, *over), "not a store"),
        (("components", "hops.zarr", *over), "not a store"),
        (("apsp", "floats.zarr", *over), "not a store"),
        (("build", "hops.txt", "folder", "--overwrite"), "not a store"),
        (("build", "hops.txt", "result.zarr", "--overwrite"), "holds a result"),
        (("graph500", "--scale", 10, "--out", "run", "--overwrite"), "not a store"),
        (("graph500", "--scale", 2, "--edge-factor", 1, "--out", "new"), "--searches"),
        (("graph500", "--scale", 10, "--shards", 1 << 20, "--out", "new"), "--shards"),
    ]
    for words, said in calls:
        refused(at_once(*words), said)
    refused(at_once("apsp", "loop.zarr", *out), "a cycle of 1 arc", code=3)
    assert listing(here) == before


def test_more_shards_than_rows_can_be_dealt_to(in_process: Call, here: Path) -> None:
    """Each shard has files of its own; a million of them would take hours."""
    write(here / "e.txt", GOOD)
    before = listing(here)
    done = in_process("build", "e.txt", "g.zarr", "--quiet", "--shards", 1 << 20)
    refused(done, f"--shards {1 << 20}: give at most 256", "3 of them")
    assert listing(here) == before
    assert in_process("build", "e.txt", "g.zarr", "--quiet", "--shards", 256).code == 0
    with pytest.raises(og.errors.UsageError, match="give at most 256"):
        og.build(np.array([[1, 2]]), here / "a.zarr", shards=1 << 20)


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


def test_sssp_needs_weights(at_once: Call, here: Path) -> None:
    made(here / "g.zarr")
    before = listing(here)
    refused(at_once("sssp", "g.zarr", "--source", 1, "--out", "r.zarr"), "no weights", "bfs")
    assert listing(here) == before


def test_light_rows_need_weights(at_once: Call, here: Path) -> None:
    write(here / "e.txt", GOOD)
    refused(at_once("build", "e.txt", "g.zarr", "--rows", "light"), "no weights")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--scale", "0"], "scale"),
        (["--scale", "41"], "scale"),
        (["--scale", "x"], "--scale"),
        (["--scale", "10", "--edge-factor", "0"], "edge"),
        (["--scale", "10", "--searches", "0"], "--searches"),
        (["--scale", "10", "--kernels", "bfs,dfs"], "--kernels"),
        ([], "--scale"),
    ],
)
def test_graph500_parameters(at_once: Call, here: Path, words: list[str], said: str) -> None:
    refused(at_once("graph500", *words), said)
    assert listing(here) == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--memory-limit", "lots"], "--memory-limit 'lots'"),
        (["--memory-limit", "0"], "--memory-limit '0'"),
        (["--device-memory", "nan"], "--device-memory 'nan'"),
        (["--device-memory", "0"], "--device-memory '0'"),
        (["--memory-limit", "-4GiB"], "-4GiB"),
        (["--device", "cuda"], "CUDA device"),
        (["--device", "tpu"], "tpu"),
        (["--workers", "0"], "--workers 0"),
        (["--workers", "-2"], "--workers -2"),
        (["--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], "--scheduler"),
        (["--scheduler", "tls://127.0.0.1:1"], "--tls"),
        (["--scheduler", "tls://127.0.0.1:1", "--tls", "a,b"], "CA,CERT,KEY"),
        (["--tls", "a,b,c"], "--scheduler"),
        (["--format", "fax"], "fax"),
        (["--rows", "diagonal"], "diagonal"),
        (["--weight", "9" * 5000], "no column"),
        (["--shards", "3"], "power of two"),
        (["--shards", str(1 << 40)], "at most"),
        (["--weight", "1", "--columns", "1,0"], "different columns"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_options(at_once: Call, here: Path, words: list[str], said: str) -> None:
    write(here / "e.txt", GOOD)
    before = listing(here)
    refused(at_once("build", "e.txt", "g.zarr", *words), said)
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


def test_too_little_memory_says_how_much_would_do(in_process: Call, here: Path) -> None:
    write(here / "e.txt", GOOD)
    before = listing(here)
    words = ("build", "e.txt", "g.zarr", "--quiet", "--memory-limit", "1MiB")
    done = in_process(*words)
    refused(done, "1,048,576", "bytes")
    assert listing(here) == before


def test_a_limit_of_any_number_of_digits(in_process: Call, here: Path) -> None:
    write(here / "e.txt", GOOD)
    for digits in (20, 400):
        words = ("--quiet", "--overwrite", "--memory-limit", "9" * digits + "GiB")
        done = in_process("build", "e.txt", "g.zarr", *words)
        assert (done.code, done.err) == (0, "")


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
    monkeypatch.setattr(cluster, "_CONNECT_S", 1)
    done = call(monkeypatch, capsys, "build", "e.txt", "g.zarr", "--scheduler", "tcp://127.0.0.1:1")
    refused(done, "tcp://127.0.0.1:1", code=75)
    assert listing(here) == before


def test_an_address_that_is_none(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here / "e.txt", GOOD)
    monkeypatch.setattr(cluster, "_CONNECT_S", 1)
    for address in ("nonsense", "fax://1:2"):
        done = call(monkeypatch, capsys, "build", "e.txt", "g.zarr", "--scheduler", address)
        refused(done, address)


def test_full_disk_is_worth_a_retry(
    in_process: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here / "e.txt", GOOD)
    before = listing(here)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ooc_graph.layout.chunks.os.write", full)
        refused(in_process("build", "e.txt", "g.zarr", "--quiet"), "disk is full", code=75)
    assert listing(here) == before
    assert in_process("build", "e.txt", "g.zarr", "--quiet").code == 0


def _stopped(folder: Path, number: int, *, group: bool) -> Ended:
    """Send a signal to a run that is counting degrees, and wait for its end."""
    words = ["-m", "ooc_graph", "graph500", "--scale", 20, "--kernels", "bfs", "--out", folder]
    with running(words) as process:
        assert process.stderr is not None
        said = ""
        while "counting degrees" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        (os.killpg if group else os.kill)(process.pid, number)
        out, err = process.communicate(timeout=LIMIT_S)
        _, left = psutil.wait_procs(children, 120)
        assert left == []
        return Ended(process.returncode, out, said + err)


@pytest.mark.parametrize(
    ("number", "group", "is_repeated"),
    [
        pytest.param(signal.SIGTERM, False, False, id="SIGTERM"),
        # A terminal sends it to the workers too.
        pytest.param(signal.SIGINT, True, False, id="Ctrl-C"),
        pytest.param(signal.SIGINT, True, True, id="Ctrl-C, again and again"),
    ],
)
def test_stopped_while_workers_start(
    tmp_path: Path, number: int, group: bool, is_repeated: bool
) -> None:
    """A signal at the first sight of a worker's process, which has hardly begun itself."""
    code, said = (143, "stopped by SIGTERM") if number == signal.SIGTERM else (130, "interrupted")
    write(tmp_path / "e.txt", GOOD)
    before = listing(tmp_path)
    words = ["-m", "ooc_graph", "build", tmp_path / "e.txt", tmp_path / "g.zarr", "--device", "cpu"]
    with running([*words, "--workers", 2]) as process:
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
def test_stopped_during_a_build(
    tmp_path: Path, number: int, group: bool, code: int, said: str
) -> None:
    done = _stopped(tmp_path / "run", number, group=group)
    assert done.code == code, done
    assert done.out == ""
    assert "Traceback" not in done.err
    assert done.err.splitlines()[-1].startswith("ooc-graph: ")
    assert said in done.err.splitlines()[-1]
    assert listing(tmp_path) == {}


def test_help_and_version(at_once: Call) -> None:
    assert at_once("--help").out.startswith("Usage: ooc-graph ")
    assert at_once("--version").out.strip() == f"ooc-graph, version {og.__version__}"
    nothing = at_once()
    assert nothing.code == 2
    assert "Commands:" in nothing.err


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
