"""What a BFS rank offers whose device may reach the memory of the others'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.common.device import BfsRank


@runtime_checkable
class BfsPeerRank(BfsRank, Protocol):
    """A rank that can search together with others of its host, in one launch on each device.

    Ranks try that first. If one cannot, or does not come, all search by supersteps. To tell each
    other numbers, each rank fills its part of a row and leaves zeros elsewhere: the sum of the rows
    has the numbers of all.
    """

    @property
    def may_meet(self) -> bool:
        """Whether ranks of this kind can at all; the same on all of a search."""

    def introduce(self, search: object) -> tuple[int, ...]:
        """Who this rank is, for others; zeros if its device is taken by another ``search``."""

    def can_meet(self, introduced: Sequence[int]) -> bool:
        """Whether ranks can search together that were introduced so; the same on all."""

    def offer(self) -> tuple[int, ...]:
        """What others need to reach this rank's memory; zeros if there is too little of it."""

    def join(self, offers: Sequence[int]) -> bool:
        """Reach everyone's memory; False if that is refused."""

    def launch(self, root: int, arcs: int) -> None:
        """Begin the search from ``root``; ``arcs`` are those of all ranks."""

    def finish(self) -> bool:
        """Wait for its end; whether there is an answer."""

    def peer_tree(self) -> BfsTree:
        """Answer for the own rows."""

    def part(self, *, may_keep: bool) -> None:
        """End this search together, at whatever point it is; keep what serves the next, or not."""
