"""What the edges have said about answers so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ooc_graph.types import AnyArray, IntArray

NONE = int(np.iinfo(np.int64).max)
"""No position: above all others."""
NO_ID = NONE + 1
"""No id: above all others."""


@dataclass
class Tally:
    """What a pass over edges found; tallies of disjoint sets of edges add up in any order.

    ``counts``, int64 (k + 1,), are tuples inside each answer, less those inside all (last entry);
    ``broken``, int64 (3, k, 2), is the smallest arc (positions) that breaks each edge rule, or is
    of the tree and between equal distances; `NONE` if there is none. ``equal`` has bits of vertices
    with such an arc to them, and is empty for levels; ``unknown_id`` is the smallest id of an edge
    that the answers do not have.
    """

    counts: IntArray
    broken: IntArray
    equal: AnyArray
    unknown_id: int = NO_ID

    def merge(self, other: Tally) -> None:
        """Add what another pass found on other edges."""
        self.counts += other.counts
        self.equal |= other.equal
        self.unknown_id = min(self.unknown_id, other.unknown_id)
        start, end = self.broken[..., 0], self.broken[..., 1]
        start_, end_ = other.broken[..., 0], other.broken[..., 1]
        smaller = (start_ < start) | ((start_ == start) & (end_ < end))
        self.broken[smaller] = other.broken[smaller]

    def edges(self, answer: int) -> int:
        """Tuples between reached vertices of one answer."""
        return int(self.counts[answer] + self.counts[-1])

    def first_broken(self, rule: int, answer: int) -> tuple[int, int] | None:
        """Smallest arc that breaks an edge rule, as positions."""
        start, end = (int(x) for x in self.broken[rule, answer])
        return None if start == NONE else (start, end)


def first_unknown(ids: IntArray, positions: AnyArray) -> int:
    """Smallest id without a position, `NO_ID` if there is none."""
    if len(ids) == 0 or positions.min() >= 0:
        return NO_ID
    return int(ids[positions < 0].min())
