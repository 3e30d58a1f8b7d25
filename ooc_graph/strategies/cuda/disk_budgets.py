"""Memory of searches on a CUDA device of graphs whose rows stay in the store, and their loading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.layout.names import id_dtype
from ooc_graph.memory.cpu.plan import ANSWER_BLOCK_BYTES, ANSWER_VERTEX_BYTES, ANSWER_VERTICES
from ooc_graph.memory.cuda.disk import DiskFacts, DiskPlan
from ooc_graph.memory.cuda.disk_bfs_plan import least_disk_plan, plan_disk_device
from ooc_graph.memory.cuda.disk_budget import require_countable, require_device
from ooc_graph.memory.cuda.disk_sssp_plan import least_disk_sssp, plan_disk_sssp
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model import rank_memory
from ooc_graph.model.request import Job
from ooc_graph.model.resources import AUTO, CUDA, Resources
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.machine import give_back_freed_memory
from ooc_graph.runtime.same_graph import Remembered
from ooc_graph.shards.cuda_disk_sssp import load_device_sssp
from ooc_graph.shards.device_tiers import DeviceTierSearch, PinningRefusedError, load_device_bfs
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_facts import require_stored
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned

NAME = "cuda/disk"
"""Of the strategy."""
LOADERS: dict[str, Callable[..., DeviceTierSearch]] = {
    "bfs": load_device_bfs,
    "sssp": load_device_sssp,
}
"""What brings to the device, for a kernel, what a plan has there; others have no such search."""

# Of a row in an answer on the device, while it is made: names, and those of the parents.
_NAME_BYTES = 16


def budgets_for(job: Job, cached_as: tuple[str, str] | None = None) -> tuple[int, int]:
    """Bytes of device and of host memory; those of the search before if it is still cached.

    What it holds is no longer free, so that the next would have less. ``cached_as`` is kernel and
    strategy that a search is cached for (None: this one).
    """
    graph, resources, answer_bytes = job.graph, job.resources, job.request.answer_bytes
    name, strategy = cached_as or (job.kernel, NAME)
    capacity, limit = resources.capacity(answer_bytes), resources.cuda_limits.pinned_bytes
    cached = [] if resources.is_limited else engine_cache.reservations(graph, name, CUDA, capacity)
    on_top = answer_device_bytes(graph) if job.request.on_device else 0
    device_bytes = cuda_pinned.budget_of(resources) - on_top
    beside = beside_bytes(graph) + answer_bytes
    free = max(resources.process_limit_bytes - beside, 0)
    host_bytes = free if limit is None else min(limit, free)
    for one in cached:
        if (one.strategy, one.device_bytes) != (strategy, device_bytes):
            continue
        # A limit that was met is met again. If less was free, or there is no limit, what is free
        # comes and goes, and loading again pays only for much more.
        fits = limit is None or one.host_bytes <= limit
        if one.host_bytes == limit or (fits and 2 * one.host_bytes >= host_bytes):
            return one.device_bytes, one.host_bytes
    facts = known_facts(graph, job.kernel)
    require_countable(facts.kernel, facts.device)
    least = least_plan(facts)
    require_device(facts, least.device_bytes + on_top, device_bytes + on_top)
    cuda_pinned.require_host(job, "the store", least.host_bytes + beside)
    return device_bytes, host_bytes


def may_stay(graph: Graph, kernel: str) -> bool:
    """Whether a graph's arcs can stay in a store while a CUDA device searches it."""
    if kernel not in LOADERS or rank_memory.only_ranks(graph):
        return False
    if kernel == "sssp" and graph.weight_dtype != np.float32:
        return False
    return cpu_disk.has_tiers(graph, kernel)


def suits(graph: Graph, kernel: str, resources: Resources) -> bool:
    """As `may_stay`, for the device that was asked for."""
    return may_stay(graph, kernel) and pays(graph, kernel, resources)


def pays(graph: Graph, kernel: str, resources: Resources) -> bool:
    """Whether a device is to search with arcs in the store: if it was asked for, or reads little.

    Where SSSP has nothing to gain from pulling it goes on by many small steps, each of which may
    read: ``auto`` leaves that to the CPU, whose memory may have the rows.
    """
    return resources.wanted != AUTO or cuda_pinned.reads_little(graph, kernel)


