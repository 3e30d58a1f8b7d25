"""Memory of many sources: of a process that searches from them, of its tasks, and of answers."""

from __future__ import annotations

from collections.abc import Sequence

from ooc_graph.answers.pairs import Asked
from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cuda.many.bfs_plan import LANES as LEVEL_LANES
from ooc_graph.kernels.cuda.many.bfs_plan import tallied_bytes
from ooc_graph.kernels.cuda.many.pieces import STAGED_BYTES, staged_bytes
from ooc_graph.kernels.cuda.many.search import part_dtype
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.reservation import Key
from ooc_graph.model.resources import CPU, CUDA, Resources
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.many.reductions import BEYOND, ON_DEVICE, SUMMED

IN_MEMORY = "cpu/batches"
"""Name of the strategy that has all arcs in memory."""

# A row's lanes are whole vectors.
_LANE_BYTES = 128
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
# Of one source where its distances are reduced: what it reaches, and the number; of a bin its
# count, as Python has it on its way, too.
_REDUCED_BYTES, _BIN_BYTES = 16, 48
# Of a number, or of a bin's count, in a column.
_COUNT_BYTES = 8
# A parent by internal id; and while parents are found bytes a vertex and thread, an id and bits.
_PARENT_BYTES, _SCRATCH_BYTES = 4, 5
# Of a row while levels arrive from a device, one source after the other: level and parent, and what
# the answer is made by.
_LEVEL_ROW_BYTES = 36
# What is page-locked comes in pages.
_PAGE_BYTES = 4096
# Of a column while a row of distances and parents is made: both, who is reached, and their parents.
_MADE_BYTES = 41
# Of a column while rows of levels or distances are put in order in this process: places, who has a
# row, the row itself, ids; and of the call whatever its size.
_ORDERED_BYTES, _CALL_BYTES = 96, 1 << 18
# Of a column while distances are counted into bins: a copy of what is reached, and its bins.
_COUNTED_BYTES = 42
# Of one source of a task: its place, ids and row.
_SOURCE_BYTES = 80
# Of one source of a task that reduces levels: what was counted, as Python has it, too.
_TALLY_BYTES = 400


def beside_bytes(
    specs: Sequence[ArraySpec], asked: Asked, resources: Resources, *, in_memory: bool
) -> int:
    """Memory of the answer in the process that searches; with a cluster it is the client's."""
    if resources.has_client:
        return 0
    if in_memory:
        return answer_bytes(specs, asked)
    # Numbers become columns of the store when all are found.
    return 0 if asked.reduce is None else stored_bytes(specs, asked)


def stored_bytes(specs: Sequence[ArraySpec], asked: Asked) -> int:
    """Bytes of what is written, without ids; of numbers at most."""
    if asked.reduce is None:
        return specs[0].length * sum(spec.item_bytes for spec in specs)
    counts = asked.bins.count if asked.reduce == HISTOGRAM else 1
    return specs[0].length * _COUNT_BYTES * (1 + counts)


def held_bytes(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, resources: Resources, device: str
) -> int:
    """Memory of what this process keeps for such searches: it is not free, and need not be."""
    if device == CUDA or resources.is_limited or resources.has_client:
        return 0
    whom = str(graph.path), graph.identity, asked.kernel, CPU
    reserved = engine_cache.reservations(graph, asked.kernel, CPU)
    in_memory = [one for one in reserved if one.strategy == IN_MEMORY]
    held = engine_cache.loaded(Key(*whom, in_memory[-1])) if in_memory else None
    if held is None:
        return 0
    is_closed = not asked.hops and held.search.is_closed
    closed = floyd_warshall.closed_bytes(graph.rows) if is_closed else 0
    return kept_bytes(graph, specs, asked) + closed


def process_bytes(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    device: str,
    lanes: int,
) -> int:
    """Memory of a process beside the answers."""
    return sum(process_parts(graph, specs, asked, resources, device, lanes).values())


