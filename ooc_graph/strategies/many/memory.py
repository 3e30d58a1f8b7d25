"""Memory of many sources: of a process that searches from them, of its tasks, and of answers."""

from __future__ import annotations

from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cuda.many.bfs_plan import SLOTS as LEVEL_SLOTS
from ooc_graph.kernels.cuda.many.bfs_plan import tallied_bytes
from ooc_graph.kernels.cuda.many.pieces import STAGED_BYTES, staged_bytes
from ooc_graph.kernels.cuda.many.search_plan import part_dtype
from ooc_graph.layout.names import HUB, LIGHT, ORDER_OF
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import Key
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.many import task

# A row's lanes are whole vectors.
_VECTOR_BYTES = 128
# Bytes a vertex: id tables, what a thread holds beside its lanes, and what a search of one source
# holds, where sources are searched from one by one.
ID_BYTES, _STATE_BYTES, _SINGLE_BYTES = 24, 32, 64
# Bytes a vertex that a thread of BFS holds.
_BFS_BYTES = 100
# Bytes an arc: neighbour and weight side by side, for searches of one source.
_PAIRED_BYTES = 8
# Bytes an arc while negative weights are turned into others.
_SORTED_BYTES = 40
# While it is found which arcs are needed, bytes an arc (weights as float64, places of those that
# stay), and bytes a vertex (distances to 16 landmarks, or from them).
_PRUNED_ARC_BYTES, _PRUNED_VERTEX_BYTES = 17, 128
# A parent by internal id; and while parents are found bytes a vertex and thread, an id and bits.
_PARENT_BYTES, _SCRATCH_BYTES = 4, 5
# Of a row while levels arrive from a device, one source after the other: level and parent, and what
# the answer is made by.
_LEVEL_ROW_BYTES = 36
# What is page-locked comes in pages.
_PAGE_BYTES = 4096
# Of a column while a row of distances and parents is made: both, who is reached, and their parents.
_MADE_BYTES = 41
# Of a column while rows of levels or distances are put in order in this process: positions, who has
# a row, the row itself, ids; and of the call whatever its size.
_ORDERED_BYTES, _CALL_BYTES = 96, 1 << 18
# Of a column while distances are counted into bins: a copy of what is reached, and its bins.
_COUNTED_BYTES = 42
# Of one source of a task: its place, ids and row.
_SOURCE_BYTES = 80
# Of one source of a task that reduces levels: what was counted, as Python has it, too.
_TALLY_BYTES = 400


def cached_bytes(job: Job, device: str) -> int:
    """Memory of what this process keeps for such searches: it is not free, and need not be."""
    if device == CUDA or job.resources.is_limited or job.resources.has_client:
        return 0
    whom = str(job.graph.path), job.graph.identity, job.asked.kernel, CPU
    reserved = engine_cache.reservations(job.graph, job.asked.kernel, CPU)
    loaded = [one for one in reserved if one.strategy == task.batches_name(CPU)]
    engine = engine_cache.loaded(Key(*whom, loaded[-1])) if loaded else None
    if engine is None:
        return 0
    has_matrix = not job.asked.hops and engine.search.has_matrix
    matrix_bytes = floyd_warshall.matrix_bytes(job.graph.rows) if has_matrix else 0
    return kept_bytes(job) + matrix_bytes


def process_bytes(job: Job, device: str, batch_size: int) -> int:
    """Memory of a process beside the answers."""
    return sum(process_parts(job, device, batch_size).values())


def process_parts(job: Job, device: str, batch_size: int) -> dict[str, int]:
    """As `process_bytes`, by purpose."""
    if device == CUDA:
        reweighted = 0 if job.asked.hops else reweighted_bytes(job)
        scratch = job.graph.rows * job.resources.threads * _SCRATCH_BYTES
        return {
            # They stay in host memory, too: parents are found there.
            "rows": job.graph.resident_bytes(ORDER_OF[job.asked.kernel]),
            "other weights": reweighted,
            "id tables": job.graph.vertices * ID_BYTES,
            # Page-locked.
            "answers on their way": STAGED_BYTES,
            "parents": scratch if job.asked.parents else 0,
            # If batches of BFS are given up.
            "a search one by one": job.graph.rows * _LEVEL_ROW_BYTES if job.asked.hops else 0,
        }
    parts = _kept_parts(job)
    if not job.asked.hops:
        arcs = job.graph.stored_arcs
        while_sorted = arcs * _SORTED_BYTES if job.graph.has_negative_weights else 0
        while_pruned = arcs * _PRUNED_ARC_BYTES + 2 * job.graph.rows * _PRUNED_VERTEX_BYTES
        parts["preparing rows"] = max(while_sorted, while_pruned)
    return parts | {"batches": job.resources.threads * batch_bytes(job, batch_size)}


