"""Memory of searches on a CUDA device with rows in pinned host memory, and their loading."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ooc_graph.errors import HOST
from ooc_graph.kernels.common.dealt import hub_rows
from ooc_graph.kernels.common.decisions import hubs_are_large, pull_pays
from ooc_graph.kernels.common.sssp.rows import first_rows
from ooc_graph.kernels.cuda.bfs.near import BfsShare
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.rows import MOST_ID
from ooc_graph.layout.names import CHUNK_BYTES, FROM_ONE, ORDER_OF, id_dtype
from ooc_graph.memory.cuda.device_facts import (
    COLUMNS,
    DeviceFacts,
    DevicePlan,
    NearPlan,
    near_arc_bytes,
)
from ooc_graph.memory.cuda.pinned_plan import (
    BfsPlan,
    SearchPlan,
    fill,
    least_plan,
    plan_device,
    rows_within,
)
from ooc_graph.memory.heads import require_bytes
from ooc_graph.model import rank_memory
from ooc_graph.model.request import Job
from ooc_graph.model.resources import CUDA, Resources
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.same_graph import Remembered
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_facts import count_lengths, spread_share
from ooc_graph.strategies.cuda.pinned_ranks import made_with_less
from ooc_graph.types import Shard

NAME = "cuda/pinned"
"""Of the strategy."""
# Of a device's memory without a limit: what is left to the driver, and to others.
LEFT_SHARE = 16
# Host memory a row beside its arcs: names, offsets, tuples, and the tree by internal id.
_HOST_ROW_BYTES = 48
# Of a neighbour in a column of the arcs.
_COLUMN_BYTES = 4
# Of a vertex in an answer on the device, while it is made: columns, and parents of those reached;
# with distances of 64 bits more. And of a row where names do not fit 32 bits, and are put in place
# there.
_ANSWER_BYTES, _WIDE_DISTANCE_BYTES, _WIDE_NAME_BYTES = 32, 4, 16


def pinned_bytes(graph: Graph, kernel: str) -> int:
    """Pinned host memory that a graph's rows take: neighbours, and for SSSP weights as stored."""
    weights = None if kernel == "bfs" else graph.weight_dtype
    return graph.stored_arcs * (BfsPlan.arc_bytes if weights is None else near_arc_bytes(weights))


def may_pin(graph: Graph, kernel: str) -> bool:
    """Whether a CUDA device may search a graph where it is: whether there are kernels for that."""
    if kernel not in FROM_ONE or rank_memory.only_ranks(graph):
        return False
    return kernel == "bfs" or graph.weighted


def reads_little(graph: Graph, kernel: str) -> bool:
    """Whether a search of rows that are not on the device reads few arcs: BFS, and SSSP that pulls.

    Otherwise SSSP goes by near-far, many small steps that read each row whole.
    """
    if kernel == "bfs":
        return True
    return graph.weight_dtype == np.float32 and _pulling_pays(graph, kernel)


@Remembered
def _pulling_pays(graph: Graph, _: str) -> bool:
    """Whether hubs hold much, and their weights spread: of a few rows, whose chunks are read."""
    share = graph.head_share(first_rows(graph.rows))
    return hubs_are_large(share) and pull_pays(share, spread_share(graph))


