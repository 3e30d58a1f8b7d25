"""How many sources are searched from at once, so that everything fits the memory there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cuda.many import floyd_warshall as cuda_floyd
from ooc_graph.kernels.cuda.many.bfs_plan import SLOTS as CUDA_BFS_SLOTS
from ooc_graph.kernels.cuda.many.search_plan import BATCH_BYTES as CUDA_BATCH_BYTES
from ooc_graph.kernels.cuda.many.search_plan import BLOCK_GROUPS
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import APSP
from ooc_graph.model.request import Job
from ooc_graph.model.resources import CUDA
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.many.memory import kept_bytes, process_bytes, task_bytes
from ooc_graph.strategies.many.task import Division, batches_name, beside_bytes, is_in_place
from ooc_graph.strategies.many.tiers import BATCHES

BATCH_SIZES = (64, 32, 16)
"""Most sources in a batch: the first that memory allows."""
BFS_FACTOR = 4
"""So many times as many in a batch of BFS."""
CUDA_SOURCES = (8192, 2048, 512, 128, 32)
"""Sources of a task on a CUDA device: the first that memory allows."""
CUDA_TASKS = 4
"""Tasks of a worker with a CUDA device, where all of them can keep it busy: some take longer."""
CUDA_WORK = 4 * 10**12
"""Sources times edges of such a task, about: four seconds at 1,000 GTEPS."""
TASK_BATCHES, TASK_BATCHES_IN_PLACE = 2, 32
"""Batches of every thread in a task, at least: the last ones of a task wait for each other. The
second where a task holds no answers."""
# More than any plan needs.
_MOST_BYTES = 1 << 62


def divide(job: Job, device: str, limit_bytes: int) -> tuple[Division | None, int]:
    """The most lanes with all arcs in memory; on a CUDA device the most sources of a task.

    None if nothing fits ``limit_bytes`` of host memory in every process. Then the least bytes that
    would do follow, else what it needs.
    """
    beside, least = beside_bytes(job), _MOST_BYTES
    reserved = Division(
        batches_name(device),
        kept_bytes(job),
        job.resources.cuda_limits.device_bytes or 0 if device == CUDA else 0,
        method=BATCHES,
        fills_device=device == CUDA,
    )
    length = job.spec.chunk
    for batch_size, wanted in _sizes(job, device):
        chunks = -(-wanted // length)
        sources = min(chunks * length, job.spec.length)
        needed = beside + process_bytes(job, device, batch_size) + task_bytes(job, sources, device)
        if needed <= limit_bytes:
            plan = replace(reserved, batch_size=batch_size, chunks=chunks, needed_bytes=needed)
            plan = _with_matrix(job, plan, device, limit_bytes)
            return plan, plan.needed_bytes
        least = min(least, needed)
    return None, least


def _with_matrix(job: Job, plan: Division, device: str, limit_bytes: int) -> Division:
    """The division with a matrix of all pairs as well, if a process may keep one."""
    if job.asked.hops or job.spec.dtype.kind == "f":
        return plan
    matrix_sources = -(-job.spec.length // job.resources.processes)
    rows = job.graph.rows
    if device == CUDA:
        spare_bytes = job.resources.device.memory_bytes - cuda_memory.cuda_bytes(job.graph, APSP)
        may_keep = cuda_floyd.matrix_bytes(rows) <= spare_bytes
        return replace(plan, matrix_sources=matrix_sources) if may_keep else plan
    needed = plan.needed_bytes + floyd_warshall.matrix_bytes(rows)
    if needed > limit_bytes:
        return plan
    return replace(plan, matrix_sources=matrix_sources, needed_bytes=needed)


def _sizes(job: Job, device: str) -> Iterator[tuple[int, int]]:
    """Sources of a batch, and those of a task, from the most to the fewest."""
    if device == CUDA:
        size = CUDA_BFS_SLOTS if job.asked.hops else CUDA_BATCH_BYTES // job.spec.dtype.itemsize
        share = min(_share(job.spec, job.resources.processes, size), _most_sources(job, size))
        yield from ((size, min(sources, share)) for sources in CUDA_SOURCES)
        return
    batches = TASK_BATCHES_IN_PLACE if is_in_place(job, device) else TASK_BATCHES
    for most in BATCH_SIZES:
        batch_size = most * (BFS_FACTOR if job.asked.hops else 1)
        yield batch_size, batches * batch_size * job.resources.threads


def _share(spec: ArraySpec, processes: int, batch_size: int) -> int:
    """Sources of a task, in whole batches, so that every worker's device has some."""
    if processes == 1:
        return CUDA_SOURCES[0]
    batches = max(1, -(-spec.length // batch_size))
    tasks = min(CUDA_TASKS, max(1, batches // (processes * BLOCK_GROUPS)))
    return -(-batches // (processes * tasks)) * batch_size


def _most_sources(job: Job, batch_size: int) -> int:
    """Sources of a task on a CUDA device, in whole batches: some seconds, or what keeps it busy."""
    edges = max(job.graph.stored_arcs // 2, 1)
    return max(BLOCK_GROUPS, CUDA_WORK // (edges * batch_size)) * batch_size
