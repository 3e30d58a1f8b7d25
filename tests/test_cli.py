"""The command end to end, as a user runs it, and its answers against the Python API's."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.exchange.cluster import Cluster
from tests.command_line import LIMIT_S, call, command

SEARCHES = 4
# A triangle of gapped ids with a tail, a duplicate, a self-loop; nobody leads to 99.
EDGES = "10 20 4\n20 30 1\n10 30 7\n30 40 2\n10 20 6\n40 40 1\n99 10 3\n"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small graph file, built by the command."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "edges.txt").write_text(EDGES)
    done = command("build", "edges.txt", "g.zarr", "--directed", cwd=folder)
    assert done.code == 0, done
    assert done.out.startswith("g.zarr: directed, 5 vertices, 7 edges, int32 weights, built in")
    assert len(done.out.splitlines()) == 1
    # Plain lines of progress, since stderr is no terminal.
    assert "counting degrees ..." in done.err.splitlines()
    assert "\x1b" not in done.err
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder and standard output of a Graph500 run on two workers."""
    folder = tmp_path_factory.mktemp("graph500") / "run"
    words = ["--scale", 10, "--searches", SEARCHES, "--workers", 2, "--out", folder]
    done = command("graph500", *words)
    assert done.code == 0, done
    *_, bfs, sssp, report = done.err.splitlines()
    for kernel, line in (("bfs", bfs), ("sssp", sssp)):
        assert re.fullmatch(
            kernel + r": plan .* s, load .* s, .* validation .* s \(\d+% of all\)", line
        )
    assert report == f"report: {folder / 'report.html'}"
    return folder, done.out


def test_graph500_prints_the_block_and_nothing_else(run: tuple[Path, str]) -> None:
    folder, out = run
    fields = dict(line.split(":", 1) for line in out.splitlines())
    assert fields["SCALE"].strip() == "10"
    assert fields["edgefactor"].strip() == "16"
    assert fields["NBFS"].strip() == str(SEARCHES)
    # Labels are the specification's, blanks included.
    for label in ("bfs  harmonic_mean_TEPS", "sssp harmonic_mean_TEPS"):
        assert float(fields[label].replace("!", "")) > 0
    assert (folder / "output.txt").read_text() == out


