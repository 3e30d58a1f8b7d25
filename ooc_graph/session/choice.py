"""Where and how a search is carried out: device, and one rank or many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ooc_graph.errors import DeviceBusyError, MemoryBudgetError, UsageError
from ooc_graph.kernels.interface import FIXED_ROW_BYTES, hubs_hold_much, may_fix_rows
from ooc_graph.kernels.sssp_near_far_search import may_pair_rows, paired_bytes
from ooc_graph.kernels.sssp_search import first_rows
from ooc_graph.layout.names import id_dtype
from ooc_graph.session import cuda_disk, cuda_tiers, edges_method, rank_memory, resident
from ooc_graph.session.devices import AUTO, CPU, CUDA
from ooc_graph.session.place import Place
from ooc_graph.session.tiers import has_tiers, least_within
from ooc_graph.shards.load import Graph
from ooc_graph.types import Progress

Done = TypeVar("Done")

EXCHANGES = ("auto", "local", "scheduler")

# Bytes a vertex beside the rows: state of a search, heads kept apart, id tables, the answer's
# pieces. Measured peaks are below it.
_STATE_BYTES = {"bfs": 48, "sssp": 96, "components": 40}
# Host memory a vertex beside the rows where a CUDA device searches: id tables and the answer; and
# for each byte of an id.
_HOST_BYTES, _HOST_IDS = 32, 2


@dataclass(frozen=True)
class Way:
    """How a search is carried out.

    Parameters
    ----------
    device
        ``cpu`` or ``cuda``.
    exchange
        ``one`` rank, or ``local`` or ``scheduler``.
    why
        Why it is the CPU where ``auto`` was asked for; else empty.
    budget_bytes
        Memory for a search whose arcs stay in the store, or, on a CUDA device, device memory for
        one whose rows are in host memory or in the store; 0 where all are brought into memory.
    copies
        Whether rows in memory may be kept in another form besides, which some searches gain by.
    host_bytes
        Host memory for a search on a CUDA device whose arcs stay in the store; else None.
    """

    device: str
    exchange: str
    why: str = ""
    budget_bytes: int = 0
    copies: bool = True
    host_bytes: int | None = None

    @property
    def said(self) -> str:
        """Where it goes, in words."""
        if self.device == CPU:
            return f"on the CPU: {self.why}" if self.why else "on the CPU"
        return "by one rank" if self.exchange == "one" else f"by ranks, exchange {self.exchange}"


def choose(
    graph: Graph,
    kernel: str,
    place: Place,
    *,
    exchange: str = "auto",
    method: str = edges_method.ROWS,
    tiers: bool = False,
    pinned: bool = False,
    answer_bytes: int = 0,
    on_device: bool = False,
) -> Way:
    """Choose device and exchange.

    Parameters
    ----------
    tiers
        Whether arcs may stay in the store where they fit no worker, nor several together.
    pinned
        Whether rows may be in pinned host memory where they do not fit the CUDA device.
    answer_bytes
        Host memory of an answer that is not written, where rows are not all where they are
        searched.
    on_device
        Whether the answer stays on the CUDA device.

    Raises
    ------
    UsageError
        If a name is none, or what is asked for does not go together.
    DeviceError
        If CUDA is asked for and not there.
    MemoryBudgetError
        If the graph does not fit even all workers together.
    """
    edges_method.require_method(method)
    if exchange not in EXCHANGES:
        raise UsageError(f"exchange {exchange!r}: choose {', '.join(EXCHANGES)}")
    if refusal := _for_cpus_only(kernel, method):
        if place.wanted == CUDA:
            raise UsageError(refusal)
        return on_cpu(graph, kernel, place, exchange=exchange, method=method, why="")
    why = place.device.why
    if place.device.name == CUDA:
        try:
            answer = _Answer(answer_bytes, on_device) if pinned else None
            return _on_cuda(graph, kernel, exchange, place, answer)
        except (UsageError, MemoryBudgetError) as error:
            if place.wanted != AUTO:
                raise
            why = str(error)
    return on_cpu(
        graph,
        kernel,
        place,
        exchange=exchange,
        method=method,
        why=why,
        tiers=tiers,
        answer_bytes=answer_bytes,
    )


def ranks_instead(graph: Graph, kernel: str, way: Way, place: Place, exchange: str) -> Way | None:
    """Ranks on CUDA devices, where one rank was refused memory that its plan reckoned with.

    Parameters
    ----------
    way
        That was refused.
    exchange
        That was asked for.

    Returns
    -------
    way
        None where there are no workers that may share the work, or it does not fit them either.
    """
    ways = _ways_on_cuda(graph, exchange, place)
    if way.device != CUDA or way.exchange != "one" or "scheduler" not in ways:
        return None
    fits = all(map(_fits, _needed_on_cuda(graph, kernel, "scheduler", place)))
    return Way(CUDA, "scheduler") if fits else None


def carry_out(
    way: Way,
    what: str,
    place: Place,
    progress: Progress,
    run: Callable[[Way], Done],
    fall_back: Callable[[str], Way],
) -> Done:
    """Carry work out; where ``auto`` took a CUDA device that will not do, on the CPU.

    Parameters
    ----------
    way
        How `choose` said.
    what
        The work, as a note names it.
    run
        Carries it out one way.
    fall_back
        The way on the CPU, given why.
    """
    if way.device == CUDA:
        try:
            return run(way)
        except (UsageError, DeviceBusyError, MemoryBudgetError) as error:
            if place.wanted != AUTO:
                raise
            why = str(error)
        except MemoryError as error:
            # Host memory: the CPU's ways may need less of it.
            why = refusal_of(error)
            if place.wanted != AUTO:
                raise MemoryBudgetError(
                    f"{what} on a CUDA device: {why}; use --device cpu"
                ) from error
        way = fall_back(why)
    if way.why:
        progress.note(f"{what} on the CPU: {way.why}")
    return run(way)


def refusal_of(error: Exception) -> str:
    """What an error says that tells of refused memory; Python's own may say nothing."""
    if not isinstance(error, MemoryError):
        return str(error)
    return f"host memory was refused: {error}" if str(error) else "host memory was refused"


