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
        held = host_bytes, device_bytes, host_bytes
        return Reservation(self.name, *held, named=request.on_device)

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
        beside = disk_budgets.answer_device_bytes(graph) if reserved.named else 0
        what = f"{kernel} on {graph.path}"
        device_bytes = cuda_pinned.free_within(reserved.device_bytes, least, beside, what)
        ids = load_ids(graph)
        budgets = device_bytes, reserved.host_bytes
        search = load_within(graph, kernel, *budgets, process.thread_count())

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


def budgets_for(
    graph: Graph,
    kernel: str,
    resources: Resources,
    *,
    answer_bytes: int,
    on_device: bool = False,
    held_as: tuple[str, str] | None = None,
) -> tuple[int, int]:
    """Bytes of device and of host memory; those of the search before if it is still held.

    What it holds is no longer free, so that the next would have less. ``answer_bytes`` is host
    memory of an answer that is not written, and ``on_device`` says whether it stays on the device.
    ``held_as`` is kernel and strategy that a search is held for (None: this one).
    """
    name, strategy = held_as or (kernel, OnDisk.name)
    room, limit = resources.capacity(answer_bytes), resources.cuda_limits.pinned_bytes
    held = [] if resources.is_limited else engine_cache.reservations(graph, name, CUDA, room)
    on_top = answer_device_bytes(graph) if on_device else 0
    device_bytes = cuda_pinned.budget_of(resources) - on_top
    beside = beside_bytes(graph) + answer_bytes
    free = max(resources.process_limit_bytes - beside, 0)
    host_bytes = free if limit is None else min(limit, free)
    for one in held:
        if (one.strategy, one.device_bytes) != (strategy, device_bytes):
            continue
        # A limit that was met is met again. If less was free, or there is no limit, what is free
        # comes and goes, and loading again pays only for much more.
        may_hold = limit is None or one.host_bytes <= limit
        if one.host_bytes == limit or (may_hold and 2 * one.host_bytes >= host_bytes):
            return one.device_bytes, one.host_bytes
    facts = known_facts(graph, kernel)
    needed = least_plan(facts).host_bytes + beside
    if needed > resources.process_limit_bytes:
        more = "raise --memory-limit" if resources.is_limited else "that is what is free"
        raise MemoryBudgetError(
            f"{kernel} on {facts.rows:,} rows with arcs in the store needs at least {needed:,} "
            f"bytes of host memory, and {resources.process_limit_bytes:,} may be used; {more}"
        )
    plan = plan_within(facts, max(device_bytes, 0), host_bytes)
    return plan.device_budget_bytes, plan.host_budget_bytes


def may_stay(graph: Graph, kernel: str) -> bool:
    """Whether a graph's arcs can stay in a store while a CUDA device searches it."""
    if kernel not in LOADERS or rank_memory.only_ranks(graph):
        return False
    if kernel == "sssp" and graph.weight_dtype != np.float32:
        return False
    return cpu_disk.has_tiers(graph, kernel)


def suits(graph: Graph, kernel: str, resources: Resources) -> bool:
    """As `may_stay`, for the device that was asked for.

    Where SSSP has nothing to gain from pulling it goes on by many small steps, each of which may
    read: ``auto`` leaves that to the CPU, whose memory may have the rows.
    """
    if not may_stay(graph, kernel):
        return False
    return resources.wanted != AUTO or cuda_pinned.reads_little(graph, kernel)


def least_plan(facts: DiskFacts) -> DiskPlan:
    """Plan with the least memory that will do, of either kind."""
    return least_disk_plan(facts) if facts.kernel == "bfs" else least_disk_sssp(facts)


def plan_within(
    facts: DiskFacts, device_bytes: int, host_bytes: int, *, may_pin: bool = True
) -> DiskPlan:
    """Plan for budgets of device and host memory; see `plan_disk_device`."""
    plan = plan_disk_device if facts.kernel == "bfs" else plan_disk_sssp
    return plan(facts, device_bytes, host_bytes, may_pin=may_pin)


