"""How many sources are searched from at once, so that everything fits the memory there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ooc_graph.answers.pairs import Asked
from ooc_graph.answers.reductions import BINS, HISTOGRAM
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cuda.many import floyd_warshall as cuda_floyd
from ooc_graph.kernels.cuda.many.bfs_plan import LANES as CUDA_BFS_LANES
from ooc_graph.kernels.cuda.many.search import BATCH_BYTES as CUDA_BATCH_BYTES
from ooc_graph.kernels.cuda.many.search import CREWS
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import APSP
from ooc_graph.model.kernel import ROWS
from ooc_graph.model.resources import CPU, CUDA, Resources
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.many.memory import (
    answer_bytes,
    beside_bytes,
    held_bytes,
    is_in_place,
    process_bytes,
    task_bytes,
)
from ooc_graph.strategies.many.stored import in_turn, sizes, stretch_of
from ooc_graph.strategies.many.tiers import least_within, may_stay, plan_within

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
BATCHES, BATCHES_IN_PLACE = 2, 32
"""Batches of every thread in a task, at least: the last ones of a task wait for each other. The
second where a task holds no answers."""
# More than any plan needs.
_MOST_BYTES = 1 << 62


@dataclass(frozen=True)
class Plan:
    """How the sources are divided.

    Parameters
    ----------
    lanes
        Most sources of a batch, which one thread searches.
    chunks
        Chunks of a task.
    budget_bytes
        Memory for rows and single searches where arcs stay in the store; 0 where all are brought
        into memory.
        On a CUDA device its memory, where rows are in pinned host memory or in the store.
    method
        How searches go on then, see `ooc_graph.strategies.many.tiers.methods_of`.
    closing
        Sources of one process, if it may keep a matrix of all pairs as well; else 0.
    needed_bytes
        Memory of one process, with all that it may keep.
    host_bytes
        Host memory for a search on a CUDA device whose arcs stay in the store; else None.
    stretch
        Sources of a task whose distances to all vertices are held at a time, where arcs stay in the
        store and few targets are asked for; 0: all of them.
    """

    lanes: int
    chunks: int
    budget_bytes: int = 0
    method: str = ROWS
    closing: int = 0
    needed_bytes: int = 0
    host_bytes: int | None = None
    stretch: int = 0


def require_answer(specs: Sequence[ArraySpec], asked: Asked, resources: Resources) -> None:
    """Refuse an answer that memory has no room for.

    Raises
    ------
    MemoryBudgetError
    """
    answer = answer_bytes(specs, asked)
    if answer > resources.limit_bytes:
        raise MemoryBudgetError(
            f"{specs[0].length:,} sources have {answer:,} bytes of distances, and there are "
            f"{resources.limit_bytes:,}; give out= to write them to a store"
        )


def plan_of(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    device: str,
    *,
    in_memory: bool,
) -> Plan:
    """The most lanes that fit every process; on a CUDA device the most sources of a task.

    Where a CPU has no room for all arcs, those that fit while arcs stay in the store.

    Parameters
    ----------
    specs
        How distances, and parents if wanted, are stored.
    device
        ``cpu`` or ``cuda``.
    in_memory
        Whether the answer stays in the memory of this process.

    Raises
    ------
    MemoryBudgetError
        Not even the fewest do, or not beside the answer.
    """
    if in_memory:
        require_answer(specs, asked, resources)
    limit = resources.least_limit_bytes + held_bytes(graph, specs, asked, resources, device)
    plan, needed = _within(graph, specs, asked, resources, device, limit, in_memory=in_memory)
    if plan is not None:
        return plan
    advice = "raise --memory-limit or add memory to the workers"
    if asked.reduce == HISTOGRAM and asked.bins.count > BINS:
        advice = f"ask for fewer bins than {asked.bins.count:,}, or {advice}"
    if in_memory and (beside := beside_bytes(specs, asked, resources, in_memory=True)):
        advice += f", or give out=, as {beside:,} of them are the answer"
    raise MemoryBudgetError(
        f"many sources on {graph.path} need {needed:,} bytes in one worker, and a worker may use "
        f"{resources.least_limit_bytes:,}; {advice}"
    )


def fits_in_batches(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, resources: Resources, *, in_memory: bool
) -> bool:
    """Whether the CPU's memory has room for all arcs and for batches; as `plan_of`."""
    limit = resources.least_limit_bytes + held_bytes(graph, specs, asked, resources, CPU)
    plan, _ = _in_memory_within(graph, specs, asked, resources, CPU, limit, in_memory=in_memory)
    return plan is not None


