"""What ranks with their rows in pinned host memory hold, and how they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.layout.names import ORDER_OF, id_dtype
from ooc_graph.memory.cuda.pinned_ranks import RankFacts, RankPlan, least_plan_of_ranks, plan_ranks
from ooc_graph.model import rank_memory
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.on_disk import known_lengths

Made = TypeVar("Made")


def facts_of(graph: Graph, kernel: str, shards: Sequence[int]) -> RankFacts:
    """What a plan for these ranks of one worker depends on; reads the graph's offsets."""
    lengths, weights = known_lengths(graph, kernel), None
    if kernel == "sssp":
        weights = graph.weight_dtype
    return RankFacts(
        kernel,
        tuple(side for shard in shards for side in lengths[shard]),
        rank_memory.state_bytes(graph, kernel, shards),
        id_dtype(graph.rows).itemsize + (0 if weights is None else weights.itemsize),
    )


def facts_of_any(graph: Graph, kernel: str, ranks: int) -> Iterator[RankFacts]:
    """Facts of workers with so many consecutive ranks each."""
    for first in range(graph.shards - ranks + 1):
        yield facts_of(graph, kernel, range(first, first + ranks))


def least_bytes(facts: RankFacts) -> int:
    """Least device memory that the ranks of a worker do with."""
    return least_plan_of_ranks(facts).bytes


def load(
    graph: Graph, kernel: str, shards: Sequence[int], device: Any, plan: RankPlan
) -> dict[int, Any]:
    """Bring rows to pinned memory, and to the device what a plan has there.

    If the device refuses that, it has less and less of the rows. MemoryBudgetError: pinned memory,
    or the least of the device's, was refused. CorruptStoreError: names the chunk.
    """
    make = device.tier_bfs_rank if kernel == "bfs" else device.tier_sssp_rank
    allocator, order = PinnedAllocator(process.thread_count()), ORDER_OF[kernel]
    rows = {shard: graph.load(order, shard, room=allocator) for shard in shards}

    def made(less: RankPlan) -> dict[int, Any]:
        share = less.share.least, less.share.shift
        return {shard: make(loaded, allocator, *share) for shard, loaded in rows.items()}

    within, least = partial(plan_ranks, plan.facts), least_bytes(plan.facts)
    return made_with_less(within, made, plan.bytes, least)


def made_with_less(
    within: Callable[[int], Any], make: Callable[[Any], Made], bytes_: int, least: int
) -> Made:
    """What ``make`` makes of the plan within so much device memory, or less, down to the least."""
    while True:
        plan = within(bytes_)
        try:
            return make(plan)
        except MemoryBudgetError:
            if plan.device_bytes <= least:
                raise
        # Only now: the frames of the error kept what they had of the memory.
        # A plan may be far below its budget, and would be the same with a little less.
        bytes_ = max(least, plan.device_bytes // 4 * 3)
