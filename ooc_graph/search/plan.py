"""The plan of a search: which strategy it takes, what that holds, and what follows a refusal.

Strategies are tried in the order of tables: one for one source and for components, one for many.
CUDA comes first. On each device, strategies that keep more in memory come first, since they are
faster. Ranks on CUDA devices are tried if one device has no room, not even with rows in pinned
memory: ranks that have their rows on the devices, then ranks that have them in pinned memory. Ranks
on the CPU are tried if no worker has room for all rows, and after them one process that leaves arcs
in the store. SSSP ranks that have the distances of their own rows alone are slower than that: they
are tried if no worker has room for the state of all vertices, or if ranks are asked for. Ranks that
leave arcs in the store come last. Of PageRank, which needs all arcs in each pass, other strategies
leave them there. Many sources share each look at an arc in batches. On a CUDA device they are
searched one by one if there is no room for that.

A strategy's module is imported when its turn comes: a first search in a new process needs few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.errors import HOST, MemoryBudgetError, UsageError
from ooc_graph.model.request import SCHEDULER, Job, Request
from ooc_graph.model.reservation import BUSY, Refusal, Reservation
from ooc_graph.model.resources import AUTO, CPU, CUDA, Capacity, Resources
from ooc_graph.model.strategy import Strategy
from ooc_graph.model.task import SearchTask
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.ranks import Ranks

# ruff: noqa: PLC0415


def _on_cuda() -> Iterator[Strategy]:
    from ooc_graph.strategies.cuda import in_memory, on_disk, pinned

    yield in_memory.InMemory()
    yield pinned.Pinned()
    yield Ranks(in_memory.InMemory())
    yield Ranks(pinned.Pinned())
    yield on_disk.OnDisk()
    yield Ranks(on_disk.OnDisk())


def _on_cpu() -> Iterator[Strategy]:
    from ooc_graph.strategies.edge_list import EdgeList

    yield EdgeList()

    from ooc_graph.strategies.cpu.in_memory import InMemory

    yield InMemory()
    yield Ranks(InMemory())

    from ooc_graph.strategies.cpu.on_disk import OnDisk

    yield OnDisk()

    from ooc_graph.strategies.cpu.owned import Owned

    yield Ranks(Owned())
    yield Ranks(OnDisk())

    from ooc_graph.strategies.cpu.streamed import OnStream

    yield OnStream()
    yield Ranks(OnStream())


def _many_on_cuda() -> Iterator[Strategy]:
    from ooc_graph.strategies.cuda import in_memory, on_disk, pinned
    from ooc_graph.strategies.many.batches import Batches
    from ooc_graph.strategies.many.one_by_one import OneByOne

    yield Batches(CUDA)
    yield OneByOne(in_memory.InMemory())
    yield OneByOne(pinned.Pinned())
    yield OneByOne(on_disk.OnDisk())


def _many_on_cpu() -> Iterator[Strategy]:
    from ooc_graph.strategies.many.batches import Batches

    yield Batches(CPU)

    from ooc_graph.strategies.many.on_disk import OnDisk

    yield OnDisk()


CANDIDATES: dict[str, Callable[[], Iterable[Strategy]]] = {CUDA: _on_cuda, CPU: _on_cpu}
MANY: dict[str, Callable[[], Iterable[Strategy]]] = {CUDA: _many_on_cuda, CPU: _many_on_cpu}


def candidates(request: Request, device: str) -> Iterable[Strategy]:
    """The strategies for a request on a device."""
    return (CANDIDATES if request.many is None else MANY)[device]()


@dataclass(frozen=True)
class Plan(Job):
    """How a search is to be carried out."""

    strategy: Strategy  # where rows are
    reserved: Reservation  # what it holds
    why: str = ""  # why it is not what would be preferred; else empty
    is_short: bool = False  # whether a strategy that comes before it was short of memory

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.strategy.device

    def task(self, root: int | None = None, folder: str | None = None) -> SearchTask:
        """A search from at most one source, as it travels to the process that searches."""
        whom = str(self.graph.path), self.graph.identity, self.request
        return SearchTask(*whom, root, folder, self.strategy, self.reserved, self.capacity)

    @property
    def capacity(self) -> Capacity:
        """Memory for all that a process keeps loaded, beside answers and batches."""
        if self.request.many is None and not self.reserved.is_of_ranks:
            return self.resources.capacity(self.request.answer_bytes)
        # Every worker searches, also the one that has least.
        limit_bytes = self.resources.least_limit_bytes
        beside = self.reserved.whole_bytes - self.reserved.host_bytes
        return replace(self.resources, process_limit_bytes=limit_bytes).capacity(beside)

    def describe(self) -> dict[str, Any]:
        """What it holds in memory, JSON-able."""
        return self.strategy.describe(self, self.reserved)

    def after(self, refusal: Refusal, measure: Callable[..., Resources]) -> Plan | None:
        """The plan to continue with now that this one was refused memory.

        The strategies are asked in their order, from this one on, what they would hold. With
        ``auto`` the CPU follows a CUDA device; it follows at once if others use the device. None if
        nothing is left. ``measure`` gives what there is now, as ``resources`` of a workplace.

        MemoryBudgetError: the CPU has too little memory for what is left.
        """
        wanted, request = self.resources.wanted, self.request
        if refusal.kind != BUSY or wanted == CUDA:
            resources = measure(on_cpu=self.device == CPU)
            job = Job(self.graph, request, resources)
            all_of_them = list(candidates(request, self.device))
            left = all_of_them[all_of_them.index(self.strategy) :]
            too_little: MemoryBudgetError | None = None
            for strategy in left:
                if strategy.lacks(replace(job, resources=refusal.less(resources))):
                    continue
                try:
                    reserved = strategy.after(job, refusal)
                except MemoryBudgetError as error:
                    too_little = error
                    continue
                if reserved is not None:
                    why = f"{refusal.what}: {strategy.summary(request.kernel, reserved)}"
                    return Plan(self.graph, request, resources, strategy, reserved, why)
            if too_little is not None and self.device == CPU:
                raise too_little
        if self.device == CPU or wanted != AUTO or request.on_device:
            return None
        why = f"{request.kernel} on the CPU: {refusal.said}"
        return on_cpu(self.graph, request, measure(on_cpu=True), why)


def plan(graph: Graph, request: Request, resources: Resources) -> Plan:
    """Take the first strategy that does what is asked for within the memory there is.

    With ``auto`` it is the CPU's if no CUDA device has the memory.

    UsageError: if what is asked for does not go together, or no CUDA device does it.
    MemoryBudgetError: says how much memory is needed.
    """
    request.require_together(resources.wanted)
    if request.exchange == SCHEDULER and not resources.has_client:
        raise UsageError("the scheduler exchange needs a Dask client")
    # Without rows nothing is to be searched, and a device could take columns from none.
    if request.only_on_cpu or (request.many is not None and not graph.rows):
        return on_cpu(graph, request, resources, "")
    why = resources.device.why
    if resources.device.name == CUDA:
        try:
            return _first(graph, request, resources, CUDA)
        except (MemoryBudgetError, UsageError) as error:
            if resources.wanted != AUTO:
                raise
            why = str(error)
    return on_cpu(graph, request, resources, why and f"{request.kernel} on the CPU: {why}")


def on_cpu(graph: Graph, request: Request, resources: Resources, why: str) -> Plan:
    """As `plan`, for the CPU; ``why`` says why it is not a CUDA device."""
    return replace(_first(graph, request, resources, CPU), why=why)


def _first(graph: Graph, request: Request, resources: Resources, device: str) -> Plan:
    """The first strategy of a device; what is loaded goes before all others."""
    job = Job(graph, request, resources)
    for strategy in candidates(request, device) if engine_cache.keeps_any() else ():
        if (reserved := strategy.cached(job)) is not None:
            return Plan(graph, request, resources, strategy, reserved)
    lacks: list[str] = []
    refusals: list[tuple[int, MemoryBudgetError]] = []
    for strategy in candidates(request, device):
        if why := strategy.lacks(job):
            lacks.append(why)
            continue
        try:
            reserved = strategy.reserve(job)
        except MemoryBudgetError as error:
            refusals.append((strategy.tier, error))
        except MemoryError:
            said = f"{graph.path}: the system refuses the memory to read the rows' lengths"
            refusals.append((strategy.tier, MemoryBudgetError(said)))
        else:
            why = ""
            if request.many is not None and device == CUDA and (lacks or refusals):
                first = str(refusals[0][-1]) if refusals else lacks[0]
                why = f"{strategy.summary(request.kernel, reserved)}: {first}"
            return Plan(graph, request, resources, strategy, reserved, why, is_short=bool(refusals))
    if not refusals:
        raise UsageError(lacks[0])
    raise _most_helpful(refusals)


def _most_helpful(refusals: Sequence[tuple[int, MemoryBudgetError]]) -> MemoryBudgetError:
    """The error that says the least that is enough; else the last of the tier that keeps least.

    Only what is said of the same kind of memory is compared. A strategy that lacks host memory
    lacks no other kind; if none does, it is the kind that the last of that tier lacks.
    """
    known = [refusal for refusal in refusals if refusal[1].least_bytes]
    last = max(reversed(known or refusals), key=lambda refusal: refusal[0])[1]
    kind = HOST if any(error.kind == HOST for _, error in known) else last.kind
    alike = [error for _, error in known if error.kind == kind]
    return min(alike, key=lambda error: error.least_bytes, default=last)
