"""`cutoff=` and `targets=`: the same answer whatever stopped early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.within import Within, is_reached
from ooc_graph.errors import InputError, UsageError
from ooc_graph.kernels.cpu.bfs.search import CpuBfsSearch
from tests.local_ranks import by_ranks

KNOWN_SEED = 5
CLIENT = {"client": False, "device": "cpu"}


def random_edges(vertices: int, edges: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(KNOWN_SEED)
    return (*rng.integers(0, vertices, (2, edges)), rng.integers(0, 9, edges).astype(np.float32))


def grid_edges(side: int) -> tuple[np.ndarray, ...]:
    """A grid, which is searched from a list of vertices, level by level."""
    at = np.arange(side * side).reshape(side, side)
    source = np.append(at[:, :-1], at[:-1])
    target = np.append(at[:, 1:], at[1:])
    return source, target, np.ones(len(source), np.float32)


GRAPHS = {
    "random": random_edges(3000, 6000),
    "grid": grid_edges(60),
    "dense": random_edges(200, 9000),
}


@pytest.fixture(scope="module", params=list(GRAPHS))
def graph(request: pytest.FixtureRequest) -> og.Graph:
    # Vertices without edges as well.
    return og.from_edges(*GRAPHS[request.param], vertices=3700)


def truncated(whole: Any, limit: float | None) -> dict[str, np.ndarray]:
    """What is left of an answer if nothing beyond the limit counts."""
    measure, parent = whole.read(whole.measure).copy(), whole.parent.copy()
    if limit is not None:
        beyond = is_reached(measure) & (measure > limit)
        parent[beyond] = -1
        measure[beyond] = -1 if whole.measure == "level" else np.inf
    return {"vertex": whole.vertex, "parent": parent, whole.measure: measure}


def same(found: Any, expected: dict[str, np.ndarray]) -> None:
    for name, column in expected.items():
        assert found.read(name).dtype == column.dtype
        assert found.read(name).tobytes() == column.tobytes(), name


def limit_by(whole: Any, targets: list[int]) -> float | None:
    measure = whole.read(whole.measure)[np.searchsorted(whole.vertex, targets)]
    return measure.max().item() if is_reached(measure).all() else None


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("method", ["rows", "edges"])
def test_limits_in_memory(kernel: str, method: str, graph: og.Graph) -> None:
    source = 7
    search: Any = getattr(og, kernel)
    whole = search(graph, source, **CLIENT)
    assert whole.limit is None
    measure = whole.read(whole.measure)
    farthest = measure[is_reached(measure)].max().item()
    for cutoff in (0, 1, 2.5, farthest, farthest + 1):
        found = search(graph, source, cutoff=cutoff, method=method, **CLIENT)
        same(found, truncated(whole, cutoff))
    near = whole.vertex[is_reached(measure) & (measure <= 3)].tolist()
    isolated = 3699
    for targets in ([source], near[:3], near, [near[-1], isolated]):
        found = search(graph, source, targets=targets, method=method, **CLIENT)
        same(found, truncated(whole, limit_by(whole, targets)))
        assert found.limit == limit_by(whole, targets)
    both = search(graph, source, targets=near, cutoff=1, method=method, **CLIENT)
    same(both, truncated(whole, 1))


def test_a_bfs_in_memory_ends_early(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[int] = []
    plain = CpuBfsSearch.run

    def counted(self: CpuBfsSearch, *given: Any) -> Any:
        found = plain(self, *given)
        levels.append(len(found.level_vertices))
        assert found.level.max() == levels[-1] - 1
        return found

    monkeypatch.setattr(CpuBfsSearch, "run", counted)
    whole = og.bfs(graph, 7, **CLIENT)
    neighbor = int(whole.vertex[whole.level == 1][0])
    og.bfs(graph, 7, cutoff=1, **CLIENT)
    og.bfs(graph, 7, targets=[neighbor], **CLIENT)
    og.bfs(graph, 7, cutoff=0, **CLIENT)
    og.bfs(graph, 7, targets=[7], **CLIENT)
    assert levels[1:] == [2, 2, 1, 1]
    assert levels[0] > 2


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_stored_answers_say_their_limit_and_are_not_validated(kernel: str, tmp_path: Path) -> None:
    edges = GRAPHS["random"]
    built = og.build(edges, tmp_path / "g.zarr", directed=False, shards=2, **CLIENT)
    search: Any = getattr(og, kernel)
    whole = search(built, 7, **CLIENT)
    found = search(built, 7, cutoff=2, out=tmp_path / "r.zarr", **CLIENT)
    same(found, truncated(whole, 2))
    opened: Any = og.Result.open(tmp_path / "r.zarr")
    assert opened.limit == 2
    for answer, given in ((built, opened), (built, found), (found, (edges))):
        with pytest.raises(UsageError, match="has nothing that is farther than 2"):
            og.validate(answer, given)
    targets = whole.vertex[whole.reached][:5]
    by_one = search(built, 7, targets=targets, **CLIENT)
    same(by_one, truncated(whole, limit_by(whole, targets.tolist())))
    positions = np.searchsorted(whole.vertex, targets)
    same(by_ranks(built, kernel, 7, within=Within(None, positions)), dict(by_one.columns))
    several = search(built, [7, 8], cutoff=2, out=tmp_path / "several", **CLIENT)
    same(several[0], truncated(whole, 2))
    with pytest.raises(og.errors.OutputExistsError, match="another cutoff"):
        search(built, [7, 8], cutoff=3, out=tmp_path / "several", **CLIENT)
    with pytest.raises(og.errors.OutputExistsError, match="another cutoff"):
        search(built, [7, 8], out=tmp_path / "several", **CLIENT)


def test_a_root_without_edges_reaches_itself_alone() -> None:
    graph = og.from_edges([0], [1], [1.0], vertices=4)
    for search in (og.bfs, og.sssp):
        found = search(graph, 3, cutoff=1, targets=[3], **CLIENT)
        assert found.parent.tolist() == [-1, -1, -1, 3]
        assert found.limit == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cutoff": -1}, "cutoff -1: give a finite number, 0 or more"),
        ({"cutoff": "far"}, "cutoff 'far': give a finite number"),
        ({"cutoff": float("inf")}, "cutoff inf: give a finite number"),
        ({"cutoff": 1, "arrays": "cupy"}, "leave arrays='cupy' out"),
    ],
)
def test_refusals(given: dict[str, Any], said: str) -> None:
    graph = og.from_edges([0], [1])
    with pytest.raises(UsageError, match=said):
        og.bfs(graph, 0, **{"client": False, **given})
    with pytest.raises(InputError, match="vertex 9 is not in "):
        og.bfs(graph, 0, targets=[9], client=False)


def test_limits_of_integers_and_floats() -> None:
    assert Within(2.9).limit_of(np.empty(0, np.int64)) == 2
    assert Within(1e300).limit_of(np.empty(0, np.int32)) == np.iinfo(np.int32).max
    assert Within(None, np.array([0])).limit_of(np.array([np.inf], np.float32)) is None
