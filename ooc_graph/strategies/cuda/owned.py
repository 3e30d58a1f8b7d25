"""SSSP by ranks on CUDA devices that have the distances of their own rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.layout.names import LIGHT
from ooc_graph.memory.cuda.pinned_plan import describe_device
from ooc_graph.memory.cuda.pinned_ranks import RankFacts, RankPlan, plan_ranks
from ooc_graph.memory.heads import require_in_worker
from ooc_graph.model import rank_memory
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.resources import CUDA
from ooc_graph.model.strategy import MEMORY, PINNED
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_ranks import consecutive
from ooc_graph.strategies.cpu.on_disk import known_lengths
from ooc_graph.strategies.cuda import in_memory, pinned_budgets, pinned_ranks
from ooc_graph.strategies.owned_lists import (
    LEAST_LISTED,
    MOST_LISTED,
    Owners,
    described,
    gathered_bytes,
    messages_bytes,
    most_listed,
)
from ooc_graph.strategies.ranks import ADVICE, RankLoading, busiest

_HOW = " by ranks that own their distances"


@dataclass(frozen=True)
class Owned(Owners):
    """All rows on the devices; each rank of an SSSP has the distances of its own rows alone."""

    name = "cuda/owned"
    device = CUDA
    tier = MEMORY

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:  # noqa: ARG002
        """Rows of its shards on the device, their state, and tables as large as there is room for.

        Rows pass through host memory, and what ranks tell each other stays there.
        """
        shards = range(busiest(job))
        rows = _out_bytes(job.graph, shards)
        least = rows + _state_bytes(job.graph, shards, LEAST_LISTED)
        in_memory.require_rows(job, rows, least, is_least=True, how=_HOW)
        listed = _listed(job, rows, job.resources.device.memory_bytes - rows)
        return Reservation(
            self.name,
            _host_bytes(job, rows, listed),
            rows + _state_bytes(job.graph, shards, listed),
            messages_bytes=messages_bytes(job.graph, job.graph.shards, listed),
        )

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Out-arcs of its shards, and all else together."""
        rows = _out_bytes(job.graph, range(busiest(job)))
        return {
            "kernel": job.kernel,
            **described("device memory"),
            "device budget": job.resources.device.memory_bytes,
            "device bytes: rows": rows,
            "device bytes: vertex state and candidates, at most": reserved.device_bytes - rows,
            "device bytes: in all": reserved.device_bytes,
            "bytes of pinned host memory": 0,
            "share of arcs on the device": 1.0,
        }

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """Bring the out-arcs of each of the missing shards to the device."""
        device, graph, missing = process.device(CUDA), loading.graph, loading.missing
        listed = most_listed(loading.reserved, graph, graph.shards)
        needed = _out_bytes(graph, missing) + rank_memory.owned_bytes(graph, missing, loading.kept)
        needed += rank_memory.listed_bytes(graph, loading.shards, listed)
        cuda_modules.require_memory(needed, loading.what)
        return {
            shard: device.owned_sssp_rank(graph.load_out(shard, graph.shards)) for shard in missing
        }


@dataclass(frozen=True)
class PinnedOwned(Owners):
    """As `Owned` with rows in pinned host memory, and the first arcs of each on the device."""

    name = "cuda/owned pinned"
    device = CUDA
    tier = PINNED
    rank_rows = f"{Owners.rank_rows}, and these in pinned host memory"

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:  # noqa: ARG002
        """Rows of its shards in pinned memory; reads the graph's offsets."""
        graph, ranks = job.graph, busiest(job)
        facts = _facts_of_any(graph, ranks, LEAST_LISTED)
        least = max(map(pinned_ranks.least_bytes, facts))
        pinned = max(one.pinned_bytes for one in facts)
        rows = pinned + max(one.offset_bytes for one in facts)
        in_memory.require_rows(job, rows, least, pinned, is_least=True, how=_HOW)
        device_bytes = max(pinned_budgets.budget_of(job.resources), least)
        beside = least - _state_bytes(graph, range(ranks), LEAST_LISTED)
        listed = _listed(job, rows, device_bytes - beside)
        messages = messages_bytes(graph, graph.shards, listed)
        return Reservation(
            self.name,
            _host_bytes(job, rows, listed),
            device_bytes,
            pinned,
            messages_bytes=messages,
        )

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """What is on the device, and what is pinned, of the worker that pins most."""
        listed = most_listed(reserved, job.graph, job.graph.shards)
        facts = _facts_of_any(job.graph, busiest(job), listed)
        most = max(facts, key=lambda one: one.pinned_bytes)
        return describe_device(plan_ranks(most, reserved.device_bytes)) | described("pinned")

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """Bring the rows of each shard to pinned memory; a worker's ranks share its budget."""
        device, graph, reserved = process.device(CUDA), loading.graph, loading.reserved
        listed = most_listed(reserved, graph, graph.shards)
        facts = facts_of(graph, loading.shards, listed)
        least = pinned_ranks.least_bytes(facts)
        free = pinned_budgets.free_within(reserved.device_bytes, least, 0, loading.what)
        allocator = PinnedAllocator(process.thread_count())
        rows = {
            shard: graph.load_out(shard, graph.shards, room=allocator) for shard in loading.shards
        }

        def made(plan: RankPlan) -> dict[int, Any]:
            share = plan.share.least, plan.share.shift
            return {
                s: device.tier_owned_sssp_rank(one, allocator, *share) for s, one in rows.items()
            }

        return pinned_ranks.made_with_less(
            lambda budget: plan_ranks(facts, budget), made, free, least
        )


def _out_bytes(graph: Graph, shards: Sequence[int]) -> int:
    return graph.resident_bytes(LIGHT, shards, out_only=True)


def _state_bytes(graph: Graph, shards: Sequence[int], listed: int) -> int:
    """Device memory of ranks beside their rows, if each lists so many candidates."""
    more = rank_memory.listed_bytes(graph, shards, listed)
    return rank_memory.owned_bytes(graph, shards) + more


def _host_bytes(job: Job, rows: int, listed: int) -> int:
    """Host memory: rows, id tables and the answer, and messages."""
    messages = messages_bytes(job.graph, job.graph.shards, listed)
    return in_memory.host_bytes(job.graph, rows) + max(messages, gathered_bytes(job))


def _listed(job: Job, rows: int, device_bytes: int) -> int:
    """Candidates that a rank may list at a time; ``device_bytes`` are there beside the rows."""
    available, shards = job.resources.least_limit_bytes, range(busiest(job))
    least = _host_bytes(job, rows, LEAST_LISTED)
    require_in_worker(f"{job.what}{_HOW}", least, available, ADVICE)
    listed = MOST_LISTED
    while listed > LEAST_LISTED and (
        _state_bytes(job.graph, shards, listed) > device_bytes
        or _host_bytes(job, rows, listed) > available
    ):
        listed //= 2
    return listed


def facts_of(graph: Graph, shards: Sequence[int], listed: int) -> RankFacts:
    """What a plan for these ranks of one worker depends on; reads the graph's offsets."""
    lengths, facts = known_lengths(graph, "sssp"), pinned_ranks.facts_of(graph, "sssp", shards)
    out = tuple(lengths[shard][0] for shard in shards)
    return replace(facts, sides=out, state_bytes=_state_bytes(graph, shards, listed))


def _facts_of_any(graph: Graph, ranks: int, listed: int) -> Sequence[RankFacts]:
    """Facts of workers with so many consecutive ranks each."""
    return [facts_of(graph, shards, listed) for shards in consecutive(graph.shards, ranks)]
