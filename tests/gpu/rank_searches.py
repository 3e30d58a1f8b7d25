"""Searches by ranks on a device, wherever their rows are: the CPU's bytes, by one strategy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from distributed import Client

import ooc_graph as og
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.model.request import CUDA_FIXED_BYTES
from tests.gpu.searching import columns, hub, search


def by_one_process(graph: og.Graph, kernel: str, tried: list[str], by: str, **options: Any) -> None:
    """From two roots."""
    for root in (hub(graph), int(graph.original_of()[-1])):
        right = columns(search(kernel)(graph, root, device="cpu"))
        tried.clear()
        found = search(kernel)(graph, root, device="cuda", **options)
        assert columns(found) == right
        assert tried == [by]


def by_two_workers(
    graph: og.Graph, kernel: str, tried: list[str], by: str, workers: Client, **options: Any
) -> None:
    """They share one device here; the second search is by ranks that they keep."""
    root, out = hub(graph), options.pop("out")
    right = columns(search(kernel)(graph, root, device="cpu"))
    options |= {"client": workers, "device": "cuda", "exchange": "scheduler"}
    tried.clear()
    for path in (None, None, Path(out)):
        assert columns(search(kernel)(graph, root, out=path, **options)) == right
    assert tried == 3 * [by]


def within_least(
    graph: og.Graph, kernel: str, tried: list[str], by: str, least: int, **options: Any
) -> None:
    """With an allocator that gives no more, and little for what does not depend on the graph."""
    root = hub(graph)
    right = columns(search(kernel)(graph, root, device="cpu"))
    tried.clear()
    pool = cuda_modules.cuda().get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.get_limit()
    pool.set_limit(size=pool.total_bytes() + least - CUDA_FIXED_BYTES + (1 << 18))
    try:
        found = search(kernel)(graph, root, device="cuda", device_memory=least, **options)
        assert columns(found) == right
    finally:
        pool.set_limit(size=before)
    assert tried == [by]
