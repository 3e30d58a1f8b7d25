"""SSSP ranks that have the distances of their own rows alone: what their steps do, what they share.

No numba here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.device import Payload
from ooc_graph.kernels.common.sssp.distances import SharedBounds
from ooc_graph.types import AnyArray

Candidates = tuple[AnyArray, AnyArray, AnyArray, AnyArray]
"""Targets, each once; their distances, those of the parents that they come from, and these."""


class Pushed(NamedTuple):
    """What a push found for other ranks, and what it left to do."""

    listed: Candidates  # for the owners of their targets
    waiting: int  # 0: nothing is left to be pushed below the bound
    examined: int  # arcs
    again: int  # improvements of own rows that had been reached before
    smallest: float  # no candidate beyond the bound is smaller


class Visited(Protocol):
    """What every device's `BfsShared` has."""

    @property
    def visited(self) -> Any:
        """Bitmap of all vertices, where the device has it."""

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """As of `BfsShared`."""


class SharedSettled(SharedBounds):
    """Which vertices are settled, two bits each, one of it in a process.

    A payload of one array is the bitmap of a rank's own rows that were settled now. Of one of three
    arrays, as of `SsspShared`, the last one counts.
    """

    def __init__(self, bitmaps: Visited, dtype: np.dtype[Any]) -> None:
        super().__init__(dtype)
        self._bitmaps = bitmaps
        self.settled = bitmaps.visited

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Take every rank's payload."""
        if len(payloads[0]) == 1:
            self._bitmaps.merge(payloads)
        else:
            self._smallest = min(smallest[0] for _, _, smallest in payloads)


class OwnedSsspRank(Protocol):
    """SSSP steps on the rows of one shard, whose distances and parents are nobody else's."""

    vertices: int
    ranks: int  # how many there are
    directed: bool

    def survey(self) -> tuple[tuple[int, ...], float]:
        """As of `SsspRank`; of the counts only the last is known."""

    def nothing(self, smallest: float) -> Payload:
        """Payload that says the smallest candidate not yet taken."""

    def begin(self, root: int, bound: float, distance: AnyArray | None, most_listed: int) -> None:
        """Forget everything; all that is reached is to be pushed below a bound.

        That is the root, or what an earlier search found: a ``distance`` of each own row. At most
        ``most_listed`` candidates for others are listed at a time.
        """

    def push(self, shared: SharedSettled, bound: float) -> Pushed:
        """Push own rows below the bound, to their fixed point, or until the list is full."""

    def take(self, candidates: Candidates) -> int:
        """Take candidates below the bound; how many improve what was reached before."""

    def settled(self, bound: float) -> tuple[AnyArray, int]:
        """Bitmap of the own rows up to a bound, beyond that of the call before; rows left."""

    def may_reach_more(self, shared: SharedSettled) -> bool:
        """Whether own rows that are left, undirected ones, have a neighbour that is settled."""

    def distances(self) -> AnyArray:
        """Distances of the own rows, in an array of their own; steps go on as without."""

    def overflowed(self, shared: SharedSettled) -> bool:
        """Tell whether a shortest distance from here exceeds the distances' dtype.

        All that is reached is settled, and everyone knows it.
        """

    def refuse_overflow(self) -> None:
        """Raise the error that says so."""

    def list_lacking(self) -> int:
        """Reached rows without a parent, on plateaus; others there offer themselves next."""

    def offer(self) -> tuple[Candidates, int, int]:
        """What rows offer along their plateaus; 0: nothing more is left to offer; arcs examined."""

    def take_offers(self, candidates: Candidates) -> None:
        """Have own rows that lack a parent take the smallest that is offered in this hop."""

    def end_hop(self) -> int:
        """How many rows found a parent in this hop; they offer themselves in the next."""

    def tree(self, phase_arcs: dict[str, int]) -> SsspTree:
        """Answer for the own rows, in local order."""
