"""Which way a search goes where its rows fit memory barely, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.session import choice, place, tiers
from tests.command_line import call

KERNELS = ("bfs", "sssp")


@pytest.fixture(scope="module")
def path_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of short rows, of which a search in memory keeps copies."""
    path = tmp_path_factory.mktemp("path") / "g.zarr"
    count = 400_000
    edges = np.arange(count), np.arange(1, count + 1), np.ones(count, np.float32)
    og.build(edges, path)
    return path


class Workers(place.Planned):
    """Workers of a cluster, each of which has as much memory."""

    def __init__(self, limit_bytes: int, processes: int = 1) -> None:
        super().__init__(limit_bytes)
        self.processes = processes


def test_one_worker_has_tiers_rather_than_ranks(path_graph, monkeypatch, capsys):
    graph = og.open(path_graph)
    least, whole = tiers.least_within(graph, "sssp"), choice.resident_bytes(graph, "sssp")
    ranks = choice.ranks_bytes(graph, "sssp", Workers(whole))
    assert max(least, ranks) < whole - 1
    words = ("plan", path_graph, "--kernel", "sssp", "--memory-limit")
    for limit in (max(least, ranks), whole - 1):
        way = choice.choose(graph, "sssp", Workers(limit), tiers=True)
        assert (way.exchange, way.budget_bytes) == ("one", limit)
        told = call(monkeypatch, capsys, *words, limit, "--json")
        assert json.loads(told.out)["tier"] == "disk"
        assert choice.choose(graph, "sssp", Workers(limit)).exchange == "scheduler"
        assert choice.choose(graph, "sssp", Workers(limit, 2), tiers=True).exchange == "scheduler"


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_least_that_is_told_is_the_least_of_all_ways(kernel, path_graph, monkeypatch, capsys):
    graph = og.open(path_graph)
    worker = Workers(1)
    ways = (
        tiers.least_within(graph, kernel),
        choice.resident_bytes(graph, kernel),
        choice.ranks_bytes(graph, kernel, worker),
    )
    with pytest.raises(MemoryBudgetError, match=f"needs at least {min(ways):,} bytes"):
        choice.choose(graph, kernel, worker, tiers=True)
    words = ("plan", path_graph, "--kernel", kernel, "--memory-limit")
    refused = call(monkeypatch, capsys, *words, min(ways) - 1)
    assert (refused.code, refused.out) == (2, "")
    assert f"needs at least {min(ways):,} bytes" in refused.err
    facts = json.loads(call(monkeypatch, capsys, *words, min(ways), "--json").out)
    assert facts["bytes: in all"] == min(ways)


def test_memory_refused_is_not_tried_with_more(path_graph):
    graph = og.open(path_graph)
    least = tiers.least_within(graph, "bfs")
    with pytest.raises(MemoryBudgetError, match=f"needs {least - 1:,} bytes at least .* refuses"):
        tiers.smaller_budget(graph, "bfs", least - 1, 0)
    assert tiers.smaller_budget(graph, "bfs", least + 1, 0) == least
