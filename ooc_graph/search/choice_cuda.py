"""Which way a search takes on CUDA devices, and whether there is memory for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout.names import id_dtype
from ooc_graph.model import rank_memory
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.resources import CUDA, Resources
from ooc_graph.model.way import Way
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.in_memory import busiest
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.strategies.cuda.disk_budgets import budgets_for

# Host memory a vertex beside the rows where a CUDA device searches: id tables and the answer; and
# for each byte of an id.
_HOST_BYTES, _HOST_IDS = 32, 2


@dataclass(frozen=True)
class HostAnswer:
    """Host memory of an answer, and whether it stays on the device."""

    bytes: int
    on_device: bool


def on_cuda(
    graph: Graph, kernel: str, exchange: str, resources: Resources, answer: HostAnswer | None
) -> Way:
    """The first way of those that may be for which there is memory.

    Rows may be in pinned memory, or in the store, where it is known which ``answer`` stands beside
    them.
    """
    if answer and exchange == "auto" and (found := _held_on_cuda(graph, kernel, resources, answer)):
        return found
    refused: MemoryBudgetError | None = None
    for way in _ways_on_cuda(graph, exchange, resources):
        host, device = _needed_on_cuda(graph, kernel, way, resources)
        if _fits(host) and _fits(device):
            return Way(CUDA, way)
        # Rows that the host has no room for it has no room to pin either.
        if way == "one" and answer and not _fits(device) and cuda_pinned.may_pin(graph, kernel):
            beside: Any = {
                "answer_bytes": answer.bytes,
                "named": answer.on_device,
                "is_held": not resources.is_limited
                and engine_cache.held_within(graph, kernel, CUDA) is not None,
            }
            try:
                plan = cuda_pinned.plan_for(graph, kernel, resources, **beside)
            except MemoryBudgetError as error:
                refused = error
            else:
                return Way(CUDA, way, budget_bytes=plan.budget_bytes)
    if answer and exchange == "auto" and cuda_disk.suits(graph, kernel, resources):
        return _in_store(graph, kernel, resources, answer)
    if refused is not None:
        raise refused
    where, (needed, there) = ("host", host) if _fits(device) else ("device", device)
    raise MemoryBudgetError(
        f"{kernel} on {graph.path} needs {needed:,} bytes of {where} memory in one worker, and a "
        f"worker may use {there:,}; add workers, or use --device cpu"
    )


def ranks_instead(
    graph: Graph, kernel: str, way: Way, resources: Resources, exchange: str
) -> Way | None:
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
    ways = _ways_on_cuda(graph, exchange, resources)
    if way.device != CUDA or way.exchange != "one" or "scheduler" not in ways:
        return None
    fits = all(map(_fits, _needed_on_cuda(graph, kernel, "scheduler", resources)))
    return Way(CUDA, "scheduler") if fits else None


def _in_store(graph: Graph, kernel: str, resources: Resources, answer: HostAnswer) -> Way:
    """The way whose arcs stay in the store."""
    beside: Any = {"answer_bytes": answer.bytes, "on_device": answer.on_device}
    budgets = budgets_for(graph, kernel, resources, **beside)
    return Way(CUDA, "one", budget_bytes=budgets[0], host_bytes=budgets[1])


def _held_on_cuda(
    graph: Graph, kernel: str, resources: Resources, answer: HostAnswer
) -> Way | None:
    """The way of the search before, where this process still has the rows that it pinned.

    They are no longer free, so that a plan might be refused that needs nothing more.
    """
    limits = resources.cuda_limits
    if resources.is_limited or (held := engine_cache.held_within(graph, kernel, CUDA)) is None:
        return None
    budget_bytes, _ = held
    # With another limit, what is held is of another size than what is asked for. All rows on the
    # device was asked for where they are not there since memory was refused.
    is_whole = (
        not budget_bytes and cuda_memory.cuda_bytes(graph, kernel) <= resources.device.memory_bytes
    )
    if not is_whole and budget_bytes != cuda_pinned.budget_for(
        graph, resources, named=answer.on_device
    ):
        return None
    most_bytes, needed = limits.pinned_bytes, cuda_pinned.pinned_bytes(graph, kernel)
    if most_bytes is not None and needed > most_bytes:
        return None
    return Way(CUDA, "one", budget_bytes=budget_bytes)


def _ways_on_cuda(graph: Graph, exchange: str, resources: Resources) -> list[str]:
    """Exchanges that may carry a search out, in the order in which they are tried."""
    if exchange != "auto":
        return [exchange]
    if rank_memory.only_ranks(graph):
        return ["local" if not resources.has_client else "scheduler"]
    return ["one"] if not resources.has_client else ["one", "scheduler"]


def _needed_on_cuda(
    graph: Graph, kernel: str, exchange: str, resources: Resources
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Bytes that a worker needs and those that there are: of host and of device memory."""
    rows, available = graph.resident_bytes(ORDER_OF[kernel]), resources.process_limit_bytes
    if exchange == "one":
        needed = cuda_memory.cuda_bytes(graph, kernel)
    else:
        shards = range(graph.shards)
        if exchange == "scheduler":
            shards, available = shards[: busiest(graph, resources)], resources.least_limit_bytes
            rows = rows * len(shards) // graph.shards
        needed = rank_memory.ranks_bytes(graph, kernel, shards)
    host = rows + graph.rows * (_HOST_BYTES + _HOST_IDS * id_dtype(graph.rows).itemsize)
    return (host, available), (needed, resources.device.memory_bytes)


def _fits(needed_and_there: tuple[int, int]) -> bool:
    needed, there = needed_and_there
    return needed <= there