def smaller_plan(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    device: str,
    refused: Plan,
    *,
    in_memory: bool,
) -> Plan | None:
    """A plan that holds less than one which was refused host memory; None: there is none.

    With all arcs in memory by a quarter or more, with arcs in the store half as much or the least.
    On a CUDA device tasks are smaller.

    Parameters
    ----------
    graph, specs, asked, place, device, in_memory
        As of `plan_of`.
    """
    before = refused.needed_bytes
    limit = before // 2 if refused.budget_bytes else before // 4 * 3
    given = graph, specs, asked, resources, device
    plan, least = _within(*given, limit, in_memory=in_memory)
    if plan is None and least < before:
        plan, _ = _within(*given, least, in_memory=in_memory)
    return plan


def least_of(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    device: str,
    *,
    in_memory: bool,
) -> int:
    """Least memory of one process that would do; as `plan_of`."""
    _, least = _within(graph, specs, asked, resources, device, 0, in_memory=in_memory)
    return least


def _within(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    device: str,
    limit_bytes: int,
    *,
    in_memory: bool,
) -> tuple[Plan | None, int]:
    """A plan within so many bytes of every process, or None; and its bytes, or the least."""
    given = graph, specs, asked, resources
    plan, least = _in_memory_within(*given, device, limit_bytes, in_memory=in_memory)
    if plan is not None:
        return plan, plan.needed_bytes
    if device == CPU and graph.rows and may_stay(graph, asked.kernel):
        # Those that hold all arcs may need less, where there are few of them.
        beside = beside_bytes(specs, asked, resources, in_memory=in_memory)
        ways = list(sizes(*given, in_memory=in_memory))
        ways = in_turn(graph, asked.kernel, specs[0], ways, limit_bytes - beside)
        for method, lanes, chunks, held in ways:
            spare = limit_bytes - beside - held
            needed = beside + held + least_within(graph, asked.kernel, method)
            if needed <= limit_bytes:
                needed = beside + held + plan_within(graph, asked.kernel, method, spare).bytes
                stretch = stretch_of(specs[0], asked, lanes, chunks)
                how = {"needed_bytes": needed, "stretch": stretch}
                return Plan(lanes, chunks, spare, method, **how), needed
            least = min(least, needed)
    return None, least


def _in_memory_within(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    device: str,
    limit_bytes: int,
    *,
    in_memory: bool,
) -> tuple[Plan | None, int]:
    """As `_within`, of plans with all arcs in memory."""
    beside, least = beside_bytes(specs, asked, resources, in_memory=in_memory), _MOST_BYTES
    given = graph, specs[0], asked, resources, device
    for lanes, wanted in _sizes(*given, in_memory=in_memory):
        length = specs[0].chunk
        chunks = -(-wanted // length)
        sources = min(chunks * length, specs[0].length)
        needed = beside + process_bytes(graph, specs, asked, resources, device, lanes)
        needed += task_bytes(graph, specs, asked, sources, resources, device, in_memory)
        if needed <= limit_bytes:
            plan = Plan(lanes, chunks, needed_bytes=needed)
            plan = _with_closing(plan, graph, specs[0], asked, resources, device, limit_bytes)
            return plan, plan.needed_bytes
        least = min(least, needed)
    return None, least


def _with_closing(
    plan: Plan,
    graph: Graph,
    spec: ArraySpec,
    asked: Asked,
    resources: Resources,
    device: str,
    limit_bytes: int,
) -> Plan:
    """The plan with a matrix of all pairs as well, where a process may keep one."""
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
    batches = BATCHES if is_held else BATCHES_IN_PLACE
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
