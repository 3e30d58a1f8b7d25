"""``method="edges"`` from the API and the command: same answers, what is refused, memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import (
    CorruptStoreError,
    MemoryBudgetError,
    NegativeWeightError,
    UsageError,
)
from ooc_graph.kernels.cpu.edge_list.grouped import GroupedEdges
from ooc_graph.layout import names
from ooc_graph.shards.edge_list import edge_list_bytes, grouping_bytes, load_edges
from ooc_graph.strategies import edge_list
from tests.command_line import call
from tests.grouped_bytes import edge_bytes, table_bytes
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process
from tests.shared_data import need_shared

SCALE = 12


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return og.build(og.Kronecker(SCALE), tmp_path_factory.mktemp("edges") / "g.zarr")


def same(graph: og.Graph, kernel: str, source: int) -> None:
    search = getattr(og, kernel)
    rows, edges = search(graph, source), search(graph, source, method="edges")
    assert rows.names == edges.names
    for name in rows.names:
        assert rows.read(name).dtype == edges.read(name).dtype
        assert rows.read(name).tobytes() == edges.read(name).tobytes()


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_same_answer_as_by_rows(graph: og.Graph, kernel: str) -> None:
    for source in og.Kronecker(SCALE).search_keys(4).tolist():
        same(graph, kernel, source)
    assert og.validate(og.bfs(graph, source, method="edges"), og.Kronecker(SCALE)).reached > 1


@pytest.mark.parametrize("rows", ["hub", "light", "both"])
@pytest.mark.parametrize("weight", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("directed", [False, True])
def test_every_kind_of_store(
    tmp_path: Path, rows: str, weight: str, directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(5)
    source, target = random.integers(0, 3000, (2, 12_000))
    columns = (source, target, random.integers(0, 50, 12_000).astype(weight))
    # Chunks of ids and of weights end at different arcs, and inside rows.
    monkeypatch.setattr(names, "CHUNK_BYTES", 4000)
    graph = og.build(columns, tmp_path / "g.zarr", directed=directed, rows=rows, shards=2)
    root = int(source[0])
    same(graph, "bfs", root)
    if rows != "hub":
        same(graph, "sssp", root)


def test_methods_take_turns(graph: og.Graph) -> None:
    """What is held in memory for one method is not taken for the other's."""
    (key,) = og.Kronecker(SCALE).search_keys(1).tolist()
    answers = [og.sssp(graph, key, method=m).distance for m in ("edges", "rows", "edges")]
    assert answers[0].tobytes() == answers[1].tobytes() == answers[2].tobytes()


def test_a_root_without_arcs(graph: og.Graph) -> None:
    isolated = int(np.flatnonzero(graph.internal_of() < 0)[0])
    assert og.bfs(graph, isolated, method="edges").reached.sum() == 1


def test_unknown_method(graph: og.Graph) -> None:
    with pytest.raises(UsageError, match="method 'columns': choose rows or edges"):
        og.bfs(graph, 0, method="columns")


def test_many_ranks_are_refused(graph: og.Graph) -> None:
    with pytest.raises(UsageError, match="one rank, and the exchange 'scheduler' spreads"):
        og.sssp(graph, 0, method="edges", exchange="scheduler")
    with pytest.raises(UsageError, match="exchange 'post'"):
        og.sssp(graph, 0, method="edges", exchange="post")


def test_too_little_memory_is_refused_and_rows_need_more(graph: og.Graph) -> None:
    (key,) = og.Kronecker(SCALE).search_keys(1).tolist()
    for kernel in ("bfs", "sssp"):
        needed = edge_list.resident_bytes(graph, kernel)
        search = getattr(og, kernel)
        with pytest.raises(MemoryBudgetError, match="by the method 'edges' needs"):
            search(graph, key, method="edges", memory_limit=needed - 1)
        assert search(graph, key, method="edges", memory_limit=needed).reached.any()
        with pytest.raises(MemoryBudgetError, match="needs"):
            search(graph, key, memory_limit=needed)


def test_negative_weights_are_refused(tmp_path: Path) -> None:
    graph = og.build(
        (np.array([0]), np.array([1]), np.array([-1.0])), tmp_path / "g.zarr", directed=True
    )
    with pytest.raises(NegativeWeightError):
        og.sssp(graph, 0, method="edges")
    with pytest.raises(NegativeWeightError):
        load_edges(graph, weighted=True)


def test_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    graph = og.build(og.Kronecker(8), tmp_path / "g.zarr")
    chunk = graph.path / names.rows_path(0, "out", "light") / "weights" / "c" / "0"
    data = bytearray(chunk.read_bytes())
    data[100] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(CorruptStoreError, match="light/weights"):
        og.sssp(graph, int(og.Kronecker(8).search_keys(1)[0]), method="edges")


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_never_all_in_memory(tmp_path: Path, weighted: bool) -> None:
    graph = og.build(og.Kronecker(14), tmp_path / "g.zarr")
    edges, peak_bytes = in_own_process(grouped_and_peak, tmp_path / "small.zarr", weighted)
    assert edge_bytes(edges) == edge_list_bytes(graph, weighted=weighted)
    assert table_bytes(edges) < grouping_bytes(graph, weighted=weighted) < edge_bytes(edges)
    offsets_bytes = 8 * (graph.rows + 1)
    order = "light" if weighted else "hub"
    assert graph.resident_bytes(order) == 2 * edge_bytes(edges) + offsets_bytes
    assert peak_bytes < most_bytes(edges, graph) < 2 * edge_bytes(edges) + table_bytes(edges)


def most_bytes(edges: GroupedEdges, graph: og.Graph) -> int:
    """What grouped edges, a shard's offsets and some chunks take."""
    return edge_bytes(edges) + table_bytes(edges) + 3 * 8 * (graph.rows + 1) + (1 << 18)


def grouped_and_peak(path: Path, weighted: bool) -> tuple[GroupedEdges, int]:
    """The edges of a graph in small chunks, and what bringing them there holds at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "CHUNK_BYTES", 8192)
        graph = og.build(og.Kronecker(14), path)
        edges = load_edges(graph, weighted=weighted)
        load = partial(load_edges, graph, weighted=weighted)
        return edges, traced_peak(load, most_bytes(edges, graph))


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_command(
    kernel: str,
    graph: og.Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (key,) = og.Kronecker(SCALE).search_keys(1).tolist()
    words = [kernel, graph.path, "--source", key, "--quiet", "--method"]
    done = call(monkeypatch, capsys, *words, "edges", "--out", tmp_path / "edges.zarr")
    assert done.code == 0, done
    getattr(og, kernel)(graph, key, out=tmp_path / "rows.zarr")
    manifests = [(tmp_path / f"{m}.zarr" / "manifest.json").read_bytes() for m in ("edges", "rows")]
    assert manifests[0] == manifests[1]
    refused = call(monkeypatch, capsys, *words, "columns", "--out", tmp_path / "no.zarr")
    assert refused.code == 2
    assert "'columns' is not one of 'rows', 'edges'" in refused.err
    many = [*words, "edges", "--exchange", "scheduler", "--out", tmp_path / "no.zarr"]
    refused = call(monkeypatch, capsys, *many)
    assert refused.code == 2
    assert "searches on one rank" in refused.err
    assert not (tmp_path / "no.zarr").exists()


def test_a_road_network(tmp_path: Path) -> None:
    graph = og.build(need_shared("data/dimacs9-road/rome99.gr"), tmp_path / "g.zarr")
    for kernel in ("bfs", "sssp"):
        same(graph, kernel, 1)
