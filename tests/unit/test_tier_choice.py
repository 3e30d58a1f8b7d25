"""Which way a search goes where its rows fit memory barely, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cpu.sssp.near_far_search import CpuNearFarSearch
from ooc_graph.model.request import Job, Request
from ooc_graph.model.reservation import HOST, Refusal, Reservation
from ooc_graph.model.resources import Resources
from ooc_graph.runtime import engine_cache, this_process
from ooc_graph.sinks.single import NUMPY, answer_bytes
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cpu import owned
from ooc_graph.strategies.cpu.in_memory import resident_bytes
from ooc_graph.strategies.ranks import ranks_bytes
from tests.command_line import call
from tests.made_up_place import chosen

KERNELS = ("bfs", "sssp")


@pytest.fixture(scope="module")
def path_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of short rows, of which a search in memory keeps copies."""
    path = tmp_path_factory.mktemp("path") / "g.zarr"
    count = 400_000
    edges = np.arange(count), np.arange(1, count + 1), np.ones(count, np.float32)
    og.build(edges, path, directed=True)
    return path


def workers_with(limit_bytes: int, processes: int = 1) -> Resources:
    """Workers of a cluster, each of which has as much memory."""
    return replace(this_process.planned(limit_bytes), processes=processes)


def test_one_worker_has_tiers_rather_than_ranks(path_graph, monkeypatch, capsys):
    graph = og.open(path_graph)
    least = cpu_disk.least_within(graph, "sssp")
    bare = resident_bytes(graph, "sssp", copies=False)
    assert least < bare - 1
    words = ("plan", path_graph, "--kernel", "sssp", "--memory-limit")
    for limit in (least, bare - 1):
        assert chosen(graph, "sssp", workers_with(limit)) == Reservation("cpu/disk", limit)
        told = call(monkeypatch, capsys, *words, limit, "--json")
        assert json.loads(told.out)["tier"] == "disk"


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_that_fit_once_are_kept_once(kernel, path_graph, monkeypatch, capsys, tmp_path):
    """Short rows have another form besides only where there is room for it."""
    graph = og.open(path_graph)
    bare, whole = (resident_bytes(graph, kernel, copies=copies) for copies in (False, True))
    assert bare < whole
    words = ("plan", path_graph, "--kernel", kernel, "--memory-limit")
    wanted = getattr(og, kernel)(graph, 7, device="cpu")
    for limit, copies in ((whole, True), (whole - 1, False), (bare, False)):
        for workers in (1, 2):
            held = Reservation("cpu/memory", whole if copies else bare, copies=copies)
            assert chosen(graph, kernel, workers_with(limit, workers)) == held
        told = json.loads(call(monkeypatch, capsys, *words, limit, "--json").out)
        assert (told["tier"], told["bytes: in all"]) == ("memory", whole if copies else bare)
        assert (told["bytes: rows in another form"] > 0) == copies
        beside = limit + answer_bytes(graph, kernel, NUMPY)
        found = getattr(og, kernel)(graph, 7, device="cpu", memory_limit=beside)
        with engine_cache._lock:
            held = list(engine_cache._engines.values())[-1]
        if kernel == "bfs":
            assert (len(held.search._list[0].fixed) > 0) == copies
        else:
            assert isinstance(held.search, CpuNearFarSearch) == copies
        assert found.parent.tobytes() == wanted.parent.tobytes()


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_least_that_is_told_is_the_least_of_all_ways(kernel, path_graph, monkeypatch, capsys):
    graph = og.open(path_graph)
    worker = workers_with(1)
    ways = (
        cpu_disk.least_within(graph, kernel),
        resident_bytes(graph, kernel, copies=False),
        ranks_bytes(Job(graph, Request(kernel), worker)),
    )
    with pytest.raises(MemoryBudgetError, match=f"needs at least {min(ways):,} bytes"):
        chosen(graph, kernel, worker)
    words = ("plan", path_graph, "--kernel", kernel, "--memory-limit")
    refused = call(monkeypatch, capsys, *words, min(ways) - 1)
    assert (refused.code, refused.out) == (2, "")
    assert f"needs at least {min(ways):,} bytes" in refused.err
    facts = json.loads(call(monkeypatch, capsys, *words, min(ways), "--json").out)
    assert facts["bytes: in all"] == min(ways)


def test_memory_refused_is_not_tried_with_more(path_graph):
    graph = og.open(path_graph)
    least = cpu_disk.least_within(graph, "bfs")
    strategy = cpu_disk.OnDisk()

    def after(budget_bytes: int) -> Reservation | None:
        refusal = Refusal(Reservation(strategy.name, budget_bytes), HOST, "refused")
        return strategy.after(Job(graph, Request("bfs"), workers_with(least)), refusal)

    with pytest.raises(MemoryBudgetError, match=f"needs {least:,} bytes at least .* refuses"):
        after(least)
    assert after(least + 1) == Reservation(strategy.name, least)


def test_a_large_worker_leaves_arcs_in_the_store_beside_a_small_one(path_graph):
    """Ranks need the small one, whose memory does not matter to a search by one process."""
    graph = og.open(path_graph)
    least, ranks = cpu_disk.least_within(graph, "sssp"), resident_bytes(graph, "sssp", copies=False)
    two = workers_with(ranks - 1, 2)
    small = replace(two, least_limit_bytes=owned.least_bytes(Job(graph, Request("sssp"), two)) - 1)
    assert least < ranks - 1
    assert chosen(graph, "sssp", small) == Reservation("cpu/disk", ranks - 1)


def test_components_use_rows_that_are_loaded(path_graph):
    graph = og.open(path_graph)
    og.components(graph, device="cpu")
    free = replace(workers_with(1), is_limited=False)
    assert chosen(graph, "components", free).strategy == "cpu/memory"
    engine_cache.release()
    with pytest.raises(MemoryBudgetError, match="needs at least"):
        chosen(graph, "components", free)
