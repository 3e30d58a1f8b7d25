"""What a BFS rank offers whose device may reach the memory of the others'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.common.device import BfsRank


@runtime_checkable
class BfsPeerRank(BfsRank, Protocol):
    """A rank that can search together with others of its host, in one launch on each device.

    It is tried first. If a rank cannot, or one does not come, all search by supersteps.
    """

    def offer(self) -> tuple[int, ...]:
        """What others need to reach this rank, in its part of a row for all; zeros if it cannot."""

    def can_reach(self, offers: Sequence[int]) -> bool:
        """Whether the ranks that have made these offers, the sum of all rows, may reach each other.

        All ranks answer this alike, and the next question too.
        """

    def has_joined(self, offers: Sequence[int]) -> bool:
        """Whether they do already."""

    def join(self, offers: Sequence[int]) -> bool:
        """Reach the others; False if that is refused."""

    def launch(self, root: int, arcs: int, offers: Sequence[int]) -> None:
        """Begin the search from ``root``; ``arcs`` are those of all ranks."""

    def finish(self) -> bool:
        """Wait for its end; whether there is an answer."""

    def leave(self) -> None:
        """Forget the others; from now on this rank cannot."""

    def peer_tree(self) -> BfsTree:
        """Answer for the own rows."""
