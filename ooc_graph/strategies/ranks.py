"""Searches by many ranks, each with the rows of a shard in the memory of its process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ooc_graph.model import rank_memory
from ooc_graph.model.kernel import ORDER_OF, ROWS
from ooc_graph.model.request import ANY, LOCAL, SCHEDULER, Request
from ooc_graph.model.reservation import BUSY, UNSUPPORTED, Refusal, Reservation
from ooc_graph.model.resources import CPU, Resources
from ooc_graph.model.strategy import MEMORY, too_little
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.in_memory import (
    ADVICE,
    STATE_BYTES,
    describe_rows,
    resident_bytes,
)
from ooc_graph.strategies.cuda.in_memory import (
    describe_rows_on_device,
    host_bytes,
    require_both,
)


@dataclass(frozen=True)
class Ranks:
    """The ranks of all workers, or of one process, which tell each other what they find.

    Parameters
    ----------
    device
        ``cpu`` or ``cuda``, where every rank has its rows.
    """

    device: str

    tier = MEMORY

    @property
    def name(self) -> str:
        """Device and tier."""
        return f"{self.device}/ranks"

    def lacks(self, graph: Graph, request: Request, resources: Resources) -> str:
        """Ranks of one process are there only if they are asked for, or nothing else will do."""
        if request.method != ROWS:
            return "another method is asked for"
        return "" if self._exchange(graph, request, resources) else "there are no workers"

    def cached(self, graph: Graph, request: Request, resources: Resources) -> Reservation | None:  # noqa: ARG002
        """Ranks that workers keep are known to them alone."""
        return None

    def reserve(self, graph: Graph, request: Request, resources: Resources) -> Reservation:
        """The memory of the worker that has most shards."""
        exchange, kernel = self._exchange(graph, request, resources), request.kernel
        what = f"{kernel} on {graph.path}"
        if self.device == CPU:
            needed = ranks_bytes(graph, kernel, resources)
            if exchange == SCHEDULER and needed > resources.least_limit_bytes:
                raise too_little(what, needed, resources.least_limit_bytes, ADVICE)
            return Reservation(self.name, needed, exchange=exchange)
        rows, on_device = _needed_on_device(graph, kernel, exchange, resources)
        is_least = exchange == SCHEDULER
        require_both(what, graph, rows, on_device, resources, is_least=is_least)
        return Reservation(self.name, host_bytes(graph, rows), on_device, exchange=exchange)

    def after(
        self, graph: Graph, request: Request, resources: Resources, refusal: Refusal
    ) -> Reservation | None:
        """Each worker holds less than one that holds all."""
        is_alone = not refusal.reserved.is_of_ranks and not request.on_device
        if not is_alone or refusal.kind in (BUSY, UNSUPPORTED):
            return None
        return self.reserve(graph, request, resources)

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """How they tell each other."""
        return f"{kernel} is searched by ranks, exchange {reserved.exchange}"

    def describe(
        self, graph: Graph, request: Request, resources: Resources, reserved: Reservation
    ) -> dict[str, Any]:
        """The worker that has most shards; of a device all ranks on one."""
        del reserved
        kernel = request.kernel
        if self.device == CPU:
            needed = ranks_bytes(graph, kernel, resources)
            return describe_rows(graph, kernel, resources, "memory, by ranks", needed, 0)
        needed = rank_memory.ranks_bytes(graph, kernel, range(graph.shards))
        return describe_rows_on_device(graph, kernel, resources, "device memory, by ranks", needed)

    def _exchange(self, graph: Graph, request: Request, resources: Resources) -> str:
        """How they tell each other; empty if there are none."""
        if request.exchange != ANY:
            return request.exchange
        if self.device == CPU:
            return SCHEDULER if resources.has_ranks else ""
        if resources.has_client:
            return SCHEDULER
        return LOCAL if rank_memory.only_ranks(graph) else ""


def ranks_bytes(graph: Graph, kernel: str, resources: Resources) -> int:
    """Host memory of the busiest worker whose ranks search on the CPU."""
    rows = graph.resident_bytes(ORDER_OF[kernel])
    return rows * busiest(graph, resources) // graph.shards + graph.rows * STATE_BYTES[kernel]


def least_in_memory(graph: Graph, kernel: str, resources: Resources) -> int:
    """Least host memory of a worker if all rows are brought into memory."""
    whole = resident_bytes(graph, kernel, copies=False)
    return min(whole, ranks_bytes(graph, kernel, resources)) if resources.has_ranks else whole


def busiest(graph: Graph, resources: Resources) -> int:
    """Shards of the busiest worker: they are dealt whole, and every worker takes part."""
    return -(-graph.shards // min(resources.processes, graph.shards))


def _needed_on_device(
    graph: Graph, kernel: str, exchange: str, resources: Resources
) -> tuple[int, int]:
    """Bytes of host memory on the rows' way to the device, and of device memory."""
    shards = range(busiest(graph, resources) if exchange == SCHEDULER else graph.shards)
    rows = graph.resident_bytes(ORDER_OF[kernel]) * len(shards) // graph.shards
    return rows, rank_memory.ranks_bytes(graph, kernel, shards)
