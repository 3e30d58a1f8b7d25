"""SSSP by ranks that have their own rows' distances alone, and leave arcs in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ooc_graph.memory.cpu.plan import Facts, describe, plan_disk
from ooc_graph.memory.cpu.plan import least_bytes as least_of
from ooc_graph.memory.heads import require_in_worker
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.resources import CPU
from ooc_graph.model.strategy import DISK
from ooc_graph.runtime import process
from ooc_graph.runtime.machine import give_back_freed_memory
from ooc_graph.runtime.warmup import OWNED_TIER_RANKS, warm
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_ranks import busiest_facts, facts_of_owners, load_owner
from ooc_graph.strategies.cpu.on_disk import has_tiers, known_lengths
from ooc_graph.strategies.owned_lists import (
    IN_STORE,
    LEAST_LISTED,
    LISTS_SHARE,
    MOST_LISTED,
    Owners,
    described,
    gathered_bytes,
    messages_bytes,
)
from ooc_graph.strategies.ranks import ADVICE, RankLoading, busiest


@dataclass(frozen=True)
class OwnedOnDisk(Owners):
    """The heads of rows in memory; each rank of an SSSP has the distances of its own rows alone."""

    name = "cpu/owned disk"
    device = CPU
    tier = DISK
    rank_rows = IN_STORE

    def lacks_rank(self, job: Job, exchange: str) -> str:
        """As `Owners`, and of graphs that are not in a store."""
        if lack := super().lacks_rank(job, exchange):
            return lack
        return "" if has_tiers(job.graph, job.kernel) else "arcs cannot stay in the store"

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:  # noqa: ARG002
        """The memory of the worker that has least; reads the graph's offsets."""
        available, least = job.resources.least_limit_bytes, least_bytes(job)
        require_in_worker(job.what, least, available, ADVICE)
        shards = job.graph.shards
        messages = messages_bytes(job.graph, shards, LEAST_LISTED)
        messages += (available - least) // LISTS_SHARE
        messages = min(messages, messages_bytes(job.graph, shards, MOST_LISTED))
        messages = max(messages, gathered_bytes(job))
        return Reservation(self.name, available, messages_bytes=messages)

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Heads, blocks of the store that are kept, and messages or the answer."""
        facts = _busiest_facts(job, reserved.messages_bytes)
        return describe(plan_disk(facts, reserved.host_bytes)) | described("disk")

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """Read the heads of rows; the ranks of a worker share its budget."""
        graph, device = loading.graph, process.device()
        warm(loading.kernel, graph, device, variant=OWNED_TIER_RANKS)
        facts = _facts_of(graph, loading.shards, loading.reserved.messages_bytes)
        plan = plan_disk(facts, loading.reserved.host_bytes)
        ranks = {shard: load_owner(graph, shard, plan, device) for shard in loading.shards}
        give_back_freed_memory()
        return ranks


def least_bytes(job: Job) -> int:
    """Least memory of the worker whose ranks need most; reads the graph's offsets."""
    listed = messages_bytes(job.graph, job.graph.shards, LEAST_LISTED)
    return least_of(_busiest_facts(job, max(listed, gathered_bytes(job))))


def _busiest_facts(job: Job, messages: int) -> Facts:
    """Of the worker whose ranks need most."""
    facts_of = partial(_facts_of, job.graph, messages=messages)
    return busiest_facts(job.graph.shards, busiest(job), facts_of)


def _facts_of(graph: Graph, shards: Sequence[int], messages: int) -> Facts:
    return facts_of_owners(graph, shards, known_lengths(graph, "sssp"), messages)
