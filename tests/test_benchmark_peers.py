"""The comparison with other libraries: it runs, and it times nobody on a wrong answer."""

from __future__ import annotations

import dataclasses
import importlib
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra

import ooc_graph as og
from tests.command_line import REPOSITORY, script

BENCHMARKS = REPOSITORY / "benchmarks"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Modules of the benchmark by name; they import each other as a script's neighbours."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.mark.slow
def test_small_run(tmp_path: Path) -> None:
    pytest.importorskip("networkit", reason="the extra 'bench' is not installed")
    records, picture = tmp_path / "peers.jsonl", tmp_path / "peers.svg"
    ended = script(
        BENCHMARKS / "peers.py",
        *("--small", "--no-data", "--folder", tmp_path, "--records", records),
        *("--picture", picture, "--many", "yes"),
    )
    assert ended.code == 0, ended.err
    found = [json.loads(line) for line in records.read_text().splitlines()]
    assert [record["parameters"]["kernel"] for record in found] == ["bfs", "bfs", "sssp", "sssp"]
    assert [record["parameters"].get("sources") for record in found] == [None, 4, None, 4]
    for record in found:
        assert record["parameters"]["graph"] == "Kronecker 10"
        if "sources" in record["parameters"]:
            assert set(record["figures"]) > {"ooc-graph", "ooc-graph one by one", "networkit"}
        else:
            check_figures(record["figures"])
    assert "networkit" in ended.out
    drawn = picture.read_text()
    assert "networkit" in drawn
    assert "Kronecker 10" in drawn
    assert not list(tmp_path.glob("peers-benchmark-*"))
    again = script(BENCHMARKS / "peers_picture.py", "--records", records, "--out", picture)
    assert again.code == 0, again.err
    single, many = again.out.strip().split("\n\n")
    for table, heads in ((single, "ours | search alone | networkit"), (many, "ours | networkit")):
        assert table.startswith(f"| graph | search | {heads} |")
        assert table.count("| Kronecker 10 |") == 2
    assert picture.read_text() == drawn


def check_figures(figures: dict[str, Any]) -> None:
    ours, peer = figures["ooc-graph"], figures["networkit"]
    assert ours["median_s"] > ours["median_search_s"] > 0
    assert ours["parents"]
    assert peer["parents"]
    assert peer["build_s"] > 0
    for row in figures.values():
        assert row["searches"] == len(row["times_s"]) == 4
        assert row["median_s"] == statistics.median(row["times_s"])
    ratio = ours["harmonic_mean_teps"] / peer["harmonic_mean_teps"]
    assert peer["ours_is_faster_by"] == pytest.approx(ratio)
    if peer["memory"] is not None:
        # Each undirected edge is kept from both ends.
        assert peer["memory"]["graph_bytes"] > 2 * 4 * 10_551


def test_absent_graphs_are_named(tmp_path: Path) -> None:
    ended = script(
        BENCHMARKS / "peers.py",
        *("--small", "--scales", "", "--data", tmp_path, "--folder", tmp_path),
    )
    assert ended.code == 0, ended.err
    assert "road Rome: left out" in ended.out


def test_simple_edges_are_the_lightest(module: Any) -> None:
    graphs = module("peers_graphs")
    u, v = np.array([2, 0, 1, 3, 1]), np.array([0, 2, 1, 1, 3])
    w = np.array([0.5, 0.25, 0.125, 2, 3], np.float32)
    edges, tuples = graphs._simple(u, v, w, 5, directed=False)
    assert (edges.u.tolist(), edges.v.tolist(), edges.w.tolist()) == ([0, 1], [2, 3], [0.25, 2])
    assert tuples.tolist() == [2, 2, 2, 2, 0]
    edges, tuples = graphs._simple(u, v, w, 5, directed=True)
    assert (edges.u.tolist(), edges.v.tolist()) == ([0, 1, 2, 3], [2, 3, 0, 1])
    assert tuples.tolist() == [1, 1, 1, 1, 0]


def test_edges_survive_a_folder(module: Any, tmp_path: Path) -> None:
    graphs = module("peers_graphs")
    edges = random_case(graphs, directed=True).edges
    edges.save(tmp_path)
    again = graphs.Edges.load(tmp_path)
    assert (again.vertices, again.directed) == (edges.vertices, True)
    for name in "uvw":
        assert np.array_equal(getattr(again, name), getattr(edges, name))


