"""One search from several vertices: the nearest of them, and the path from it."""

from __future__ import annotations

import heapq
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import InputError, OutputExistsError, UsageError

KNOWN_SEED = 8
CLIENT = {"client": False, "device": "cpu"}
SEEDS = [90, 7, 40]


@pytest.fixture(scope="module")
def edges() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(KNOWN_SEED)
    return (*rng.integers(0, 400, (2, 600)), rng.integers(0, 5, 600))


@pytest.fixture(scope="module")
def graph(edges: tuple[np.ndarray, ...]) -> og.Graph:
    return og.from_edges(*edges, vertices=405)


def nearest_by_heap(
    edges: tuple[np.ndarray, ...], seeds: list[int], *, is_weighted: bool
) -> dict[int, tuple[int, int]]:
    """Distance to the nearest seed, and its id, of each vertex that one reaches: Dijkstra's."""
    arcs: dict[int, list[tuple[int, int]]] = {}
    for u, v, weight in zip(*(column.tolist() for column in edges), strict=True):
        length = weight if is_weighted else 1
        arcs.setdefault(u, []).append((v, length))
        arcs.setdefault(v, []).append((u, length))
    best: dict[int, tuple[int, int]] = {}
    waiting = [((0, seed), seed) for seed in seeds]
    while waiting:
        (distance, seed), vertex = heapq.heappop(waiting)
        if vertex in best:
            continue
        best[vertex] = distance, seed
        for other, length in arcs.get(vertex, []):
            heapq.heappush(waiting, ((distance + length, seed), other))
    return best


def require_right(found: Any, edges: Any, limit: float = np.inf) -> None:
    best = nearest_by_heap(edges, SEEDS, is_weighted=found.measure == "distance")
    best = {vertex: one for vertex, one in best.items() if one[0] <= limit}
    columns = found.vertex, found.read(found.measure), found.nearest, found.parent
    reached = found.reached
    for vertex, measure, nearest, parent in zip(*(c[reached].tolist() for c in columns)):  # noqa: B905
        assert best.pop(vertex) == (measure, nearest)
        path = found.path_to(vertex).tolist()
        assert path[0] == nearest
        assert path[-2:] == ([parent, vertex] if parent != vertex else [vertex])
    assert best == {}
    assert set(found.nearest[~reached].tolist()) == {-1}


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_nearest_source_of_each_vertex(
    kernel: str, graph: og.Graph, edges: tuple[np.ndarray, ...]
) -> None:
    search: Any = getattr(og, kernel)
    found = search(graph, sources=SEEDS, **CLIENT)
    assert (found.root, found.sources) == (7, (7, 40, 90))
    assert "Result sources=[7, 40, 90]: 405 vertices" in repr(found)
    require_right(found, edges)
    assert found.names[-1] == "nearest"
    assert not set(SEEDS) & set(found.predecessors())
    near = search(graph, sources=SEEDS, cutoff=2, **CLIENT)
    require_right(near, edges, 2)
    target = int(found.vertex[found.read(found.measure) == 3][0])
    aimed = search(graph, sources=SEEDS, targets=[target, 7], **CLIENT)
    assert aimed.limit == 3
    require_right(aimed, edges, 3)
    one = search(graph, sources=[7], **CLIENT)
    alone = search(graph, 7, **CLIENT)
    for name in alone.names:
        assert one.read(name).tobytes() == alone.read(name).tobytes()
    assert alone.nearest.tobytes() == one.nearest.tobytes()
    assert "nearest" not in alone.names


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_written_answers_and_arrays_of_the_caller(
    kernel: str, graph: og.Graph, tmp_path: Path
) -> None:
    search: Any = getattr(og, kernel)
    whole = search(graph, sources=SEEDS, **CLIENT)
    written = search(graph, sources=SEEDS, out=tmp_path / "r.zarr", **CLIENT)
    opened: Any = og.Result.open(tmp_path / "r.zarr")
    parent = np.empty(graph.vertices, np.int64)
    given = search(graph, sources=SEEDS, into={"parent": parent}, **CLIENT)
    for found in (written, opened, given):
        assert found.sources == whole.sources
        for name in whole.names:
            assert found.read(name).tobytes() == whole.read(name).tobytes(), name
    assert parent.tobytes() == whole.parent.tobytes()
    with pytest.raises(OutputExistsError):
        search(graph, sources=SEEDS, out=tmp_path / "r.zarr", **CLIENT)
    with pytest.raises(UsageError, match="several sources at once"):
        og.validate(graph, opened)
    pytest.importorskip("pandas", reason="frames are pandas'")
    assert list(opened.to_frame().columns) == ["vertex", "distance", "predecessor", "nearest"]


def test_refusals(graph: og.Graph) -> None:
    with pytest.raises(UsageError, match="leave source= and arrays= out"):
        og.bfs(graph, 7, sources=[7], client=False)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="given twice"):
        og.bfs(graph, sources=[7, 7], client=False)
    with pytest.raises(UsageError, match="give one vertex id"):
        og.bfs(graph, client=False)  # type: ignore[call-overload]


def test_the_nearest_seed_is_the_one_that_parents_lead_to() -> None:
    """Though rounded sums are equal where those at the parent differ."""
    weight = np.array([1 + 2**-23, 1, 1e9], np.float32)
    graph = og.from_edges(np.array([0, 1, 2]), np.array([2, 2, 3]), weight)
    found = og.sssp(graph, sources=[0, 1])
    assert found.path_to(3).tolist() == [1, 2, 3]
    assert found.nearest.tolist() == [0, 1, 1, 1]