def facts_of(graph: Graph, kernel: str) -> DiskFacts:
    """What a plan for searches of a graph depends on; reads its offsets."""
    if kernel not in LOADERS:
        raise UsageError(
            f"{kernel} does not leave arcs in the store on a CUDA device, but {', '.join(LOADERS)} "
            "does; use --device cpu"
        )
    _, order = require_stored(graph, kernel)
    packed = graph.stored.spec(graph.arrays_of(order, "neighbors")[0][0]).packing is not None
    return DiskFacts(kernel, cuda_pinned.known_facts(graph, kernel), graph.shards, packed)


known_facts: Remembered[DiskFacts] = Remembered(facts_of)


def answer_device_bytes(graph: Graph) -> int:
    """Device memory that an answer takes which stays there, at most, while it is made."""
    return cuda_pinned.answer_device_bytes(graph) + graph.rows * _NAME_BYTES


def least_device_bytes(graph: Graph, kernel: str) -> int:
    """Least device memory of a search with arcs in the store; reads the graph's offsets."""
    return least_plan(known_facts(graph, kernel)).device_bytes


def _less_than(device_bytes: int, needed_bytes: int, least_bytes: int) -> int:
    """Budget to try after that of a plan was refused: three quarters, down to the least."""
    # A plan may be far below its budget, and would be the same with a little less.
    return max(least_bytes, min(device_bytes, needed_bytes) // 4 * 3)


def beside_bytes(graph: Graph) -> int:
    """Host memory of a search beside its plan: id tables, and pieces of an answer."""
    table = id_dtype(graph.rows).itemsize + (8 if graph.first_id is None else 0)
    pieces = min(ANSWER_VERTICES, graph.vertices) * ANSWER_VERTEX_BYTES + ANSWER_BLOCK_BYTES
    return graph.vertices * table + graph.rows * 8 + pieces


def load_within(
    graph: Graph, kernel: str, device_bytes: int, host_bytes: int, threads: int
) -> DeviceTierSearch:
    """A search within budgets of device and host memory; with less of what is refused.

    Without pinned memory it goes on in ordinary memory. If that is refused, it does with half of
    it, and of the device's with three quarters. ``threads`` touch pages which are pinned.
    """
    facts, unpinned = known_facts(graph, kernel), ""
    least = least_plan(facts)
    plan = plan_within(facts, device_bytes, host_bytes)
    while True:
        try:
            found = LOADERS[kernel](graph, plan, threads=threads)
        except PinningRefusedError as error:
            unpinned = str(error)
        except MemoryBudgetError:
            if plan.device_bytes <= least.device_bytes:
                raise
            device_bytes = _less_than(device_bytes, plan.device_bytes, least.device_bytes)
        except MemoryError:
            if plan.host_bytes <= least.host_bytes:
                raise
            host_bytes = min(host_bytes, plan.host_bytes) // 2
        else:
            give_back_freed_memory()
            return replace(found, unpinned=unpinned)
        # Only now: the frames of the error kept what they had of the memory.
        plan = plan_within(facts, device_bytes, host_bytes, may_pin=not unpinned)


def note_of(search: DeviceTierSearch, io_stats: IoStats) -> str:
    """What is said of a search with arcs in the store."""
    plan: DiskPlan = search.plan
    arcs = max(plan.facts.device.arcs, 1)
    shares = [100 * min(1, held / arcs) for held in (plan.arcs_on_device, plan.arcs_in_host)]
    said = (
        f"{plan.facts.kernel} had {shares[0]:.1f} % of the arcs on the device and {shares[1]:.1f} "
        f"% in host memory ({plan.rule} of each row), {plan.device_bytes:,} bytes of the device "
        f"and {plan.pinned_bytes:,} bytes of pinned memory, and read {io_stats.bytes:,} bytes of "
        f"the store for {io_stats.rows:,} rows{cpu_disk.how_read(io_stats)}"
    )
    return f"{said}; {search.unpinned}" if search.unpinned else said
