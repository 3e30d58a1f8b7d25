"""SSSP by ranks on CUDA devices that own their distances, and leave arcs in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.memory.cuda.disk_ranks import DiskRankFacts, DiskRankPlan, least_disk_ranks
from ooc_graph.model import rank_memory
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.resources import CUDA
from ooc_graph.model.strategy import DISK
from ooc_graph.runtime import process
from ooc_graph.shards.device_ranks import load_disk_owner
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_ranks import consecutive
from ooc_graph.shards.tiers import TierSearch
from ooc_graph.strategies.cuda import disk_ranks, on_disk, owned
from ooc_graph.strategies.owned_lists import (
    IN_STORE,
    LEAST_LISTED,
    LISTS_SHARE,
    MOST_LISTED,
    Owners,
    described,
    messages_bytes,
    most_listed,
)
from ooc_graph.strategies.ranks import RankLoading, busiest


@dataclass(frozen=True)
class OwnedOnDisk(Owners):
    """The heads of rows on the devices; each rank of an SSSP has the distances of its own rows."""

    name = "cuda/owned disk"
    device = CUDA
    tier = DISK
    rank_rows = IN_STORE

    def lacks_rank(self, job: Job, exchange: str) -> str:
        """As `Owners`, and as other ranks that leave arcs in the store."""
        return super().lacks_rank(job, exchange) or on_disk.OnDisk().lacks_rank(job, exchange)

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:
        """What there is of either memory; reads the graph's offsets."""
        graph, ranks = job.graph, range(busiest(job))
        every = _facts_of_any(job, LEAST_LISTED)
        device_bytes, host_bytes = disk_ranks.budgets(job, exchange, every)
        least = list(map(least_disk_ranks, every))
        device_spare = device_bytes - max(plan.device_bytes for plan in least)
        host_spare = host_bytes - max(plan.host_bytes for plan in least)
        listed = MOST_LISTED
        while listed > LEAST_LISTED and (
            LISTS_SHARE * rank_memory.listed_bytes(graph, ranks, listed) > device_spare
            or LISTS_SHARE * messages_bytes(graph, graph.shards, listed) > host_spare
        ):
            listed //= 2
        messages = messages_bytes(graph, graph.shards, listed)
        return Reservation(self.name, host_bytes, device_bytes, messages_bytes=messages)

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """As of other ranks that leave arcs in the store."""
        listed = most_listed(reserved, job.graph, job.graph.shards)
        facts = _facts_of_any(job, listed)
        return disk_ranks.describe(job, facts, reserved) | described("disk")

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """Bring the heads of rows to the device; the ranks of a worker share its budgets."""
        graph, device = loading.graph, process.device(CUDA)
        listed = most_listed(loading.reserved, graph, graph.shards)

        def load_rank(shard: int, plan: DiskRankPlan) -> TierSearch:
            return load_disk_owner(graph, shard, plan, device)

        return disk_ranks.load_each(loading, facts_of(graph, loading.shards, listed), load_rank)


def facts_of(graph: Graph, shards: Sequence[int], listed: int) -> DiskRankFacts:
    """What a plan for these ranks of one worker depends on, if each lists so many candidates."""
    facts = disk_ranks.facts_of(graph, "sssp", shards)
    return replace(
        facts,
        ranks=owned.facts_of(graph, shards, listed),
        host_bytes=facts.host_bytes + messages_bytes(graph, graph.shards, listed),
        owns_distances=True,
    )


def _facts_of_any(job: Job, listed: int) -> list[DiskRankFacts]:
    """Facts of workers with so many consecutive ranks each."""
    every = consecutive(job.graph.shards, busiest(job))
    return [facts_of(job.graph, shards, listed) for shards in every]
