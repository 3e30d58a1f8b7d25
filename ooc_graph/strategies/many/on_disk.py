"""Many sources on the CPU with the heads of rows in memory, and their tails in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ooc_graph.memory.cpu.plan import describe, least_bytes, plan_disk
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.job import Job
from ooc_graph.model.reservation import HOST, Refusal, Reservation
from ooc_graph.model.resources import CPU
from ooc_graph.model.strategy import DISK, StrategyDefaults
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.on_disk import has_tiers
from ooc_graph.strategies.many.batches import least_on_cpu
from ooc_graph.strategies.many.described import LEAST, Description, shown
from ooc_graph.strategies.many.division import Division, beside_bytes, require_answer, too_many
from ooc_graph.strategies.many.stored import beside_parts, in_turn, slice_of
from ooc_graph.strategies.many.tiers import BATCHES, known_facts, load_within, single_of


@dataclass(frozen=True)
class OnDisk(StrategyDefaults):
    """Batches or searches one by one, with arcs in the store."""

    name = "cpu/disk"
    device = CPU
    tier = DISK

    def lacks(self, job: Job) -> str:
        """The graph is in a store."""
        may = job.graph.rows and has_tiers(job.graph, single_of(job.kernel))
        return "" if may else "arcs cannot stay in the store"

    def reserve(self, job: Job) -> Reservation:
        """Reads the graph's offsets."""
        require_answer(job)
        division, least = _divide(job, job.resources.least_limit_bytes)
        if division is None:
            raise too_many(job, least)
        return division

    def after(self, job: Job, refusal: Refusal) -> Reservation | None:
        """Half as much host memory, or the least."""
        refused = refusal.reserved
        if refusal.kind != HOST or not isinstance(refused, Division):
            return None
        before = refused.needed_bytes
        limit = before // 2 if refused.strategy == self.name else before // 4 * 3
        division, least = _divide(job, limit)
        if division is None and least < before:
            division, _ = _divide(job, least)
        return division

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:
        """Read the heads of rows."""
        within = reserved.method, reserved.host_bytes
        search = load_within(graph, kernel, *within, process.device())
        return Engine(kernel, search, graph, load_ids(graph), None)

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """How much it reads."""
        assert isinstance(reserved, Division)
        within = f"goes on within {reserved.needed_bytes:,} bytes"
        return f"{kernel} leaves arcs in the store and {within}"

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """Heads, blocks of the store that are kept, batches and answers."""
        found = Description.of(job, reserved)
        plan, numbers = found.division, {"numbers": beside_bytes(found)}
        facts = known_facts(job.graph, job.kernel, plan.method)
        within = describe(plan_disk(facts, plan.host_bytes))
        beside = beside_parts(found, plan.method, plan.batch_size) | numbers
        kept = {name: size for name, size in within.items() if name.startswith("bytes: ")}
        kept.pop("bytes: in all")
        rest = ("arcs of each row in memory", "share of arcs in memory")
        least = min(_divide(found, 0)[1], least_on_cpu(found))
        memory = {
            **({"bytes of a batch": beside["batches"]} if plan.method == BATCHES else {}),
            **kept,
            **{f"bytes: {name}": size for name, size in beside.items()},
            "bytes: in all": plan.needed_bytes,
            LEAST: least,
            **{name: within[name] for name in rest},
            "bytes that stay in the store": within["bytes that stay in the store"],
        }
        return shown(found, "disk", plan.method, [], memory)


def _divide(job: Job, limit_bytes: int) -> tuple[Division | None, int]:
    """The division that holds most within a limit, or None; and the bytes needed at least."""
    beside, least = beside_bytes(job), 0
    for method, batch_size, chunks, memory in in_turn(job, limit_bytes - beside):
        spare = limit_bytes - beside - memory
        facts = known_facts(job.graph, job.kernel, method)
        needed = beside + memory + least_bytes(facts)
        if needed <= limit_bytes:
            needed = beside + memory + plan_disk(facts, spare).bytes
            division = Division(
                OnDisk.name,
                spare,
                method=method,
                batch_size=batch_size,
                chunks=chunks,
                needed_bytes=needed,
                slice_sources=slice_of(job, batch_size, chunks),
            )
            return division, needed
        least = min(least or needed, needed)
    return None, least
