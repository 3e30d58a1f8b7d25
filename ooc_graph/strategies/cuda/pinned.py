"""Searches on a CUDA device of graphs that do not fit it: their rows are in pinned host memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.cuda.pinned_plan import describe_device, plan_device
from ooc_graph.memory.cuda.pinned_ranks import plan_ranks
from ooc_graph.model import rank_memory
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.request import SCHEDULER, Job
from ooc_graph.model.reservation import BUSY, DEVICE, Refusal, Reservation
from ooc_graph.model.resources import CUDA
from ooc_graph.model.strategy import PINNED, StrategyDefaults
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import in_memory, pinned_budgets, pinned_ranks
from ooc_graph.strategies.cuda.in_memory import InMemory
from ooc_graph.strategies.cuda.pinned_budgets import pinned_bytes
from ooc_graph.strategies.ranks import RankLoading, most_ranks


@dataclass(frozen=True)
class Pinned(StrategyDefaults):
    """Rows in pinned host memory, and on the device what searches read most."""

    name = pinned_budgets.NAME
    device = CUDA
    tier = PINNED
    rank_rows = ", which have their rows in pinned host memory"

    def lacks(self, job: Job) -> str:
        """It is one rank, and pays only if the device has no room for all rows."""
        if not job.request.is_plain:
            return "another method or ranks are asked for"
        if not pinned_budgets.may_pin(job.graph, job.kernel):
            return "there are no kernels for such rows"
        fits = in_memory.cuda_bytes(job.graph, job.kernel) <= job.resources.device.memory_bytes
        return "all rows fit the device" if fits else ""

    def cached(self, job: Job) -> Reservation | None:
        """What a search before left here, if it was planned for as much device memory."""
        limit = job.resources.cuda_limits.pinned_bytes
        if limit is not None and pinned_bytes(job.graph, job.kernel) > limit:
            return None
        cached = in_memory.cached_on_device(self.name, job)
        wanted = pinned_budgets.budget_for(job), job.request.on_device
        is_same = cached is not None and (cached.device_bytes, cached.original_parents) == wanted
        return cached if is_same else None

    def reserve(self, job: Job) -> Reservation:
        """Reads the graph's offsets."""
        return self._reserved(job, pinned_budgets.plan_for(job).budget_bytes)

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:
        """If the device had no room for all rows: most of what is free there, or the least.

        The least may not be free either: then loading says so. If it was the host that had no
        room, it cannot pin rows either.
        """
        if refusal.kind not in (DEVICE, BUSY) or refusal.reserved.strategy != InMemory.name:
            return None
        kernel, limit = job.kernel, job.resources.cuda_limits.pinned_bytes
        if limit is not None and pinned_bytes(job.graph, kernel) > limit:
            return None
        within = min(refusal.reserved.device_bytes, refusal.freed.device_bytes) // 8 * 7
        least = pinned_budgets.least_device_bytes(
            job.graph, kernel, original_parents=job.request.on_device
        )
        return self._reserved(job, max(within, least))

    def _reserved(self, job: Job, budget_bytes: int) -> Reservation:
        pinned = pinned_bytes(job.graph, job.kernel)
        memory = pinned + pinned_budgets.host_bytes_beside(job.graph), budget_bytes, pinned
        return Reservation(self.name, *memory, original_parents=job.request.on_device)

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:
        """Bring rows to pinned memory, and to the device what the budget has room for."""
        device, original_parents = process.device(CUDA), reserved.original_parents
        least = pinned_budgets.least_device_bytes(graph, kernel, original_parents=original_parents)
        beside = pinned_budgets.answer_device_bytes(graph) if original_parents else 0
        what = f"{kernel} on {graph.name}"
        budget_bytes = pinned_budgets.free_within(reserved.device_bytes, least, beside, what)
        allocator = PinnedAllocator(process.thread_count())
        shard, ids = graph.load(ORDER_OF[kernel], room=allocator), load_ids(graph)
        is_narrow = original_parents and in_memory.has_narrow_ids(ids)
        names = ids.original_of.astype(np.uint32) if is_narrow else None
        within = graph, kernel, budget_bytes
        search, plan = pinned_budgets.search_within(*within, device, shard, allocator, names)

        def note(_: object) -> str:
            had = plan.budget_bytes
            said, wanted = pinned_budgets.note_of(plan), reserved.device_bytes
            return pinned_budgets.with_shortfall(said, wanted, had, "of the device's")

        return Engine(kernel, search, graph, ids, shard.tuples, is_narrow, plan, note=note)

    def lacks_rank(self, job: Job, exchange: str) -> str:
        """It pays only if the devices have no room for all rows, as of one rank."""
        shards = range(most_ranks(job, exchange))
        needed = rank_memory.ranks_bytes(job.graph, job.kernel, shards)
        fits = needed <= job.resources.device.memory_bytes
        return "all rows fit the devices" if fits else ""

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:
        """Rows of its shards in pinned memory; reads the graph's offsets."""
        ranks = most_ranks(job, exchange)
        facts = list(pinned_ranks.facts_of_any(job.graph, job.kernel, ranks))
        least = max(map(pinned_ranks.least_bytes, facts))
        pinned = max(one.pinned_bytes for one in facts)
        rows = pinned + max(one.offset_bytes for one in facts)
        is_least, how = exchange == SCHEDULER, " by ranks with rows in pinned host memory"
        in_memory.require_rows(job, rows, least, pinned, is_least=is_least, how=how)
        device_bytes = max(pinned_budgets.budget_of(job.resources), least)
        return Reservation(self.name, in_memory.host_bytes(job.graph, rows), device_bytes, pinned)

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """As `describe`, of the worker that pins most."""
        ranks = most_ranks(job, reserved.exchange)
        facts = pinned_ranks.facts_of_any(job.graph, job.kernel, ranks)
        most = max(facts, key=lambda one: one.pinned_bytes)
        tier = {"tier": "pinned, by ranks"}
        return describe_device(plan_ranks(most, reserved.device_bytes)) | tier

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """Bring the rows of each shard to pinned memory; a worker's ranks share its budget."""
        device, given = process.device(CUDA), (loading.graph, loading.kernel, loading.shards)
        facts = pinned_ranks.facts_of(*given)
        wanted, least = loading.reserved.device_bytes, pinned_ranks.least_bytes(facts)
        budget_bytes = pinned_budgets.free_within(wanted, least, 0, loading.what)
        return pinned_ranks.load(*given, device, plan_ranks(facts, budget_bytes))

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """What is on the device, and what is pinned."""
        facts = pinned_budgets.known_facts(job.graph, job.kernel, reserved.original_parents)
        return describe_device(
            plan_device(job.kernel, facts, reserved.device_bytes, reserved.host_bytes)
        )

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """Where its rows are."""
        within = f"goes on within {reserved.device_bytes:,} bytes of the device's"
        return f"{kernel} keeps its rows in host memory and {within}"
