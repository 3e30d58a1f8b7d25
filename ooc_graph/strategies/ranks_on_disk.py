"""Searches by many ranks, each with heads of its rows in memory and the tails in the store."""

from __future__ import annotations

from typing import Any

from ooc_graph.memory.cpu.plan import Facts, describe, least_bytes, plan_disk
from ooc_graph.model.kernel import ROWS
from ooc_graph.model.request import LOCAL, SCHEDULER, Request
from ooc_graph.model.resources import CPU, Resources
from ooc_graph.model.strategy import DISK, too_little
from ooc_graph.model.way import Way
from ooc_graph.runtime.remembered import Remembered
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_ranks import LengthsByShard, facts_of_any_ranks, lengths_by_shard
from ooc_graph.strategies.cpu.in_memory import ADVICE
from ooc_graph.strategies.cpu.on_disk import has_tiers
from ooc_graph.strategies.ranks import busiest, ranks_bytes


class RanksOnDisk:
    """The ranks of all workers, each with heads of its rows in memory and the tails in the store.

    The budget is the memory of the worker that has least.
    """

    name, device, tier = "cpu/ranks-on-disk", CPU, DISK

    def lacks(self, graph: Graph, request: Request, resources: Resources) -> str:
        """Several workers, or ranks that are asked for; and a store."""
        if request.method != ROWS or request.exchange == LOCAL:
            return "another method, or the ranks of one process, are asked for"
        is_asked = request.exchange == SCHEDULER
        if not resources.has_ranks or not (is_asked or resources.processes > 1):
            return "there are no workers to share the work"
        return "" if has_tiers(graph, request.kernel) else "arcs cannot stay in the store"

    def cached(self, graph: Graph, request: Request, resources: Resources) -> Way | None:  # noqa: ARG002
        """Ranks that workers keep are known to them alone."""
        return None

    def reserve(self, graph: Graph, request: Request, resources: Resources) -> Way:
        """Reads the graph's offsets."""
        kernel, available = request.kernel, resources.least_limit_bytes
        least = least_bytes(_busiest_facts(graph, kernel, resources))
        if least > available:
            # All rows may take less.
            least = min(least, ranks_bytes(graph, kernel, resources))
            raise too_little(f"{kernel} on {graph.path}", least, available, ADVICE)
        return Way(CPU, SCHEDULER, budget_bytes=available)

    def describe(
        self, graph: Graph, request: Request, resources: Resources, way: Way
    ) -> dict[str, Any]:
        """The worker that needs most: heads, units of the store that are kept, and messages."""
        facts = _busiest_facts(graph, request.kernel, resources)
        return describe(plan_disk(facts, way.budget_bytes)) | {"tier": "disk, by ranks"}


_known_lengths: Remembered[LengthsByShard] = Remembered(lengths_by_shard)


def _busiest_facts(graph: Graph, kernel: str, resources: Resources) -> Facts:
    """Of the worker whose ranks need most."""
    lengths, ranks = _known_lengths(graph, kernel), busiest(graph, resources)
    return max(facts_of_any_ranks(graph, kernel, ranks, lengths), key=least_bytes)
