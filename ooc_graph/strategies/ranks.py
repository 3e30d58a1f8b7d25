"""Searches by many ranks, each with its rows where a strategy of one process has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from ooc_graph.layout.names import ORDER_OF, PAGERANK, WEIGHTED_PAGERANK, id_dtype
from ooc_graph.model.request import ANY, ROWS, SCHEDULER, Job
from ooc_graph.model.reservation import BUSY, HOST, LOCAL, UNSUPPORTED, Refusal, Reservation
from ooc_graph.model.resources import CPU
from ooc_graph.model.strategy import MEMORY, OTHER_METHOD, PINNED, KeepsRows, StrategyDefaults
from ooc_graph.shards.load import Graph

ADVICE = "raise --memory-limit or add workers that have the memory"
STATE_BYTES = {"bfs": 56, "sssp": 96, "components": 40, PAGERANK: 80, WEIGHTED_PAGERANK: 80}
"""Bytes of a vertex with arcs beside the rows: state of a search, heads kept apart, id tables, the
answer's pieces. Measured peaks are below it."""


@dataclass(frozen=True)
class RankLoading:
    """Ranks of a worker that are to be loaded for a kernel."""

    graph: Graph
    kernel: str
    # All shards that the worker has, and those whose ranks are not loaded: all of them, unless
    # rows are in memory.
    shards: Sequence[int]
    missing: Sequence[int]
    reserved: Reservation  # what all of them hold
    ranks: int | None = None  # how many shards there are if the store's are joined to fewer

    @property
    def kept(self) -> list[int]:
        """Shards whose ranks are loaded."""
        return [shard for shard in self.shards if shard not in self.missing]

    @property
    def what(self) -> str:
        """The search in words."""
        return f"{self.kernel} on {self.graph.name}"

    def in_memory(self, device: Any) -> dict[int, Any]:
        """The device's steps on rows of the missing shards, which are read for it."""
        order, steps = ORDER_OF[self.kernel], getattr(device, f"{self.kernel}_rank")
        load = partial(self.graph.load, order, shards=self.ranks)
        return {shard: steps(load(shard)) for shard in self.missing}


class OfRanks(KeepsRows, Protocol):
    """What many ranks can follow, each for its shards; most are strategies of one process, too."""

    @property
    def rank_rows(self) -> str:
        """What a summary says of where ranks have their rows, after a comma; or empty."""

    def lacks_rank(self, job: Job, exchange: str) -> str:
        """Why it is no candidate for the ranks of a request; or empty."""

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:
        """What the worker would hold that has most shards; errors are those of `reserve`."""

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """As `describe`, of that worker."""

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """The missing ones of a worker's ranks; errors are those of `load`."""


@dataclass(frozen=True)
class Ranks(StrategyDefaults):
    """The ranks of all workers, or of one process, which tell each other what they find.

    Those that workers keep are known to them alone, so that none are ``cached`` here.
    """

    inner: OfRanks  # where every rank has its rows

    @property
    def name(self) -> str:
        """Device and tier."""
        return f"{self.inner.name}, ranks"

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.inner.device

    @property
    def tier(self) -> int:
        """Where rows are."""
        return self.inner.tier

    @property
    def joins(self) -> bool:
        """Whether a worker's shards are joined to as few ranks as can be."""
        return self.device == CPU and self.tier == MEMORY

    def lacks(self, job: Job) -> str:
        """Ranks of one process are there only if they are asked for, or nothing else will do.

        If not all rows are in memory, one worker searches as well by itself.
        """
        if job.request.method != ROWS:
            return OTHER_METHOD
        exchange = self._exchange(job)
        if not exchange:
            return "there are no workers"
        is_alone = exchange == SCHEDULER and job.resources.processes == 1
        if is_alone and job.request.exchange == ANY and self.tier != MEMORY:
            return "there are no workers to share the work"
        return self.inner.lacks_rank(job, exchange)

    def reserve(self, job: Job) -> Reservation:
        """What the worker would hold that has most shards."""
        exchange = self._exchange(job)
        reserved = self.inner.reserve_rank(job, exchange)
        return replace(reserved, strategy=self.name, exchange=exchange)

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:
        """As of `Strategy`: each rank keeps its shards alone, or the state of its own rows alone.

        Ranks that leave arcs in the store keep only the heads of their rows. If ranks had all rows
        on devices and lacked host memory, they cannot pin rows either.
        """
        refused = refusal.reserved
        if job.request.on_device or refusal.kind in (BUSY, UNSUPPORTED):
            return None
        if refused.is_of_ranks:
            is_hosts = refusal.kind == HOST and self.tier == PINNED
            if is_hosts or refused.strategy == self.name:
                return None
        elif most_ranks(job, self._exchange(job)) == job.graph.shards:
            # All ranks in one process need no less.
            return None
        if self.tier == MEMORY and (self.joins or refusal.kind == HOST):
            # All rows go there, and what is listed for others has to fit beside them.
            most = min(job.resources.least_limit_bytes, refused.host_bytes - 1)
            job = replace(job, resources=replace(job.resources, least_limit_bytes=most))
        return self.reserve(job)

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """How they tell each other."""
        exchange, rows = reserved.exchange, self.inner.rank_rows
        return f"{kernel} is searched by ranks, exchange {exchange}{rows}"

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """The worker that has most shards; of a device all ranks on one."""
        return self.inner.describe_rank(job, reserved)

    def _exchange(self, job: Job) -> str:
        """How they tell each other; empty if there are none."""
        if job.request.exchange != ANY:
            return job.request.exchange
        if self.device == CPU:
            return SCHEDULER if job.resources.has_ranks else ""
        if job.resources.has_client:
            return SCHEDULER
        from ooc_graph.model import rank_memory  # noqa: PLC0415 (no search on the CPU needs it)

        return LOCAL if rank_memory.only_ranks(job.graph) else ""


def busiest(job: Job) -> int:
    """Shards of the busiest worker: they are dealt whole, and every worker takes part."""
    shards = job.graph.shards
    return -(-shards // min(job.resources.processes, shards))


def most_ranks(job: Job, exchange: str) -> int:
    """Ranks of the process that has most of them."""
    return busiest(job) if exchange == SCHEDULER else job.graph.shards


def ranks_bytes(job: Job) -> int:
    """Host memory of the busiest worker whose ranks search on the CPU."""
    rows = job.graph.resident_bytes(ORDER_OF[job.kernel]) * busiest(job) // job.graph.shards
    return rows + vertex_bytes(job.graph, job.kernel)


def vertex_bytes(graph: Graph, kernel: str) -> int:
    """Host memory beside rows on the CPU; vertices without arcs are in one id table alone."""
    isolated = graph.vertices - graph.rows
    return graph.rows * STATE_BYTES[kernel] + isolated * id_dtype(graph.rows).itemsize
