"""Options and arguments of the command that are refused, and its help."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.runtime import joined_cluster
from tests import refusing
from tests.command_line import call, listing
from tests.refusing import GOOD, Call, made, refused, write

here, at_once, in_process = refusing.here, refusing.at_once, refusing.in_process


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
            ("bfs", "hops.zarr", *source, *out, "--method", "edges", "--exchange", "scheduler"),
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


def test_an_address_that_is_none(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here / "e.txt", GOOD)
    monkeypatch.setattr(joined_cluster, "CONNECT_S", 1)
    for address in (
        "nonsense",
        "fax://1:2",
        "tcp://",
        "tcp://127.0.0.1",
        "tcp://x:y",
        "inproc://x",
    ):
        done = call(monkeypatch, capsys, "build", "e.txt", "g.zarr", "--scheduler", address)
        refused(done, address)


def test_a_listener_that_is_no_scheduler(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dask's own limit ends with the connection, which a frozen scheduler's system accepts."""
    write(here / "e.txt", GOOD)
    monkeypatch.setattr(joined_cluster, "CONNECT_S", 1.0)
    monkeypatch.setattr(joined_cluster, "GRACE_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        done = call(monkeypatch, capsys, "build", "e.txt", "g.zarr", "--scheduler", address)
    refused(done, "no Dask scheduler answers", address, code=75)
    refused(call(monkeypatch, capsys, "build", "e.txt", "g.zarr", "--scheduler", ""), "no address")


def test_help_and_version(at_once: Call) -> None:
    assert at_once("--help").out.startswith("Usage: ooc-graph ")
    assert at_once("--version").out.strip() == f"ooc-graph, version {og.__version__}"
    nothing = at_once()
    assert nothing.code == 2
    assert "Searches:" in nothing.err
