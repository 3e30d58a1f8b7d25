"""Searches on a CUDA device that has all rows in its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ooc_graph.answers.scatter import Ids
from ooc_graph.errors import DEVICE, HOST, PINNED
from ooc_graph.kernels.common.device import search_of
from ooc_graph.kernels.cuda.bfs.short_rows import may_fix_rows
from ooc_graph.kernels.cuda.many import bfs_plan as cuda_many_bfs_plan
from ooc_graph.kernels.cuda.many.host import PART_BYTES
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.rows import MOST_ID
from ooc_graph.layout.names import APSP, MULTI_SOURCE_BFS, ORDER_OF, id_dtype
from ooc_graph.memory.heads import require_in_worker
from ooc_graph.model import rank_memory
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.request import CUDA_FIXED_BYTES, SCHEDULER, Job
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.resources import CUDA
from ooc_graph.model.strategy import MEMORY, StrategyDefaults
from ooc_graph.runtime import engine_cache, process
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.ranks import RankLoading, most_ranks

# Host memory a vertex beside the rows: id tables and the answer; and for each byte of an id.
_HOST_BYTES, _HOST_IDS = 32, 2
# Device memory a vertex at most; measured peaks are below it.
_CUDA_BFS_BYTES, _CUDA_SSSP_BYTES, _CUDA_WIDE_BYTES = 64, 96, 160
# The same of BFS where rows may have places of their own, and levels 32 bits.
_CUDA_PLACED_BYTES = 116
# Of many sources bytes an arc, while it is found which are needed; bytes of a row; and bytes of a
# vertex in answers on their way to host memory, at least so many in all.
_CUDA_MANY_ARC_BYTES, _CUDA_MANY_BYTES, _ANSWER_BYTES = 64, 1100, 1100


@dataclass(frozen=True)
class InMemory(StrategyDefaults):
    """All rows on the device."""

    name = "cuda/memory"
    device = CUDA
    tier = MEMORY

    def lacks(self, job: Job) -> str:
        """It is one rank, whose ids have 32 bits."""
        if not job.request.is_plain:
            return "another method or ranks are asked for"
        return "it needs ids of 32 bits" if rank_memory.only_ranks(job.graph) else ""

    def cached(self, job: Job) -> Reservation | None:
        """What a search before left here, if all rows fit the device now."""
        cached = cached_on_device(self.name, job)
        fits = cached is not None and cached.device_bytes <= job.resources.device.memory_bytes
        return cached if fits else None

    def reserve(self, job: Job) -> Reservation:
        """Rows pass through host memory."""
        needed = cuda_bytes(job.graph, job.kernel)
        rows = job.graph.resident_bytes(ORDER_OF[job.kernel])
        require_rows(job, rows, needed)
        return Reservation(self.name, host_bytes(job.graph, rows), needed)

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:  # noqa: ARG002
        """Bring all rows to the device."""
        device = process.device(CUDA)
        cuda_modules.require_memory(cuda_bytes(graph, kernel), f"{kernel} on {graph.name}")
        shard, ids = graph.load(ORDER_OF[kernel]), load_ids(graph)
        # Ids of 64 bits are put in place of internal ones when an answer leaves the device.
        is_narrow = has_narrow_ids(ids)
        with_names = {"original_of": ids.original_of} if is_narrow else {}
        search = search_of(device, kernel)(shard, **with_names)
        return Engine(kernel, search, graph, ids, shard.tuples, is_narrow)

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:
        """Rows of its shards on the device, which pass through host memory."""
        kernel = job.kernel
        shards = range(most_ranks(job, exchange))
        rows = job.graph.resident_bytes(ORDER_OF[kernel]) * len(shards) // job.graph.shards
        needed = rank_memory.ranks_bytes(job.graph, kernel, shards)
        require_rows(job, rows, needed, is_least=exchange == SCHEDULER)
        more = needed + rank_memory.joined_bytes(job.graph, kernel, shards)
        if not job.resources.is_limited and more <= job.resources.device.memory_bytes:
            needed = more
        return Reservation(self.name, host_bytes(job.graph, rows), needed)

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:  # noqa: ARG002
        """All ranks on one device."""
        needed = rank_memory.ranks_bytes(job.graph, job.kernel, range(job.graph.shards))
        return describe_rows_on_device(job, "device memory, by ranks", needed)

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """Bring the rows of each shard to the device."""
        device, whom = process.device(CUDA), (loading.graph, loading.kernel)
        needed = rank_memory.ranks_bytes(*whom, loading.missing, loading.kept)
        cuda_modules.require_memory(needed, loading.what)
        return loading.in_memory(device)

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Rows, and all else together."""
        return describe_rows_on_device(job, "device memory", reserved.device_bytes)

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """What it takes."""
        return f"{kernel} keeps its rows on the device, {reserved.device_bytes:,} bytes in all"


