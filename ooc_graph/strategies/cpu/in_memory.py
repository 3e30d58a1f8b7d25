"""Searches on the CPU that bring all rows into memory.

What imports numba is imported while rows are read, which takes as long.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ooc_graph.answers.scatter import Ids
from ooc_graph.garbage import uncollected
from ooc_graph.kernels.common.decisions import FIXED_ROW_BYTES, hubs_are_large, may_fix_rows
from ooc_graph.kernels.common.device import search_of
from ooc_graph.kernels.common.sssp.rows import first_rows
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.heads import require_in_worker
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.request import SCHEDULER, Job
from ooc_graph.model.reservation import Refusal, Reservation
from ooc_graph.model.resources import CPU
from ooc_graph.model.strategy import MEMORY, Strategy, StrategyDefaults
from ooc_graph.ranges import alongside
from ooc_graph.runtime import engine_cache, process
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.ranks import ADVICE, RankLoading, ranks_bytes, vertex_bytes
from ooc_graph.types import Shard


@dataclass(frozen=True)
class InMemory(StrategyDefaults):
    """All rows in memory, in one or two forms; one process searches."""

    name = "cpu/memory"
    device = CPU
    tier = MEMORY

    def lacks(self, job: Job) -> str:
        """Refuses other methods, and ranks."""
        return "" if job.request.is_plain else "another method or ranks are asked for"

    def cached(self, job: Job) -> Reservation | None:
        """What a search before left here."""
        return cached_on_cpu(self, job)

    def reserve(self, job: Job) -> Reservation:
        """Rows in a second form, too, if there is room for it."""
        answer, limit = job.request.answer_bytes, job.resources.process_limit_bytes
        least = resident_bytes(job.graph, job.kernel, copies=False)
        require_in_worker(job.what, least + answer, limit, ADVICE)
        whole = least + _copied_bytes(job.graph, job.kernel)
        copies = whole + answer <= limit
        return Reservation(self.name, whole if copies else least, copies=copies)

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:
        """Rows in one form, if there was another."""
        least = resident_bytes(job.graph, job.kernel, copies=False)
        if refusal.reserved.strategy != self.name or refusal.reserved.host_bytes <= least:
            return None
        return Reservation(self.name, least)

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:
        """Read all rows; meanwhile numba is imported, and kernels made ready if they are known."""

        def ready() -> None:
            with uncollected():
                from ooc_graph.runtime.warmup import warm

                device = process.device()
            if kernel != "sssp":
                warm(kernel, graph, device)

        def read() -> tuple[Shard, Ids]:
            return graph.load(ORDER_OF[kernel]), load_ids(graph)

        shard, ids = alongside(read, ready)
        from ooc_graph.runtime.warmup import NEAR_FAR, warm

        with_copies = {} if reserved.copies else {"copies": False}
        search = search_of(process.device(), kernel)(shard, **with_copies)
        variant = NEAR_FAR if hasattr(search, "paired") else ""
        warm(kernel, graph, process.device(), variant=variant)
        return Engine(kernel, search, graph, ids, shard.tuples)

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:
        """Rows of its shards, and the state of all vertices."""
        needed = ranks_bytes(job)
        available = job.resources.least_limit_bytes
        if exchange == SCHEDULER:
            require_in_worker(job.what, needed, available, ADVICE)
        return Reservation(self.name, needed)

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Rows of all shards, and what vertices take."""
        return describe_rows(job, "memory, by ranks", reserved.host_bytes, 0)

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """Read the rows of each shard."""
        from ooc_graph.runtime.warmup import RANKS, warm

        warm(loading.kernel, loading.graph, process.device(), variant=RANKS)
        return loading.in_memory(process.device())

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Rows, their second form, and what vertices take."""
        least = resident_bytes(job.graph, job.kernel, copies=False)
        copied = reserved.host_bytes - least
        return describe_rows(job, "memory", least, copied)

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """How rows are kept."""
        forms = "two forms" if reserved.copies else "one form"
        return f"{kernel} keeps its rows in {forms}, {reserved.host_bytes:,} bytes in all"


def cached_on_cpu(strategy: Strategy, job: Job) -> Reservation | None:
    """What this process holds by a strategy; with a limit None: plans find it by its key."""
    if job.resources.is_limited or strategy.lacks(job):
        return None
    loaded = engine_cache.reservations(job.graph, job.kernel, CPU)
    return next((one for one in loaded if one.strategy == strategy.name), None)


def cached_if_short(strategy: Strategy, job: Job) -> Reservation | None:
    """As `cached_on_cpu`, of a strategy that leaves arcs in the store: None if all would fit."""
    whole = resident_bytes(job.graph, job.kernel, copies=False) + job.request.answer_bytes
    if whole <= job.resources.process_limit_bytes:
        return None
    return cached_on_cpu(strategy, job)


def describe_rows(job: Job, tier: str, least: int, copied: int) -> dict[str, Any]:
    """What a process holds that has rows in memory, JSON-able; ``copied`` is of other forms."""
    rows = job.graph.resident_bytes(ORDER_OF[job.kernel])
    return {
        "kernel": job.kernel,
        "tier": tier,
        "budget": job.resources.process_limit_bytes,
        "bytes: rows": rows,
        "bytes: rows in another form": copied,
        "bytes: id tables and vertex state": least - rows,
        "bytes: in all": least + copied,
        "share of arcs in memory": 1.0,
        "bytes that stay in the store": 0,
    }


def resident_bytes(graph: Graph, kernel: str, *, copies: bool = True) -> int:
    """Memory of one rank that searches the whole graph; without ``copies``, the least."""
    rows = graph.resident_bytes(ORDER_OF[kernel])
    copied = _copied_bytes(graph, kernel) if copies else 0
    return rows + copied + vertex_bytes(graph, kernel)


def _copied_bytes(graph: Graph, kernel: str) -> int:
    """Memory of rows in another form: fixed places for BFS, weights beside arcs for near-far."""
    sides = 2 if graph.directed else 1
    if kernel == "bfs" and may_fix_rows(graph.rows * sides, graph.stored_arcs):
        return FIXED_ROW_BYTES * graph.rows * sides
    weights, arcs = graph.weight_dtype, graph.arcs
    if kernel != "sssp" or weights is None:
        return 0
    from ooc_graph.kernels.cpu.sssp.near_far_search import may_pair_rows, paired_bytes

    if not may_pair_rows(weights, graph.rows, arcs):
        return 0
    if weights.kind == "f" and hubs_are_large(graph.head_share(first_rows(graph.rows))):
        return 0
    return paired_bytes(graph.rows, arcs)
