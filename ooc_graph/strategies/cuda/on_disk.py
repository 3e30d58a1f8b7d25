"""Searches on a CUDA device of graphs whose rows stay in the store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.memory.cuda.disk import describe_disk
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.request import Job
from ooc_graph.model.reservation import BUSY, HOST, UNSUPPORTED, Refusal, Reservation
from ooc_graph.model.resources import CUDA
from ooc_graph.model.strategy import DISK, StrategyDefaults
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cuda import disk_budgets, disk_ranks
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.cuda.pinned import Pinned
from ooc_graph.strategies.ranks import RankLoading


@dataclass(frozen=True)
class OnDisk(StrategyDefaults):
    """Arcs in the store; on the device and in host memory those that searches read most.

    Rows are loaded again if strategies that come before have room by now.
    """

    name = disk_budgets.NAME
    device = CUDA
    tier = DISK
    rank_rows = ", which leave arcs in the store"

    def lacks(self, job: Job) -> str:
        """It is one rank, of a graph in a store."""
        if not job.request.is_plain:
            return "another method or ranks are asked for"
        is_suited = disk_budgets.suits(job.graph, job.kernel, job.resources)
        return "" if is_suited else "arcs cannot stay in the store, or it does not pay"

    def reserve(self, job: Job) -> Reservation:
        """Reads the graph's offsets."""
        return self._reserved(job, *disk_budgets.budgets_for(job))

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:
        """Less of what was refused, down to the least; without host memory if that may be short."""
        refused = refusal.reserved
        if refusal.kind == UNSUPPORTED:
            return None
        if refused.strategy == self.name:
            return self._shrunk(job, refusal)
        if refused.is_of_ranks:
            return None if refusal.kind == BUSY else self.reserve(job)
        is_hosts = refusal.kind == HOST or refused.strategy == Pinned.name
        host_bytes = 0 if is_hosts else job.resources.cuda_limits.pinned_bytes or 0
        within = min(refused.device_bytes, refusal.freed.device_bytes // 8 * 7)
        device_bytes = max(within, disk_budgets.least_device_bytes(job.graph, job.kernel))
        return self._reserved(job, device_bytes, host_bytes)

    def _reserved(self, job: Job, device_bytes: int, host_bytes: int) -> Reservation:
        memory = host_bytes, device_bytes, host_bytes
        return Reservation(self.name, *memory, original_parents=job.request.on_device)

    def _shrunk(self, job: Job, refusal: Refusal) -> Reservation | None:
        refused = refusal.reserved
        if refusal.kind == HOST:
            less = replace(refused, host_bytes=0, pinned_bytes=0)
            return less if refused.host_bytes else None
        if not refusal.freed.was_loaded:
            # Loading goes down to the least itself.
            return None
        facts = disk_budgets.known_facts(job.graph, job.kernel)
        least = disk_budgets.least_plan(facts).device_bytes
        device_bytes = max(refused.device_bytes, least)
        needed = disk_budgets.plan_within(facts, device_bytes, refused.host_bytes).device_bytes
        if needed <= least:
            return None
        return replace(refused, device_bytes=disk_budgets.less_than(device_bytes, needed, least))

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:
        """Bring what the budgets have room for to the device and to host memory."""
        process.device(CUDA)
        least = disk_budgets.least_device_bytes(graph, kernel)
        beside = disk_budgets.answer_device_bytes(graph) if reserved.original_parents else 0
        what = f"{kernel} on {graph.name}"
        device_bytes = cuda_pinned.free_within(reserved.device_bytes, least, beside, what)
        ids = load_ids(graph)
        budgets = device_bytes, reserved.host_bytes
        search = disk_budgets.load_within(graph, kernel, *budgets, process.thread_count())

        def note(io_stats: IoStats) -> str:
            plan, said = search.plan, disk_budgets.note_of(search, io_stats)
            for wanted, had, of in (
                (reserved.device_bytes, plan.device_budget_bytes, "of the device's"),
                (reserved.host_bytes, plan.host_budget_bytes, "of the host's"),
            ):
                said = cuda_pinned.with_shortfall(said, wanted, had, of)
            return said

        return Engine(kernel, search, graph, ids, None, note=note)

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """What is on the device and in host memory, and what stays in the store."""
        disk_facts = disk_budgets.known_facts(job.graph, job.kernel)
        plan = disk_budgets.plan_within(disk_facts, reserved.device_bytes, reserved.host_bytes)
        facts = cpu_disk.known_facts(job.graph, job.kernel)
        # At least: some arcs of hubs may be held twice.
        left = max(facts.arcs - plan.arcs_on_device - plan.arcs_in_host, 0)
        return {**describe_disk(plan), "bytes that stay in the store": facts.stored_bytes(left)}

    def lacks_rank(self, job: Job, exchange: str) -> str:  # noqa: ARG002
        """Of a graph in a store; ids of 64 bits, and weights of every type, are searched."""
        whom = job.graph, job.kernel
        if job.kernel not in disk_budgets.LOADERS or not cpu_disk.has_tiers(*whom):
            return "arcs cannot stay in the store"
        return "" if disk_budgets.pays(*whom, job.resources) else "it does not pay"

    def reserve_rank(self, job: Job, exchange: str) -> Reservation:
        """What there is of either memory; reads the graph's offsets."""
        every = list(disk_ranks.facts_of_any(job, exchange))
        budgets = disk_ranks.budgets(job, exchange, every)
        return Reservation(self.name, budgets[1], budgets[0])

    def describe_rank(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """As `describe`, of the worker whose ranks have most arcs."""
        every = disk_ranks.facts_of_any(job, reserved.exchange)
        return disk_ranks.describe(job, every, reserved)

    def load_ranks(self, loading: RankLoading) -> dict[int, Any]:
        """Bring the heads of rows to the device."""
        return disk_ranks.load(loading, process.device(CUDA))

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """Where its arcs are."""
        return (
            f"{kernel} leaves arcs in the store and goes on within {reserved.device_bytes:,} bytes "
            f"of the device's, and {reserved.host_bytes:,} of the host's beside the least"
        )
