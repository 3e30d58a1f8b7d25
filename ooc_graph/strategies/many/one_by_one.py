"""Many sources on a CUDA device, each by a search from one source, wherever its rows are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.rank_memory import only_ranks
from ooc_graph.model.request import Job, Request
from ooc_graph.model.reservation import BUSY, DEVICE, HOST, Refusal, Reservation
from ooc_graph.model.resources import AUTO, CUDA
from ooc_graph.model.strategy import DISK, MEMORY, PINNED, StrategyDefaults, WholeGraph
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.cuda.pinned_budgets import pinned_bytes
from ooc_graph.strategies.many import described, tiers
from ooc_graph.strategies.many.batches import fits_on_cpu
from ooc_graph.strategies.many.memory import ID_BYTES, reweighted_bytes
from ooc_graph.strategies.many.on_disk import size_of, slice_of
from ooc_graph.strategies.many.task import Division, beside_bytes, require_answer

# Host memory of a row where an answer of the device's arrives: a level or distance as the device
# and as the answer has it, and a parent.
_TREE_BYTES = 20


@dataclass(frozen=True)
class OneByOne(StrategyDefaults):
    """One source after the other, by a strategy of one source."""

    inner: WholeGraph  # the strategy: where rows are

    device = CUDA

    @property
    def name(self) -> str:
        """That of the inner strategy, and the method."""
        return f"{self.inner.name}, {tiers.ONE_BY_ONE}"

    @property
    def tier(self) -> int:
        """Where rows are."""
        return self.inner.tier

    def lacks(self, job: Job) -> str:
        """If rows are not on the device, their weights are taken as the store has them."""
        if only_ranks(job.graph):
            return f"{job.kernel} on a CUDA device needs ids of 32 bits: use --device cpu"
        if job.resources.wanted == AUTO and fits_on_cpu(job):
            return "batches on the CPU may well be quicker"
        if self.tier == MEMORY:
            return ""
        if tiers.is_reweighted(job.graph, job.kernel):
            return "some weights are negative"
        return self.inner.lacks(replace(job, request=Request(tiers.single_of(job.kernel))))

    def reserve(self, job: Job) -> Reservation:
        """As a search from one source, with answers of many in host memory beside it."""
        require_answer(job)
        if self.tier == MEMORY:
            return self._in_memory(job)
        if self.tier == PINNED:
            plan = cuda_pinned.plan_for(_single(job), (job.kernel, self.name))
            division = self._divided(job, plan.budget_bytes)
            rows = pinned_bytes(job.graph, tiers.single_of(job.kernel))
            needed = division.needed_bytes + rows
            return replace(division, host_bytes=rows, pinned_bytes=rows, needed_bytes=needed)
        budgets = cuda_disk.budgets_for(_single(job), (job.kernel, self.name))
        return self._in_store(job, *budgets)

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:
        """What leaves more elsewhere; of the host only what has arcs in the store takes less."""
        refused, is_busy = refusal.reserved, refusal.kind == BUSY
        if refused.strategy == self.name:
            if refusal.kind != HOST or self.tier != DISK or not refused.host_bytes:
                return None
            return self._in_store(job, refused.device_bytes, 0)
        is_single = refused.method == tiers.ONE_BY_ONE
        has_less = self.tier == DISK or (self.tier == MEMORY and not is_single)
        may = {HOST: has_less, DEVICE: True, BUSY: is_single}
        if not may.get(refusal.kind) or (is_busy and self.tier == MEMORY):
            return None
        return self.reserve(job)

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:
        """Load the search from one source."""
        if tiers.is_reweighted(graph, kernel):
            return _load_reweighted(graph, kernel)
        single = self.inner.load(graph, tiers.single_of(kernel), reserved)
        return replace(single, kernel=kernel, search=tiers.singly(single.search, graph, kernel))

    def summary(self, kernel: str, reserved: Reservation) -> str:  # noqa: ARG002
        """Where its rows are."""
        rows = {MEMORY: "all rows there", PINNED: "rows in pinned host memory"}
        where = rows.get(self.tier, "arcs in the store")
        return f"{kernel} {tiers.ONE_BY_ONE} on the CUDA device, {where}"

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """What the inner strategy holds, and answers."""
        found, left = described.Description.of(job, reserved), "bytes that stay in the store"
        if self.tier == MEMORY:
            memory: dict[str, Any] = {
                "tier": "device memory",
                "device budget": found.resources.device.memory_bytes,
                "device bytes: in all": reserved.device_bytes,
            }
            rest = {"bytes of pinned host memory": 0, "share of arcs on the device": 1.0}
        else:
            memory, rest = self.inner.describe(_single(job), reserved), {}
            del memory["kernel"]
        stored = {left: memory.pop(left)} if self.tier == DISK else {}
        needed = found.division.needed_bytes
        if self.tier == PINNED:
            rest["bytes beside rows and id tables"] = needed - reserved.host_bytes
        else:
            rest["bytes: in all"] = needed
        memory |= described.least_on_device(found) | rest | stored
        return described.shown(found, memory.pop("tier"), tiers.ONE_BY_ONE, [], memory)

    def _in_memory(self, job: Job) -> Division:
        graph, kernel, resources = job.graph, job.kernel, job.resources
        on_device = described.single_device_bytes(graph, kernel)
        if on_device > resources.device.memory_bytes:
            raise MemoryBudgetError(
                f"{kernel} on {graph.name} needs {on_device:,} bytes of device memory in one "
                f"worker, and a worker may use {resources.device.memory_bytes:,}; use --device cpu"
            )
        division = self._divided(job, on_device)
        needed = division.needed_bytes + graph.resident_bytes(ORDER_OF[kernel])
        needed += graph.vertices * ID_BYTES
        if tiers.is_reweighted(graph, kernel):
            needed += reweighted_bytes(job)
        if needed > resources.least_limit_bytes:
            raise MemoryBudgetError(
                f"many sources on {graph.name} need {needed:,} bytes in one worker, and a worker "
                f"may use {resources.least_limit_bytes:,}; raise --memory-limit or add memory to "
                "them"
            )
        return replace(division, needed_bytes=needed)

    def _in_store(self, job: Job, device_bytes: int, host_bytes: int) -> Division:
        division = self._divided(job, device_bytes)
        facts = cuda_disk.known_facts(job.graph, tiers.single_of(job.kernel))
        plan = cuda_disk.plan_within(facts, device_bytes, host_bytes)
        needed = division.needed_bytes + plan.host_bytes + cuda_disk.beside_bytes(job.graph)
        return replace(
            division, needed_bytes=needed, host_bytes=host_bytes, pinned_bytes=host_bytes
        )

    def _divided(self, job: Job, device_bytes: int) -> Division:
        """How sources are divided, with what is held beside rows and id tables."""
        size = size_of(job, tiers.ONE_BY_ONE, 1)
        return Division(
            self.name,
            device_bytes=device_bytes,
            method=tiers.ONE_BY_ONE,
            batch_size=size.batch_size,
            chunks=size.chunks,
            needed_bytes=_beside(job),
            slice_sources=slice_of(job, size.batch_size, size.chunks),
        )


def _single(job: Job) -> Job:
    """The search from one source that is repeated, with what is held beside its rows.

    What is left suffices every process, also the one that has least.
    """
    resources = job.resources
    beside = _beside(job) + resources.process_limit_bytes - resources.least_limit_bytes
    return replace(job, request=Request(tiers.single_of(job.kernel), answer_bytes=beside))


def _beside(job: Job) -> int:
    """Host memory beside rows and id tables."""
    size = size_of(job, tiers.ONE_BY_ONE, 1)
    return beside_bytes(job) + size.beside_bytes + job.graph.rows * _TREE_BYTES


def _load_reweighted(graph: Graph, kernel: str) -> Engine:
    """All rows on the device, if some weights are negative."""
    device = process.device(CUDA)
    cuda_modules.require_memory(
        described.single_device_bytes(graph, kernel), f"{kernel} on {graph.name}"
    )
    shard = graph.load(ORDER_OF[kernel], signed=True)
    search = tiers.reweighted_on_device(shard, graph, device)
    return Engine(kernel, search, graph, load_ids(graph), shard.tuples)