def on_cpu(
    graph: Graph,
    kernel: str,
    place: Place,
    *,
    exchange: str,
    method: str,
    why: str,
    tiers: bool = False,
    answer_bytes: int = 0,
) -> Way:
    """As `choose`, for the CPU."""
    available = place.process_limit_bytes
    if method == edges_method.EDGES:
        return Way(CPU, edges_method.choose_one(graph, kernel, exchange, available), why)
    if tiers and exchange == "auto" and not place.is_limited:
        # What is free has become less by what is held, which is enough for another search.
        held = resident.held_within(graph, kernel)
        if held is not None:
            return Way(CPU, "one", why, *held)
    tiers = tiers and exchange == "auto" and has_tiers(graph, kernel)
    try:
        chosen = choose_exchange(graph, kernel, exchange, place)
        return Way(CPU, chosen, why, copies=resident_bytes(graph, kernel) <= available)
    except MemoryBudgetError:
        if not tiers:
            raise
    least = least_within(graph, kernel) + answer_bytes
    if least <= available:
        return Way(CPU, "one", why, available - answer_bytes)
    needed = min(least, _least_in_memory(graph, kernel, place))
    raise MemoryBudgetError(
        f"{kernel} on {graph.path} needs at least {needed:,} bytes in one worker, and a worker may "
        f"use {available:,}; raise --memory-limit or add workers that have the memory"
    )


def _for_cpus_only(kernel: str, method: str) -> str:
    """Why no CUDA device does this; empty where one may."""
    if kernel == "components":
        return "components are found on the CPU only: use --device cpu"
    if method == edges_method.EDGES:
        return "method 'edges' searches on the CPU only: use --device cpu"
    return ""


@dataclass(frozen=True)
class _Answer:
    """Host memory of an answer, and whether it stays on the device."""

    bytes: int
    on_device: bool


