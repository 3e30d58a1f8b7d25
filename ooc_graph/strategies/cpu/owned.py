"""SSSP by ranks that have the distances of their own rows alone: its memory, and its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ooc_graph.exchange.routing import fewest_ranks
from ooc_graph.layout.names import LIGHT
from ooc_graph.memory.heads import require_in_worker
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.resources import CPU
from ooc_graph.model.strategy import MEMORY
from ooc_graph.runtime import process
from ooc_graph.runtime.warmup import OWNED_RANKS, warm
from ooc_graph.shards.tier_ranks import ANSWER_COPIES, SETTLED_BYTES
from ooc_graph.strategies.owned_lists import (
    LEAST_LISTED,
    MOST_LISTED,
    Owners,
    described,
    gathered_bytes,
    messages_bytes,
    sizes_of,
)
from ooc_graph.strategies.ranks import ADVICE, RankLoading, busiest
from ooc_graph.types import Dealing


@dataclass(frozen=True)
class Owned(Owners):
    """All rows in memory; each rank of an SSSP has the distances of its own rows alone."""

    name = "cpu/owned"
    device = CPU
    tier = MEMORY

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:  # noqa: ARG002
        """Rows of its shards and their state, and lists as long as there is memory for."""
        available, fixed = job.resources.least_limit_bytes, rows_bytes(job) + state_bytes(job)
        require_in_worker(job.what, least_bytes(job), available, ADVICE)
        fitting = (available - fixed) // messages_bytes(job.graph, ranks_of(job), 1)
        messages = messages_bytes(job.graph, ranks_of(job), min(MOST_LISTED, fitting))
        needed = fixed + max(messages, gathered_bytes(job))
        return Reservation(self.name, needed, messages_bytes=messages)

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Out-arcs of its shards, the state of their rows, and messages or the answer."""
        rows, in_all = rows_bytes(job), reserved.host_bytes
        return {
            "kernel": job.kernel,
            **described("memory"),
            "budget": job.resources.least_limit_bytes,
            "bytes: rows": rows,
            "bytes: state of its vertices": state_bytes(job),
            "bytes: messages, or the answer": in_all - rows - state_bytes(job),
            "bytes: in all": in_all,
            "share of arcs in memory": 1.0,
            "bytes that stay in the store": 0,
        }

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """Read the out-arcs of each of the missing shards."""
        graph, device = loading.graph, process.device()
        warm(loading.kernel, graph, device, variant=OWNED_RANKS)
        ranks = loading.ranks or graph.shards
        return {
            shard: device.owned_sssp_rank(graph.load_out(shard, ranks)) for shard in loading.missing
        }


def least_bytes(job: Job) -> int:
    """Least memory of the worker that has most shards."""
    least = messages_bytes(job.graph, ranks_of(job), LEAST_LISTED)
    return rows_bytes(job) + state_bytes(job) + max(least, gathered_bytes(job))


def rows_bytes(job: Job) -> int:
    """Memory of the out-arcs of the worker that has the hubs, and most shards."""
    return job.graph.resident_bytes(LIGHT, range(busiest(job)), out_only=True)


def own_row_bytes(id_bytes: int, distance_bytes: int) -> int:
    """Memory of an own row beside its arcs: its search, its first weight, its answer."""
    searched = 3 * id_bytes + 2 * distance_bytes + 16
    return searched + ANSWER_COPIES * (id_bytes + distance_bytes)


def state_bytes(job: Job) -> int:
    """Memory of the state of its rows, and of bitmaps."""
    graph = job.graph
    each = own_row_bytes(*sizes_of(graph))
    own = sum(Dealing(graph.rows, graph.shards, shard).rows for shard in range(busiest(job)))
    return own * each + graph.rows * SETTLED_BYTES


def ranks_of(job: Job) -> int:
    """Ranks of all workers together."""
    shards, resources = job.graph.shards, job.resources
    return fewest_ranks(shards, min(resources.processes, shards), resources.threads)
