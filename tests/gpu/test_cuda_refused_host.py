"""Searches on a device that are refused host memory end with the same bytes, and say so.

`tests.unit.test_tier_memory.Scarce` says which allocations are refused, and which are not.
"""

from __future__ import annotations

import pytest

import ooc_graph as og
from ooc_graph.answers import scatter
from ooc_graph.kernels.common.store import rows as tier_rows
from ooc_graph.kernels.cpu.store import sssp_search as tier_sssp_search
from ooc_graph.kernels.cuda.store import bfs as cuda_disk_bfs
from ooc_graph.kernels.cuda.store import bfs_search as disk_bfs_search
from ooc_graph.kernels.cuda.store import heads as cuda_disk_heads
from ooc_graph.kernels.cuda.store import rows as cuda_disk_rows
from ooc_graph.kernels.cuda.store import sssp as cuda_disk_sssp_search
from ooc_graph.kernels.cuda.store import sssp_parents as cuda_disk_parents
from ooc_graph.kernels.cuda.store import sssp_state as cuda_disk_state
from ooc_graph.memory.cpu import disk
from ooc_graph.runtime import engine_cache
from ooc_graph.shards import cuda_disk_sssp, device_tiers, load, row_loader
from ooc_graph.shards import tiers as shard_tiers
from tests.gpu.refusals import BEGUN, columns, has_begun, wanted
from tests.gpu.searching import hub, search
from tests.said import Said
from tests.unit.test_tier_memory import Scarce

pytestmark = pytest.mark.usefixtures("released")
LEAST_PLACES = 2
# Where the host's part allocates, once it is known which way a search goes.
ALLOCATE = (
    *(disk, shard_tiers, device_tiers, load, row_loader, scatter, tier_rows),
    cuda_disk_sssp,
    *(disk_bfs_search, tier_sssp_search, cuda_disk_sssp_search, cuda_disk_bfs),
    *(cuda_disk_heads, cuda_disk_parents, cuda_disk_rows, cuda_disk_state),
)


@pytest.mark.parametrize("begun", BEGUN)
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_host_memory_refused_at_any_allocation_is_done_without(
    kernel: str, begun: str, small_store: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = hub(small_store)
    options = wanted(small_store, kernel, begun, "numpy", monkeypatch)
    right = columns(search(kernel)(small_store, root, device="cpu"), "numpy")
    # What is compiled, and remembered of a graph, is so without what stands in for numpy.
    with monkeypatch.context() as patch:
        least = wanted(small_store, kernel, "in the store", "numpy", patch)
        search(kernel)(small_store, root, **{**least, "host_memory": 0})
    search(kernel)(small_store, root, **options)
    scarce = Scarce()
    for module in ALLOCATE:
        monkeypatch.setattr(module, "np", scarce)
    while True:
        engine_cache.release()
        scarce.has_refused, said = False, Said()
        found = search(kernel)(small_store, root, progress=said, **options)
        assert columns(found, "numpy") == right
        if not scarce.has_refused:
            break
        assert any("memory" in note and "refused" in note for note in said.notes), said.notes
    assert has_begun(begun, said.notes)
    assert len(scarce.places) > LEAST_PLACES