def test_graph500_leaves_graph_records_and_report(run: tuple[Path, str]) -> None:
    folder, out = run
    graph = og.open(folder / "graph.zarr")
    assert (graph.vertices, graph.edges) == (1 << 10, 16 << 10)
    (line,) = (folder / "records.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["parameters"]["worker processes"] == 2
    assert record["validation"]["status"] == "passed"
    assert len(record["searches"]) == 2 * SEARCHES
    stages = [stage["name"] for stage in record["stages"]]
    assert len(set(stages)) == len(stages)
    assert "search keys" in stages
    assert record["graph"]["manifest SHA-256"] == graph.identity
    for kernel, parts in record["parts"].items():
        mine = [search for search in record["searches"] if search["kernel"] == kernel]
        assert parts["search"] == pytest.approx(sum(search["time_s"] for search in mine))
        assert parts["validation"] == pytest.approx(sum(search["validate_s"] for search in mine))
        assert min(parts.values()) > 0
    assert list(record["parts"]) == ["bfs", "sssp"]
    page = (folder / "report.html").read_text()
    assert out.splitlines()[0].split(":")[0] in page
    assert "http" not in page.replace("http://www.w3.org", "")


def test_graph500_builds_what_the_api_builds(run: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = run
    same = og.build(og.Kronecker(10), tmp_path / "g.zarr")
    assert same.identity == og.open(folder / "graph.zarr").identity


def test_build_is_what_the_api_builds(own: Path, tmp_path: Path) -> None:
    same = og.build(own / "edges.txt", tmp_path / "g.zarr", directed=True)
    assert same.identity == og.open(own / "g.zarr").identity


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_search_and_export(kernel: str, own: Path, tmp_path: Path) -> None:
    store = tmp_path / "r.zarr"
    done = command(kernel, own / "g.zarr", "--source", 10, "--out", store)
    assert done.code == 0, done
    assert done.out.startswith(f"{kernel} from 10: 4 of 5 vertices reached in ")
    parts = r"\(plan .* s, load .* s, search .* m?s, write .* s\)"
    assert re.search(parts, done.out)
    expected = getattr(og, kernel)(own / "g.zarr", 10)
    result = og.Result.open(store)
    for name in expected.names:
        np.testing.assert_array_equal(result.read(name), expected.read(name))
    np.testing.assert_array_equal(result.vertex, [10, 20, 30, 40, 99])
    unreached = np.iinfo(np.int64).max
    measure = [0, 1, 1, 2, -1] if kernel == "bfs" else [0, 4, 5, 7, unreached]
    np.testing.assert_array_equal(result.read(result.measure), measure)
    assert og.validate(result, own / "edges.txt", directed=True).reached == 4


def test_components_and_export(own: Path, tmp_path: Path) -> None:
    store = tmp_path / "c.zarr"
    done = command("components", own / "g.zarr", "--out", store, "--quiet")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("components: 1 in a graph of 5 vertices in ")
    result = og.Result.open(store)
    assert isinstance(result, og.ComponentsResult)
    assert result.component.tolist() == [10] * 5
    assert (result.count, result.elapsed_s) == (1, None)
    assert og.validate(store, own / "edges.txt", directed=True).ok
    assert json.loads(command("info", store, "--json").out)["components"] == 1
    assert command("verify", store).code == 0
    assert command("export", store, tmp_path / "c.csv").code == 0
    text = "vertex,labels\n10,10\n20,10\n30,10\n40,10\n99,10\n"
    assert (tmp_path / "c.csv").read_text() == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing.zarr", "--out", "r.zarr"], "missing.zarr"),
        (["g.zarr", "--out", "there.zarr"], "exists already; give --overwrite"),
        (["g.zarr", "--out", "no/such/r.zarr"], "no such folder"),
        (["g.zarr", "--out", "r.zarr", "--workers", "0"], "give at least 1"),
        (["g.zarr", "--out", "r.zarr", "--memory-limit", "10B"], "raise --memory-limit"),
        (["g.zarr", "--out", "r.zarr", "--device", "cuda"], "on the CPU only"),
        (["there.zarr", "--out", "r.zarr"], "holds a result, a graph is needed here"),
        (["g.zarr"], "Missing option '--out'"),
    ],
)
def test_components_that_are_refused_leave_nothing_behind(
    words: list[str],
    said: str,
    own: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.zarr").symlink_to(own / "g.zarr")
    og.bfs(own / "g.zarr", 10, out="there.zarr")
    done = call(monkeypatch, capsys, "components", *words, "--quiet")
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert said in done.err
    assert {"g.zarr", "there.zarr"} >= {path.name for path in tmp_path.glob("*.zarr*")}


def test_export_writes_the_columns(
    own: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = og.bfs(own / "g.zarr", 10, out=tmp_path / "r.zarr")
    for ending in ("csv", "tsv", "npz", "parquet"):
        file = tmp_path / f"r.{ending}"
        done = call(monkeypatch, capsys, "export", tmp_path / "r.zarr", file, "--quiet")
        assert (done.code, done.out, done.err) == (0, f"{file}\n", "")
    text = (tmp_path / "r.csv").read_text()
    assert text.splitlines()[:2] == ["vertex,distance,predecessor", "10,0,10"]
    assert (tmp_path / "r.tsv").read_text() == text.replace(",", "\t")
    with np.load(tmp_path / "r.npz") as columns:
        assert columns.files == ["vertex", "distance", "predecessor"]
        for name in columns.files:
            np.testing.assert_array_equal(columns[name], result.read(name))


def test_info_says_what_is_there(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = og.open(own / "g.zarr")
    done = call(monkeypatch, capsys, "info", own / "g.zarr", "--json")
    facts = json.loads(done.out)
    assert (facts["kind"], facts["vertices"], facts["edges"]) == ("graph", 5, 7)
    assert facts["self_loops"] == 1
    assert facts["manifest_sha256"] == graph.identity
    table = call(monkeypatch, capsys, "info", own / "g.zarr")
    assert table.code == 0
    assert graph.identity in table.out
    assert all(line == line.rstrip() for line in table.out.splitlines())
    assert {"vertices", "5"} <= set(table.out.split())
    assert "{" not in table.out
    (file,) = facts["source"]["files"]
    assert f"source: files: {file['name']}: bytes" in table.out


def test_verify(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(monkeypatch, capsys, "verify", own / "g.zarr", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("all as written\n")
    assert "verifying ..." in call(monkeypatch, capsys, "verify", own / "g.zarr").err


def test_quiet_means_nothing_on_stderr_and_overwrite_replaces(own: Path, tmp_path: Path) -> None:
    store = tmp_path / "g.zarr"
    og.build((np.array([1, 2]), np.array([2, 3])), store)
    before = og.open(store).identity
    done = command("build", own / "edges.txt", store, "--quiet", "--overwrite")
    assert (done.code, done.err) == (0, "")
    graph = og.open(store)
    assert graph.identity != before
    assert not graph.directed


# Bars appear for what takes over a second.
WITH_BARS_AT_ONCE = (
    "import runpy\n"
    "from ooc_graph.report import bars\n"
    "bars.BAR_AFTER_S = 0.0\n"
    "runpy.run_module('ooc_graph', run_name='__main__')\n"
)


def test_progress_bars_on_a_terminal_keep_stdout_clean(tmp_path: Path) -> None:
    # Long enough that reading it is not over before there is a bar.
    edges = tmp_path / "edges.txt"
    edges.write_text("".join(f"{vertex} {vertex + 1} 1\n" for vertex in range(300_000)))
    ours, theirs = pty.openpty()
    said: list[bytes] = []

    def listen() -> None:
        try:
            while piece := os.read(ours, 4096):
                said.append(piece)
        except OSError:
            # Linux says so when the other side is closed.
            pass

    words = [sys.executable, "-c", WITH_BARS_AT_ONCE, "build", edges, tmp_path / "g.zarr"]
    listener = Thread(target=listen)
    listener.start()
    try:
        done = subprocess.run(
            words,
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            timeout=LIMIT_S,
            check=False,
            env={**os.environ, "TERM": "xterm"},
        )
    finally:
        os.close(theirs)
        listener.join()
        os.close(ours)
    assert done.returncode == 0, said
    assert len(done.stdout.splitlines()) == 1
    assert b"reading input" in b"".join(said)


def test_scheduler_is_joined_and_left_running(own: Path, tmp_path: Path) -> None:
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as client,
    ):
        address = cluster.scheduler_address
        store = tmp_path / "g.zarr"
        done = command("build", own / "edges.txt", store, "--directed", "--scheduler", address)
        assert done.code == 0, done
        assert og.open(store).identity == og.open(own / "g.zarr").identity
        result = tmp_path / "r.zarr"
        words = ["--source", 10, "--out", result, "--scheduler", address]
        done = command("bfs", store, *words, "--exchange", "scheduler")
        assert done.code == 0, done
        assert len(Cluster.of(client).look()) == 2
        assert client.submit(sum, [1, 2]).result() == 3
    np.testing.assert_array_equal(og.Result.open(result).parent, og.bfs(store, 10).parent)
