"""Memory that a process may take by itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.session import machine
from ooc_graph.session.place import OnCluster


def set_free(monkeypatch: pytest.MonkeyPatch, available: int, left: list[int]) -> None:
    monkeypatch.setattr(
        machine.psutil, "virtual_memory", lambda: SimpleNamespace(available=available)
    )
    monkeypatch.setattr(machine.control_groups, "free_bytes", lambda: iter(left))


@pytest.mark.parametrize(
    ("left", "expected"),
    [([], 8000), ([5000], 4000), ([20_000], 8000), ([20_000, 6000, 7000], 4800), ([5000, 0], 0)],
)
def test_default_limit_heeds_those_groups_that_there_are(
    left: list[int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_free(monkeypatch, 10_000, left)
    assert machine.default_limit_bytes() == expected


def test_where_a_group_has_nothing_left_work_is_refused(tmp_path, monkeypatch) -> None:
    edges = (np.array([0, 1]), np.array([1, 2]), np.array([3, 4]))
    graph = og.build(edges, tmp_path / "g.zarr")
    before = sorted(tmp_path.iterdir())
    set_free(monkeypatch, 1 << 40, [0])
    with pytest.raises(MemoryBudgetError, match="memory limit of 0 bytes is too small"):
        og.build(edges, tmp_path / "other.zarr", device="cpu")
    for search, sources in ((og.bfs, 0), (og.sssp, 0), (og.johnson, [0])):
        with pytest.raises(MemoryBudgetError, match=r" 0\b"):
            search(graph, sources, device="cpu")
    with pytest.raises(MemoryBudgetError):
        og.components(graph)
    with pytest.raises(MemoryBudgetError):
        og.plan(graph)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("limit", "each"), [(0, 0), (6_001, 3_000), (None, 9_000)])
def test_a_limit_of_nothing_is_one_for_workers_too(
    limit: int | None, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = {name: {"memory_limit": 10_000} for name in "ab"}
    monkeypatch.setattr(OnCluster, "_workers", lambda _: workers)
    place = OnCluster(SimpleNamespace(asynchronous=False), limit)  # type: ignore[arg-type]
    assert (place.limit_bytes, place.least_limit_bytes) == (2 * each, each)
