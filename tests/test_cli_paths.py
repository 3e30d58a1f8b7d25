"""The commands ``path`` and ``convert``, and ``--json`` of searches."""

from __future__ import annotations

import errno
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers import export
from ooc_graph.cli import conversion
from tests import refusing
from tests.refusing import Call, made, refused, write

here, in_process = refusing.here, refusing.in_process

FLIGHTS = "10 20 4.5\n10 30 1.0\n30 20 2.0\n20 40 7.5\n50 60 1.0\n"


@pytest.fixture
def flights(here: Path) -> Path:
    return made(here / "g.zarr", FLIGHTS, directed=False)


def as_json(call: Call, *words: Any) -> dict[str, Any]:
    done = call(*words, "--json", "--quiet")
    assert (done.code, done.err) == (0, ""), done
    (line,) = done.out.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_path_and_its_length(in_process: Call, flights: Path) -> None:
    done = in_process("path", "g.zarr", 10, 40, "--quiet")
    assert done.out.splitlines() == ["10 -> 30 -> 20 -> 40", "length 10.5, 3 hops"]
    assert in_process("path", "g.zarr", 20, 20, "--quiet").out == "20\nlength 0.0, 0 hops\n"
    hops = as_json(in_process, "path", "g.zarr", 10, 40, "--hops")
    expected = {"source": 10, "target": 40, "path": [10, 20, 40], "hops": 2, "length": 2}
    assert hops == expected


def test_no_path(in_process: Call, flights: Path) -> None:
    said = "no path leads from 10 to 60"
    refused(in_process("path", "g.zarr", 10, 60, "--quiet"), "g.zarr", said, code=3)
    done = in_process("path", "g.zarr", 10, 60, "--json", "--quiet")
    assert done.code == 3
    assert json.loads(done.out)["path"] is None


