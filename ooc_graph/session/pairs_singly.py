"""Memory of searches one by one on a CUDA device, and what of it may be pinned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ooc_graph.answers.pairs import Asked
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.session import cuda_tiers, resident
from ooc_graph.session.devices import CUDA
from ooc_graph.session.pairs_memory import ID_BYTES, beside_bytes, shifted_bytes
from ooc_graph.session.pairs_plan import Plan
from ooc_graph.session.pairs_stored import stretch_of, way_of
from ooc_graph.session.place import Place
from ooc_graph.session.source_tiers import ONE_BY_ONE, is_shifted, single_of
from ooc_graph.shards.load import Graph

# Host memory of a row where an answer of the device's arrives: a level or distance as the device
# and as the answer has it, and a parent.
_TREE_BYTES = 20


def plan_singly(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    place: Place,
    budget_bytes: int,
    *,
    in_memory: bool,
) -> Plan:
    """How sources are divided that a CUDA device searches from one after the other.

    Parameters
    ----------
    specs
        How distances, and parents if wanted, are stored.
    budget_bytes
        Device memory, where rows are in pinned host memory; 0: all rows are on the device.
    in_memory
        Whether the answer stays in the memory of this process.

    Raises
    ------
    MemoryBudgetError
        Host memory has no room for the rows on their way, or beside them for the answers.
    """
    way = way_of(ONE_BY_ONE, 1, graph, specs, asked, place, in_memory=in_memory)
    _, lanes, chunks, task_bytes = way
    needed = _beside(graph, specs, asked, place, task_bytes, in_memory)
    stretch = stretch_of(specs[0], asked, lanes, chunks)
    plan = Plan(lanes, chunks, budget_bytes, ONE_BY_ONE, needed_bytes=needed, stretch=stretch)
    if budget_bytes:
        # `pinned_budget` has seen to it.
        return plan
    needed += graph.resident_bytes(resident.ORDER_OF[asked.kernel]) + graph.vertices * ID_BYTES
    if is_shifted(graph, asked.kernel):
        needed += shifted_bytes(graph, specs[0].dtype.itemsize)
    if needed > place.least_limit_bytes:
        raise MemoryBudgetError(
            f"many sources on {graph.path} need {needed:,} bytes in one worker, and a worker may "
            f"use {place.least_limit_bytes:,}; raise --memory-limit or add memory to the workers"
        )
    return replace(plan, needed_bytes=needed)


def pinned_budget(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, place: Place, *, in_memory: bool
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
    _, _, _, task_bytes = way_of(ONE_BY_ONE, 1, graph, specs, asked, place, in_memory=in_memory)
    beside = _beside(graph, specs, asked, place, task_bytes, in_memory)
    is_held = (
        not place.is_limited
        and resident.held_within(graph, asked.kernel, CUDA, ONE_BY_ONE) is not None
    )
    # All processes need so much, also the one that has least.
    beside += place.process_limit_bytes - place.least_limit_bytes
    plan = cuda_tiers.plan_for(
        graph, single_of(asked.kernel), place, answer_bytes=beside, is_held=is_held
    )
    return plan.budget_bytes


def _beside(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    place: Place,
    task_bytes: int,
    in_memory: bool,
) -> int:
    """Host memory beside rows and id tables."""
    answers = beside_bytes(specs, asked, place, in_memory=in_memory) + task_bytes
    return answers + graph.rows * _TREE_BYTES