def _on_cuda(graph: Graph, kernel: str, exchange: str, place: Place, answer: _Answer | None) -> Way:
    """The first way of those that may be for which there is memory.

    Rows may be in pinned memory, or in the store, where it is known which ``answer`` stands beside
    them.
    """
    _require_cluster(exchange, place)
    if answer and exchange == "auto" and (found := _held_on_cuda(graph, kernel, place, answer)):
        return found
    refused: MemoryBudgetError | None = None
    for way in _ways_on_cuda(graph, exchange, place):
        host, device = _needed_on_cuda(graph, kernel, way, place)
        if _fits(host) and _fits(device):
            return Way(CUDA, way)
        # Rows that the host has no room for it has no room to pin either.
        if way == "one" and answer and not _fits(device) and cuda_tiers.may_pin(graph, kernel):
            beside: Any = {
                "answer_bytes": answer.bytes,
                "named": answer.on_device,
                "is_held": not place.is_limited
                and resident.held_within(graph, kernel, CUDA) is not None,
            }
            try:
                plan = cuda_tiers.plan_for(graph, kernel, place, **beside)
            except MemoryBudgetError as error:
                refused = error
            else:
                return Way(CUDA, way, budget_bytes=plan.budget_bytes)
    if answer and exchange == "auto" and cuda_disk.suits(graph, kernel, place):
        return _in_store(graph, kernel, place, answer)
    if refused is not None:
        raise refused
    where, (needed, there) = ("host", host) if _fits(device) else ("device", device)
    raise MemoryBudgetError(
        f"{kernel} on {graph.path} needs {needed:,} bytes of {where} memory in one worker, and a "
        f"worker may use {there:,}; add workers, or use --device cpu"
    )


def _in_store(graph: Graph, kernel: str, place: Place, answer: _Answer) -> Way:
    """The way whose arcs stay in the store; that of the search before where it is still held.

    What it holds is no longer free, so that the next would have less.
    """
    held = None if place.is_limited else resident.held_in_store(graph, kernel)
    budget_bytes = cuda_disk.budget_for(graph, place, on_device=answer.on_device)
    host_bytes = cuda_disk.host_budget(graph, place, answer.bytes)
    limit = place.cuda_limits.pinned_bytes
    if held is not None and held[0] == budget_bytes:
        # A limit that was met is met again. Where less was free, or there is none, what is free
        # comes and goes, and loading again pays only for much more.
        may_hold = limit is None or held[1] <= limit
        if held[1] == limit or (may_hold and 2 * held[1] >= host_bytes):
            return Way(CUDA, "one", budget_bytes=held[0], host_bytes=held[1])
    beside: Any = {"answer_bytes": answer.bytes, "on_device": answer.on_device}
    plan = cuda_disk.plan_for(graph, kernel, place, **beside)
    budgets = plan.device_budget_bytes, plan.host_budget_bytes
    return Way(CUDA, "one", budget_bytes=budgets[0], host_bytes=budgets[1])


def _held_on_cuda(graph: Graph, kernel: str, place: Place, answer: _Answer) -> Way | None:
    """The way of the search before, where this process still has the rows that it pinned.

    They are no longer free, so that a plan might be refused that needs nothing more.
    """
    limits = place.cuda_limits
    if place.is_limited or (held := resident.held_within(graph, kernel, CUDA)) is None:
        return None
    budget_bytes, _ = held
    # With another limit, what is held is of another size than what is asked for. All rows on the
    # device was asked for where they are not there since memory was refused.
    is_whole = not budget_bytes and resident.cuda_bytes(graph, kernel) <= place.device.memory_bytes
    if not is_whole and budget_bytes != cuda_tiers.budget_for(graph, place, named=answer.on_device):
        return None
    most_bytes, needed = limits.pinned_bytes, cuda_tiers.pinned_bytes(graph, kernel)
    if most_bytes is not None and needed > most_bytes:
        return None
    return Way(CUDA, "one", budget_bytes=budget_bytes)


def _ways_on_cuda(graph: Graph, exchange: str, place: Place) -> list[str]:
    """Exchanges that may carry a search out, in the order in which they are tried."""
    if exchange != "auto":
        return [exchange]
    if rank_memory.only_ranks(graph):
        return ["local" if place.client is None else "scheduler"]
    return ["one"] if place.client is None else ["one", "scheduler"]


