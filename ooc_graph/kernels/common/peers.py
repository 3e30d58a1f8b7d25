"""What a rank offers that may reach the memory of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.common.device import BfsRank, BfsShared, SsspInnerRank, SsspShared
from ooc_graph.types import Dealing


class PeerRank(Protocol):
    """A rank that can search together with others of its kind and host."""

    @property
    def may_meet(self) -> bool:
        """Whether this rank can at all."""

    def is_free(self, search: object) -> bool:
        """Whether no other search has just now what no two may use at once.

        ``search`` is what the ranks of this process share.
        """

    @property
    def greeting(self) -> tuple[int, int]:
        """What tells others that this rank has met them before; zeros if it has not."""

    def has_met(self, greetings: Sequence[int]) -> bool:
        """Whether all have met, and can search at once; the same on all."""

    def offer(self) -> tuple[int, ...]:
        """What others need to reach this rank's memory; zeros if there is too little of it."""


@runtime_checkable
class BfsPeerRank(PeerRank, BfsRank, Protocol):
    """A rank that can search together with others of its kind and host, in one launch each.

    Ranks try that first. If one cannot, or does not come, all search by supersteps. What they tell
    each other is summed; see `for_all`.
    """

    agrees: bool
    """Whether all can `finish` right after they `launch`, and will say the same of it.

    So it is if no two of them are in one process.
    """
    joins: bool
    """Whether they need memory that all their processes map, as a `Joinable` gets it."""

    def introduce(self, search: object) -> tuple[int, ...]:
        """Who this rank is, for others; zeros if its device is taken by another ``search``."""

    def can_meet(self, introduced: Sequence[int]) -> bool:
        """Whether ranks can search together that were introduced so; the same on all."""

    def join(self, offers: Sequence[int]) -> bool:
        """Reach everyone's memory; False if that is refused."""

    def launch(self, root: int, arcs: int) -> None:
        """Begin the search from ``root``; ``arcs`` are those of all ranks."""

    def finish(self) -> bool:
        """Come to its end; whether there is an answer."""

    def peer_tree(self) -> BfsTree:
        """Answer for the own rows."""

    def part(self, *, may_keep: bool) -> None:
        """End this search together, at whatever point it is; keep what serves the next, or not."""


class ReturningBfsRank(BfsPeerRank, Protocol):
    """A rank that keeps what it needs to search with the same ranks again."""

    def again(self, search: BfsShared) -> BfsTree | None:
        """Search with the others, if all come where they met before; None if not, the same on all.

        The rank has been started, and is again as it was then if the answer is None.
        """


class Outset(NamedTuple):
    """What ranks know when they begin to push.

    The first ``step`` of the bound, the ``arcs`` of all, and whether a path may be too long.
    """

    step: float
    arcs: int
    may_pull: bool
    may_overflow: bool


class Settled(NamedTuple):
    """How all distances were found.

    ``inner`` is None, or a bound: the vertices up to it were pushed along all of their arcs, and
    the ``following`` one is the nearest beyond. ``phase_arcs`` are those examined by all ranks.
    """

    inner: float | None
    following: float
    phase_arcs: dict[str, int]


@runtime_checkable
class SsspPeerRank(PeerRank, SsspInnerRank, Protocol):
    """A rank that can find distances together with others, if all share them, in one launch."""

    @property
    def threads(self) -> int:
        """Threads that it would search by."""

    def rejoin(self, shared: SsspShared, greetings: Sequence[int]) -> bool:
        """Share distances in the memory that is kept; False if not all ranks have the same.

        It is no longer kept in any case: who gives up may still write to it.
        """

    def keep(self, shared: SsspShared, name: int) -> None:
        """Keep the memory of the distances for the next search, if they are common to all.

        ``name`` is what all call it.
        """

    def settle(self, shared: SsspShared, root: int, outset: Outset, threads: int) -> Settled | None:
        """Find the distances of all own rows, together with all other ranks: ``threads`` in all.

        None, and the same on all, if they share none or somebody did not come: a search by
        supersteps may begin then.
        """


def for_all(dealing: Dealing, mine: Sequence[int]) -> tuple[int, ...]:
    """A row that has a rank's numbers in its part, and zeros elsewhere.

    The sum of the rows of all ranks has the numbers of all.
    """
    return tuple(word * (rank == dealing.shard) for rank in range(dealing.shards) for word in mine)


def each_of(dealing: Dealing, words: Sequence[int]) -> list[tuple[int, ...]]:
    """The numbers of each rank, of the sum of rows."""
    step = len(words) // dealing.shards
    return [tuple(words[at : at + step]) for at in range(0, len(words), step)]
