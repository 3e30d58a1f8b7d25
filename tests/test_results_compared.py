"""Results are equal if their answers are, and hash, pickle, show themselves; graphs are freed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.runtime import engine_cache

EDGES = np.array([0, 1, 2, 2]), np.array([1, 2, 3, 0]), np.array([1.0, 2.0, 1.0, 5.0])
CLIENT = {"client": False, "device": "cpu"}
SEARCHES: dict[str, Callable[..., Any]] = {
    "bfs": lambda graph, **to: og.bfs(graph, 0, **to),
    "sssp": lambda graph, **to: og.sssp(graph, 0, **to),
    "seeds": lambda graph, **to: og.bfs(graph, sources=[0, 3], **to),
    "components": og.components,
    "pairs": og.johnson,
    "levels": lambda graph, **to: og.multi_source_bfs(graph, [0, 3], **to),
    "reduced": lambda graph, **to: og.johnson(graph, reduce="closeness", **to),
}


@pytest.fixture(scope="module")
def graph() -> og.Graph:
    return og.from_edges(*EDGES, vertices=5)


@pytest.mark.parametrize("kind", SEARCHES)
def test_equal_answers_are_equal_wherever_they_are(
    kind: str, graph: og.Graph, tmp_path: Path
) -> None:
    search = SEARCHES[kind]
    one, again = search(graph, **CLIENT), search(graph, **CLIENT)
    stored = search(graph, out=tmp_path / "r.zarr", **CLIENT)
    opened = og.Result.open(tmp_path / "r.zarr")
    copies = [pickle.loads(pickle.dumps(found)) for found in (one, stored)]
    for other in (again, stored, opened, *copies):
        assert one == other
        assert hash(one) == hash(other)
    assert copies[0].info == one.info
    assert len({one, again, stored, opened}) == 1
    different = og.from_edges(EDGES[0], EDGES[1][::-1], EDGES[2], vertices=5)
    assert one != search(different, **CLIENT)
    assert one != "an answer"


def test_what_is_asked_tells_answers_apart(graph: og.Graph) -> None:
    whole = og.bfs(graph, 0, **CLIENT)
    assert whole != og.bfs(graph, 1, **CLIENT)
    assert whole != og.bfs(graph, 0, cutoff=1, **CLIENT)
    assert whole != og.sssp(graph, 0, **CLIENT)
    changed = pickle.loads(pickle.dumps(whole))
    changed.columns["level"][3] += 1
    assert whole != changed
    assert hash(whole) == hash(changed)


@pytest.mark.parametrize("kind", SEARCHES)
def test_results_show_figures(kind: str, graph: og.Graph, tmp_path: Path) -> None:
    found = SEARCHES[kind](graph, **CLIENT)
    stored = SEARCHES[kind](graph, out=tmp_path / "a<b>.zarr", **CLIENT)
    name = type(found).__name__
    assert repr(found).startswith(f"<{name}")
    assert "in memory, found in " in repr(found)
    assert "a<b>.zarr" in repr(stored)
    for shown in (found._repr_html_(), stored._repr_html_()):
        assert shown.startswith(f"<table><caption>{name}</caption>")
        assert "cpu/memory" in shown or "batches" in shown
    assert "a&lt;b&gt;.zarr" in stored._repr_html_()


def test_repr_makes_no_column(graph: og.Graph) -> None:
    found = og.bfs(graph, 0, **CLIENT)
    assert "5 vertices" in repr(found)
    assert hash(found) == hash(found)
    assert found.columns._left == {"vertex", "parent", "level"}


def test_answers_of_several_sources(graph: og.Graph, tmp_path: Path) -> None:
    one = og.bfs(graph, [0, 3], out=tmp_path / "one", **CLIENT)
    two = og.bfs(graph, [0, 3], out=tmp_path / "two", **CLIENT)
    assert one == two
    assert hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != og.bfs(graph, [0], out=tmp_path / "three", **CLIENT)
    assert "<td" in one._repr_html_()
    assert "from 2 sources" in repr(one)


def test_graphs_show_figures_and_hash(graph: og.Graph) -> None:
    assert "5 vertices" in repr(graph)
    assert "undirected" in graph._repr_html_()
    assert len({graph, graph}) == 1


def test_a_graph_is_freed_at_the_end_of_its_with(tmp_path: Path) -> None:
    built = og.build(EDGES, tmp_path / "g.zarr", directed=False, **CLIENT)
    other = og.from_edges([0], [1])
    with og.open(built.path) as graph:
        found = og.bfs(graph, 0, **CLIENT)
        og.bfs(other, 0, **CLIENT)
        assert {kept.key.path for kept in engine_cache._engines} == {
            str(graph.path),
            str(other.path),
        }
    assert {kept.key.path for kept in engine_cache._engines} == {str(other.path)}
    assert found.level.tolist() == [0, 1, 1, 2]
    assert hash(built) == hash(graph)
    og.release(client=False)
    assert not engine_cache.keeps_any()
    assert og.bfs(other, 0, **CLIENT).level.tolist() == [0, 1]
