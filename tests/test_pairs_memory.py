"""Memory of many sources: numbers that are written, and what a process has from the call before."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cpu.many import choice as many_choice
from ooc_graph.runtime import engine_cache
from tests.memory_limits import held_within_least, least_limit
from tests.own_process import in_own_process
from tests.said import Said


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    yield
    engine_cache.release()


@pytest.mark.slow
def test_numbers_that_are_written_are_part_of_the_plan(tmp_path: Path) -> None:
    columns, limit, peak = in_own_process(held_with_what_is_written, tmp_path / "d.zarr")
    assert columns < peak <= limit
    found = og.Result.open(tmp_path / "d.zarr")
    assert found.read("histogram").sum(axis=1).tolist() == found.read("reached").tolist()


def held_with_what_is_written(out: Path) -> tuple[int, int, int]:
    """Bytes of all numbers, the least limit, and what a search within it holds at once."""
    u, v = np.random.default_rng(8).integers(0, 3000, (2, 6000))
    graph = og.from_edges(u, v, directed=True)
    search = partial(og.multi_source_bfs, graph, device="cpu", out=out)
    search = partial(search, reduce="histogram", bins=700, overwrite=True)
    columns = graph.vertices * 701 * 8
    return columns, *held_within_least(search, columns)


@pytest.mark.parametrize("hops", [False, True])
def test_what_is_held_does_not_count_against_the_next_call(
    monkeypatch: pytest.MonkeyPatch, hops: bool
) -> None:
    random = np.random.default_rng(8)
    u, v = random.integers(0, 2000, (2, 30_000))
    graph = og.from_edges(u, v, random.integers(1, 50, len(u)), directed=True)
    find: Any = og.multi_source_bfs if hops else og.johnson
    search = partial(find, graph, graph.original_ids()[:20], reduce="sum", device="cpu")
    free = least_limit(search, 10_000)
    monkeypatch.setattr("ooc_graph.runtime.this_process.default_limit_bytes", lambda: free)
    wanted = search().read("sum").tolist()
    # Rows of a graph in memory are not free in any call; here they are taken for a store's.
    free -= graph.resident_bytes("hub" if hops else "light")
    assert search().read("sum").tolist() == wanted
    engine_cache.release()
    with pytest.raises(MemoryBudgetError, match="in one worker"):
        search()


@pytest.mark.parametrize("hops", [False, True])
def test_searches_one_by_one_are_told(monkeypatch: pytest.MonkeyPatch, hops: bool) -> None:
    monkeypatch.setattr(many_choice, "CACHED_BYTES", 0)
    at = np.arange(3000)
    thin = og.from_edges(at, at + 1, np.ones_like(at))
    dense = og.from_edges(*np.triu_indices(60, 1), np.ones(1770, np.int64))
    find: Any = og.multi_source_bfs if hops else og.johnson
    for graph, told in (
        (thin, ["sources were searched from one by one, by every thread"]),
        (dense, []),
    ):
        said = Said()
        find(graph, graph.original_ids()[::7], reduce="sum", device="cpu", progress=said)
        assert said.notes == told