def process_parts(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    device: str,
    lanes: int,
) -> dict[str, int]:
    """As `process_bytes`, by purpose."""
    if device == CUDA:
        shifted = 0 if asked.hops else shifted_bytes(graph, specs[0].dtype.itemsize)
        return {
            # They stay in host memory, too: parents are found there.
            "rows": graph.resident_bytes(ORDER_OF[asked.kernel]),
            "other weights": shifted,
            "id tables": graph.vertices * ID_BYTES,
            # Page-locked.
            "answers on their way": STAGED_BYTES,
            "parents": graph.rows * resources.threads * _SCRATCH_BYTES if asked.parents else 0,
            # If batches of BFS are given up.
            "a search one by one": graph.rows * _LEVEL_ROW_BYTES if asked.hops else 0,
        }
    parts = _kept_parts(graph, specs, asked)
    if not asked.hops:
        arcs = graph.arcs
        while_sorted = arcs * _SORTED_BYTES if graph.has_negative_weights else 0
        while_pruned = arcs * _PRUNED_ARC_BYTES + 2 * graph.rows * _PRUNED_VERTEX_BYTES
        parts["preparing rows"] = max(while_sorted, while_pruned)
    return parts | {"batches": resources.threads * batch_bytes(graph, specs, asked, lanes)}