def least_plan(facts: DiskFacts) -> DiskPlan:
    """Plan with the least memory that will do, of either kind."""
    return least_disk_plan(facts) if facts.kernel == "bfs" else least_disk_sssp(facts)


def plan_within(
    facts: DiskFacts, device_bytes: int, host_bytes: int, *, may_pin: bool = True
) -> DiskPlan:
    """Plan for budgets of device and host memory; see `plan_disk_device`."""
    plan = plan_disk_device if facts.kernel == "bfs" else plan_disk_sssp
    return plan(facts, device_bytes, host_bytes, may_pin=may_pin)


def facts_of(graph: Graph, kernel: str) -> DiskFacts:
    """What a plan for searches of a graph depends on; reads its offsets."""
    if kernel not in LOADERS:
        raise UsageError(
            f"{kernel} does not leave arcs in the store on a CUDA device, but {', '.join(LOADERS)} "
            "does; use --device cpu"
        )
    _, order = require_stored(graph, kernel)
    packed = graph.stored.spec(graph.arrays_of(order, "neighbors")[0][0]).packing is not None
    return DiskFacts(kernel, cuda_pinned.known_facts(graph, kernel), graph.shards, packed)


known_facts: Remembered[DiskFacts] = Remembered(facts_of)


def answer_device_bytes(graph: Graph) -> int:
    """Device memory that an answer takes which stays there, at most, while it is made."""
    return cuda_pinned.answer_device_bytes(graph) + graph.rows * _NAME_BYTES


def least_device_bytes(graph: Graph, kernel: str) -> int:
    """Least device memory of a search with arcs in the store; reads the graph's offsets."""
    return least_plan(known_facts(graph, kernel)).device_bytes


def less_than(device_bytes: int, needed_bytes: int, least_bytes: int) -> int:
    """Budget to try after that of a plan was refused: three quarters, down to the least."""
    # A plan may be far below its budget, and would be the same with a little less.
    return max(least_bytes, min(device_bytes, needed_bytes) // 4 * 3)


def beside_bytes(graph: Graph) -> int:
    """Host memory of a search beside its plan: id tables, and pieces of an answer."""
    table = id_dtype(graph.rows).itemsize + (8 if graph.first_id is None else 0)
    pieces = min(ANSWER_VERTICES, graph.vertices) * ANSWER_VERTEX_BYTES + ANSWER_BLOCK_BYTES
    return graph.vertices * table + graph.rows * 8 + pieces


def load_within(
    graph: Graph, kernel: str, device_bytes: int, host_bytes: int, threads: int
) -> DeviceTierSearch:
    """A search within budgets of device and host memory; with less of what is refused.

    Without pinned memory it goes on in ordinary memory. If that is refused, it does with half of
    it, and of the device's with three quarters. ``threads`` touch pages which are pinned.
    """
    facts, unpinned = known_facts(graph, kernel), ""
    least = least_plan(facts)
    plan = plan_within(facts, device_bytes, host_bytes)
    while True:
        try:
            found = LOADERS[kernel](graph, plan, threads=threads)
        except PinningRefusedError as error:
            unpinned = str(error)
        except MemoryBudgetError:
            if plan.device_bytes <= least.device_bytes:
                raise
            device_bytes = less_than(device_bytes, plan.device_bytes, least.device_bytes)
        except MemoryError:
            if plan.host_bytes <= least.host_bytes:
                raise
            host_bytes = min(host_bytes, plan.host_bytes) // 2
        else:
            give_back_freed_memory()
            return replace(found, unpinned=unpinned)
        # Only now: the frames of the error kept what they had of the memory.
        plan = plan_within(facts, device_bytes, host_bytes, may_pin=not unpinned)


def note_of(search: DeviceTierSearch, io_stats: IoStats) -> str:
    """What is said of a search with arcs in the store."""
    plan: DiskPlan = search.plan
    arcs = max(plan.facts.device.arcs, 1)
    shares = [100 * min(1, some / arcs) for some in (plan.arcs_on_device, plan.arcs_in_host)]
    said = (
        f"{plan.facts.kernel} had {shares[0]:.1f} % of the arcs on the device and {shares[1]:.1f} "
        f"% in host memory ({plan.rule} of each row), {plan.device_bytes:,} bytes of the device "
        f"and {plan.pinned_bytes:,} bytes of pinned memory, and {cpu_disk.how_read(io_stats)}"
    )
    return f"{said}; {search.unpinned}" if search.unpinned else said
