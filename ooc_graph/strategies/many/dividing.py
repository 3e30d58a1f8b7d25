"""How many sources are searched from at once, so that everything fits the memory there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ooc_graph.answers.pairs import Asked
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cuda.many import floyd_warshall as cuda_floyd
from ooc_graph.kernels.cuda.many.bfs_plan import LANES as CUDA_BFS_LANES
from ooc_graph.kernels.cuda.many.search import BATCH_BYTES as CUDA_BATCH_BYTES
from ooc_graph.kernels.cuda.many.search import CREWS
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import APSP
from ooc_graph.model.request import Many
from ooc_graph.model.resources import CUDA, Resources
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.many.division import Division
from ooc_graph.strategies.many.memory import (
    beside_bytes,
    is_in_place,
    kept_bytes,
    process_bytes,
    task_bytes,
)
from ooc_graph.strategies.many.tiers import BATCHES

LANES = (64, 32, 16)
"""Most sources in a batch: the first that memory allows."""
BFS_LANES = 4
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


def divide(
    graph: Graph, many: Many, resources: Resources, device: str, limit_bytes: int
) -> tuple[Division | None, int]:
    """The most lanes with all arcs in memory; on a CUDA device the most sources of a task.

    Parameters
    ----------
    device
        ``cpu`` or ``cuda``.
    limit_bytes
        Host memory of every process.

    Returns
    -------
    division
        None if nothing fits.
    least
        Bytes that it needs, or that would do.
    """
    specs, asked, in_memory = many.specs, many.asked, many.in_memory
    beside, least = beside_bytes(specs, asked, resources, in_memory=in_memory), _MOST_BYTES
    given = graph, specs[0], asked, resources, device
    held = Division(
        f"{device}/batches",
        kept_bytes(graph, specs, asked),
        resources.cuda_limits.device_bytes or 0 if device == CUDA else 0,
        method=BATCHES,
        fills_device=device == CUDA,
    )
    for lanes, wanted in _sizes(*given, in_memory=in_memory):
        length = specs[0].chunk
        chunks = -(-wanted // length)
        sources = min(chunks * length, specs[0].length)
        needed = beside + process_bytes(graph, specs, asked, resources, device, lanes)
        needed += task_bytes(graph, specs, asked, sources, resources, device, in_memory)
        if needed <= limit_bytes:
            plan = replace(held, lanes=lanes, chunks=chunks, needed_bytes=needed)
            plan = _with_closing(plan, graph, specs[0], asked, resources, device, limit_bytes)
            return plan, plan.needed_bytes
        least = min(least, needed)
    return None, least


def _with_closing(
    plan: Division,
    graph: Graph,
    spec: ArraySpec,
    asked: Asked,
    resources: Resources,
    device: str,
    limit_bytes: int,
) -> Division:
    """The division with a matrix of all pairs as well, where a process may keep one."""
    if asked.hops or spec.dtype.kind == "f":
        return plan
    closing = -(-spec.length // resources.processes)
    if device == CUDA:
        spare_bytes = resources.device.memory_bytes - cuda_memory.cuda_bytes(graph, APSP)
        may_keep = cuda_floyd.closed_bytes(graph.rows) <= spare_bytes
        return replace(plan, closing=closing) if may_keep else plan
    needed = plan.needed_bytes + floyd_warshall.closed_bytes(graph.rows)
    return replace(plan, closing=closing, needed_bytes=needed) if needed <= limit_bytes else plan


def _sizes(
    graph: Graph,
    spec: ArraySpec,
    asked: Asked,
    resources: Resources,
    device: str,
    *,
    in_memory: bool,
) -> Iterator[tuple[int, int]]:
    """Lanes, and sources of a task, from the most to the fewest."""
    if device == CUDA:
        lanes = CUDA_BFS_LANES if asked.hops else CUDA_BATCH_BYTES // spec.dtype.itemsize
        share = min(_share(spec, resources.processes, lanes), _most_sources(graph, lanes))
        yield from ((lanes, min(sources, share)) for sources in CUDA_SOURCES)
        return
    is_held = not is_in_place(asked, resources, device, in_memory=in_memory)
    batches = TASK_BATCHES if is_held else TASK_BATCHES_IN_PLACE
    for most in LANES:
        lanes = most * (BFS_LANES if asked.hops else 1)
        yield lanes, batches * lanes * resources.threads


def _share(spec: ArraySpec, processes: int, lanes: int) -> int:
    """Sources of a task, in whole batches, so that every worker's device has some."""
    if processes == 1:
        return CUDA_SOURCES[0]
    batches = max(1, -(-spec.length // lanes))
    tasks = min(CUDA_TASKS, max(1, batches // (processes * CREWS)))
    return -(-batches // (processes * tasks)) * lanes


def _most_sources(graph: Graph, lanes: int) -> int:
    """Sources of a task on a CUDA device, in whole batches, so that it ends after some seconds.

    As many batches as keep the device busy are more.
    """
    edges = max(graph.arcs // 2, 1)
    return max(CREWS, CUDA_WORK // (edges * lanes)) * lanes
