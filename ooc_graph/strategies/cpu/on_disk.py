"""Searches of graphs whose arcs do not fit memory: most of them stay in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import FROM_ONE
from ooc_graph.memory.cpu.plan import Facts, Plan, describe, least_bytes, plan_disk
from ooc_graph.memory.heads import require_in_worker
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import LOCAL, Refusal, Reservation
from ooc_graph.model.resources import CPU
from ooc_graph.model.strategy import DISK, StrategyDefaults
from ooc_graph.runtime import process
from ooc_graph.runtime.machine import give_back_freed_memory
from ooc_graph.runtime.same_graph import Remembered
from ooc_graph.runtime.warmup import TIER_RANKS, TIERS, warm
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_facts import LengthsByShard, facts_of, lengths_by_shard, require_stored
from ooc_graph.shards.tier_ranks import busiest_facts, facts_of_ranks, load_rank
from ooc_graph.shards.tiers import TierSearch, load_tiers
from ooc_graph.strategies.cpu.in_memory import cached_if_short
from ooc_graph.strategies.ranks import ADVICE, RankLoading, busiest

known_facts: Remembered[Facts] = Remembered(facts_of)
known_lengths: Remembered[LengthsByShard] = Remembered(lengths_by_shard)
"""Facts of a graph, and the lengths of its rows by shard; its offsets are read once, for
reading takes memory beside what is held."""


@dataclass(frozen=True)
class OnDisk(StrategyDefaults):
    """The heads of rows in memory, their tails in the store; one process searches."""

    name = "cpu/disk"
    device = CPU
    tier = DISK
    rank_rows = ", which leave arcs in the store"

    def lacks(self, job: Job) -> str:
        """Refuses other methods, ranks, and graphs that are not in a store."""
        if not job.request.is_plain:
            return "another method or ranks are asked for"
        return "" if has_tiers(job.graph, job.kernel) else "arcs cannot stay in the store"

    def cached(self, job: Job) -> Reservation | None:
        """What a search before left here, unless all rows would fit by now."""
        return cached_if_short(self, job)

    def reserve(self, job: Job) -> Reservation:
        """Reads the graph's offsets."""
        least = least_within(job.graph, job.kernel) + job.request.answer_bytes
        available = job.resources.process_limit_bytes
        require_in_worker(job.what, least, available, ADVICE)
        return Reservation(self.name, available - job.request.answer_bytes)

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:
        """No more than ranks were refused; else half of what was, or the least there is."""
        refused, least = refusal.reserved.host_bytes, least_within(job.graph, job.kernel)
        if refusal.reserved.is_of_ranks:
            most = self.reserve(job).host_bytes
            return Reservation(self.name, max(min(most, refused), least))
        if refused <= least:
            raise MemoryBudgetError(
                f"{job.what} needs {refused:,} bytes at least in one worker, and the system "
                "refuses them"
            )
        if refusal.reserved.strategy == self.name:
            # The plan may need far less than its budget, and no less within half of that.
            plan = plan_within(job.graph, job.kernel, refused)
            refused = min(refused, plan.bytes - plan.slack_bytes)
        return Reservation(self.name, max(refused // 2, least))

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:
        """Read the heads of rows."""
        warm(kernel, graph, process.device(), variant=TIERS)
        search = load_within(graph, kernel, reserved.host_bytes, process.device())

        def note(io_stats: IoStats) -> str:
            return note_of(search.plan, io_stats)

        return Engine(kernel, search, graph, load_ids(graph), None, note=note)

    def lacks_rank(self, job: Job, exchange: str) -> str:
        """Out of the store one process does as well as its ranks."""
        if exchange == LOCAL:
            return "there are no workers to share the work"
        return "" if has_tiers(job.graph, job.kernel) else "arcs cannot stay in the store"

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:  # noqa: ARG002
        """The memory of the worker that has least; reads the graph's offsets."""
        available = job.resources.least_limit_bytes
        require_in_worker(job.what, least_bytes(_busiest_facts(job)), available, ADVICE)
        return Reservation(self.name, available)

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Heads, blocks of the store that are kept, and messages."""
        facts = _busiest_facts(job)
        return describe(plan_disk(facts, reserved.host_bytes)) | {"tier": "disk, by ranks"}

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """Read the heads of rows; the ranks of a worker share its budget."""
        given, device = (loading.graph, loading.kernel), process.device()
        warm(loading.kernel, loading.graph, device, variant=TIER_RANKS)
        facts = facts_of_ranks(*given, loading.shards, known_lengths(*given))
        plan = plan_disk(facts, loading.reserved.host_bytes)
        ranks = {shard: load_rank(*given, shard, plan, device) for shard in loading.shards}
        give_back_freed_memory()
        return ranks

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Heads, blocks of the store that are kept, and what vertices take."""
        return describe(plan_within(job.graph, job.kernel, reserved.host_bytes))

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """How much it reads."""
        within = f"goes on within {reserved.host_bytes:,} bytes"
        return f"{kernel} leaves arcs in the store and {within}"


def _busiest_facts(job: Job) -> Facts:
    """Of the worker whose ranks need most."""
    given = job.graph, job.kernel

    def facts_of(shards: Sequence[int]) -> Facts:
        return facts_of_ranks(*given, shards, known_lengths(*given))

    return busiest_facts(job.graph.shards, busiest(job), facts_of)


def has_tiers(graph: Graph, kernel: str) -> bool:
    """Whether a graph's arcs can stay in a store while a kernel searches it."""
    try:
        require_stored(graph, kernel)
    except MemoryBudgetError:
        return False
    return kernel in FROM_ONE


def plan_within(graph: Graph, kernel: str, budget_bytes: int) -> Plan:
    """Plan for searches with arcs in the store; reads the graph's offsets."""
    return plan_disk(known_facts(graph, kernel), budget_bytes)


def least_within(graph: Graph, kernel: str) -> int:
    """Least memory that searches with arcs in the store do with; reads the graph's offsets."""
    return least_bytes(known_facts(graph, kernel))


def load_within(graph: Graph, kernel: str, budget_bytes: int, device: CpuDevice) -> TierSearch:
    """Bring what a budget has room for into memory."""
    search = load_tiers(graph, plan_within(graph, kernel, budget_bytes), device)
    give_back_freed_memory()
    return search


def note_of(plan: Plan, io_stats: IoStats) -> str:
    """What is said of a search with arcs in the store."""
    share = 100 * plan.head_arcs / max(plan.facts.arcs, 1)
    return (
        f"{plan.facts.kernel} held {share:.1f} % of the arcs in memory ({plan.rule} of each row) "
        f"and {how_read(io_stats)}"
    )


def how_read(io_stats: IoStats) -> str:
    """What was read of a store, and how that went."""
    read = f"read {io_stats.bytes:,} bytes of the store for {io_stats.rows:,} rows"
    if io_stats.overlap is None or io_stats.bytes_s is None or io_stats.blocks_in_flight is None:
        return read
    return (
        f"{read} in {io_stats.reading_s:.3g} s of reading, {io_stats.bytes_s / 1e6:,.0f} MB/s with "
        f"{io_stats.blocks_in_flight:.1f} blocks in flight; in {100 * io_stats.overlap:.0f} % of "
        "that time the search went on"
    )