@pytest.mark.parametrize("directed", [False, True])
def test_levels_from_predecessors(module: Any, directed: bool) -> None:
    edges = random_case(module("peers_graphs"), directed=directed).edges
    matrix = matrix_of(edges)
    for source in range(0, edges.vertices, 7):
        order, predecessor = breadth_first_order(matrix, source)
        expected = dijkstra(matrix, indices=source, unweighted=True)
        got = module("peers_adapters").levels_of(order, predecessor)
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("name", ["Networkit", "Igraph", "Scipy", "Graphblas", "Networkx"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weights", [np.float32, np.int64, None])
def test_adapters_agree_with_ours(
    module: Any, tmp_path: Path, name: str, directed: bool, weights: Any
) -> None:
    kind = getattr(module("peers_adapters"), name)
    pytest.importorskip(kind.module, reason="the extra 'bench' is not installed")
    timing = module("peers_timing")
    case = random_case(module("peers_graphs"), directed=directed, weights=weights)
    # Self-loops name the vertices without edges, too.
    loops = np.arange(case.edges.vertices)
    u, v = np.append(case.edges.u, loops), np.append(case.edges.v, loops)
    w = () if weights is None else (np.append(case.edges.w, loops.astype(weights)),)
    og.build((u, v, *w), tmp_path / "graph.zarr", directed=directed)
    turns = [timing.Timed(module("peers_ours").Ours(tmp_path / "graph.zarr"))]
    turns.append(timing.Timed(kind()))
    turns[1].adapter.build(case.edges)
    for kernel in turns[0].adapter.kernels:
        for source in range(0, case.edges.vertices, 11):
            assert min(timing.compare(kernel, case, turns, source)) > 0
        # Who has no way to give parents for weights says so.
        assert turns[1].parents == (kernel == "bfs" or name not in ("Igraph", "Graphblas"))


@pytest.mark.parametrize("name", ["Networkit", "Igraph", "Scipy", "Graphblas"])
@pytest.mark.parametrize("thin", [0, 100])
def test_many_sources_agree_with_ours(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, thin: int
) -> None:
    kind = getattr(module("peers_adapters"), name)
    pytest.importorskip(kind.module, reason="the extra 'bench' is not installed")
    timing, many = module("peers_timing"), module("peers_many")
    # GraphBLAS searches thin graphs otherwise.
    monkeypatch.setattr(many, "THIN", thin)
    case = random_case(module("peers_graphs"), directed=True, weights=np.float32)
    loops = np.arange(case.edges.vertices)
    u, v = np.append(case.edges.u, loops), np.append(case.edges.v, loops)
    w = np.append(case.edges.w, loops.astype(np.float32))
    og.build((u, v, w), tmp_path / "graph.zarr", directed=True)
    peer = kind()
    peer.build(case.edges)
    libraries = many.many_of([module("peers_ours").Ours(tmp_path / "graph.zarr"), peer])
    assert [one.name for one in libraries] == ["ooc-graph", kind.name, "ooc-graph one by one"]
    turns = [timing.Timed(one) for one in libraries]
    several = dataclasses.replace(case, sources=np.arange(0, 60, 2).reshape(3, 10))
    for kernel in ("bfs", "sssp"):
        within = timing.alternate(kernel, several, turns, lambda _: 2)
        assert len(within) == 2
        assert not any(turn.parents for turn in turns)


def test_wrong_answers_are_not_timed(module: Any) -> None:
    timing = module("peers_timing")
    case = random_case(module("peers_graphs"), directed=False)
    honest, other = Fixed(module, case, wrong_at=None), Fixed(module, case, wrong_at=None)
    turns = [timing.Timed(honest), timing.Timed(other)]
    within = timing.alternate("bfs", case, turns, lambda _: 3)
    assert within == [case.edges_within(np.isfinite(honest.levels(s))) for s in case.sources[:3]]
    assert len(turns[1].times_s) == 3
    for wrong_at in case.sources[:2].tolist():
        liar = Fixed(module, case, wrong_at=wrong_at)
        with pytest.raises(timing.WrongAnswerError, match="1 vertices differ"):
            timing.alternate("bfs", case, [timing.Timed(honest), timing.Timed(liar)], lambda _: 3)


def test_ratio_is_over_the_sources_of_the_other(module: Any) -> None:
    timing = module("peers_timing")
    case = random_case(module("peers_graphs"), directed=False)
    ours = timing.Timed(Fixed(module, case, None), times_s=[1.0, 2.0, 50.0])
    peer = timing.Timed(Fixed(module, case, None), times_s=[4.0, 8.0])
    figures = timing.figures_of(peer, ours, [100, 200, 10], None)
    assert figures["ours_is_faster_by"] == pytest.approx(4)
    assert figures["harmonic_mean_teps"] == pytest.approx(25)


def test_wrong_parents_are_not_timed(module: Any) -> None:
    timing = module("peers_timing")
    case = random_case(module("peers_graphs"), directed=True)
    source = int(case.sources[0])
    honest = Fixed(module, case, wrong_at=None)
    _, above = breadth_first_order(matrix_of(case.edges), source)
    liar = Fixed(module, case, wrong_at=None, above=above)
    timing.compare("bfs", case, [timing.Timed(honest), timing.Timed(liar)], source)
    level = honest.levels(source)
    deepest = int(np.argmax(np.where(np.isfinite(level), level, -1)))
    assert level[deepest] > 1
    liar.above[deepest] = source
    with pytest.raises(timing.WrongAnswerError, match=f"parent of vertex {deepest} "):
        timing.compare("bfs", case, [timing.Timed(honest), timing.Timed(liar)], source)


class Fixed:
    """A library that knows the levels, or is wrong about one vertex from one source."""

    name, version, build_s = "fixed", "1", None

    def __init__(self, module: Any, case: Any, wrong_at: int | None, above: Any = None) -> None:
        self._search = module("peers_adapters").Search
        self._matrix, self._wrong_at = matrix_of(case.edges), wrong_at
        self.above = above

    def levels(self, source: int) -> np.ndarray[Any, Any]:
        return dijkstra(self._matrix, indices=source, unweighted=True)

    def bfs(self, source: int) -> Any:
        level = self.levels(source)
        level[0] += source == self._wrong_at
        parents = None if self.above is None else lambda some: self.above[some]
        return self._search(0.5, lambda: level, parents)


def random_case(graphs: Any, *, directed: bool, weights: Any = np.float64) -> Any:
    """A sparse graph of 60 vertices, not all of them connected."""
    generator = np.random.default_rng(3)
    u, v = generator.integers(0, 60, (2, 90))
    w = None if weights is None else (generator.random(90) * 100).astype(weights)
    edges, tuples = graphs._simple(u, v, w, 60, directed=directed)
    sources = np.flatnonzero(tuples)[:5]
    return graphs.Case("random", "random", None, edges, np.arange(60), tuples, sources)


def matrix_of(edges: Any) -> Any:
    u, v, w = edges.both_ways()
    return csr_array((w, (u, v)), shape=(edges.vertices, edges.vertices))
