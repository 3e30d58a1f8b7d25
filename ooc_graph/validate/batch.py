"""Up to 64 answers side by side, and what the edges have said about them so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate import loops

BATCH_ANSWERS = 64  # bits of a uint64
_TILE = 4096
NONE = int(np.iinfo(np.int64).max)  # no id, no arc: above all others


@dataclass
class Tally:
    """What a pass over edges found; tallies of disjoint sets of edges add up in any order.

    ``pending``, uint64 (arcs,), has a bit for each answer whose tree arc no edge has shown yet;
    ``counts``, int64 (k + 1,), are tuples inside each answer, less those inside all (last entry);
    ``broken``, int64 (2, k, 2), is the smallest arc (positions) that breaks each edge rule, and
    ``unknown_id`` the smallest id of an edge that the answers do not have; `NONE` if there is none.
    """

    pending: NDArray[np.uint64]
    counts: IntArray
    broken: IntArray
    unknown_id: int = NONE

    def merge(self, other: Tally) -> None:
        """Add what another pass found on other edges."""
        self.pending &= other.pending
        self.counts += other.counts
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


@dataclass(frozen=True)
class Batch:
    """``count`` answers in the layout that the edge loops read; read-only, shared by all threads.

    ``value`` (V, at least count) are levels or distances in one dtype; ``reached``, uint64 (V,),
    says which answers reach a vertex. ``offsets``, int64 (V + 1,), ``parents``, int32 or int64
    (arcs,), and ``answers``, uint64 (arcs,), are the distinct tree arcs into each vertex, and who
    has each.
    """

    count: int
    value: AnyArray
    reached: NDArray[np.uint64]
    offsets: IntArray
    parents: AnyArray
    answers: NDArray[np.uint64]

    @property
    def full(self) -> np.uint64:
        """The bits of all answers."""
        return np.uint64((1 << self.count) - 1)

    def tally(self) -> Tally:
        """Nothing seen yet."""
        broken = np.full((2, self.count, 2), NONE, dtype=np.int64)
        return Tally(self.answers.copy(), np.zeros(self.count + 1, dtype=np.int64), broken)

    def first_unconfirmed(self, tally: Tally, answer: int) -> tuple[int, int] | None:
        """Tree arc of the smallest vertex that no edge has confirmed, as positions."""
        arcs = np.flatnonzero(tally.pending & np.uint64(1 << answer))
        if len(arcs) == 0:
            return None
        child = int(np.searchsorted(self.offsets, arcs[0], side="right")) - 1
        return int(self.parents[arcs[0]]), child


def assemble(parents: AnyArray, value: AnyArray) -> Batch:
    """Collect the tree arcs of k answers and join them with their levels or distances.

    ``parents`` are positions (k, V): -1 unreached, the root's its own. ``value`` is (V, at least
    k).
    """
    answers, vertices = parents.shape
    reached = np.zeros(vertices, dtype=np.uint64)
    for j in range(answers):
        reached |= (parents[j] >= 0).astype(np.uint64) << np.uint64(j)
    offsets = np.empty(vertices + 1, dtype=np.int64)
    scratch = loops.tile_of(parents), np.empty(answers, np.uint64)
    loops.tree_arcs(parents, *scratch, offsets, parents[0, :0], reached[:0])
    arcs = int(offsets[-1])
    arc_parents = np.empty(arcs, dtype=parents.dtype)
    arc_answers = np.empty(arcs, dtype=np.uint64)
    if arcs:
        loops.tree_arcs(parents, *scratch, offsets, arc_parents, arc_answers)
    return Batch(answers, value, reached, offsets, arc_parents, arc_answers)


def side_by_side(columns: Sequence[AnyArray], multiple: int = 1) -> AnyArray:
    """Turn k columns (V,) into (V, k rounded up to a multiple), further columns zero.

    The dtype is the widest of the columns'.
    """
    vertices, width = len(columns[0]), -(-len(columns) // multiple) * multiple
    out = np.zeros((vertices, width), dtype=np.result_type(*{c.dtype for c in columns}))
    for first in range(0, vertices, _TILE):
        tile = slice(first, first + _TILE)
        for j, column in enumerate(columns):
            out[tile, j] = column[tile]
    return out
