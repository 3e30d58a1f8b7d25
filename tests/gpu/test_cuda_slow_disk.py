"""A disk that is slow shows in the progress of searches on a device; seconds by a test's clock."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.runtime import engine_cache, io_progress
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from tests.gpu import stores
from tests.gpu.searching import columns, search
from tests.said import Said
from tests.slow_disk import of_reading, slow_down

pytestmark = pytest.mark.usefixtures("released")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return stores.kronecker(tmp_path_factory, 15, edge_factor=64)


@pytest.mark.parametrize("seconds", [1.0, 1e-6])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_progress_says_that_the_disk_is_slow(
    kernel: str, seconds: float, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, said = int(graph.original_of()[9]), Said()
    right = columns(search(kernel)(graph, source, device="cpu"))
    budget = cuda_disk.least_device_bytes(graph, kernel) + 8 * graph.rows
    within = {"device": "cuda", "device_memory": budget, "host_memory": 0}
    # Kernels are compiled before reads wait for the search.
    search(kernel)(graph, source, **within)
    engine_cache.release()
    clock = slow_down(monkeypatch, seconds)
    found = search(kernel)(graph, source, progress=said, **within)
    assert columns(found) == right
    assert "bytes of the store for" in said.notes[-1]
    assert io_progress._subscribers == []
    if seconds < 1:
        assert of_reading(said) == []
        return
    assert clock.now_s >= 5, said.notes
    begins = rf"{kernel} from {source}: read [\d,.]+ MB of the store in (\d+) s of reading"
    told = [re.match(begins, note) for note in of_reading(said)]
    assert all(told), said.notes
    assert told[0] is not None
    assert int(told[0][1]) >= 5
    assert 1 <= len(told) <= 2 + np.log2(clock.now_s / 5)
    # Before the search was done.
    assert said.notes.index(of_reading(said)[-1]) < len(said.notes) - 1
    assert any("the disk is slower than expected: it gives " in note for note in of_reading(said))
