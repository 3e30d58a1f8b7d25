"""What a strategy is: a place for the rows of a graph, and the search that finds them there."""

from __future__ import annotations

from typing import Any, Protocol

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.model.request import Request
from ooc_graph.model.resources import Resources
from ooc_graph.model.way import Way
from ooc_graph.shards.load import Graph

MEMORY, PINNED, DISK = 0, 1, 2
"""Tiers, from the one that takes most memory where rows are searched to the one that takes least:
all rows there; rows in pinned host memory; arcs in the store."""


class Strategy(Protocol):
    """A way to search that a plan may choose; see ``docs/adding.md``."""

    @property
    def name(self) -> str:
        """Device and tier, such as ``cuda/pinned``."""

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""

    @property
    def tier(self) -> int:
        """One of the tiers above."""

    def lacks(self, graph: Graph, request: Request, resources: Resources) -> str:
        """Why this strategy does not do what is asked for, whatever memory there is; or empty."""

    def cached(self, graph: Graph, request: Request, resources: Resources) -> Way | None:
        """What this process has loaded that will do. Its memory is not free, and need not be."""

    def reserve(self, graph: Graph, request: Request, resources: Resources) -> Way:
        """What it would hold in memory.

        Raises
        ------
        MemoryBudgetError
            Says the least that would do.
        """

    def describe(
        self, graph: Graph, request: Request, resources: Resources, way: Way
    ) -> dict[str, Any]:
        """What it holds in memory by purpose, JSON-able."""


def too_little(what: str, needed: int, there: int, advice: str) -> MemoryBudgetError:
    """The error of a process that has too little memory for something."""
    return MemoryBudgetError(
        f"{what} needs at least {needed:,} bytes in one worker, and a worker may use {there:,}; "
        f"{advice}"
    )