def free_within(budget_bytes: int, least: int, beside: int, what: str) -> int:
    """Device memory of a budget that others have left; ``beside`` bytes are for an answer there.

    If the least does not fit, that is a `MemoryBudgetError` or `DeviceBusyError`.
    """
    cuda_modules.require_memory(least + beside, what)
    free = cuda_modules.device_bytes()[0]
    # Not to the last byte: what is compiled later takes some, too.
    return min(budget_bytes, max(least, free - free // LEFT_SHARE - beside))


def with_shortfall(note: str, wanted_bytes: int, had_bytes: int, of: str) -> str:
    """What is said of a search, and which memory it was to have if loading ended with less."""
    if had_bytes >= wanted_bytes:
        return note
    return (
        f"{note}; it went on within {had_bytes:,} bytes {of} where {wanted_bytes:,} were planned, "
        "since memory was refused or is others'"
    )


def budget_of(resources: Resources) -> int:
    """Device memory that a search in a process may use."""
    memory = resources.device.memory_bytes
    return (
        memory if resources.cuda_limits.device_bytes is not None else memory - memory // LEFT_SHARE
    )


def least_device_bytes(graph: Graph, kernel: str, *, original_parents: bool = False) -> int:
    """Least device memory of a search with rows in pinned memory; reads the graph's offsets."""
    return least_plan(kernel, known_facts(graph, kernel, original_parents)).bytes


def answer_device_bytes(graph: Graph) -> int:
    """Device memory that an answer takes which stays there, at most, while it is made."""
    narrow = graph.first_id is not None and graph.first_id + graph.vertices <= MOST_ID
    wide = graph.weighted and graph.weight_dtype != np.float32
    each = _ANSWER_BYTES + (_WIDE_DISTANCE_BYTES if wide else 0)
    return graph.vertices * each + (0 if narrow else graph.rows * _WIDE_NAME_BYTES)


def host_bytes_beside(graph: Graph) -> int:
    """Host memory of a search beside rows and answer: id tables, bytes a row, one chunk."""
    table = id_dtype(graph.rows).itemsize + (8 if graph.first_id is None else 0)
    weight_bytes = 0 if graph.weight_dtype is None else graph.weight_dtype.itemsize
    chunk = min(CHUNK_BYTES, graph.stored_arcs * max(_COLUMN_BYTES, weight_bytes))
    return graph.vertices * table + graph.rows * _HOST_ROW_BYTES + chunk


def plan_for(job: Job, cached_as: tuple[str, str] | None = None) -> SearchPlan:
    """Plan for a process that searches; reads the graph's offsets.

    A process that holds the rows now drops them for those of the plan. ``cached_as`` is kernel and
    strategy that they are cached for (None: this one).
    """
    graph, resources = job.graph, job.resources
    kernel, strategy = cached_as or (job.kernel, NAME)
    cached = [] if resources.is_limited else engine_cache.reservations(graph, kernel, CUDA)
    facts = known_facts(graph, job.kernel, job.request.on_device)
    limit = resources.cuda_limits.pinned_bytes
    most = pinned_bytes(graph, job.kernel) if limit is None else limit
    budget_bytes = budget_for(job)
    on_top = budget_of(resources) - budget_bytes
    plan = plan_device(job.kernel, facts, budget_bytes, most, on_top)
    if all(one.strategy != strategy for one in cached):
        beside = host_bytes_beside(graph) + job.request.answer_bytes
        require_host(job, "pinned host memory", plan.pinned_bytes + beside)
    return plan


def require_host(job: Job, where: str, needed: int) -> None:
    """Refuse a search that needs more host memory than its process may use."""
    what = f"{job.kernel} on {job.graph.rows:,} rows with arcs in {where}"
    advice = "raise --memory-limit" if job.resources.is_limited else "that is what is free"
    require_bytes(what, HOST, needed, job.resources.process_limit_bytes, advice)


def budget_for(job: Job) -> int:
    """As `budget_of`, less an answer that stays on the device."""
    return budget_of(job.resources) - (
        answer_device_bytes(job.graph) if job.request.on_device else 0
    )


def known_facts(graph: Graph, kernel: str, original_parents: bool = False) -> DeviceFacts:
    """Facts of a graph, also for answers that stay on the device; reads its offsets once."""
    return replace(_facts(graph, kernel), original_parents=original_parents)


def facts_of(graph: Graph, kernel: str) -> DeviceFacts:
    """What a plan for searches of a graph depends on."""
    beyond = 3, *(1 + 4 * column for column in range(COLUMNS))
    found = [
        count_lengths(graph.stored, arrays, graph.rows, beyond)
        for arrays in graph.arrays_of(ORDER_OF[kernel], "offsets")
    ]
    # Those of the last side, the in-rows.
    longer3, *longer = found[-1][1]
    near = None if reads_little(graph, kernel) else graph.weight_dtype
    sides = tuple(side for side, _ in found)
    return DeviceFacts(graph.rows, sides, tuple(longer), longer3, False, near)


_facts = Remembered(facts_of)


def search_within(
    graph: Graph,
    kernel: str,
    budget_bytes: int,
    device: Any,
    shard: Shard,
    allocator: Any,
    names: Any,
) -> tuple[Any, DevicePlan]:
    """A search within a budget of device memory, or less; ``names`` are original ids or None."""
    within = partial(fill, kernel, known_facts(graph, kernel, names is not None))

    def make(plan: SearchPlan) -> tuple[Any, DevicePlan]:
        return _made(plan, device, shard, allocator, names), plan

    # The least of BFS is without the room for levels of four bytes.
    return made_with_less(within, make, budget_bytes, within(0).bytes)


def _made(plan: SearchPlan, device: Any, shard: Shard, allocator: Any, names: Any) -> Any:
    if isinstance(plan, NearPlan):
        return device.tier_near(shard, allocator, original_of=names)
    if isinstance(plan, BfsPlan):
        share, deep = (_share_of(one, shard) for one in (plan, plan.deep))
        return device.tier_bfs(shard, allocator, share, deep, original_of=names)
    return device.tier_sssp(shard, allocator, plan.share.least, plan.share.shift, original_of=names)


def _share_of(plan: BfsPlan, shard: Shard) -> BfsShare:
    """Columns, and whole rows of each side."""
    return BfsShare(
        plan.columns, *(rows_within(rows.offsets, plan.hub_arcs) for rows in hub_rows(shard))
    )


def note_of(plan: DevicePlan) -> str:
    """What is said of a search with rows in pinned memory."""
    share = 100 * min(1, plan.arcs_on_device / max(plan.facts.arcs, 1))
    return (
        f"{plan.kernel} had {plan.pinned_bytes:,} bytes of rows in pinned host memory, and "
        f"{plan.bytes:,} bytes on the device with {share:.1f} % of the arcs "
        f"(of each row {plan.rule})"
    )
