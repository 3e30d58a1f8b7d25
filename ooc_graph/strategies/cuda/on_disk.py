"""Searches on a CUDA device of graphs whose rows stay in the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.memory.cuda.disk import describe_disk
from ooc_graph.memory.cuda.disk_ranks import plan_disk_ranks
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import BUSY, HOST, UNSUPPORTED, Refusal, Reservation
from ooc_graph.model.resources import CUDA, Resources
from ooc_graph.model.strategy import DISK
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cuda import disk_budgets, disk_ranks
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.cuda.pinned import Pinned
from ooc_graph.types import Shard


@dataclass(frozen=True)
class OnDisk:
    """Arcs in the store; on the device and in host memory those that searches read most."""

    name = disk_budgets.NAME
    device = CUDA
    tier = DISK

    def lacks(self, graph: Graph, request: Request, resources: Resources) -> str:
        """It is one rank, of a graph in a store."""
        if not request.is_plain:
            return "another method or ranks are asked for"
        is_suited = disk_budgets.suits(graph, request.kernel, resources)
        return "" if is_suited else "arcs cannot stay in the store, or it does not pay"

    def cached(self, graph: Graph, request: Request, resources: Resources) -> Reservation | None:  # noqa: ARG002
        """Others come first: if they have room by now, rows are loaded again."""
        return None

    def reserve(self, graph: Graph, request: Request, resources: Resources) -> Reservation:
        """Reads the graph's offsets."""
        budgets = disk_budgets.budgets_for(
            graph,
            request.kernel,
            resources,
            answer_bytes=request.answer_bytes,
            on_device=request.on_device,
        )
        return self._reserved(request, *budgets)

    def after(
        self, graph: Graph, request: Request, resources: Resources, refusal: Refusal
    ) -> Reservation | None:
        """Less of what was refused, down to the least; without host memory if that may be short."""
        kernel, refused = request.kernel, refusal.reserved
        if refusal.kind == UNSUPPORTED:
            return None
        if refused.strategy == self.name:
            return self._shrunk(graph, kernel, refusal)
        if refused.is_of_ranks:
            return None if refusal.kind == BUSY else self.reserve(graph, request, resources)
        is_hosts = refusal.kind == HOST or refused.strategy == Pinned.name
        host_bytes = 0 if is_hosts else resources.cuda_limits.pinned_bytes or 0
        within = min(refused.device_bytes, refusal.freed.device_bytes // 8 * 7)
        device_bytes = max(within, disk_budgets.least_device_bytes(graph, kernel))
        return self._reserved(request, device_bytes, host_bytes)

    def _reserved(self, request: Request, device_bytes: int, host_bytes: int) -> Reservation:
        memory = host_bytes, device_bytes, host_bytes
        return Reservation(self.name, *memory, original_parents=request.on_device)

    def _shrunk(self, graph: Graph, kernel: str, refusal: Refusal) -> Reservation | None:
        refused = refusal.reserved
        if refusal.kind == HOST:
            less = replace(refused, host_bytes=0, pinned_bytes=0)
            return less if refused.host_bytes else None
        if not refusal.freed.was_loaded:
            # Loading goes down to the least itself.
            return None
        facts = disk_budgets.known_facts(graph, kernel)
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
        what = f"{kernel} on {graph.path}"
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

    def describe(
        self, graph: Graph, request: Request, resources: Resources, reserved: Reservation
    ) -> dict[str, Any]:
        """What is on the device and in host memory, and what stays in the store."""
        del resources
        disk_facts = disk_budgets.known_facts(graph, request.kernel)
        plan = disk_budgets.plan_within(disk_facts, reserved.device_bytes, reserved.host_bytes)
        facts = cpu_disk.known_facts(graph, request.kernel)
        # At least: some arcs of hubs may be held twice.
        left = max(facts.arcs - plan.arcs_on_device - plan.arcs_in_host, 0)
        return {**describe_disk(plan), "bytes that stay in the store": facts.stored_bytes(left)}

    def lacks_rank(
        self, graph: Graph, request: Request, resources: Resources, exchange: str
    ) -> str:
        """Of a graph in a store; ids of 64 bits, and weights of every type, are searched."""
        del exchange
        return disk_ranks.lacks(graph, request.kernel, resources)

    def reserve_rank(
        self, graph: Graph, request: Request, resources: Resources, exchange: str
    ) -> Reservation:
        """What there is of either memory; reads the graph's offsets."""
        budgets = disk_ranks.budgets(graph, request.kernel, resources, exchange)
        return Reservation(self.name, budgets[1], budgets[0])

    def describe_rank(
        self, graph: Graph, request: Request, resources: Resources, reserved: Reservation
    ) -> dict[str, Any]:
        """As `describe`, of the worker whose ranks have most arcs."""
        facts = disk_ranks.facts_of_any(graph, request.kernel, resources, reserved.exchange)
        most = max(facts, key=lambda one: one.ranks.arcs)
        plan = plan_disk_ranks(most, reserved.device_bytes, reserved.host_bytes)
        left = cpu_disk.known_facts(graph, request.kernel).stored_bytes(
            plan.arcs - plan.arcs_on_device
        )
        tier = {"tier": "disk, by ranks"}
        return describe_disk(plan) | tier | {"bytes that stay in the store": left}

    def load_ranks(
        self,
        graph: Graph,
        kernel: str,
        shards: Sequence[int],
        missing: Sequence[int],
        reserved: Reservation,
        bind: Callable[[Any, Shard], Any],  # noqa: ARG002
    ) -> dict[int, Any]:
        """Bring the heads of rows to the device."""
        device = process.device(CUDA)
        if not missing:
            return {}
        budgets = reserved.device_bytes, reserved.host_bytes
        return disk_ranks.load(graph, kernel, shards, missing, device, budgets)

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """Where its arcs are."""
        return (
            f"{kernel} leaves arcs in the store and goes on within {reserved.device_bytes:,} bytes "
            f"of the device's, and {reserved.host_bytes:,} of the host's beside the least"
        )
