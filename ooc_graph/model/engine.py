"""A graph that is loaded for searches, with what they need."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ooc_graph.answers.scatter import Ids
from ooc_graph.kernels.cuda.runtime.pool import WholePieces, allocating
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.shards.load import Graph

if TYPE_CHECKING:
    from ooc_graph.kernels.cuda.runtime.scatter import OriginalOrder
    from ooc_graph.memory.cuda.device_facts import DevicePlan


@dataclass(frozen=True)
class Engine:
    """A graph in memory with buffers for one kernel, and its id tables."""

    kernel: str  # as of a `Request`
    # The device's search; or the steps of the one rank that has all rows, or, as ``ranks``, of all.
    search: Any
    # The store, its id tables, and tuples by internal id.
    graph: Graph
    ids: Ids
    tuples: Any
    # Whether an answer that stays on the device has original ids as parents.
    original_parents: bool = False
    # What the device holds if rows are in pinned host memory, else None.
    pinned: DevicePlan | None = None
    pool: WholePieces | None = None  # what device memory comes from if it has a limit, else None
    # Says how a search went. It is called after each search with what that search alone read of the
    # store (`IoStats`; None if arcs are in memory). None if there is nothing to say.
    note: Callable[[Any], str] | None = None

    @cached_property
    def order(self) -> OriginalOrder:
        """Brings answers that stay on the device into the order of original ids."""
        from ooc_graph.kernels.cuda.runtime.scatter import OriginalOrder  # noqa: PLC0415

        return OriginalOrder(self.ids.internal_of)

    @property
    def steps(self) -> dict[int, Any]:
        """The steps of every rank, if the device has no search of a whole graph."""
        ranks: dict[int, Any] = getattr(self.search, "ranks", None) or {0: self.search}
        return ranks

    def allocating(self) -> AbstractContextManager[None]:
        """Have this thread take device memory from where the search has its own."""
        return allocating(self.pool)

    def close(self) -> None:
        """Close the store's files, if arcs stay there."""
        if reads_store(self.search):
            self.search.close()

    @property
    def io_stats(self) -> IoStats | None:
        """What was read of the store so far, if arcs stay there."""
        return self.search.io_stats if reads_store(self.search) else None

    def read_since(self, before: IoStats | None) -> IoStats | None:
        """What was read of the store since `io_stats` were these, if arcs stay there."""
        after = self.io_stats
        return None if before is None or after is None else after.since(before)


@dataclass(frozen=True)
class RankEngine:
    """The ranks of a worker, by name, with buffers for one kernel, and their graph.

    A rank that reads the store while it searches is an `ooc_graph.shards.tiers.TierSearch`.
    """

    graph: Graph
    ranks: dict[Any, Any]

    @property
    def searches(self) -> dict[Any, Any]:
        """The device's steps of every rank."""
        return {s: r.search if reads_store(r) else r for s, r in self.ranks.items()}

    def close(self) -> None:
        """Close the store's files, if arcs stay there."""
        for rank in self.ranks.values():
            if reads_store(rank):
                rank.close()


def reads_store(search: Any) -> bool:
    """Whether a search, or a rank, is a `TierSearch`; asked so that memory needs none imported."""
    return hasattr(search, "io_stats")


def load_ids(graph: Graph) -> Ids:
    """Id tables of a graph."""
    originals = None if graph.first_id is not None else graph.original_ids()
    return Ids(graph.internal_of(), graph.original_of(), graph.first_id, originals)
