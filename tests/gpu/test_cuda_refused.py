"""Searches that are refused memory at any allocation end with the same bytes, and say so."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers import scatter
from ooc_graph.kernels import (
    cuda_disk_bfs,
    cuda_disk_heads,
    cuda_disk_parents,
    cuda_disk_rows,
    cuda_disk_state,
    cuda_modules,
    disk_bfs_search,
    tier_rows,
    tier_sssp_search,
)
from ooc_graph.kernels import cuda_disk_sssp as cuda_disk_sssp_search
from ooc_graph.memory import disk
from ooc_graph.session import cuda_disk, cuda_tiers, resident
from ooc_graph.shards import cuda_disk_sssp, device_sides, device_tiers, load, row_loader
from ooc_graph.shards import tiers as shard_tiers
from tests.gpu.memory import Refusing
from tests.gpu.test_cuda_session import Said, search
from tests.unit.test_tier_memory import Scarce

KERNELS = pytest.mark.parametrize("kernel", ["bfs", "sssp"])
BEGUN = pytest.mark.parametrize("begun", ["on the device", "pinned", "in the store"])
# One allocation in so many is refused, by where the answer is: all of them would take minutes.
EVERY = {"numpy": 2, "cupy": 5}
LEAST_ALLOCATIONS = 15
# Where the host's part allocates, once it is known which way a search goes.
ALLOCATE = (
    *(disk, shard_tiers, device_sides, device_tiers, load, row_loader, scatter, tier_rows),
    cuda_disk_sssp,
    *(disk_bfs_search, tier_sssp_search, cuda_disk_sssp_search, cuda_disk_bfs),
    *(cuda_disk_heads, cuda_disk_parents, cuda_disk_rows, cuda_disk_state),
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path: Path = tmp_path_factory.mktemp("graphs") / "kronecker.zarr"
    return og.build(og.Kronecker(13), path, rows="both", shards=4, device="cpu")


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    resident.release()
    yield
    resident.release()


def hub(graph: og.Graph) -> int:
    return int(graph.original_of()[0])


def wanted(
    graph: og.Graph, kernel: str, begun: str, arrays: str, patch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Options of a search that begins in one of the tiers, with something to give up there."""
    options: dict[str, Any] = {"device": "cuda", "arrays": arrays}
    if begun == "pinned":
        options["device_memory"] = resident.cuda_bytes(graph, kernel) - 1
    elif begun == "in the store":
        # So that the graph is too large for pinned memory, as small as it is.
        patch.setattr(cuda_tiers, "may_pin", lambda *_: False)
        least = cuda_disk.least_plan(cuda_disk.known_facts(graph, kernel))
        answer = cuda_disk.answer_device_bytes(graph) if arrays == "cupy" else 0
        options["device_memory"] = least.device_bytes + 64 * graph.rows + answer
        options["host_memory"] = least.host_bytes + 48 * graph.rows
    return options


def columns(found: Any, arrays: str) -> dict[str, bytes]:
    read = found.on_host if arrays == "cupy" else found.read
    return {name: np.asarray(read(name)).tobytes() for name in found.names}


def has_begun(begun: str, notes: list[str]) -> bool:
    """Whether a search that nothing was refused to is where it was to begin."""
    words = {"on the device": "", "pinned": "in pinned host memory", "in the store": "of the store"}
    said = " ".join(notes)
    return "refused" not in said and words[begun] in said and bool(said) == bool(words[begun])


@BEGUN
@KERNELS
@pytest.mark.parametrize("arrays", EVERY)
def test_device_memory_refused_at_any_allocation_is_done_without(
    arrays: str, kernel: str, begun: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy, root = cuda_modules.cuda(), hub(graph)
    options = wanted(graph, kernel, begun, arrays, monkeypatch)
    right = columns(search(kernel)(graph, root, device="cpu"), "numpy")
    pool = cupy.get_default_memory_pool()
    allocator = Refusing(pool)

    def used() -> int:
        resident.release()
        gc.collect()
        return int(pool.used_bytes())

    def notes_without(refused: int) -> tuple[list[str], int]:
        # What the search before keeps would need no allocation.
        resident.release()
        said = Said()
        allocator.made, allocator.refused = 0, refused
        found = search(kernel)(graph, root, progress=said, **options)
        made, allocator.refused = allocator.made, 0
        assert columns(found, arrays) == right, f"allocation {refused}"
        return said.notes, made

    with cupy.cuda.using_allocator(allocator):
        for _ in range(2):  # what the first compiles and measures the others need not
            notes, count = notes_without(0)
            assert has_begun(begun, notes), notes
        assert count >= LEAST_ALLOCATIONS
        before = used()
        # The last ones are an answer's, if it stays on the device.
        for refused in range(count, 0, -EVERY[arrays]):
            notes, _ = notes_without(refused)
            said = f"allocation {refused} of {count}: {notes}"
            assert any("memory was refused" in note for note in notes), said
        assert used() == before


@KERNELS
def test_every_allocation_of_a_search_in_the_store_is_made_before_it(
    kernel: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that none that was loaded can be refused a device's memory; its answer is the host's."""
    cupy = cuda_modules.cuda()
    options = wanted(graph, kernel, "in the store", "numpy", monkeypatch)
    roots = hub(graph), int(graph.original_of()[graph.rows // 2])
    right = [columns(search(kernel)(graph, root, device="cpu"), "numpy") for root in roots]
    search(kernel)(graph, roots[1], **options)

    def refuse(size: int) -> Any:
        raise AssertionError(f"{size} bytes are asked for")

    with cupy.cuda.using_allocator(refuse):
        for root, expected in zip(roots, right, strict=True):
            assert columns(search(kernel)(graph, root, **options), "numpy") == expected
        resident.release()
        # Loading does ask for memory, and is refused it.
        with pytest.raises(AssertionError, match="are asked for"):
            search(kernel)(graph, roots[0], **options)


@BEGUN
@KERNELS
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
    assert len(scarce.places) > LEAST_ALLOCATIONS // 3
