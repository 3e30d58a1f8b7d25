"""What ranks on CUDA devices hold whose rows stay in the store, and how they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.layout.names import ORDER_OF, id_dtype
from ooc_graph.memory.cuda import disk_ranks
from ooc_graph.memory.cuda.disk import describe_disk
from ooc_graph.model.request import SCHEDULER, Job
from ooc_graph.model.reservation import Reservation
from ooc_graph.runtime.machine import give_back_freed_memory
from ooc_graph.shards.device_ranks import load_disk_rank
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_ranks import consecutive
from ooc_graph.shards.tiers import TierSearch
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.cuda import pinned_ranks
from ooc_graph.strategies.cuda.in_memory import host_bytes
from ooc_graph.strategies.ranks import RankLoading, most_ranks


def facts_of(graph: Graph, kernel: str, shards: Sequence[int]) -> disk_ranks.DiskRankFacts:
    """What a plan for these ranks of one worker depends on; reads the graph's offsets."""
    distance_bytes = 4 if kernel == "bfs" else distances_of(graph.weight_dtype).itemsize
    neighbors = graph.arrays_of(ORDER_OF[kernel], "neighbors")[0][0]
    return disk_ranks.DiskRankFacts(
        pinned_ranks.facts_of(graph, kernel, shards),
        len(shards),
        id_dtype(graph.rows).itemsize,
        distance_bytes,
        host_bytes(graph, 0),
        graph.stored.spec(neighbors).packing is not None,
    )


def facts_of_any(job: Job, exchange: str) -> Iterator[disk_ranks.DiskRankFacts]:
    """Facts of the workers that have most ranks, consecutive ones each."""
    for shards in consecutive(job.graph.shards, most_ranks(job, exchange)):
        yield facts_of(job.graph, job.kernel, shards)


def budgets(job: Job, exchange: str, every: Sequence[disk_ranks.DiskRankFacts]) -> tuple[int, int]:
    """Device and host memory that the ranks of each worker may use; ``every`` worker's facts."""
    is_dealt, resources = exchange == SCHEDULER, job.resources
    on_host = resources.least_limit_bytes if is_dealt else resources.process_limit_bytes
    device_bytes, limit = cuda_pinned.budget_of(resources), resources.cuda_limits.pinned_bytes
    disk_ranks.require_disk_ranks(every, device_bytes, on_host)
    if limit is None:
        return device_bytes, on_host
    least = max(disk_ranks.least_disk_ranks(facts).host_bytes for facts in every)
    return device_bytes, min(on_host, limit + least)


def describe(
    job: Job, every: Iterable[disk_ranks.DiskRankFacts], reserved: Reservation
) -> dict[str, Any]:
    """What is on the device of the worker whose ranks have most arcs, and in the store."""
    most = max(every, key=lambda one: one.ranks.arcs)
    plan = disk_ranks.plan_disk_ranks(most, reserved.device_bytes, reserved.host_bytes)
    stored = cpu_disk.known_facts(job.graph, job.kernel).stored_bytes
    left = {"bytes that stay in the store": stored(plan.arcs - plan.arcs_on_device)}
    return describe_disk(plan) | {"tier": "disk, by ranks"} | left


def load(loading: RankLoading, device: Any) -> dict[int, TierSearch]:
    """Bring the heads of rows to the device, as `pinned_ranks.load` does; ranks share budgets."""
    given = loading.graph, loading.kernel

    def load_rank(shard: int, plan: disk_ranks.DiskRankPlan) -> TierSearch:
        return load_disk_rank(*given, shard, plan, device)

    return load_each(loading, facts_of(*given, loading.shards), load_rank)


def load_each(
    loading: RankLoading,
    facts: disk_ranks.DiskRankFacts,
    load_rank: Callable[[int, disk_ranks.DiskRankPlan], TierSearch],
) -> dict[int, TierSearch]:
    """As `load`, by what loads the rank of a shard by the plan of all; ``facts`` are theirs."""
    reserved = loading.reserved
    least = disk_ranks.least_disk_ranks(facts).device_bytes
    free = cuda_pinned.free_within(reserved.device_bytes, least, 0, loading.what)

    def within(device_bytes: int) -> disk_ranks.DiskRankPlan:
        return disk_ranks.plan_disk_ranks(facts, device_bytes, reserved.host_bytes)

    def make(plan: disk_ranks.DiskRankPlan) -> dict[int, TierSearch]:
        with ExitStack() as undo:
            ranks: dict[int, TierSearch] = {}
            for shard in loading.shards:
                ranks[shard] = load_rank(shard, plan)
                undo.callback(ranks[shard].close)
            undo.pop_all()
        return ranks

    made = pinned_ranks.made_with_less(within, make, free, least)
    give_back_freed_memory()
    return made
