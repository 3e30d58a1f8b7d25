"""PageRank on graphs whose arcs do not fit memory: all of them are streamed in each iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout.names import PAGERANK, WEIGHTED_PAGERANK
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.stream_plan import (
    StreamFacts,
    StreamPlan,
    describe,
    least_streamed,
    plan_streams,
)
from ooc_graph.memory.heads import require_in_worker
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import LOCAL, Refusal, Reservation
from ooc_graph.model.resources import CPU
from ooc_graph.model.strategy import DISK, StrategyDefaults
from ooc_graph.runtime import process
from ooc_graph.runtime.machine import give_back_freed_memory
from ooc_graph.runtime.warmup import STREAMS, warm
from ooc_graph.shards.load import Graph
from ooc_graph.shards.streams import facts_of_streams, load_streams
from ooc_graph.strategies.cpu.in_memory import cached_if_short
from ooc_graph.strategies.cpu.on_disk import how_read
from ooc_graph.strategies.ranks import ADVICE, RankLoading, busiest


@dataclass(frozen=True)
class OnStream(StrategyDefaults):
    """Offsets and the state of vertices in memory, arcs in the store; one process searches."""

    name = "cpu/stream"
    device = CPU
    tier = DISK
    rank_rows = ", which stream arcs from the store"

    def lacks(self, job: Job) -> str:
        """Refuses other kernels, ranks, and graphs that are not in a store."""
        if not job.request.is_plain:
            return "another method or ranks are asked for"
        return _lacks(job)

    def cached(self, job: Job) -> Reservation | None:
        """What a search before left here, unless all rows would fit by now."""
        return cached_if_short(self, job)

    def reserve(self, job: Job) -> Reservation:
        """All that may be used: what is not needed keeps arcs."""
        available, answer = job.resources.process_limit_bytes, job.request.answer_bytes
        least = least_streamed(facts_of_whole(job.graph, job.kernel)) + answer
        require_in_worker(job.what, least, available, ADVICE)
        return Reservation(self.name, available - answer)

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:
        """No more than ranks were refused; else half of what was, or the least there is."""
        refused = refusal.reserved.host_bytes
        least = least_streamed(facts_of_whole(job.graph, job.kernel))
        if refusal.reserved.is_of_ranks:
            return Reservation(self.name, max(min(self.reserve(job).host_bytes, refused), least))
        if refused <= least:
            raise MemoryBudgetError(
                f"{job.what} needs {refused:,} bytes at least in one worker, and the system "
                "refuses them"
            )
        return Reservation(self.name, max(refused // 2, least))

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:
        """Read offsets, and with weights each out-arc once."""
        device = process.device()
        warm(kernel, graph, device, variant=STREAMS)
        plan = plan_streams(facts_of_whole(graph, kernel), reserved.host_bytes)
        search = load_streams(graph, kernel, range(graph.shards), plan, device)
        give_back_freed_memory()

        def note(io_stats: IoStats) -> str:
            return note_of(plan, io_stats)

        return Engine(kernel, search, graph, load_ids(graph), None, note=note)

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Blocks of the store that are kept, and what vertices take."""
        facts = facts_of_whole(job.graph, job.kernel)
        return describe(plan_streams(facts, reserved.host_bytes))

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """How much it keeps."""
        within = f"goes on within {reserved.host_bytes:,} bytes"
        return f"{kernel} streams arcs from the store and {within}"

    def lacks_rank(self, job: Job, exchange: str) -> str:
        """Out of the store one process does as well as its ranks."""
        return "there are no workers to share the work" if exchange == LOCAL else _lacks(job)

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:  # noqa: ARG002
        """The memory of the worker that has least."""
        available, least = job.resources.least_limit_bytes, least_streamed(_busiest_facts(job))
        require_in_worker(job.what, least, available, ADVICE)
        return Reservation(self.name, available)

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """As `describe`, of the worker that has the most shards."""
        plan = plan_streams(_busiest_facts(job), reserved.host_bytes)
        return describe(plan) | {"tier": "disk, by ranks"}

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """Read offsets; the ranks of a worker share its budget, and read side by side."""
        given, device = (loading.graph, loading.kernel), process.device()
        warm(loading.kernel, loading.graph, device, variant=STREAMS)
        facts = facts_of_streams(*given, loading.shards, len(loading.shards))
        plan = plan_streams(facts, loading.reserved.host_bytes)
        return {shard: load_streams(*given, [shard], plan, device) for shard in loading.shards}


def facts_of_whole(graph: Graph, kernel: str) -> StreamFacts:
    """Of one process that has all shards, which take turns at reading."""
    return facts_of_streams(graph, kernel, range(graph.shards), 1)


def note_of(plan: StreamPlan, io_stats: IoStats) -> str:
    """What is said of a search with streamed arcs."""
    share = 100 * plan.kept_share
    return f"{plan.facts.kernel} kept {share:.1f} % of the arcs in memory and {how_read(io_stats)}"


def _lacks(job: Job) -> str:
    if job.kernel not in (PAGERANK, WEIGHTED_PAGERANK):
        return "only pagerank looks at every arc in every pass"
    return "" if isinstance(job.graph.stored, Stored) else "the graph is in memory already"


def _busiest_facts(job: Job) -> StreamFacts:
    """Of the worker that has the first shards: they have the hubs, and most rows."""
    mine = busiest(job)
    return facts_of_streams(job.graph, job.kernel, range(mine), mine)
