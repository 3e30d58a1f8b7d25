"""What searches from many sources hold in memory, as a table of names and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ooc_graph.model.request import Job
from ooc_graph.model.reservation import Reservation
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.many import tiers
from ooc_graph.strategies.many.memory import batches_device_bytes
from ooc_graph.strategies.many.task import Division, beside_bytes, stored_bytes

LEAST = "least bytes"
"""Name of the least host memory."""


@dataclass(frozen=True)
class Description(Job):
    """Many sources, and how they are divided."""

    division: Division

    @classmethod
    def of(cls, job: Job, reserved: Reservation) -> Description:
        """The description of what is reserved."""
        assert isinstance(reserved, Division)
        return cls(job.graph, job.request, job.resources, reserved)

    @property
    def task_sources(self) -> int:
        """Sources of a task."""
        return min(self.division.chunks * self.spec.chunk, self.spec.length)

    def parts(self, parts: dict[str, int], matrix_bytes: int = 0) -> dict[str, int]:
        """Parts by purpose, with what is left of all: the answers of tasks."""
        parts = parts | {"matrix of all pairs": matrix_bytes, "numbers": beside_bytes(self)}
        whole = self.division.needed_bytes
        parts = parts | {"answers of tasks": whole - sum(parts.values()), "in all": whole}
        return {f"bytes: {name}": size for name, size in parts.items()}


def shown(
    found: Description, tier: str, method: str, others: list[str], memory: dict[str, Any]
) -> dict[str, Any]:
    """The table of how sources are divided, and what is held; others are methods, too."""
    spec, plan = found.spec, found.division
    return {
        "kernel": found.asked.kernel,
        "tier": tier,
        "method": method,
        "may change to": others or None,
        "sources": spec.length,
        "sources of a batch": plan.batch_size if method == tiers.BATCHES else 1,
        "sources of a task": found.task_sources,
        "sources of a chunk": spec.chunk,
        "bytes of the answer": stored_bytes(found),
        "budget": found.resources.least_limit_bytes,
        **memory,
    }


def single_device_bytes(graph: Graph, kernel: str) -> int:
    """Device memory of searches one by one with all rows there."""
    reweighted = tiers.reweighted_device_bytes(graph, kernel)
    return cuda_memory.cuda_bytes(graph, tiers.single_of(kernel)) + reweighted


def least_on_device(found: Description) -> dict[str, int]:
    """Least device memory of each strategy that there is."""
    graph, kernel = found.graph, found.asked.kernel
    single = tiers.single_of(kernel)
    least = {"in batches": batches_device_bytes(found)}
    least[tiers.ONE_BY_ONE] = single_device_bytes(graph, kernel)
    if not tiers.is_reweighted(graph, kernel) and cuda_pinned.may_pin(graph, single):
        least["one by one, rows pinned"] = cuda_pinned.least_device_bytes(graph, single)
        if cuda_disk.suits(graph, single, found.resources):
            stored = cuda_disk.least_device_bytes(graph, single)
            least["one by one, arcs in the store"] = stored
    return {f"least device bytes: {name}": size for name, size in least.items()}