def cached_on_device(strategy: str, job: Job) -> Reservation | None:
    """What this process holds by a strategy on its device, or has served by another."""
    if job.resources.is_limited or not job.request.is_plain:
        return None
    capacity = job.resources.capacity(job.request.answer_bytes)
    cached = engine_cache.reservations(job.graph, job.kernel, CUDA, capacity)
    return next((one for one in cached if one.strategy == strategy), None)


def has_narrow_ids(ids: Ids) -> bool:
    """Whether original ids fit 32 bits, so that a search can name parents by them."""
    return int(ids.original_of.max(initial=0)) <= MOST_ID


def describe_rows_on_device(job: Job, tier: str, needed: int) -> dict[str, Any]:
    """What a device holds that has rows in its memory, JSON-able."""
    rows = job.graph.resident_bytes(ORDER_OF[job.kernel])
    return {
        "kernel": job.kernel,
        "tier": tier,
        "device budget": job.resources.device.memory_bytes,
        "device bytes: rows": rows,
        "device bytes: first arcs, vertex state and names, at most": needed - rows,
        "device bytes: in all": needed,
        "bytes of pinned host memory": 0,
        "share of arcs on the device": 1.0,
    }


def require_rows(
    job: Job, rows: int, on_device: int, pinned: int = 0, *, is_least: bool = False, how: str = ""
) -> None:
    """Refuse rows on a device that its memory, or that of the host, has no room for.

    They need so much device memory, and ``rows`` bytes of host memory, some of it ``pinned``, in
    this process or (``is_least``) the one that has least.
    """
    resources = job.resources
    on_host = resources.least_limit_bytes if is_least else resources.process_limit_bytes
    to_pin, advice = resources.cuda_limits.pinned_bytes, "add workers, or use --device cpu"
    for kind, needed, there, more in (
        (PINNED, pinned, pinned if to_pin is None else to_pin, "raise --host-memory, "),
        (DEVICE, on_device, resources.device.memory_bytes, ""),
        (HOST, host_bytes(job.graph, rows), on_host, ""),
    ):
        require_in_worker(f"{job.what}{how}", needed, there, f"{more}{advice}", kind)


def host_bytes(graph: Graph, rows: int) -> int:
    """Host memory that a search on a device takes: rows on their way there, id tables, answer."""
    return rows + graph.vertices * (_HOST_BYTES + _HOST_IDS * id_dtype(graph.rows).itemsize)


def cuda_bytes(graph: Graph, kernel: str) -> int:
    """Device memory of one rank that searches the whole graph on a CUDA device, at most."""
    rows = graph.resident_bytes(ORDER_OF[kernel])
    if kernel == APSP:
        answers = max(2 * PART_BYTES, graph.vertices * _ANSWER_BYTES)
        state = graph.stored_arcs * _CUDA_MANY_ARC_BYTES + graph.rows * _CUDA_MANY_BYTES
        return rows + state + answers + CUDA_FIXED_BYTES
    if kernel == MULTI_SOURCE_BFS:
        single = graph.rows * cuda_state_bytes(graph, "bfs")
        state = max(cuda_many_bfs_plan.state_bytes(graph.rows, graph.stored_arcs), single)
        return rows + state + CUDA_FIXED_BYTES
    return rows + graph.rows * cuda_state_bytes(graph, kernel) + CUDA_FIXED_BYTES


def cuda_levels_bytes(graph: Graph, columns: int) -> int:
    """Device memory that batches of BFS take for so many levels of a source, at most."""
    row_bytes = 4 * cuda_many_bfs_plan.answer_pitch(columns)
    answers = 2 * max(PART_BYTES, cuda_many_bfs_plan.SLOTS * row_bytes)
    return cuda_many_bfs_plan.noted_bytes(graph.rows) + answers + 4 * columns


def cuda_state_bytes(graph: Graph, kernel: str) -> int:
    """Device memory a vertex beside the rows: heads, buffers, answer."""
    if kernel == "bfs":
        placed = may_fix_rows(graph.rows, graph.arcs)
        return _CUDA_PLACED_BYTES if placed else _CUDA_BFS_BYTES
    is_narrow = graph.weight_dtype is not None and graph.weight_dtype.itemsize == 4
    return _CUDA_SSSP_BYTES if is_narrow else _CUDA_WIDE_BYTES
