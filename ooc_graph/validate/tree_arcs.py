"""Tree arcs of a batch of answers: the parents of each vertex, and which answers have them.

Answers share most of their tree arcs: with 64 roots of a Kronecker graph a vertex has about four
parents in breadth-first trees, and one in trees of shortest paths. A batch therefore has an arc
once, with a bit for each answer that it is in, and with another that is cleared when a tuple of the
input has confirmed it. One answer alone has no such table but the position of each parent, which
becomes `CONFIRMED` less the position.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate import tree_loops
from ooc_graph.validate.tree_loops import RANGE, RANGE_BITS, Arcs

_LIBC = ctypes.CDLL(None)
_MOST_PARENTS = 14  # of a vertex on average, in answers of one batch

InRanges = Callable[[Callable[[int, int], Any]], list[Any]]
"""Calls a function with the start and stop of ranges of vertices, by threads; what it returned."""


@dataclass
class TreeArcs:
    """Tree arcs of some answers; threads share them.

    ``parent``, int32 or int64 (ranges, room), are positions. Those of vertex v are in row
    ``v >> RANGE_BITS``, from where those of the vertex before end to ``ends[v]``, int32.
    ``members`` and ``pending`` have a bit for each answer. Of one answer alone, ``parent`` is (1,
    V), -1 for no parent, and the others are empty.
    """

    ends: AnyArray
    parent: AnyArray
    members: AnyArray
    pending: AnyArray

    @classmethod
    def alone(cls, vertices: int, position: np.dtype[Any]) -> TreeArcs:
        """Room for the parents of one answer."""
        nothing = np.empty((0, 0), np.uint8)
        return cls(np.empty(0, np.int32), np.empty((1, vertices), position), nothing, nothing)

    @classmethod
    def of(cls, vertices: int, answers: int, position: np.dtype[Any]) -> TreeArcs:
        """No arcs, and room for those of several answers; memory is taken as it fills."""
        ranges, word = -(-vertices // RANGE), f"u{word_bytes(answers)}"
        shape = ranges, min(vertices, RANGE) * min(answers, _MOST_PARENTS)
        table = (in_small_pages(np.empty(shape, dtype)) for dtype in (position, word, word))
        return cls(np.zeros(vertices, np.int32), *table)

    @property
    def arrays(self) -> Arcs:
        """As the loops have them."""
        return self.ends, self.parent, self.members, self.pending

    @property
    def vertices(self) -> int:
        """How many vertices there are."""
        return self.parent.shape[1] if self.is_alone else len(self.ends)

    @property
    def is_alone(self) -> bool:
        """Whether these are of one answer, without a table."""
        return len(self.ends) == 0 and self.parent.shape[0] == 1

    def merge(self, positions: AnyArray, answer: int, in_ranges: InRanges) -> None:
        """Take in the parents of answers ``answer``, ... (n, V), positions, or -1."""

        def take(start: int, stop: int) -> None:
            row, ends = start >> RANGE_BITS, self.ends[start:stop]
            parent, members = self.parent[row], self.members[row]
            before = ends.copy(), parent[: ends[-1]].copy(), members[: ends[-1]].copy()
            tree_loops.merge_parents(
                positions[:, start:stop], answer, before, ends, parent, members
            )

        in_ranges(take)

    def fits(self, answers: int) -> bool:
        """Whether there is room for more answers, whatever their parents are."""
        lasts = *self.ends[RANGE - 1 :: RANGE].tolist(), *self.ends[-1:].tolist()
        left: int = self.parent.shape[1] - max(lasts, default=0)
        return left >= answers * min(self.vertices, RANGE)

    def seal(self, in_ranges: InRanges) -> None:
        """All answers are there; no arc is confirmed."""

        def copy(start: int, stop: int) -> None:
            row, count = start >> RANGE_BITS, self.ends[stop - 1]
            self.pending[row, :count] = self.members[row, :count]

        in_ranges(copy)

    def parent_of(self, vertex: int, answer: int) -> int:
        """Position of a parent, -1 if there is none."""
        return int(tree_loops.parent_in(self.arrays, vertex, answer))

    def first_pending(self, answers: int) -> IntArray:
        """Smallest vertex of each answer whose tree arc no tuple has confirmed, -1 if none."""
        first = np.full(answers, -1, np.int64)
        tree_loops.first_pending(self.arrays, first)
        return first

    def unconfirmed(self, answer: int, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """Vertices of a range whose tree arc no tuple has confirmed, ascending; their parents."""
        if self.is_alone:
            child = start + np.flatnonzero(self.parent[0, start:stop] >= 0)
            return child, self.parent[0, child].astype(np.int64)
        row, ends = start >> RANGE_BITS, self.ends[start:stop]
        bits = self.pending[row, : ends[-1]] >> self.pending.dtype.type(answer)
        at = np.flatnonzero(bits & self.pending.dtype.type(1))
        return start + np.searchsorted(ends, at, "right"), self.parent[row, at].astype(np.int64)


def in_small_pages(array: AnyArray) -> AnyArray:
    """Have an array that fills in parts take no large pages, of which much would stay empty."""
    page = mmap.PAGESIZE
    start = -(-array.ctypes.data // page) * page
    size = max(0, array.ctypes.data + array.nbytes - start)
    with suppress(AttributeError):  # where there is Linux alone
        _LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_NOHUGEPAGE)
    return array


def word_bytes(answers: int) -> int:
    """Bytes of a word with a bit for each answer."""
    return max(1, 1 << (answers - 1).bit_length() >> 3)


def arc_bytes(answers: int, position_bytes: int) -> int:
    """Memory of a vertex for the tree arcs of some answers, at most."""
    if answers == 1:
        return position_bytes
    return 4 + min(answers, _MOST_PARENTS) * (position_bytes + 2 * word_bytes(answers))