def test_a_path_of_a_stored_answer(
    in_process: Call, flights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    og.bfs(flights, 10, out="hops.zarr")
    og.sssp(flights, 10, out="cost.zarr")
    og.components(flights, out="parts.zarr")
    made(flights.with_name("other.zarr"), "10 20\n")

    def searched(*_: Any, **__: Any) -> None:
        raise AssertionError("a stored answer is searched for")

    monkeypatch.setattr("ooc_graph.search.single.search", searched)
    for answer, path, length in (("hops", [10, 20], 1), ("cost", [10, 30, 20], 3.0)):
        found = as_json(in_process, "path", "g.zarr", 10, 20, "--answer", f"{answer}.zarr")
        assert (found["path"], found["length"]) == (path, length)
    hops = ("--answer", "hops.zarr")
    refused(in_process("path", "g.zarr", 20, 10, *hops), "begins at 10, not at 20")
    refused(in_process("path", "g.zarr", 10, 20, *hops, "--hops"), "leave out --hops")
    refused(in_process("path", "other.zarr", 10, 20, *hops), "another graph")
    refused(in_process("path", "g.zarr", 10, 20, "--answer", "parts.zarr"), "of components")
    refused(in_process("path", "g.zarr", 10, 11), "vertex 11", "g.zarr")
    og.bfs(flights, sources=[10, 50], out="seeds.zarr")
    og.bfs(flights, 10, cutoff=1, out="near.zarr")
    for answer in ("seeds.zarr", "near.zarr"):
        refused(in_process("path", "g.zarr", 10, 40, "--answer", answer), "leave out --answer")


def test_paths_are_as_long_as_distances(in_process: Call, here: Path) -> None:
    """On directed graphs with gaps in the ids, also where weights are negative."""
    rng = np.random.default_rng(3)
    ends = np.sort(rng.integers(0, 40, (2, 150)), axis=0) * 7
    ends = ends[:, ends[0] < ends[1]]
    weight = rng.integers(1, 9, ends.shape[1])
    for lightest in (1, -5):
        arcs: dict[tuple[int, int], int] = {}
        for u, v, w in zip(*ends.tolist(), (weight + lightest - 1).tolist(), strict=True):
            arcs[u, v] = min(w, arcs.get((u, v), w))
        text = "".join(f"{u} {v} {w}\n" for (u, v), w in arcs.items())
        graph = og.open(made(here / f"{lightest}.zarr", text, directed=True))
        source = int(ends[0].min())
        answer = og.johnson(graph, [source])
        reached = answer.distance[0] < np.iinfo(np.int64).max
        for target in answer.vertex[reached][[1, -1]].tolist():
            found = as_json(in_process, "path", graph.path, source, target)
            path = found["path"]
            assert (path[0], path[-1]) == (source, target)
            length = sum(arcs[arc] for arc in itertools.pairwise(path))
            assert length == found["length"] == answer.distance[0][answer.vertex == target][0]


@pytest.mark.parametrize("ending", ["csv", "tsv", "npz", "parquet"])
@pytest.mark.parametrize("of", ["g.zarr", "g.txt"])
def test_converted_edges_make_the_same_graph(
    ending: str, of: str, in_process: Call, flights: Path
) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet is read and written by pyarrow")
    done = in_process("convert", of, f"e.{ending}", "--quiet")
    assert (done.code, done.out) == (0, f"e.{ending}: 5 undirected edges\n")
    again = og.build(f"e.{ending}", "again.zarr", directed=False)
    assert again.weight_dtype == np.float64
    before = og.johnson(flights)
    assert np.array_equal(og.johnson(again).distance, before.distance)
    refused(in_process("convert", of, f"e.{ending}"), "--overwrite")


def test_weights_have_one_type(in_process: Call, here: Path) -> None:
    """Though the first numbers look like integers; blocks are as long as Parquet's schema lasts."""
    pytest.importorskip("pyarrow", reason="Parquet is read and written by pyarrow")
    write(here / "e.txt", "1 2 3\n" * (1 << 20) + "2 3 0.5\n")
    assert in_process("convert", "e.txt", "e.parquet", "--quiet").code == 0
    assert og.open_source("e.parquet").weight_dtype == np.float64
    assert in_process("convert", "e.txt", "i.csv", "--weight", "none", "--quiet").code == 0
    assert (here / "i.csv").read_text().startswith("source,target\n1,2\n")


def test_files_that_do_not_say_that_edges_are_directed(in_process: Call, here: Path) -> None:
    write(here / "e.txt", "0 1\n")
    for ending in ("csv", "npz"):
        done = in_process("convert", "e.txt", f"d.{ending}", "--directed", "--quiet")
        assert "1 directed edges (the file does not say so: read it with --directed)" in done.out


def test_every_pass_has_its_progress(in_process: Call, here: Path) -> None:
    write(here / "e.txt", "0 1 2\n")
    shown = in_process("convert", "e.txt", "e.mtx").err.splitlines()
    stages = [line.removesuffix(" ...") for line in shown if line.endswith(" ...")]
    assert stages == ["reading weights", "finding the largest id", "converting"]


@pytest.mark.parametrize("ending", ["csv", "mtx"])
def test_a_pass_that_fails_ends_before_the_reason_is_said(
    ending: str, in_process: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(table: export.Table, _: str) -> tuple[()]:
        if len(table["source"]):
            raise OSError(errno.ENOSPC, "No space left on device")
        return ()

    for module in (conversion, export):
        monkeypatch.setattr(module, "text_lines", full)
    write(here / "e.txt", "0 1\n")
    *_, failed, reason = in_process("convert", "e.txt", f"e.{ending}").err.splitlines()
    assert failed.startswith("converting: failed")
    assert "nothing of" in reason


@pytest.mark.parametrize("kind", ["directed", "undirected"])
def test_a_matrix_has_the_edges_of_the_graph(kind: str, in_process: Call, here: Path) -> None:
    io = pytest.importorskip("scipy.io", reason="needs SciPy: ooc-graph[scipy]")
    made(here / "g.zarr", FLIGHTS, directed=kind == "directed")
    right = np.zeros((60, 60))
    for line in FLIGHTS.splitlines():
        source, target, weight = line.split()
        right[int(source) - 1, int(target) - 1] = float(weight)
    if kind == "undirected":
        right += right.T
    for of in (["g.zarr"], ["g.txt", f"--{kind}"]):
        out = f"{of[0]}.mtx"
        done = in_process("convert", *of, out, "--quiet")
        assert done.out == f"{out}: 5 {kind} edges\n"
        assert og.open_source(out).directed == (kind == "directed")
        np.testing.assert_array_equal(io.mmread(out).toarray(), right)


@pytest.mark.parametrize(
    ("words", "field", "weights"),
    [((), "integer", " 7"), (("--weight", "none"), "pattern", "")],
)
def test_a_matrix_of_arcs_from_0(
    words: tuple[str, ...], field: str, weights: str, in_process: Call, here: Path
) -> None:
    write(here / "e.txt", "0 2 7\n2 0 7\n3 2 7\n")
    done = in_process("convert", "e.txt", "e.mtx", "--directed", "--quiet", *words)
    assert done.out == "e.mtx: 3 directed edges\n"
    assert (here / "e.mtx").read_text().splitlines() == [
        f"%%MatrixMarket matrix coordinate {field} general",
        "4 4 3",
        *(f"{arc}{weights}" for arc in ("1 3", "3 1", "4 3")),
    ]
    write(here / "f.txt", f"0 {2**63 - 1}\n")
    refused(in_process("convert", "f.txt", "f.mtx", "--quiet"), "do not both fit")
    assert not (here / "f.mtx").exists()


def test_what_is_not_converted(in_process: Call, flights: Path) -> None:
    og.bfs(flights, 10, out="r.zarr")
    refused(in_process("convert", "g.zarr", "e.doc"), "e.doc", ".parquet")
    refused(in_process("convert", "r.zarr", "e.csv"), "holds a result, a graph is needed")
    refused(in_process("convert", "g.zarr", "e.csv", "--directed"), "is a store")
    refused(in_process("convert", "", "e.csv"), "an empty word is no path")
    assert not list(flights.parent.glob("e.*"))


def test_searches_print_json(in_process: Call, flights: Path) -> None:
    one = as_json(in_process, "bfs", "g.zarr", "--source", 10, "--out", "b.zarr")
    assert {name: one[name] for name in ("kernel", "source", "reached", "vertices")} == {
        "kernel": "bfs", "source": 10, "reached": 4, "vertices": 6
    }  # fmt: skip
    assert og.Result.open(one["answer"]).names == ("vertex", "parent", "level")
    assert one["info"]["seconds"]["search"] == one["elapsed_s"] > 0
    assert one["info"]["tier_bytes"]["memory"] > 0
    parts = as_json(in_process, "components", "g.zarr", "--out", "c.zarr")
    assert (parts["components"], parts["answer"]) == (2, "c.zarr")
    many = as_json(in_process, "apsp", "g.zarr", "--out", "a.zarr")
    assert (many["kernel"], many["values"], many["sources"]) == ("apsp", "distances", 6)
    words = ("--sources", "all", "--reduce", "closeness", "--out", "d.zarr")
    many = as_json(in_process, "bfs", "g.zarr", *words)
    assert (many["kernel"], many["values"]) == ("multi_source_bfs", "closeness")
    write(flights.with_name("ids.txt"), "10\n50\n")
    words = ("--sources-file", "ids.txt", "--out", "trees")
    several = as_json(in_process, "sssp", "g.zarr", *words)
    assert (several["kernel"], several["sources"], several["answers"]) == ("sssp", 2, "trees")
