"""Searches whose device refuses memory at any allocation end with the same bytes, and say so.

Here answers are brought to the host. `test_cuda_refused_bfs` and `test_cuda_refused_sssp` have the
same of answers that stay on the device: every allocation is refused, and that takes long.
"""

from __future__ import annotations

from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.runtime import engine_cache
from tests.gpu.refusals import BEGUN, columns, refuse_in_turn, wanted
from tests.gpu.searching import hub, search

pytestmark = pytest.mark.usefixtures("released")
KERNELS = pytest.mark.parametrize("kernel", ["bfs", "sssp"])


@pytest.mark.parametrize("begun", BEGUN)
@KERNELS
def test_device_memory_refused_at_any_allocation_is_done_without(
    kernel: str, begun: str, small_store: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_in_turn(kernel, begun, "numpy", small_store, monkeypatch)


@KERNELS
def test_every_allocation_of_a_search_in_the_store_is_made_before_it(
    kernel: str, small_store: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that none that was loaded can be refused a device's memory; its answer is the host's."""
    cupy = cuda_modules.cuda()
    options = wanted(small_store, kernel, "in the store", "numpy", monkeypatch)
    roots = hub(small_store), int(small_store.original_of()[small_store.rows // 2])
    right = [columns(search(kernel)(small_store, root, device="cpu"), "numpy") for root in roots]
    search(kernel)(small_store, roots[1], **options)

    def refuse(size: int) -> Any:
        raise AssertionError(f"{size} bytes are asked for")

    with cupy.cuda.using_allocator(refuse):
        for root, expected in zip(roots, right, strict=True):
            assert columns(search(kernel)(small_store, root, **options), "numpy") == expected
        engine_cache.release()
        # Loading does ask for memory, and is refused it.
        with pytest.raises(og.errors.UnexpectedError, match="are asked for"):
            search(kernel)(small_store, roots[0], **options)
