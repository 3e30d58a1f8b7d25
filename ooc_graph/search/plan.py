"""The plan of a search: which strategy, what it holds in memory, what was rejected and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.model.request import SCHEDULER, Request
from ooc_graph.model.resources import AUTO, CPU, CUDA, Resources
from ooc_graph.model.strategy import Strategy
from ooc_graph.model.way import Way
from ooc_graph.search.candidates import CANDIDATES
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.ranks import Ranks


class Rejection(NamedTuple):
    """A strategy that is not taken, and why."""

    strategy: Strategy
    why: str


@dataclass(frozen=True)
class Plan:
    """How a search is to be carried out.

    Parameters
    ----------
    graph, request, resources
        What is searched, as the caller asked for it, and what it may use.
    strategy
        Where rows are.
    way
        What it holds.
    rejected
        What comes before it in the table and was rejected for want of memory.
    """

    graph: Graph
    request: Request
    resources: Resources
    strategy: Strategy
    way: Way
    rejected: tuple[Rejection, ...] = ()

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.way.device

    @property
    def why(self) -> str:
        """Why it is the CPU, if ``auto`` was asked for."""
        return self.way.why

    def ranks(self) -> Plan | None:
        """Ranks on the same devices, if one rank was refused memory that this plan had counted on.

        None if there are no workers to share the work, or it does not fit them either.
        """
        if self.way.device != CUDA or self.way.exchange != "one":
            return None
        given = self.graph, self.request, self.resources
        ranks = next(strategy for strategy in CANDIDATES if isinstance(strategy, Ranks))
        if ranks.lacks(*given):
            return None
        try:
            return replace(self, strategy=ranks, way=ranks.reserve(*given))
        except MemoryBudgetError:
            return None

    def describe(self) -> dict[str, Any]:
        """What it holds in memory, JSON-able."""
        return self.strategy.describe(self.graph, self.request, self.resources, self.way)


def plan(graph: Graph, request: Request, resources: Resources) -> Plan:
    """Take the first strategy that does what is asked for within the memory there is.

    With ``auto`` it is the CPU's if no CUDA device has the memory.

    Raises
    ------
    UsageError
        If what is asked for does not go together.
    MemoryBudgetError
        Says the least that would do.
    """
    request.require_together(resources.wanted)
    if request.exchange == SCHEDULER and not resources.has_client:
        raise UsageError("the scheduler exchange needs a Dask client")
    if request.only_on_cpu:
        return on_cpu(graph, request, resources, "")
    why = resources.device.why
    if resources.device.name == CUDA:
        try:
            return _planned(graph, request, resources, CUDA)
        except MemoryBudgetError as error:
            if resources.wanted != AUTO:
                raise
            why = str(error)
    return on_cpu(graph, request, resources, why)


def on_cpu(graph: Graph, request: Request, resources: Resources, why: str) -> Plan:
    """As `plan`, for the CPU; ``why`` says why it is not a CUDA device."""
    found = _planned(graph, request, resources, CPU)
    return replace(found, way=replace(found.way, why=why))


def _planned(graph: Graph, request: Request, resources: Resources, device: str) -> Plan:
    """The first strategy of a device; what is loaded goes before all others."""
    given = graph, request, resources
    strategies = [strategy for strategy in CANDIDATES if strategy.device == device]
    for strategy in strategies:
        if (way := strategy.cached(*given)) is not None:
            return Plan(*given, strategy, way)
    refusals: list[tuple[int, int, MemoryBudgetError]] = []
    rejected: list[Rejection] = []
    for strategy in strategies:
        if strategy.lacks(*given):
            continue
        try:
            way = strategy.reserve(*given)
        except MemoryBudgetError as error:
            refusals.append((strategy.tier, len(refusals), error))
            rejected.append(Rejection(strategy, str(error)))
        else:
            return Plan(*given, strategy, way, tuple(rejected))
    # The one that keeps least in memory says the least that would do.
    raise max(refusals)[-1]


def may_stay(found: Plan) -> bool:
    """Whether a CUDA device that is refused memory may go on with arcs in the store.

    Not if there are ranks to go on with.
    """
    return (
        found.device == CUDA
        and found.ranks() is None
        and cuda_disk.suits(found.graph, found.request.kernel, found.resources)
    )
