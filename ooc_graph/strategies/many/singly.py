"""Memory of searches one by one on a CUDA device, and what of it may be pinned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ooc_graph.answers.pairs import Asked
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.resources import CUDA, Resources
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.strategies.cuda.on_disk import budgets_for
from ooc_graph.strategies.many.dividing import Plan
from ooc_graph.strategies.many.memory import ID_BYTES, beside_bytes, shifted_bytes
from ooc_graph.strategies.many.stored import stretch_of, way_of
from ooc_graph.strategies.many.tiers import ONE_BY_ONE, is_shifted, single_of

# Host memory of a row where an answer of the device's arrives: a level or distance as the device
# and as the answer has it, and a parent.
_TREE_BYTES = 20


def plan_singly(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    budget_bytes: int,
    host_bytes: int | None = None,
    *,
    in_memory: bool,
) -> Plan:
    """How sources are divided that a CUDA device searches from one after the other.

    Parameters
    ----------
    specs
        How distances, and parents if wanted, are stored.
    budget_bytes
        Device memory, where rows are in pinned host memory or in the store; 0: all rows are on the
        device.
    host_bytes
        Host memory, where arcs are in the store; else None.
    in_memory
        Whether the answer stays in the memory of this process.

    Raises
    ------
    MemoryBudgetError
        Host memory has no room for the rows on their way, or beside them for the answers.
    """
    way = way_of(ONE_BY_ONE, 1, graph, specs, asked, resources, in_memory=in_memory)
    _, lanes, chunks, task_bytes = way
    needed = _beside(graph, specs, asked, resources, task_bytes, in_memory)
    stretch = stretch_of(specs[0], asked, lanes, chunks)
    plan = Plan(lanes, chunks, budget_bytes, ONE_BY_ONE, needed_bytes=needed, stretch=stretch)
    if host_bytes is not None:
        needed += _in_store_bytes(graph, asked.kernel, budget_bytes, host_bytes)
        # `stored_budgets` has seen to it.
        return replace(plan, needed_bytes=needed, host_bytes=host_bytes)
    if budget_bytes:
        # `pinned_budget` has seen to it.
        return plan
    needed += graph.resident_bytes(ORDER_OF[asked.kernel]) + graph.vertices * ID_BYTES
    if is_shifted(graph, asked.kernel):
        needed += shifted_bytes(graph, specs[0].dtype.itemsize)
    if needed > resources.least_limit_bytes:
        raise MemoryBudgetError(
            f"many sources on {graph.path} need {needed:,} bytes in one worker, and a worker may "
            f"use {resources.least_limit_bytes:,}; raise --memory-limit or add memory to them"
        )
    return replace(plan, needed_bytes=needed)


def pinned_budget(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, resources: Resources, *, in_memory: bool
) -> int:
    """Device memory for searches one by one with rows in pinned host memory, as single ones have.

    Parameters
    ----------
    graph, specs, asked, place, in_memory
        As of `plan_singly`.

    Raises
    ------
    MemoryBudgetError
        The device, or the host, has too little; says the least that would do.
    """
    beside = _beside_in_any(graph, specs, asked, resources, in_memory)
    is_held = (
        not resources.is_limited
        and engine_cache.held_within(graph, asked.kernel, CUDA, ONE_BY_ONE) is not None
    )
    plan = cuda_pinned.plan_for(
        graph, single_of(asked.kernel), resources, answer_bytes=beside, is_held=is_held
    )
    return plan.budget_bytes


def stored_budgets(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, resources: Resources, *, in_memory: bool
) -> tuple[int, int]:
    """Device and host memory for searches one by one with arcs in the store, as single ones have.

    Parameters
    ----------
    graph, specs, asked, place, in_memory
        As of `plan_singly`.

    Raises
    ------
    MemoryBudgetError
        The device, or the host, has too little; says the least that would do.
    """
    beside = _beside_in_any(graph, specs, asked, resources, in_memory)
    held_as = asked.kernel, ONE_BY_ONE
    return budgets_for(
        graph, single_of(asked.kernel), resources, answer_bytes=beside, held_as=held_as
    )


def smaller_singly(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    refused: Plan,
    *,
    in_memory: bool,
) -> Plan | None:
    """A plan that holds less than one which was refused host memory; None: there is none.

    Only with arcs in the store there is: without any of them in host memory.
    """
    if not refused.host_bytes:
        return None
    given = graph, specs, asked, resources, refused.budget_bytes
    return plan_singly(*given, 0, in_memory=in_memory)


def _in_store_bytes(graph: Graph, kernel: str, budget_bytes: int, host_bytes: int) -> int:
    """Host memory of a search with arcs in the store, and beside it."""
    facts = cuda_disk.known_facts(graph, single_of(kernel))
    plan = cuda_disk.plan_within(facts, budget_bytes, host_bytes)
    return plan.host_bytes + cuda_disk.beside_bytes(graph)


def _beside_in_any(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, resources: Resources, in_memory: bool
) -> int:
    """As `_beside`, so that what is left suffices every process, also the one that has least."""
    _, _, _, task_bytes = way_of(ONE_BY_ONE, 1, graph, specs, asked, resources, in_memory=in_memory)
    beside = _beside(graph, specs, asked, resources, task_bytes, in_memory)
    return beside + resources.process_limit_bytes - resources.least_limit_bytes


def _beside(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    task_bytes: int,
    in_memory: bool,
) -> int:
    """Host memory beside rows and id tables."""
    answers = beside_bytes(specs, asked, resources, in_memory=in_memory) + task_bytes
    return answers + graph.rows * _TREE_BYTES
