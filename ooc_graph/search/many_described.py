"""What searches from many sources hold in memory, as a table of names and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ooc_graph.answers.pairs import Asked
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.tuning import PRUNED_FROM
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cpu.many.bfs import FEW_LANES
from ooc_graph.kernels.cpu.many.choice import is_long_and_thin
from ooc_graph.kernels.cpu.many.search import even_lanes
from ooc_graph.kernels.cuda.many import bfs_plan as cuda_many_bfs_plan
from ooc_graph.kernels.cuda.many import floyd_warshall as cuda_floyd
from ooc_graph.kernels.cuda.many.bfs import TRIED_FROM
from ooc_graph.kernels.cuda.many.search import BATCH_BYTES as CUDA_BATCH_BYTES
from ooc_graph.kernels.cuda.many.search import is_most
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.memory.cpu.plan import describe
from ooc_graph.memory.cuda.disk import describe_disk
from ooc_graph.memory.cuda.pinned_plan import describe_device, plan_device
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.resources import CPU, Resources
from ooc_graph.search.many import specs_of
from ooc_graph.search.many_ways import PairsWay, plan_by, ways_for
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.strategies.many.dividing import Plan, least_of
from ooc_graph.strategies.many.memory import (
    batch_bytes,
    batches_device_bytes,
    beside_bytes,
    locked_bytes,
    process_parts,
    stored_bytes,
)
from ooc_graph.strategies.many.stored import beside_parts
from ooc_graph.strategies.many.tiers import (
    BATCHES,
    ONE_BY_ONE,
    is_shifted,
    known_facts,
    plan_within,
    shifted_device_bytes,
    single_of,
)

CLOSED = "all pairs at once"
_MOST_BYTES = 1 << 62


def describe_pairs(
    graph: Graph, sources: int, asked: Asked, resources: Resources
) -> dict[str, Any]:
    """What searches from so many sources, whose answers are written, hold in memory, JSON-able.

    Nothing is searched; of the store lengths of rows are read.

    Raises
    ------
    MemoryBudgetError
        Says the least that would do.
    UsageError, DeviceError
        The graph has no rows for them, or CUDA is asked for and is not there.
    """
    graph.require(ORDER_OF[asked.kernel], signed=True)
    specs = specs_of(graph, sources, asked)
    return _Description(
        graph, specs, asked, resources, *_first(graph, specs, asked, resources)
    ).table()


def _first(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, resources: Resources
) -> tuple[PairsWay, Plan]:
    """The first way that is not refused host memory by its plan."""
    refused: MemoryBudgetError | None = None
    for way in ways_for(graph, specs, asked, lambda: resources, in_memory=False):
        try:
            return way, plan_by(way, graph, specs, asked, resources, in_memory=False)
        except MemoryBudgetError as error:
            if way.device == CPU:
                raise
            refused = error
    assert refused is not None
    raise refused


@dataclass(frozen=True)
class _Description:
    """A plan for many sources, and what it is made for."""

    graph: Graph
    specs: Sequence[ArraySpec]
    asked: Asked
    resources: Resources
    way: PairsWay
    plan: Plan

    def table(self) -> dict[str, Any]:
        """All of it."""
        if self.way.is_one_by_one:
            if self.way.host_bytes is not None:
                held = self._stored_on_device(self.way.host_bytes)
            else:
                held = self._pinned() if self.way.budget_bytes else self._on_device()
        elif self.way.device != CPU:
            held = self._batches_on_device()
        else:
            held = self._in_store() if self.plan.budget_bytes else self._in_memory()
        tier = {"kernel": self.asked.kernel, "tier": held.pop("tier")}
        return tier | self._divided(held.pop("method"), held.pop("may change to", [])) | held

    def _divided(self, method: str, others: list[str]) -> dict[str, Any]:
        """How sources are divided."""
        spec, plan = self.specs[0], self.plan
        return {
            "method": method,
            "may change to": others or None,
            "sources": spec.length,
            "sources of a batch": plan.lanes if method == BATCHES else 1,
            "sources of a task": min(plan.chunks * spec.chunk, spec.length),
            "sources of a chunk": spec.chunk,
            "bytes of the answer": stored_bytes(self.specs, self.asked),
            "budget": self.resources.least_limit_bytes,
        }

    def _given(self) -> tuple[Graph, Sequence[ArraySpec], Asked, Resources]:
        return self.graph, self.specs, self.asked, self.resources

    def _least(self) -> dict[str, int]:
        least = least_of(*self._given(), self.way.device, in_memory=False)
        return {"least bytes that would do": least}

    def _numbers(self) -> int:
        """Memory of reductions of all sources."""
        return beside_bytes(self.specs, self.asked, self.resources, in_memory=False)

    def _parts(self, parts: dict[str, int], closed_bytes: int = 0) -> dict[str, int]:
        """Parts by purpose, with what is left of all: the answers of tasks."""
        parts = parts | {"matrix of all pairs": closed_bytes, "numbers": self._numbers()}
        whole = self.plan.needed_bytes
        parts = parts | {"answers of tasks": whole - sum(parts.values()), "in all": whole}
        return {f"bytes: {name}": size for name, size in parts.items()}

    def _in_memory(self) -> dict[str, Any]:
        """All arcs in memory, for the CPU."""
        graph, lanes = self.graph, self.plan.lanes
        closed = floyd_warshall.closed_bytes(graph.rows) if self.plan.closing else 0
        parts = process_parts(*self._given(), CPU, lanes)
        method, others = self._method_in_memory()
        return {
            "tier": "memory",
            "method": method,
            "may change to": others,
            "threads, each with a batch or search": self.resources.threads,
            "bytes of a batch": batch_bytes(graph, self.specs, self.asked, lanes),
            **self._parts(parts, closed),
            **self._least(),
            "share of arcs in memory": 1.0,
            "bytes that stay in the store": 0,
        }

    def _method_in_memory(self) -> tuple[str, list[str]]:
        """How searches begin, and what they may go on with after a look at the first of them."""
        rows, lanes, spec = self.graph.rows, self.plan.lanes, self.specs[0]
        if self.asked.hops:
            sources = min(self.plan.chunks * spec.chunk, spec.length)
            each = even_lanes(sources, lanes, self.resources.threads)
            if each < min(FEW_LANES, lanes):
                return ONE_BY_ONE, []
            return BATCHES, [ONE_BY_ONE]
        arcs = self.graph.arcs // (2 if self.graph.directed else 1)
        may_close = floyd_warshall.may_close(rows, arcs, self.plan.closing)
        if may_close and floyd_warshall.is_sure(rows, arcs):
            return CLOSED, [BATCHES]
        if is_long_and_thin(rows, arcs, lanes * spec.dtype.itemsize):
            return ONE_BY_ONE, []
        return BATCHES, [ONE_BY_ONE] + [CLOSED] * may_close

    def _method_on_device(self) -> tuple[str, list[str]]:
        """As `_method_in_memory`, for batches on a CUDA device."""
        plan, spec = self.plan, self.specs[0]
        if self.asked.hops:
            sources = min(plan.chunks * spec.chunk, spec.length)
            return BATCHES, [ONE_BY_ONE] * (sources >= TRIED_FROM * plan.lanes)
        rows = self.graph.rows
        if spec.length < PRUNED_FROM or spec.dtype.kind != "i" or not is_most(plan.closing, rows):
            return BATCHES, []
        return (CLOSED, [BATCHES]) if cuda_floyd.is_sure(rows) else (BATCHES, [CLOSED])

    def _in_store(self) -> dict[str, Any]:
        """Arcs in the store, for the CPU."""
        graph, asked, plan = self.graph, self.asked, self.plan
        within = describe(plan_within(graph, asked.kernel, plan.method, plan.budget_bytes))
        beside = beside_parts(plan.method, plan.lanes, *self._given(), in_memory=False)
        beside["numbers"] = self._numbers()
        kept = {name: size for name, size in within.items() if name.startswith("bytes: ")}
        kept.pop("bytes: in all")
        rest = ("arcs of each row in memory", "share of arcs in memory")
        return {
            "tier": "disk",
            "method": plan.method,
            **({"bytes of a batch": beside["batches"]} if plan.method == BATCHES else {}),
            **kept,
            **{f"bytes: {name}": size for name, size in beside.items()},
            "bytes: in all": plan.needed_bytes,
            **self._least(),
            **{name: within[name] for name in rest},
            "bytes that stay in the store": within["bytes that stay in the store"],
        }

    def _batches_on_device(self) -> dict[str, Any]:
        """All arcs in a CUDA device's memory."""
        graph, lanes, asked = self.graph, self.plan.lanes, self.asked
        held = graph.rows * CUDA_BATCH_BYTES
        method, others = self._method_on_device()
        if asked.hops:
            noted = cuda_many_bfs_plan.noted_bytes(graph.rows) if asked.reduce is None else 0
            held = cuda_many_bfs_plan.state_bytes(graph.rows, graph.arcs) + noted
        return {
            "tier": "device memory",
            "method": method,
            "may change to": others,
            "device budget": self.resources.device.memory_bytes,
            "device bytes of a batch": held,
            "device bytes: in all, at least": batches_device_bytes(graph, self.specs, asked),
            **self._least_on_device(),
            "bytes of pinned host memory": locked_bytes(graph, self.specs, asked),
            "share of arcs on the device": 1.0,
            **self._parts(process_parts(*self._given(), self.way.device, lanes)),
            **self._least(),
        }

    def _on_device(self) -> dict[str, Any]:
        """All arcs in a CUDA device's memory, one source after the other."""
        return {
            "tier": "device memory",
            "method": ONE_BY_ONE,
            "device budget": self.resources.device.memory_bytes,
            "device bytes: in all": self._single_bytes(),
            **self._least_on_device(),
            "bytes of pinned host memory": 0,
            "share of arcs on the device": 1.0,
            "bytes: in all": self.plan.needed_bytes,
        }

    def _pinned(self) -> dict[str, Any]:
        """Rows in pinned host memory, one source after the other."""
        single = single_of(self.asked.kernel)
        facts = cuda_pinned.known_facts(self.graph, single)
        found = describe_device(plan_device(single, facts, self.way.budget_bytes, _MOST_BYTES))
        del found["kernel"]
        return {
            **found,
            "method": ONE_BY_ONE,
            **self._least_on_device(),
            "bytes beside rows and id tables": self.plan.needed_bytes,
        }

    def _stored_on_device(self, host_bytes: int) -> dict[str, Any]:
        """Arcs in the store, one source after the other."""
        facts = cuda_disk.known_facts(self.graph, single_of(self.asked.kernel))
        plan = cuda_disk.plan_within(facts, self.way.budget_bytes, host_bytes)
        found = describe_disk(plan)
        del found["kernel"]
        rows = known_facts(self.graph, self.asked.kernel, ONE_BY_ONE)
        # At least: some arcs of hubs may be held twice.
        left = max(rows.arcs - plan.arcs_on_device - plan.arcs_in_host, 0)
        return {
            **found,
            "method": ONE_BY_ONE,
            **self._least_on_device(),
            "bytes: in all": self.plan.needed_bytes,
            "bytes that stay in the store": rows.stored_bytes(left),
        }

    def _single_bytes(self) -> int:
        """Device memory of searches one by one with all rows there."""
        shifted = shifted_device_bytes(self.graph, self.asked.kernel)
        return cuda_memory.cuda_bytes(self.graph, single_of(self.asked.kernel)) + shifted

    def _least_on_device(self) -> dict[str, int]:
        """Least device memory of each way that there is."""
        graph, kernel = self.graph, self.asked.kernel
        least = {"in batches": batches_device_bytes(graph, self.specs, self.asked)}
        least[ONE_BY_ONE] = self._single_bytes()
        if not is_shifted(graph, kernel) and cuda_pinned.may_pin(graph, single_of(kernel)):
            pinned = cuda_pinned.least_device_bytes(graph, single_of(kernel))
            least["one by one, rows pinned"] = pinned
            if cuda_disk.suits(graph, single_of(kernel), self.resources):
                stored = cuda_disk.least_device_bytes(graph, single_of(kernel))
                least["one by one, arcs in the store"] = stored
        return {f"least device bytes: {name}": size for name, size in least.items()}
