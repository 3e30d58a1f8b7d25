"""Paths to vertices, and predecessors, from answers in memory and in stores."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers import paths
from ooc_graph.errors import CorruptStoreError, NoPathError, UnknownVertexError, UsageError
from ooc_graph.layout import metadata

KNOWN_SEED = 3


@pytest.fixture(scope="module")
def edges() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(KNOWN_SEED)
    # Ids with gaps, and two parts that no path joins.
    ends = rng.integers(0, 300, (2, 700)) * 7 + 3
    return (*np.append(ends, [[5000], [5001]], 1), rng.integers(1, 9, 701))


@pytest.fixture(scope="module")
def graph(edges: tuple[np.ndarray, ...]) -> og.Graph:
    return og.from_edges(*edges)


def weights_of(edges: tuple[np.ndarray, ...]) -> dict[tuple[int, int], int]:
    lightest: dict[tuple[int, int], int] = {}
    for u, v, weight in zip(*(column.tolist() for column in edges), strict=True):
        for arc in ((u, v), (v, u)):
            lightest[arc] = min(weight, lightest.get(arc, weight))
    return lightest


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("is_stored", [False, True])
def test_paths_are_the_tree_s(
    kernel: str,
    is_stored: bool,
    graph: og.Graph,
    edges: tuple[np.ndarray, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if is_stored:
        # Many chunks, of which few are kept.
        monkeypatch.setattr(metadata, "chunk_length", lambda *_: 16)
    source, lightest = int(edges[0][0]), weights_of(edges)
    out = {"out": tmp_path / "r.zarr"} if is_stored else {}
    found: Any = getattr(og, kernel)(graph, source, client=False, device="cpu", **out)
    reached = found.vertex[found.reached]
    assert 100 < len(reached) < graph.vertices
    measure = dict(zip(found.vertex.tolist(), found.read(found.measure).tolist(), strict=True))
    for vertex, path in zip(reached.tolist(), found.paths_to(reached), strict=True):
        steps = path.tolist()
        assert (steps[0], steps[-1]) == (source, vertex)
        length = sum(lightest[arc] if kernel == "sssp" else 1 for arc in pairwise(steps))
        assert length == measure[vertex]
    assert found.path_to(int(reached[-1])).dtype == np.int64
    assert found.path_to(source).tolist() == [source]
    pairs = zip(found.vertex.tolist(), found.parent.tolist(), strict=True)
    expected = {vertex: parent for vertex, parent in pairs if parent not in (-1, vertex)}
    predecessors = found.predecessors()
    assert len(predecessors) == len(expected)
    assert dict(predecessors) == expected
    assert source not in predecessors
    assert 5000 not in predecessors
    with pytest.raises(NoPathError, match="vertex 5000 was not reached: there is no path"):
        found.path_to(5000)
    with pytest.raises(UnknownVertexError, match="vertex 4 is not in the graph"):
        found.paths_to([source, 4])
    for no_id in ("3", True):
        with pytest.raises(UsageError, match="give a list of vertex ids"):
            found.path_to(no_id)


def test_ids_without_gaps_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "chunk_length", lambda *_: 4)
    line = og.from_edges(np.arange(40), np.arange(1, 41))
    found = og.bfs(line, 40, out=tmp_path / "r.zarr", client=False, device="cpu")
    read: list[str] = []
    plain = paths.InStore._read

    def counted(self: paths.InStore, name: str, index: int) -> np.ndarray:
        read.append(name)
        return plain(self, name, index)

    monkeypatch.setattr(paths.InStore, "_read", counted)
    assert found.path_to(2).tolist() == list(range(40, 1, -1))
    # Parents once each, from the last to that of the vertex; ids at both ends alone.
    assert read.count("parent") == 11
    assert read.count("vertex") <= 4


def test_an_answer_in_memory_makes_no_other_column(graph: og.Graph, edges: Any) -> None:
    found = og.sssp(graph, int(edges[0][0]), client=False, device="cpu")
    found.path_to(int(edges[0][0]))
    assert "distance" in found.columns._left


def test_parents_in_a_circle_are_damage() -> None:
    ids = np.arange(3)
    with pytest.raises(CorruptStoreError, match="circle"):
        paths.paths_to(paths.InMemory(ids, np.array([0, 2, 1])), np.array([1]))
    with pytest.raises(CorruptStoreError, match="vertex 2 is a parent"):
        paths.paths_to(paths.InMemory(ids, np.array([0, 2, -1])), np.array([1]))
