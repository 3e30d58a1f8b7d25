"""Memory that a process may take by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.runtime import machine
from ooc_graph.runtime.worker_memory import Brought
from ooc_graph.runtime.workplace import OnCluster


def set_free(monkeypatch: pytest.MonkeyPatch, available: int, left: list[int]) -> None:
    monkeypatch.setattr(machine, "_available_bytes", lambda: available)
    monkeypatch.setattr(machine, "free_bytes", lambda: iter(left))


def test_what_is_available_is_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "MemTotal:       100 kB\nMemAvailable:        12 kB\n"
    monkeypatch.setattr(machine, "_content", lambda _: text.encode())
    assert machine._available_bytes() == 12 << 10
    monkeypatch.setattr(machine, "_content", lambda _: b"")
    assert machine._available_bytes() > 1 << 20


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


def test_workers_have_this_version_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = TwoWorkers(Brought(9_000, True), Brought(9_000, True, version="0.0.9"))
    monkeypatch.setattr(Cluster, "of", lambda _: cluster)
    with pytest.raises(UsageError, match=r"worker b has ooc_graph 0\.0\.9, this process has"):
        OnCluster(None)  # type: ignore[arg-type]


class TwoWorkers:
    """A cluster whose workers say what they bring."""

    def __init__(self, *brought: Brought) -> None:
        self._brought = dict(zip("ab", brought, strict=True))

    def look(self) -> dict[str, SimpleNamespace]:
        return {name: SimpleNamespace(host="h", threads=1) for name in self._brought}

    def wait_for_workers(self, choose: Any, *, on_wait: Any) -> dict[str, SimpleNamespace]:
        return {name: self.look()[name] for name in choose(self.look())}

    def asked(self, function: Any, *_: Any, of: list[str]) -> dict[str, Brought]:
        return {name: self._brought[name] for name in of}


@pytest.mark.parametrize(
    ("limit", "is_limit", "each"),
    [(0, True, 0), (6_001, True, 3_000), (None, True, 9_000), (30_000, True, 9_000),
     (30_000, False, 15_000), (None, False, 9_000)],
)  # fmt: skip
def test_a_limit_of_nothing_is_one_for_workers_too(
    limit: int | None, is_limit: bool, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is given is shared; Dask's limits of the workers hold beside it."""
    cluster = TwoWorkers(Brought(9_000, is_limit), Brought(9_000, is_limit))
    monkeypatch.setattr(Cluster, "of", lambda _: cluster)
    place = OnCluster(None, limit)  # type: ignore[arg-type]
    assert (place.limit_bytes, place.resources(on_cpu=True).least_limit_bytes) == (2 * each, each)
