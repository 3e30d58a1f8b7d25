"""Loads a graph for one kind of search: all of its rows, or within a budget of memory."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from ooc_graph.kernels.common.devices import search_of
from ooc_graph.kernels.cpu.sssp.near_far_search import CpuNearFarSearch
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.pinned import PinnedRoom
from ooc_graph.kernels.cuda.runtime.pool import allocating, pool_within
from ooc_graph.kernels.cuda.runtime.rows import MOST_ID
from ooc_graph.layout.names import APSP
from ooc_graph.model.engine import Searcher, load_ids
from ooc_graph.model.kernel import EDGES, ORDER_OF
from ooc_graph.model.resources import CUDA
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.warmup import NEAR_FAR, TIERS, warm
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.on_disk import load_within
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.strategies.edge_list import load_search
from ooc_graph.strategies.many import tiers as many_tiers


def searcher(*whom: Any, **within: Any) -> AbstractContextManager[Searcher]:
    """Exclusive use of a graph that is loaded, see `ooc_graph.runtime.engine_cache.searcher`."""
    return engine_cache.searcher(load, *whom, **within)


def load(
    graph: Graph,
    kernel: str,
    method: str,
    device_name: str,
    budget_bytes: int,
    copies: bool,
    named: bool,
    host_bytes: int | None,
) -> Searcher:
    """Load a graph for a search.

    The parameters are those of `ooc_graph.runtime.engine_cache.searcher`.

    Raises
    ------
    DeviceError, DeviceBusyError
        There is no CUDA device, or others have it, or its memory.
    MemoryBudgetError
        The graph does not fit.
    """
    if device_name == CUDA:
        on_cuda = _load_singly_on_cuda if method == many_tiers.ONE_BY_ONE else _load_on_cuda
        return on_cuda(graph, kernel, budget_bytes, host_bytes, named=named)
    if method == EDGES:
        search = load_search(graph, kernel, process.device())
        return Searcher(kernel, search, graph, load_ids(graph), graph.tuples())
    if budget_bytes and kernel in many_tiers.KERNELS:
        search = many_tiers.load_within(graph, kernel, method, budget_bytes, process.device())
        return Searcher(kernel, search, graph, load_ids(graph), None)
    if budget_bytes:
        warm(kernel, graph, process.device(), variant=TIERS)
        search = load_within(graph, kernel, budget_bytes, process.device())
        return Searcher(kernel, search, graph, load_ids(graph), None)
    shard = graph.load(ORDER_OF[kernel], signed=kernel == APSP)
    with_copies = {"copies": copies} if kernel in {"bfs", "sssp"} else {}
    search = search_of(process.device(), kernel)(shard, **with_copies)
    warm(kernel, graph, process.device(), variant=variant_of(search))
    return Searcher(kernel, search, graph, load_ids(graph), shard.tuples)


def _load_in_store(
    graph: Graph, kernel: str, budget_bytes: int, host_bytes: int, *, named: bool
) -> Searcher:
    """A search on the CUDA device that leaves arcs in the store."""
    process.device(CUDA)
    least = cuda_disk.least_device_bytes(graph, kernel)
    beside = cuda_disk.answer_device_bytes(graph) if named else 0
    budget_bytes = _free_within(budget_bytes, least, beside, f"{kernel} on {graph.path}")
    ids = load_ids(graph)
    search = cuda_disk.load_within(graph, kernel, budget_bytes, host_bytes, process.threads_here())
    return Searcher(kernel, search, graph, ids, None)


def _free_within(budget_bytes: int, least: int, beside: int, what: str) -> int:
    """Device memory of a budget that others have left, if the least fits in it.

    Raises
    ------
    MemoryBudgetError, DeviceBusyError
        It does not.
    """
    cuda_modules.require_memory(least + beside, what)
    free = cuda_modules.device_bytes()[0]
    # Not to the last byte: what is compiled later takes some, too.
    return min(budget_bytes, max(least, free - free // cuda_pinned.LEFT_SHARE - beside))


def _load_singly_on_cuda(
    graph: Graph, kernel: str, budget_bytes: int, host_bytes: int | None, *, named: bool
) -> Searcher:
    """A search from many sources one after the other, by that from one source.

    Its answers do not stay on the device, whatever ``named`` says.
    """
    del named
    single = many_tiers.single_of(kernel)
    if many_tiers.is_shifted(graph, kernel):
        assert not budget_bytes
        return _load_shifted_on_cuda(graph, kernel)
    held = _load_on_cuda(graph, single, budget_bytes, host_bytes, named=False)
    is_in_store = host_bytes is not None
    singly = many_tiers.singly_in_store if is_in_store else many_tiers.singly_on_device
    return replace(held, kernel=kernel, search=singly(held.search, graph, kernel))


def _load_shifted_on_cuda(graph: Graph, kernel: str) -> Searcher:
    """As `_load_singly_on_cuda`, where weights are negative."""
    found = process.device(CUDA)
    needed = cuda_memory.cuda_bytes(graph, many_tiers.single_of(kernel))
    needed += many_tiers.shifted_device_bytes(graph, kernel)
    cuda_modules.require_memory(needed, f"{kernel} on {graph.path}")
    shard = graph.load(ORDER_OF[kernel], signed=True)
    search = many_tiers.shifted_on_device(shard, graph, found)
    return Searcher(kernel, search, graph, load_ids(graph), shard.tuples)


def _load_many_on_cuda(graph: Graph, kernel: str, limit_bytes: int) -> Searcher:
    """Batches from many sources, which take so much of the device at most; 0: what there is."""
    found = process.device(CUDA)
    cuda_modules.require_memory(cuda_memory.cuda_bytes(graph, kernel), f"{kernel} on {graph.path}")
    pool = pool_within(limit_bytes) if limit_bytes else None
    with allocating(pool):
        shard = graph.load(ORDER_OF[kernel], signed=kernel == APSP)
        search = search_of(found, kernel)(shard, threads=process.threads_here())
    return Searcher(kernel, search, graph, load_ids(graph), shard.tuples, pool=pool)


def _load_on_cuda(
    graph: Graph, kernel: str, budget_bytes: int, host_bytes: int | None, *, named: bool
) -> Searcher:
    if host_bytes is not None:
        return _load_in_store(graph, kernel, budget_bytes, host_bytes, named=named)
    if kernel in many_tiers.KERNELS:
        return _load_many_on_cuda(graph, kernel, budget_bytes)
    found, what, room = process.device(CUDA), f"{kernel} on {graph.path}", None
    if budget_bytes:
        least = cuda_pinned.least_device_bytes(graph, kernel, named=named)
        beside = cuda_pinned.answer_device_bytes(graph) if named else 0
        budget_bytes = _free_within(budget_bytes, least, beside, what)
        room = PinnedRoom(process.threads_here())
    else:
        cuda_modules.require_memory(cuda_memory.cuda_bytes(graph, kernel), what)
    shard = graph.load(ORDER_OF[kernel], room=room)
    ids = load_ids(graph)
    # Ids of 64 bits are put in place of internal ones when an answer leaves the device.
    is_narrow = int(ids.original_of.max(initial=0)) <= MOST_ID
    plan = None
    if room is None:
        with_names = {"original_of": ids.original_of} if is_narrow else {}
        search = search_of(found, kernel)(shard, **with_names)
    else:
        is_narrow = is_narrow and named
        names = ids.original_of.astype(np.uint32) if is_narrow else None
        held = budget_bytes, found, shard, room, names
        search, plan = cuda_pinned.search_within(graph, kernel, *held)
    return Searcher(kernel, search, graph, ids, shard.tuples, is_narrow, plan)


def variant_of(search: Any) -> str:
    """Which of a search's kernels it runs, as `warm` is told."""
    return NEAR_FAR if isinstance(search, CpuNearFarSearch) else ""
