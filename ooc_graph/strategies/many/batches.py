"""Many sources in batches that share each look at an arc, with all arcs in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.device import search_of
from ooc_graph.kernels.common.tuning import FEW_SOURCES, PRUNED_FROM
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cpu.many.choice import single_searches_pay
from ooc_graph.kernels.cpu.many.search import even_batch
from ooc_graph.kernels.cuda.many import bfs_plan as cuda_many_bfs_plan
from ooc_graph.kernels.cuda.many import floyd_warshall as cuda_floyd
from ooc_graph.kernels.cuda.many.bfs import TRIED_FROM
from ooc_graph.kernels.cuda.many.search_plan import BATCH_BYTES as CUDA_BATCH_BYTES
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.pool import allocating, pool_within
from ooc_graph.layout.names import APSP, ORDER_OF
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.rank_memory import only_ranks
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import HOST, Refusal, Reservation
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.model.strategy import MEMORY, StrategyDefaults
from ooc_graph.runtime import process
from ooc_graph.runtime.warmup import warm
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.many import memory as many_memory
from ooc_graph.strategies.many.described import LEAST, Description, least_on_device, shown
from ooc_graph.strategies.many.dividing import divide
from ooc_graph.strategies.many.task import Division, batches_name, require_answer, too_many
from ooc_graph.strategies.many.tiers import BATCHES, ONE_BY_ONE

ALL_AT_ONCE = "all pairs at once"


@dataclass(frozen=True)
class Batches(StrategyDefaults):
    """Batches with all arcs in the memory of a device."""

    device: str  # ``cpu`` or ``cuda``

    tier = MEMORY

    @property
    def name(self) -> str:
        """Device and method."""
        return batches_name(self.device)

    def lacks(self, job: Job) -> str:
        """On a CUDA device there are kernels for ids of 32 bits."""
        if self.device == CPU or not only_ranks(job.graph):
            return ""
        return (
            "many sources on a CUDA device need ids of 32 bits, and the graph has "
            f"{job.graph.rows:,} vertices with edges: use --device cpu"
        )

    def reserve(self, job: Job) -> Reservation:
        """The most lanes that fit every process, beside the answer if that stays there."""
        if self.device == CUDA:
            _require_device(job)
        require_answer(job)
        limit = job.resources.least_limit_bytes + many_memory.cached_bytes(job, self.device)
        division, needed = divide(job, self.device, limit)
        if division is None:
            raise too_many(job, needed)
        return division

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:
        """By a quarter less host memory, or the least; on a CUDA device tasks are smaller."""
        refused = refusal.reserved
        if refusal.kind != HOST or refused.strategy != self.name:
            return None
        assert isinstance(refused, Division)
        division, least = divide(job, self.device, refused.needed_bytes // 4 * 3)
        if division is None and least < refused.needed_bytes:
            division, _ = divide(job, self.device, least)
        return division

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:
        """Bring all rows into memory."""
        device = process.device(self.device)
        if self.device == CPU:
            shard = graph.load(ORDER_OF[kernel], signed=kernel == APSP)
            search = search_of(device, kernel)(shard)
            warm(kernel, graph, device)
            return Engine(kernel, search, graph, load_ids(graph), shard.tuples)
        needed = cuda_memory.cuda_bytes(graph, kernel)
        cuda_modules.require_memory(needed, f"{kernel} on {graph.name}")
        pool = pool_within(reserved.device_bytes) if reserved.device_bytes else None
        with allocating(pool):
            shard = graph.load(ORDER_OF[kernel], signed=kernel == APSP)
            search = search_of(device, kernel)(shard, threads=process.thread_count())
        return Engine(kernel, search, graph, load_ids(graph), shard.tuples, pool=pool)

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """How many sources it searches from at a time."""
        assert isinstance(reserved, Division)
        where = "" if self.device == CPU else " on the CUDA device"
        return (
            f"{kernel} goes on in batches of {reserved.batch_size} sources{where}, within "
            f"{reserved.needed_bytes:,} bytes"
        )

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Batches, answers, and what is kept of rows."""
        found = Description.of(job, reserved)
        return _on_cpu(found) if self.device == CPU else _on_device(found)