def batch_bytes(job: Job, batch_size: int) -> int:
    """Memory of a thread of the CPU for its batches, or searches one by one, in memory."""
    if job.asked.hops:
        return job.graph.rows * _BFS_BYTES
    size = job.spec.dtype.itemsize
    row_bytes = -(-batch_size * size // _VECTOR_BYTES) * _VECTOR_BYTES
    return job.graph.rows * (row_bytes + _STATE_BYTES + _SINGLE_BYTES)


def batches_device_bytes(job: Job) -> int:
    """Least memory of a CUDA device for batches, with levels where these are wanted."""
    needed = cuda_memory.cuda_bytes(job.graph, job.asked.kernel)
    if job.asked.hops and job.asked.reduce is None:
        needed += cuda_memory.cuda_levels_bytes(job.graph, job.spec.width or 0)
    if job.asked.hops and job.asked.reduce == HISTOGRAM:
        needed += tallied_bytes(min(job.spec.length, LEVEL_SLOTS), job.asked.bins.count)
    return needed


def reweighted_bytes(job: Job) -> int:
    """Host memory that rows with other weights take for a CUDA device, if some are negative."""
    if not job.graph.has_negative_weights:
        return 0
    return job.graph.stored_arcs * (_SORTED_BYTES + 4 + job.spec.dtype.itemsize)


def locked_bytes(job: Job) -> int:
    """Page-locked host memory, in pages, that a CUDA device's batches bring answers through."""
    spec, size, sources = job.spec, job.spec.dtype.itemsize, job.spec.length
    if job.asked.hops and job.asked.reduce is not None:
        return 0
    if job.asked.reduce in task.ON_DEVICE:
        # No distances leave it but where sums are beyond float64, which those of float32 are not.
        may_be_beyond = job.asked.reduce in task.SUMMED and spec.dtype.kind == "f" and size > 4
        sources = min(sources, task.BEYOND) if may_be_beyond else 0
    width = job.graph.rows if job.asked.parents else spec.item_bytes // size
    bytes_ = staged_bytes(sources, width, size) if sources and width else 0
    return -(-bytes_ // _PAGE_BYTES) * _PAGE_BYTES


def kept_bytes(job: Job) -> int:
    """Memory of what a process keeps from task to task, at most."""
    return sum(_kept_parts(job).values())


def _kept_parts(job: Job) -> dict[str, int]:
    """As `kept_bytes`, by purpose: rows, their copies, ids."""
    ids = job.graph.vertices * ID_BYTES
    if job.asked.hops:
        return {"rows": job.graph.resident_bytes(HUB), "id tables": ids}
    # Arcs that somebody needs are copied; so are reweighted ones, in the distances' type.
    rows = copies = job.graph.resident_bytes(LIGHT)
    if job.graph.has_negative_weights:
        copies = 2 * (rows + job.graph.stored_arcs * job.spec.dtype.itemsize)
    # A floor of each row's lane, too.
    copies += job.graph.stored_arcs * _PAIRED_BYTES + job.graph.rows * job.spec.dtype.itemsize
    return {"rows": rows, "rows in other forms": copies, "id tables": ids}


def task_bytes(job: Job, sources: int, device: str) -> int:
    """Memory of the answers of the tasks, of so many sources each, that a process has at once.

    One task searches at a time; meanwhile those of the other threads still write what they found,
    or have it sent. Answers that stay in this process go where they belong at once
    (`is_in_place`), or row by row.
    """
    if job.asked.hops and job.asked.reduce is not None:
        return sources * (_TALLY_BYTES + task._reduced_bytes(job)) * job.resources.threads
    stays = task._stays_in_process(job)
    source_bytes = 0 if task.is_in_place(job, device) else _source_bytes(job, device)
    if job.in_memory and not stays and job.asked.reduce is None:
        source_bytes += sum(spec.item_bytes for spec in job.specs)
    if job.asked.reduce is not None:
        source_bytes += task._reduced_bytes(job)
    tasks = 1 if stays else job.resources.threads
    # As many threads write what is found of a task while it is searched, and one each task's rest.
    made = 0
    if device == CUDA and job.asked.parents and not job.in_memory:
        made = 2 * (job.spec.width or 0) * _MADE_BYTES * tasks
    if device != CUDA and stays and job.asked.reduce is None:
        made = (job.spec.width or 0) * _ORDERED_BYTES + sources * _SOURCE_BYTES + _CALL_BYTES
    elif device != CUDA and not job.asked.hops:
        # Internal ids of the columns.
        made = (job.spec.width or 0) * 8 * tasks
    if job.asked.reduce == HISTOGRAM:
        made += (1 if job.in_memory else 2) * (job.spec.width or 0) * _COUNTED_BYTES * tasks
    return sources * source_bytes * tasks + made


def _source_bytes(job: Job, device: str) -> int:
    """Memory of what is found of one source."""
    spec = job.spec
    if device != CUDA and (job.asked.hops or job.asked.parents):
        return job.graph.rows * sum(each.dtype.itemsize for each in job.specs)
    if device == CUDA and job.asked.reduce in task.ON_DEVICE:
        return part_dtype(spec.dtype).itemsize
    if job.asked.parents:
        return job.graph.rows * (spec.dtype.itemsize + _PARENT_BYTES)
    # In the order of the columns, whatever rows the graph has.
    return spec.item_bytes
