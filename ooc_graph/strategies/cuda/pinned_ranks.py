"""What ranks with their rows in pinned host memory hold, and how they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.dealt import hub_rows
from ooc_graph.kernels.cuda.bfs.near import BfsShare
from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.layout.names import ORDER_OF, id_dtype
from ooc_graph.memory.cuda.columns import LEAST_JOINED, JoinedPlan, filled
from ooc_graph.memory.cuda.device_facts import COLUMNS, DeviceFacts
from ooc_graph.memory.cuda.pinned_plan import rows_within
from ooc_graph.memory.cuda.pinned_ranks import RankFacts, RankPlan, least_plan_of_ranks, plan_ranks
from ooc_graph.model import rank_memory
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_facts import count_lengths
from ooc_graph.shards.tier_ranks import consecutive
from ooc_graph.strategies.cpu.on_disk import known_lengths
from ooc_graph.types import Shard

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
    for shards in consecutive(graph.shards, ranks):
        yield facts_of(graph, kernel, shards)


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
    allocator, order = PinnedAllocator(process.thread_count()), ORDER_OF[kernel]
    rows = {shard: graph.load(order, shard, room=allocator) for shard in shards}
    joined: dict[int, DeviceFacts | None] = {}
    if kernel == "bfs":
        joined = {shard: joined_facts(graph, loaded) for shard, loaded in rows.items()}

    def made(less: RankPlan) -> dict[int, Any]:
        def make(loaded: Shard) -> Any:
            given = loaded, allocator, less.share.least, less.share.shift
            if kernel != "bfs":
                return device.tier_sssp_rank(*given)
            facts = joined[loaded.dealing.shard]
            bytes_ = less.joined_bytes(facts.sides, len(rows)) if facts else 0
            return device.tier_bfs_rank(*given, facts and joined_share(facts, loaded, bytes_))

        return {shard: make(loaded) for shard, loaded in rows.items()}

    within, least = partial(plan_ranks, plan.facts), least_bytes(plan.facts)
    return made_with_less(within, made, plan.budget_bytes, least)


def joined_facts(graph: Graph, loaded: Shard) -> DeviceFacts | None:
    """Facts of a BFS rank that may search together with others; reads the shard's offsets.

    None if it never does.
    """
    dealing, beyond = loaded.dealing, [1 + 4 * column for column in range(COLUMNS)]
    if dealing.shards == 1 or not dealing.rows or rank_memory.only_ranks(graph):
        return None
    offsets = [side[dealing.shard] for side in graph.arrays_of(ORDER_OF["bfs"], "offsets")]
    found = [count_lengths(graph.stored, [array], dealing.rows, beyond) for array in offsets]
    sides = tuple(lengths for lengths, _ in found)
    return DeviceFacts(dealing.rows, sides, found[-1][1], 0, False)


def joined_share(facts: DeviceFacts, loaded: Shard, bytes_: int) -> BfsShare | None:
    """What that rank's device has of its rows then, within so much memory; None: it is too little.

    Or if there is more than the kernel can count.
    """
    plan = filled(JoinedPlan(facts, bytes_, vertices=loaded.dealing.vertices))
    if plan.columns < LEAST_JOINED or not plan.is_countable:
        return None
    hubs = (rows_within(rows.offsets, plan.hub_arcs) for rows in hub_rows(loaded))
    return BfsShare(plan.columns, *hubs)


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