def _require_device(job: Job) -> None:
    """Refuse batches that a device, or pinned memory, has no room for."""
    graph, there = job.graph, job.resources.device.memory_bytes
    needed = many_memory.batches_device_bytes(job)
    if needed > there:
        raise MemoryBudgetError(
            f"many sources on {graph.name} need {needed:,} bytes of device memory in one worker, "
            f"and a worker may use {there:,}; use --device cpu"
        )
    locked, most = many_memory.locked_bytes(job), job.resources.cuda_limits.pinned_bytes
    if most is not None and locked > most:
        raise MemoryBudgetError(
            f"batches of sources on {graph.name} bring their answers to {locked:,} bytes of pinned "
            f"host memory, and {most:,} may be used; raise --host-memory"
        )


def fits_on_cpu(job: Job) -> bool:
    """Whether the CPU's memory has room for all arcs and for batches."""
    limit = job.resources.least_limit_bytes + many_memory.cached_bytes(job, CPU)
    return divide(job, CPU, limit)[0] is not None


def least_on_cpu(job: Job) -> int:
    """Least memory of a process that has all arcs in memory."""
    return divide(job, CPU, 0)[1]


def _on_cpu(found: Description) -> dict[str, Any]:
    plan = found.division
    matrix_bytes = floyd_warshall.matrix_bytes(found.graph.rows) if plan.matrix_sources else 0
    parts = many_memory.process_parts(found, CPU, plan.batch_size)
    method, others = _method_in_memory(found)
    memory = {
        "threads, each with a batch or search": found.resources.threads,
        "bytes of a batch": many_memory.batch_bytes(found, plan.batch_size),
        **found.parts(parts, matrix_bytes),
        LEAST: least_on_cpu(found),
        "share of arcs in memory": 1.0,
        "bytes that stay in the store": 0,
    }
    return shown(found, "memory", method, others, memory)


def _method_in_memory(found: Description) -> tuple[str, list[str]]:
    """How searches begin, and what they may continue with after a look at the first of them."""
    graph, plan, spec = found.graph, found.division, found.spec
    rows, batch_size = graph.rows, plan.batch_size
    if found.asked.hops:
        each = even_batch(found.task_sources, batch_size, found.resources.threads)
        if each < min(FEW_SOURCES, batch_size):
            return ONE_BY_ONE, []
        return BATCHES, [ONE_BY_ONE]
    arcs = graph.arcs
    may_close = floyd_warshall.may_close(rows, arcs, plan.matrix_sources)
    if may_close and floyd_warshall.is_sure(rows, arcs):
        return ALL_AT_ONCE, [BATCHES]
    if single_searches_pay(rows, arcs, batch_size * spec.dtype.itemsize):
        return ONE_BY_ONE, []
    return BATCHES, [ONE_BY_ONE] + [ALL_AT_ONCE] * may_close


def _on_device(found: Description) -> dict[str, Any]:
    graph, asked = found.graph, found.asked
    a_batch = graph.rows * CUDA_BATCH_BYTES
    method, others = _method_on_device(found)
    if asked.hops:
        noted = cuda_many_bfs_plan.noted_bytes(graph.rows) if asked.reduce is None else 0
        a_batch = cuda_many_bfs_plan.state_bytes(graph.rows, graph.stored_arcs) + noted
    memory = {
        "device budget": found.resources.device.memory_bytes,
        "device bytes of a batch": a_batch,
        "device bytes: in all, at least": many_memory.batches_device_bytes(found),
        **least_on_device(found),
        "bytes of pinned host memory": many_memory.locked_bytes(found),
        "share of arcs on the device": 1.0,
        **found.parts(many_memory.process_parts(found, CUDA, found.division.batch_size)),
        LEAST: divide(found, CUDA, 0)[1],
    }
    return shown(found, "device memory", method, others, memory)


def _method_on_device(found: Description) -> tuple[str, list[str]]:
    """As `_method_in_memory`, for batches on a CUDA device."""
    plan, spec, rows = found.division, found.spec, found.graph.rows
    if found.asked.hops:
        return BATCHES, [ONE_BY_ONE] * (found.task_sources >= TRIED_FROM * plan.batch_size)
    is_pruned = spec.length >= PRUNED_FROM and spec.dtype.kind == "i"
    if not is_pruned or not cuda_floyd.is_most(plan.matrix_sources, rows):
        return BATCHES, []
    return (ALL_AT_ONCE, [BATCHES]) if cuda_floyd.is_sure(rows) else (BATCHES, [ALL_AT_ONCE])
