"""Searches by many ranks, each with its rows where a strategy of one process has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ooc_graph.model import rank_memory
from ooc_graph.model.kernel import ROWS
from ooc_graph.model.request import ANY, SCHEDULER, Request
from ooc_graph.model.reservation import BUSY, HOST, LOCAL, UNSUPPORTED, Refusal, Reservation
from ooc_graph.model.resources import CPU, Resources
from ooc_graph.model.strategy import DISK, MEMORY, PINNED, WholeGraph
from ooc_graph.shards.load import Graph
from ooc_graph.types import Shard

_ROWS = {
    MEMORY: "",
    PINNED: ", which have their rows in pinned host memory",
    DISK: ", which leave arcs in the store",
}


class OfRanks(WholeGraph, Protocol):
    """A strategy of one process that many ranks can follow, too, each for its shards."""

    def lacks_rank(
        self, graph: Graph, request: Request, resources: Resources, exchange: str
    ) -> str:
        """Why it is no candidate for the ranks of a request; or empty."""

    def reserve_rank(
        self, graph: Graph, request: Request, resources: Resources, exchange: str
    ) -> Reservation:
        """What the worker would hold that has most shards.

        A `MemoryBudgetError` says the least that would do.
        """

    def describe_rank(
        self, graph: Graph, request: Request, resources: Resources, reserved: Reservation
    ) -> dict[str, Any]:
        """As `describe`, of that worker."""

    def load_ranks(
        self,
        graph: Graph,
        kernel: str,
        shards: Sequence[int],
        missing: Sequence[int],
        reserved: Reservation,
        bind: Callable[[Any, Shard], Any],
    ) -> dict[int, Any]:
        """The missing ones of a worker's ranks; errors are as of `load`.

        ``shards`` are all that the worker has, and ``missing`` those that are not loaded. ``bind``
        gives the device's steps for rows in its memory.
        """


@dataclass(frozen=True)
class Ranks:
    """The ranks of all workers, or of one process, which tell each other what they find."""

    inner: OfRanks  # where every rank has its rows

    @property
    def name(self) -> str:
        """Device and tier."""
        return f"{self.inner.name}, ranks"

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.inner.device

    @property
    def tier(self) -> int:
        """Where rows are."""
        return self.inner.tier

    def lacks(self, graph: Graph, request: Request, resources: Resources) -> str:
        """Ranks of one process are there only if they are asked for, or nothing else will do.

        If not all rows are in memory, one worker searches as well by itself.
        """
        if request.method != ROWS:
            return "another method is asked for"
        exchange = self._exchange(graph, request, resources)
        if not exchange:
            return "there are no workers"
        is_alone = exchange == SCHEDULER and resources.processes == 1
        if is_alone and request.exchange == ANY and self.tier != MEMORY:
            return "there are no workers to share the work"
        return self.inner.lacks_rank(graph, request, resources, exchange)

    def cached(self, graph: Graph, request: Request, resources: Resources) -> Reservation | None:  # noqa: ARG002
        """Ranks that workers keep are known to them alone."""
        return None

    def reserve(self, graph: Graph, request: Request, resources: Resources) -> Reservation:
        """What the worker would hold that has most shards."""
        exchange = self._exchange(graph, request, resources)
        reserved = self.inner.reserve_rank(graph, request, resources, exchange)
        return replace(reserved, strategy=self.name, exchange=exchange)

    def after(
        self, graph: Graph, request: Request, resources: Resources, refusal: Refusal
    ) -> Reservation | None:
        """Each rank needs less than what was refused: its shards, or only heads of their rows.

        If ranks had all rows on devices and lacked host memory, they cannot pin rows either.
        """
        refused = refusal.reserved
        if request.on_device or refusal.kind in (BUSY, UNSUPPORTED):
            return None
        if refused.is_of_ranks:
            is_hosts = refusal.kind == HOST and self.tier == PINNED
            if is_hosts or refused.strategy == self.name or self.tier == MEMORY:
                return None
        return self.reserve(graph, request, resources)

    def load_ranks(self, *given: Any) -> dict[int, Any]:
        """As of `OfRanks`."""
        return self.inner.load_ranks(*given)

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """How they tell each other."""
        rows = _ROWS[self.tier]
        return f"{kernel} is searched by ranks, exchange {reserved.exchange}{rows}"

    def describe(
        self, graph: Graph, request: Request, resources: Resources, reserved: Reservation
    ) -> dict[str, Any]:
        """The worker that has most shards; of a device all ranks on one."""
        return self.inner.describe_rank(graph, request, resources, reserved)

    def _exchange(self, graph: Graph, request: Request, resources: Resources) -> str:
        """How they tell each other; empty if there are none."""
        if request.exchange != ANY:
            return request.exchange
        if self.device == CPU:
            return SCHEDULER if resources.has_ranks else ""
        if resources.has_client:
            return SCHEDULER
        return LOCAL if rank_memory.only_ranks(graph) else ""
