"""Where and how a search is carried out: device, and one rank or many."""

from __future__ import annotations

from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.model.kernel import EDGES, ROWS
from ooc_graph.model.resources import AUTO, CPU, CUDA, Resources
from ooc_graph.model.way import Way
from ooc_graph.runtime import engine_cache
from ooc_graph.search.choice_cuda import HostAnswer, on_cuda
from ooc_graph.shards.load import Graph
from ooc_graph.strategies import edge_list
from ooc_graph.strategies.cpu.in_memory import least_in_memory, ranks_bytes, resident_bytes
from ooc_graph.strategies.cpu.on_disk import has_tiers, least_within

EXCHANGES = ("auto", "local", "scheduler")


def choose(
    graph: Graph,
    kernel: str,
    resources: Resources,
    *,
    exchange: str = "auto",
    method: str = ROWS,
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
    require_together(kernel, exchange, method, resources.wanted)
    if _for_cpus_only(kernel, method):
        return on_cpu(graph, kernel, resources, exchange=exchange, method=method, why="")
    why = resources.device.why
    if resources.device.name == CUDA:
        try:
            _require_cluster(exchange, resources)
            answer = HostAnswer(answer_bytes, on_device) if pinned else None
            return on_cuda(graph, kernel, exchange, resources, answer)
        except (UsageError, MemoryBudgetError) as error:
            if resources.wanted != AUTO:
                raise
            why = str(error)
    return on_cpu(
        graph,
        kernel,
        resources,
        exchange=exchange,
        method=method,
        why=why,
        tiers=tiers,
        answer_bytes=answer_bytes,
    )


def require_together(kernel: str, exchange: str, method: str, wanted: str) -> None:
    """Refuse names that are none, or what does not go together whatever the graph and place are.

    Parameters
    ----------
    wanted
        Device: ``auto``, ``cpu`` or ``cuda``.

    Raises
    ------
    UsageError
    """
    edge_list.require_method(method)
    if exchange not in EXCHANGES:
        raise UsageError(f"exchange {exchange!r}: choose {', '.join(EXCHANGES)}")
    refusal = _for_cpus_only(kernel, method)
    if refusal and wanted == CUDA:
        raise UsageError(refusal)
    if method == EDGES:
        edge_list.refuse_exchange(exchange)


def on_cpu(
    graph: Graph,
    kernel: str,
    resources: Resources,
    *,
    exchange: str,
    method: str,
    why: str,
    tiers: bool = False,
    answer_bytes: int = 0,
) -> Way:
    """As `choose`, for the CPU."""
    available = resources.process_limit_bytes
    if method == EDGES:
        return Way(CPU, edge_list.choose_one(graph, kernel, exchange, available), why)
    if tiers and exchange == "auto" and not resources.is_limited:
        # What is free has become less by what is held, which is enough for another search.
        held = engine_cache.held_within(graph, kernel)
        if held is not None:
            return Way(CPU, "one", why, *held)
    tiers = tiers and exchange == "auto" and has_tiers(graph, kernel)
    try:
        chosen = choose_exchange(graph, kernel, exchange, resources)
        return Way(CPU, chosen, why, copies=resident_bytes(graph, kernel) <= available)
    except MemoryBudgetError:
        if not tiers:
            raise
    least = least_within(graph, kernel) + answer_bytes
    if least <= available:
        return Way(CPU, "one", why, available - answer_bytes)
    needed = min(least, least_in_memory(graph, kernel, resources))
    raise MemoryBudgetError(
        f"{kernel} on {graph.path} needs at least {needed:,} bytes in one worker, and a worker may "
        f"use {available:,}; raise --memory-limit or add workers that have the memory"
    )


def _for_cpus_only(kernel: str, method: str) -> str:
    """Why no CUDA device does this; empty where one may."""
    if kernel == "components":
        return "components are found on the CPU only: use --device cpu"
    if method == EDGES:
        return "method 'edges' searches on the CPU only: use --device cpu"
    return ""


def _require_cluster(exchange: str, resources: Resources) -> None:
    if exchange == "scheduler" and not resources.has_client:
        raise UsageError("the scheduler exchange needs a Dask client")


def choose_exchange(graph: Graph, kernel: str, wanted: str, resources: Resources) -> str:
    """``one`` rank where the graph fits one worker (decision 8), else the ranks of the cluster.

    Raises
    ------
    UsageError
        If the exchange needs a cluster and there is none.
    MemoryBudgetError
        If the graph does not fit even all workers together.
    """
    _require_cluster(wanted, resources)
    if wanted == "local":
        return wanted
    needed, available = resident_bytes(graph, kernel, copies=False), resources.process_limit_bytes
    if wanted == "auto" and needed <= available:
        return "one"
    if resources.has_ranks:
        needed = ranks_bytes(graph, kernel, resources)
        available = resources.least_limit_bytes
        if needed <= available:
            return "scheduler"
    raise MemoryBudgetError(
        f"{kernel} on {graph.path} needs {needed:,} bytes in one worker, and a worker may use "
        f"{available:,}; raise --memory-limit or add workers that have the memory"
    )
