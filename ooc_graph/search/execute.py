"""Carries a search out by its plan, and by the plans that follow if memory is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from ooc_graph.errors import ClusterLostError, DeviceBusyError, MemoryBudgetError, UsageError
from ooc_graph.kernels.cuda.runtime.modules import forget_frames
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import BUSY, HOST, UNSUPPORTED, Key, Refusal, kind_of, said_by
from ooc_graph.model.resources import AUTO, CUDA, Resources
from ooc_graph.model.strategy import PINNED
from ooc_graph.report.reporter import Reporter, note_fallback
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.search.plan import Plan, plan
from ooc_graph.shards.load import Graph
from ooc_graph.types import Progress

Done = TypeVar("Done")


def plan_at(workplace: Workplace, graph: Graph, request: Request) -> Plan:
    """As `try_plan_at`; ClusterLostError if only the workers that were lost are lacking."""
    with _losses_reported(workplace, graph, request):
        return try_plan_at(workplace, graph, request)


@contextmanager
def _losses_reported(workplace: Workplace, graph: Graph, request: Request) -> Iterator[None]:
    """Context in which too little memory is a ClusterLostError if it is for want of workers."""
    try:
        yield
    except MemoryBudgetError as error:
        found = workplace.with_lost(error.lost)
        if found is None or not _fits(graph, request, found[1]):
            raise
        raise ClusterLostError(
            f"{found[0]}, and the others have too little memory: {error}; or wait until all "
            "workers are back, and run the same again"
        ) from error


def _fits(graph: Graph, request: Request, resources: Resources) -> bool:
    try:
        plan(graph, request, resources)
    except (MemoryBudgetError, MemoryError, UsageError):
        return False
    return True


def try_plan_at(workplace: Workplace, graph: Graph, request: Request) -> Plan:
    """The plan for what processes offer, at last without what they keep of other searches."""
    on_cpu = bool(request.require_together(workplace.wanted).only_on_cpu)

    def planned() -> Plan:
        return plan(graph, request, workplace.resources(on_cpu=on_cpu))

    if workplace.client is None and engine_cache.keeps_any():
        try:
            found = planned()
        except MemoryError:
            pass
        except MemoryBudgetError:
            if workplace.resources(on_cpu=True).is_limited:
                raise
        else:
            is_loaded = engine_cache.loaded(key_of(found), found.capacity) is not None
            if is_loaded or not found.is_short or found.resources.is_limited:
                return found
        workplace.release()
    return retry_after_release(f"{request.kernel} on {graph.name}", planned, workplace)


def retry_after_release(what: str, make: Callable[[], Done], workplace: Workplace) -> Done:
    """What ``make`` gives, at last with nothing else held in any process; or MemoryBudgetError."""
    try:
        return make()
    except MemoryError:
        pass
    workplace.release()
    try:
        return make()
    except MemoryError:
        raise MemoryBudgetError(
            f"{what}: the system refuses even what is needed to begin; free some memory"
        ) from None


def execute(
    first: Plan,
    workplace: Workplace,
    progress: Progress,
    run: Callable[[Plan], Done],
    ease: Callable[[str, str], str] = lambda *_: "",
) -> Done:
    """Carry a search out; if memory is refused, by one plan after another.

    No other loop goes from one plan to another. Planning and loading try once more by themselves,
    with nothing else held (`retry_after_release`, `ooc_graph.runtime.engine_cache`). ``progress``
    gets a line if a plan is not the one before, or not for the device that would be preferred.
    ``ease`` has the caller take less of the kind of memory that was refused, given the kind and
    what the error says; it gives a note, or nothing if it takes none. MemoryBudgetError,
    MemoryError: the least was refused, of a plan or by the system. ClusterLostError: the others
    have less than the least, and with the workers that were lost there would be enough.
    DeviceBusyError: other programs have so much of the device's memory that the least does not fit.
    """
    with _losses_reported(workplace, first.graph, first.request):
        done, used = _executed(first, workplace, progress, run, ease)
    is_other = used.reserved != first.reserved and used.device == first.device
    is_of_ranks = first.reserved.is_of_ranks or used.reserved.is_of_ranks
    # Of many sources another engine searches in another way.
    if is_other and first.request.many is None and not is_of_ranks:
        # The next search need not be refused first; if the worker is gone, it will be.
        with suppress(ClusterLostError):
            workplace.call(engine_cache.use_instead, key_of(first), key_of(used), first.capacity)
    return done


def _executed(
    first: Plan,
    workplace: Workplace,
    progress: Progress,
    run: Callable[[Plan], Done],
    ease: Callable[[str, str], str],
) -> tuple[Done, Plan]:
    """What `execute` gives, and the plan that was carried out."""
    tried, busy = first, ""
    while True:
        say(tried, progress)
        try:
            done = run(tried)
        except (MemoryError, MemoryBudgetError, DeviceBusyError, UsageError) as error:
            kind = kind_of(error, tried.device)
            if not kind or (kind == UNSUPPORTED and workplace.wanted != AUTO):
                raise
            refused = error
        else:
            return done, tried
        # Only now: its frames kept what they had of the memory.
        forget_frames(refused)
        if note := ease(kind, str(refused)):
            progress.note(note)
            tried = replace(tried, why="")
            continue
        busy = busy or (str(refused) if kind == BUSY else "")
        found = _after(tried, kind, refused, workplace)
        if found is None:
            raise _last(tried, kind, refused, busy)
        tried = found


def say(chosen: Plan, progress: Progress) -> None:
    """Note why a plan is not what would be preferred, and what faster it falls back from."""
    fallbacks = chosen.fallbacks
    if chosen.why and chosen.why != fallbacks.get("device"):
        progress.note(chosen.why)
    for left, text in fallbacks.items():
        reason = left, chosen.kernel, str(chosen.graph.path)
        if text == chosen.why:
            note_fallback(progress, reason, text)
        elif isinstance(progress, Reporter):
            # A search that reads the store says so at its end.
            progress.fell_back(reason, text)


def _last(tried: Plan, kind: str, error: Exception, busy: str) -> Exception:
    """The error to raise if nothing is left to try."""
    if busy and kind != BUSY and tried.device == CUDA:
        # What was tried instead needs something else; later this may be needless.
        return DeviceBusyError(busy)
    if kind == HOST and tried.device == CUDA:
        what = f"{tried.request.kernel} on a CUDA device: {said_by(error)}"
        return MemoryBudgetError(f"{what}; use --device cpu")
    if kind == HOST and tried.request.many is not None:
        needed, why = tried.reserved.whole_bytes, f" ({error})" if str(error) else ""
        # It may be a thread that was refused: then more memory is of no use.
        return MemoryBudgetError(
            f"{tried.request.kernel} on {tried.graph.name} needs {needed:,} bytes at least in one "
            f"worker, and the system refuses them{why}"
        )
    return error


def _after(tried: Plan, kind: str, error: Exception, workplace: Workplace) -> Plan | None:
    """The plan to continue with; the same one if other engines had taken memory."""
    is_pinned = tried.strategy.tier == PINNED
    refusal = Refusal(tried.reserved, kind, said_by(error), is_pinned=is_pinned)
    leaves_device = kind == UNSUPPORTED or (kind == BUSY and workplace.wanted == AUTO)
    # Of many sources every worker has an engine.
    on_workers = tried.request.many is not None and workplace.client is not None
    if tried.reserved.is_of_ranks or on_workers or leaves_device:
        workplace.release()
    else:
        refusal = replace(refusal, freed=workplace.call(engine_cache.give_up, key_of(tried)))
        if refusal.freed.had_others:
            return replace(tried, why="")
    return tried.after(refusal, workplace.resources)


def key_of(found: Plan) -> Key:
    """The engine that a plan needs."""
    graph = found.graph
    whom = str(graph.path), graph.identity, found.request.kernel
    return Key(*whom, found.device, found.reserved.engine)