def _needed_on_cuda(
    graph: Graph, kernel: str, exchange: str, place: Place
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Bytes that a worker needs and those that there are: of host and of device memory."""
    rows, available = graph.resident_bytes(resident.ORDER_OF[kernel]), place.process_limit_bytes
    if exchange == "one":
        needed = resident.cuda_bytes(graph, kernel)
    else:
        shards = range(graph.shards)
        if exchange == "scheduler":
            shards, available = shards[: _busiest(graph, place)], place.least_limit_bytes
            rows = rows * len(shards) // graph.shards
        needed = rank_memory.ranks_bytes(graph, kernel, shards)
    host = rows + graph.rows * (_HOST_BYTES + _HOST_IDS * id_dtype(graph.rows).itemsize)
    return (host, available), (needed, place.device.memory_bytes)


def _fits(needed_and_there: tuple[int, int]) -> bool:
    needed, there = needed_and_there
    return needed <= there


def _require_cluster(exchange: str, place: Place) -> None:
    if exchange == "scheduler" and place.client is None:
        raise UsageError("the scheduler exchange needs a Dask client")


def _busiest(graph: Graph, place: Place) -> int:
    """Shards of the busiest worker: they are dealt whole, and every worker takes part."""
    return -(-graph.shards // min(place.processes, graph.shards))


def resident_bytes(graph: Graph, kernel: str, *, copies: bool = True) -> int:
    """Memory of one rank that searches the whole graph; without ``copies``, the least."""
    rows = graph.resident_bytes(resident.ORDER_OF[kernel])
    copied = _copied_bytes(graph, kernel) if copies else 0
    return rows + copied + graph.rows * _STATE_BYTES[kernel]


def ranks_bytes(graph: Graph, kernel: str, place: Place) -> int:
    """Memory of the busiest worker where many ranks search."""
    rows = graph.resident_bytes(resident.ORDER_OF[kernel])
    return rows * _busiest(graph, place) // graph.shards + graph.rows * _STATE_BYTES[kernel]


def _least_in_memory(graph: Graph, kernel: str, place: Place) -> int:
    """Least memory of a worker, where all rows are brought into memory."""
    whole = resident_bytes(graph, kernel, copies=False)
    return min(whole, ranks_bytes(graph, kernel, place)) if place.has_ranks else whole


def _copied_bytes(graph: Graph, kernel: str) -> int:
    """Memory of rows that one rank may keep in another form too, heads aside.

    Short rows get fixed places for BFS; weights lie beside their arcs for near-far.
    """
    sides = 2 if graph.directed else 1
    if kernel == "bfs" and may_fix_rows(graph.rows * sides, graph.arcs):
        return FIXED_ROW_BYTES * graph.rows * sides
    weights, arcs = graph.weight_dtype, graph.arcs // sides
    if kernel != "sssp" or weights is None or not may_pair_rows(weights, graph.rows, arcs):
        return 0
    if weights.kind == "f" and hubs_hold_much(graph.head_share(first_rows(graph.rows))):
        return 0
    return paired_bytes(graph.rows, arcs)


def choose_exchange(graph: Graph, kernel: str, wanted: str, place: Place) -> str:
    """``one`` rank where the graph fits one worker (decision 8), else the ranks of the cluster.

    Raises
    ------
    UsageError
        If the exchange needs a cluster and there is none.
    MemoryBudgetError
        If the graph does not fit even all workers together.
    """
    _require_cluster(wanted, place)
    if wanted == "local":
        return wanted
    needed, available = resident_bytes(graph, kernel, copies=False), place.process_limit_bytes
    if wanted == "auto" and needed <= available:
        return "one"
    if place.has_ranks:
        needed = ranks_bytes(graph, kernel, place)
        available = place.least_limit_bytes
        if needed <= available:
            return "scheduler"
    raise MemoryBudgetError(
        f"{kernel} on {graph.path} needs {needed:,} bytes in one worker, and a worker may use "
        f"{available:,}; raise --memory-limit or add workers that have the memory"
    )
