"""The plan of a search: which strategy it takes, what that holds, and what follows a refusal.

Strategies are tried in the order of `ooc_graph.search.candidates`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ooc_graph.answers.info import Info
from ooc_graph.errors import HOST, MemoryBudgetError, UsageError
from ooc_graph.model.request import SCHEDULER, Job, Request
from ooc_graph.model.reservation import BUSY, Refusal, Reservation
from ooc_graph.model.resources import AUTO, CPU, CUDA, Capacity, Resources
from ooc_graph.model.strategy import DISK, OTHER_METHOD, Strategy
from ooc_graph.model.task import SearchTask
from ooc_graph.runtime import engine_cache
from ooc_graph.search.candidates import candidates
from ooc_graph.shards.load import Graph


@dataclass(frozen=True)
class Plan(Job):
    """How a search is to be carried out."""

    strategy: Strategy  # where rows are
    reserved: Reservation  # what it holds
    why: str = ""  # why it is not what would be preferred; else empty
    is_short: bool = False  # whether a strategy that comes before it was short of memory
    # Names of what was tried before it, and why it was not taken.
    rejected: tuple[tuple[str, str], ...] = field(default=(), compare=False)

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

    @property
    def fallbacks(self) -> dict[str, str]:
        """What it leaves that is faster, ``device`` or ``memory``, each with a line on it."""
        found = {}
        if self.why.startswith(_on_the_cpu(self.kernel)):
            found["device"] = self.why
        in_memory = f"{self.device}/memory"
        refused = (why for name, why in self.rejected if name.startswith(in_memory))
        if self.strategy.tier == DISK and (why := next(refused, "")):
            found["memory"] = f"{self.what}: arcs stay in the store ({why})"
        return found

    @property
    def info(self) -> Info:
        """What an answer tells of it."""
        reserved = self.reserved
        method = reserved.method or self.request.method
        how = self.device, self.strategy.name, method, reserved.exchange
        return Info(*how, ranks=1, tier_bytes=reserved.tier_bytes, rejected=self.rejected)

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
        refused = self.strategy.name, refusal.said or refusal.what
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
                    found = Plan(self.graph, request, resources, strategy, reserved, why)
                    return replace(found, rejected=(*self.rejected, refused))
            if too_little is not None and self.device == CPU:
                raise too_little
        if self.device == CPU or wanted != AUTO or request.on_device:
            return None
        why = f"{_on_the_cpu(request.kernel)}{refusal.said}"
        found = on_cpu(self.graph, request, measure(on_cpu=True), why)
        return replace(found, rejected=(*self.rejected, refused, *found.rejected))


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
    found = on_cpu(graph, request, resources, why and f"{_on_the_cpu(request.kernel)}{why}")
    return replace(found, rejected=(*([(CUDA, why)] if why else []), *found.rejected))


def _on_the_cpu(kernel: str) -> str:
    """How a line begins that says why a search is not on a CUDA device."""
    return f"{kernel} on the CPU: "


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
    rejected: list[tuple[str, str]] = []
    refusals: list[tuple[int, MemoryBudgetError]] = []
    for strategy in candidates(request, device):
        if why := strategy.lacks(job):
            lacks.append(why)
            if why != OTHER_METHOD:
                rejected.append((strategy.name, why))
            continue
        try:
            reserved = _reserved(strategy, job)
        except MemoryBudgetError as error:
            refusals.append((strategy.tier, error))
            rejected.append((strategy.name, str(error)))
        else:
            why = ""
            if request.many is not None and device == CUDA and (lacks or refusals):
                first = str(refusals[0][-1]) if refusals else lacks[0]
                why = f"{strategy.summary(request.kernel, reserved)}: {first}"
            how = strategy, reserved, why, bool(refusals), tuple(rejected)
            return Plan(graph, request, resources, *how)
    if not refusals:
        raise UsageError(lacks[0])
    raise _most_helpful(refusals)


def _reserved(strategy: Strategy, job: Job) -> Reservation:
    """What a strategy would hold; MemoryBudgetError also if the system refuses memory to tell."""
    try:
        return strategy.reserve(job)
    except MemoryError:
        said = f"{job.graph.name}: the system refuses the memory to read the rows' lengths"
        raise MemoryBudgetError(said) from None


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