def batch_bytes(graph: Graph, specs: Sequence[ArraySpec], asked: Asked, lanes: int) -> int:
    """Memory of a thread of the CPU for its batches, or searches one by one, in memory."""
    if asked.hops:
        return graph.rows * _BFS_BYTES
    size = specs[0].dtype.itemsize
    lane_bytes = -(-lanes * size // _LANE_BYTES) * _LANE_BYTES
    return graph.rows * (lane_bytes + _STATE_BYTES + _SINGLE_BYTES)


def batches_device_bytes(graph: Graph, specs: Sequence[ArraySpec], asked: Asked) -> int:
    """Least memory of a CUDA device for batches, with levels where these are wanted."""
    needed = cuda_memory.cuda_bytes(graph, asked.kernel)
    if asked.hops and asked.reduce is None:
        needed += cuda_memory.cuda_levels_bytes(graph, specs[0].width or 0)
    if asked.hops and asked.reduce == HISTOGRAM:
        needed += tallied_bytes(min(specs[0].length, LEVEL_LANES), asked.bins.count)
    return needed


def shifted_bytes(graph: Graph, size: int) -> int:
    """Host memory that rows with other weights take for a CUDA device, where some are negative.

    Parameters
    ----------
    size
        Bytes of a distance.
    """
    return graph.arcs * (_SORTED_BYTES + 4 + size) if graph.has_negative_weights else 0


def locked_bytes(graph: Graph, specs: Sequence[ArraySpec], asked: Asked) -> int:
    """Page-locked host memory that batches on a CUDA device bring their answers through, at most.

    One buffer, as `ooc_graph.kernels.cuda.many.host.HostAnswers` has it, in whole pages.
    """
    spec, size, sources = specs[0], specs[0].dtype.itemsize, specs[0].length
    if asked.hops and asked.reduce is not None:
        return 0
    if asked.reduce in ON_DEVICE:
        # No distances leave it but where sums are beyond float64, which those of float32 are not.
        may_be_beyond = asked.reduce in SUMMED and spec.dtype.kind == "f" and size > 4
        sources = min(sources, BEYOND) if may_be_beyond else 0
    width = graph.rows if asked.parents else spec.item_bytes // size
    bytes_ = staged_bytes(sources, width, size) if sources and width else 0
    return -(-bytes_ // _PAGE_BYTES) * _PAGE_BYTES


def kept_bytes(graph: Graph, specs: Sequence[ArraySpec], asked: Asked) -> int:
    """Memory of what a process keeps from task to task, at most."""
    return sum(_kept_parts(graph, specs, asked).values())


def _kept_parts(graph: Graph, specs: Sequence[ArraySpec], asked: Asked) -> dict[str, int]:
    """As `kept_bytes`, by purpose: rows, their copies, ids."""
    ids = graph.vertices * ID_BYTES
    if asked.hops:
        return {"rows": graph.resident_bytes(HUB), "id tables": ids}
    # Arcs that somebody needs are copied; so are reweighted ones, in the distances' type.
    rows = copies = graph.resident_bytes(LIGHT)
    if graph.has_negative_weights:
        copies = 2 * (rows + graph.arcs * specs[0].dtype.itemsize)
    # A floor of each row's lane, too.
    copies += graph.arcs * _PAIRED_BYTES + graph.rows * specs[0].dtype.itemsize
    return {"rows": rows, "rows in other forms": copies, "id tables": ids}


def task_bytes(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    sources: int,
    resources: Resources,
    device: str,
    in_memory: bool,
) -> int:
    """Memory of the answers of the tasks that a process has at once.

    One task searches at a time; meanwhile those of the other threads still write what they found,
    or have it sent. Answers that stay in this process go where they belong at once
    (`is_in_place`), or row by row.

    Parameters
    ----------
    sources
        Of a task.
    """
    if asked.hops and asked.reduce is not None:
        return sources * (_TALLY_BYTES + _reduced_bytes(asked)) * resources.threads
    stays_here = _stays_here(resources, in_memory=in_memory)
    if is_in_place(asked, resources, device, in_memory=in_memory):
        source_bytes = 0
    else:
        source_bytes = _source_bytes(graph, specs, asked, device)
    if in_memory and not stays_here and asked.reduce is None:
        source_bytes += sum(spec.item_bytes for spec in specs)
    if asked.reduce is not None:
        source_bytes += _reduced_bytes(asked)
    tasks = 1 if stays_here else resources.threads
    # As many threads write what is found of a task while it is searched, and one each task's rest.
    made = 0
    if device == CUDA and asked.parents and not in_memory:
        made = 2 * (specs[0].width or 0) * _MADE_BYTES * tasks
    if device != CUDA and stays_here and asked.reduce is None:
        made = (specs[0].width or 0) * _ORDERED_BYTES + sources * _SOURCE_BYTES + _CALL_BYTES
    elif device != CUDA and not asked.hops:
        # Internal ids of the columns.
        made = (specs[0].width or 0) * 8 * tasks
    if asked.reduce == HISTOGRAM:
        made += (1 if in_memory else 2) * (specs[0].width or 0) * _COUNTED_BYTES * tasks
    return sources * source_bytes * tasks + made


def _stays_here(resources: Resources, *, in_memory: bool) -> bool:
    """Whether answers stay in the memory of the process that searches."""
    return in_memory and not resources.has_client


def is_in_place(asked: Asked, resources: Resources, device: str, *, in_memory: bool) -> bool:
    """Whether distances go where they belong as they are found, so that no task holds any."""
    is_ordered = not asked.hops or device == CUDA
    stays_here = _stays_here(resources, in_memory=in_memory)
    return stays_here and is_ordered and asked.reduce is None and not asked.parents


def _source_bytes(graph: Graph, specs: Sequence[ArraySpec], asked: Asked, device: str) -> int:
    """Memory of what is found of one source."""
    spec = specs[0]
    if device != CUDA and (asked.hops or asked.parents):
        return graph.rows * sum(each.dtype.itemsize for each in specs)
    if device == CUDA and asked.reduce in ON_DEVICE:
        return part_dtype(spec.dtype).itemsize
    if asked.parents:
        return graph.rows * (spec.dtype.itemsize + _PARENT_BYTES)
    # In the order of the columns, whatever rows the graph has.
    return spec.item_bytes


def answer_bytes(specs: Sequence[ArraySpec], asked: Asked) -> int:
    """Memory of all that was asked for, if it is not somebody else's."""
    if asked.has_room:
        return 0
    item = sum(spec.item_bytes for spec in specs)
    return specs[0].length * (item if asked.reduce is None else _reduced_bytes(asked))


def _reduced_bytes(asked: Asked) -> int:
    """Memory of what is kept of one source."""
    return _REDUCED_BYTES + (asked.bins.count * _BIN_BYTES if asked.reduce == HISTOGRAM else 0)
