"""Searches on a device that are refused host memory end with the same bytes, and say so.

`tests.unit.test_tier_memory.Scarce` says which allocations are refused, and which are not.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ooc_graph as og
from ooc_graph.answers import scatter
from ooc_graph.kernels import (
    cuda_disk_bfs,
    cuda_disk_heads,
    cuda_disk_parents,
    cuda_disk_rows,
    cuda_disk_state,
    disk_bfs_search,
    tier_rows,
    tier_sssp_search,
)
from ooc_graph.kernels import cuda_disk_sssp as cuda_disk_sssp_search
from ooc_graph.memory import disk
from ooc_graph.session import resident
from ooc_graph.shards import cuda_disk_sssp, device_sides, device_tiers, load, row_loader
from ooc_graph.shards import tiers as shard_tiers
from tests.gpu.test_cuda_refused import BEGUN, built, columns, has_begun, hub, wanted
from tests.gpu.test_cuda_session import search
from tests.said import Said
from tests.unit.test_tier_memory import Scarce

LEAST_PLACES = 5
# Where the host's part allocates, once it is known which way a search goes.
ALLOCATE = (
    *(disk, shard_tiers, device_sides, device_tiers, load, row_loader, scatter, tier_rows),
    cuda_disk_sssp,
    *(disk_bfs_search, tier_sssp_search, cuda_disk_sssp_search, cuda_disk_bfs),
    *(cuda_disk_heads, cuda_disk_parents, cuda_disk_rows, cuda_disk_state),
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return built(tmp_path_factory)


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    resident.release()
    yield
    resident.release()


@pytest.mark.parametrize("begun", BEGUN)
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_host_memory_refused_at_any_allocation_is_done_without(
    kernel: str, begun: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = hub(graph)
    options = wanted(graph, kernel, begun, "numpy", monkeypatch)
    right = columns(search(kernel)(graph, root, device="cpu"), "numpy")
    # What is compiled, and remembered of a graph, is so without what stands in for numpy.
    with monkeypatch.context() as patch:
        least = wanted(graph, kernel, "in the store", "numpy", patch)
        search(kernel)(graph, root, **{**least, "host_memory": 0})
    search(kernel)(graph, root, **options)
    scarce = Scarce()
    for module in ALLOCATE:
        monkeypatch.setattr(module, "np", scarce)
    while True:
        resident.release()
        scarce.has_refused, said = False, Said()
        found = search(kernel)(graph, root, progress=said, **options)
        assert columns(found, "numpy") == right
        if not scarce.has_refused:
            break
        assert any("memory" in note and "refused" in note for note in said.notes), said.notes
    assert has_begun(begun, said.notes)
    assert len(scarce.places) > LEAST_PLACES
