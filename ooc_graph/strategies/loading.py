"""Loads a graph for one kind of search: all of its rows, or within a budget of memory."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Ids
from ooc_graph.kernels.cpu.sssp.near_far_search import CpuNearFarSearch
from ooc_graph.kernels.cuda.bfs.short_rows import may_place
from ooc_graph.kernels.cuda.many import bfs_plan as cuda_many_bfs_plan
from ooc_graph.kernels.cuda.many.host import PART_BYTES
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.pinned import PinnedRoom
from ooc_graph.kernels.cuda.runtime.pool import WholePieces, allocating, pool_within
from ooc_graph.kernels.cuda.runtime.rows import MOST_ID
from ooc_graph.layout.names import APSP, MULTI_SOURCE_BFS
from ooc_graph.memory.cuda.pinned_plan import DevicePlan
from ooc_graph.memory.moved import Moved
from ooc_graph.model.kernel import CUDA_FIXED_BYTES, ORDER_OF
from ooc_graph.runtime import process
from ooc_graph.runtime.devices import CUDA
from ooc_graph.runtime.warmup import NEAR_FAR, TIERS, warm
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tiers import TierSearch
from ooc_graph.strategies.cpu.on_disk import load_within
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.strategies.edge_list import EDGES, load_search
from ooc_graph.strategies.many import tiers as many_tiers

# Device memory a vertex at most; measured peaks are below it.
_CUDA_BFS_BYTES, _CUDA_SSSP_BYTES, _CUDA_WIDE_BYTES = 64, 96, 160
# The same of BFS where rows may have places of their own, and levels 32 bits.
_CUDA_PLACED_BYTES = 116
# Of many sources bytes an arc, while it is found which are needed; bytes of a row; and bytes of a
# vertex in answers on their way to host memory, at least so many in all.
_CUDA_MANY_ARC_BYTES, _CUDA_MANY_BYTES, _ANSWER_BYTES = 64, 1100, 1100


@dataclass(frozen=True)
class Searcher:
    """A graph in memory with buffers for one kernel, and its id tables.

    Parameters
    ----------
    kernel
        ``bfs``, ``sssp``, ``components``, ``apsp`` or ``multi_source_bfs``.
    search
        The device's search.
    graph, ids, tuples
        The store, its id tables, and tuples by internal id.
    named
        Whether an answer that stays on the device has original ids as parents.
    pinned
        What the device holds where rows are in pinned host memory, else None.
    pool
        What device memory comes from where it has a limit, else None.
    """

    kernel: str
    search: Any
    graph: Graph
    ids: Ids
    tuples: Any
    named: bool = False
    pinned: DevicePlan | None = None
    pool: WholePieces | None = None

    def allocating(self) -> AbstractContextManager[None]:
        """Have this thread take device memory from where the search has its own."""
        return allocating(self.pool)

    @property
    def moved(self) -> Moved | None:
        """What was read of the store so far, where arcs stay there."""
        return self.search.moved if isinstance(self.search, TierSearch) else None


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
    search = getattr(process.device(), kernel)(shard, **with_copies)
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
    needed = cuda_bytes(graph, many_tiers.single_of(kernel))
    needed += many_tiers.shifted_device_bytes(graph, kernel)
    cuda_modules.require_memory(needed, f"{kernel} on {graph.path}")
    shard = graph.load(ORDER_OF[kernel], signed=True)
    search = many_tiers.shifted_on_device(shard, graph, found)
    return Searcher(kernel, search, graph, load_ids(graph), shard.tuples)


def _load_many_on_cuda(graph: Graph, kernel: str, limit_bytes: int) -> Searcher:
    """Batches from many sources, which take so much of the device at most; 0: what there is."""
    found = process.device(CUDA)
    cuda_modules.require_memory(cuda_bytes(graph, kernel), f"{kernel} on {graph.path}")
    pool = pool_within(limit_bytes) if limit_bytes else None
    with allocating(pool):
        shard = graph.load(ORDER_OF[kernel], signed=kernel == APSP)
        search = getattr(found, kernel)(shard, threads=process.threads_here())
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
        cuda_modules.require_memory(cuda_bytes(graph, kernel), what)
    shard = graph.load(ORDER_OF[kernel], room=room)
    ids = load_ids(graph)
    # Ids of 64 bits are put in place of internal ones when an answer leaves the device.
    is_narrow = int(ids.original_of.max(initial=0)) <= MOST_ID
    plan = None
    if room is None:
        with_names = {"original_of": ids.original_of} if is_narrow else {}
        search = getattr(found, kernel)(shard, **with_names)
    else:
        is_narrow = is_narrow and named
        names = ids.original_of.astype(np.uint32) if is_narrow else None
        held = budget_bytes, found, shard, room, names
        search, plan = cuda_pinned.search_within(graph, kernel, *held)
    return Searcher(kernel, search, graph, ids, shard.tuples, is_narrow, plan)


def load_ids(graph: Graph) -> Ids:
    """Id tables of a graph."""
    originals = None if graph.first_id is not None else graph.original_ids()
    return Ids(graph.internal_of(), graph.original_of(), graph.first_id, originals)


def cuda_bytes(graph: Graph, kernel: str) -> int:
    """Device memory of one rank that searches the whole graph on a CUDA device, at most."""
    rows = graph.resident_bytes(ORDER_OF[kernel])
    if kernel == APSP:
        answers = max(2 * PART_BYTES, graph.vertices * _ANSWER_BYTES)
        state = graph.arcs * _CUDA_MANY_ARC_BYTES + graph.rows * _CUDA_MANY_BYTES
        return rows + state + answers + CUDA_FIXED_BYTES
    if kernel == MULTI_SOURCE_BFS:
        single = graph.rows * cuda_state_bytes(graph, "bfs")
        state = max(cuda_many_bfs_plan.state_bytes(graph.rows, graph.arcs), single)
        return rows + state + CUDA_FIXED_BYTES
    return rows + graph.rows * cuda_state_bytes(graph, kernel) + CUDA_FIXED_BYTES


def cuda_levels_bytes(graph: Graph, columns: int) -> int:
    """Device memory that batches of BFS take besides for levels, at most.

    Parameters
    ----------
    columns
        Levels of a source.
    """
    row_bytes = 4 * cuda_many_bfs_plan.answer_pitch(columns)
    answers = 2 * max(PART_BYTES, cuda_many_bfs_plan.LANES * row_bytes)
    return cuda_many_bfs_plan.noted_bytes(graph.rows) + answers + 4 * columns


def cuda_state_bytes(graph: Graph, kernel: str) -> int:
    """Device memory a vertex beside the rows: heads, buffers, answer."""
    if kernel == "bfs":
        placed = may_place(graph.rows, graph.arcs // (2 if graph.directed else 1))
        return _CUDA_PLACED_BYTES if placed else _CUDA_BFS_BYTES
    is_narrow = graph.weight_dtype is not None and graph.weight_dtype.itemsize == 4
    return _CUDA_SSSP_BYTES if is_narrow else _CUDA_WIDE_BYTES


def variant_of(search: Any) -> str:
    """Which of a search's kernels it runs, as `warm` is told."""
    return NEAR_FAR if isinstance(search, CpuNearFarSearch) else ""
