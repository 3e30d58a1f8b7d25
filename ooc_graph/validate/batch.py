"""Answers side by side, and what the edges have said about them so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate import edge_loops, loops

BATCH_ANSWERS = 64
"""Answers of one batch on a CUDA device, at most."""
MOST_ANSWERS = 56
"""Answers of one batch on the CPU, at most: as many levels of a byte fill a line with a word."""
BYTE_UNREACHED = np.uint8(126)
"""Unreached in a batch of levels of one byte; no reached level is within one of it."""
NONE = int(np.iinfo(np.int64).max)  # no id, no arc: above all others

_LINE_BYTES = 64
_WORD_BYTES = 8
_BYTE, _LEVEL = np.dtype(np.uint8), np.dtype(np.uint32)
_RANGE = 1 << 14  # vertices whose levels are widened at a time


@dataclass
class Tally:
    """What a pass over edges found; tallies of disjoint sets of edges add up in any order.

    ``counts``, int64 (k + 1,), are tuples inside each answer, less those inside all (last entry);
    ``broken``, int64 (3, k, 2), is the smallest arc (positions) that breaks each edge rule, or is
    of the tree and between equal distances; ``unknown_id`` the smallest id of an edge that the
    answers do not have; `NONE` if there is none.
    """

    counts: IntArray
    broken: IntArray
    unknown_id: int = NONE

    def merge(self, other: Tally) -> None:
        """Add what another pass found on other edges."""
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
    """Answers in the layout that the edge loops read; shared by all threads.

    ``value`` (V, at least k) are levels or distances in one dtype, ``unreached`` its largest value;
    columns after the last answer are zero. ``parent``, int32 or int64 (V, k), are positions, -1 if
    there is none; edges confirm them. ``words`` are the same memory as ``value`` if that is levels
    of a byte, with a word more for each vertex (`edge_loops.look_at_bytes`).
    """

    value: AnyArray
    unreached: Any
    parent: AnyArray
    words: AnyArray | None = None

    @classmethod
    def of(cls, vertices: int, answers: int, position: np.dtype[Any], unreached: Any) -> Batch:
        """Return room for some answers, none of which is there yet."""
        dtype = unreached.dtype
        value = _values(vertices, answers, dtype)
        parent = _lines(vertices, answers * position.itemsize).view(position)
        parent.fill(-1)
        return cls(value, unreached, parent, value.view(np.uint64) if dtype == _BYTE else None)

    @property
    def answers(self) -> int:
        """How many answers there is room for."""
        return int(self.parent.shape[1])

    def fitting(self, unreached: Any) -> Batch:
        """Return this batch, its levels widened if they are bytes and ``unreached`` is not."""
        if self.unreached.dtype == unreached.dtype or self.words is None:
            return self
        wide = _values(len(self.parent), self.answers, unreached.dtype)
        for start in range(0, len(wide), _RANGE):
            part = slice(start, start + _RANGE), slice(self.answers)
            levels = self.value[part]
            wide[part] = np.where(levels == self.unreached, unreached, levels)
        return replace(self, value=wide, unreached=unreached, words=None)

    def put(self, slot: int, column: AnyArray, position: AnyArray, start: int, stop: int) -> None:
        """Copy a range of vertices of an answer."""
        ends = slot, start, stop
        if self.words is None:
            loops.lay_out(column, position, *ends, self.value, self.parent)
        else:
            loops.lay_out_bytes(column, position, *ends, self.value, self.words, self.parent)

    def look(
        self, source: AnyArray, target: AnyArray, weight: Any, directed: bool, tally: Tally
    ) -> None:
        """Show the answers tuples by position, with weights, or None if each arc counts 1."""
        if weight is None:
            weight = np.broadcast_to(self.unreached.dtype.type(1), len(source))
        marks = np.empty(len(source), np.uint8)
        value = self.value.view()
        value.flags.writeable = False  # as columns may be: the loops are compiled once
        if self.words is None:
            edge_loops.look(source, target, weight, value, self.unreached, marks)
        else:
            edge_loops.look_at_bytes(source, target, self.words, marks)
        listed = np.empty(len(marks), np.int64)
        count = edge_loops.list_marked(source, target, marks, tally.counts, listed)
        state = value, self.unreached, self.parent, listed[:count]
        edge_loops.settle(source, target, weight, directed, *state, tally.counts, tally.broken)

    def tally(self) -> Tally:
        """Nothing seen yet."""
        broken = np.full((3, self.answers, 2), NONE, dtype=np.int64)
        return Tally(np.zeros(self.answers + 1, dtype=np.int64), broken)

    @cached_property
    def equal(self) -> AnyArray:
        """Bits of vertices that are as far as their parent in some answer."""
        flags = np.zeros(-(-len(self.parent) // 8), np.uint8)
        loops.flag_equal(self.value, self.parent, flags)
        return flags

    def first_unconfirmed(self, answer: int) -> tuple[int, int] | None:
        """Tree arc of the smallest vertex that no edge has confirmed, as positions."""
        child = loops.first_pending(self.parent, answer)
        return None if child < 0 else (int(self.parent[child, answer]), child)


def row_bytes(answers: int, dtype: np.dtype[Any]) -> int:
    """Bytes of the levels or distances of a vertex: a power of two, or whole lines of memory."""
    least = answers * dtype.itemsize + (_WORD_BYTES if dtype == _BYTE else 0)
    short = 1 << (least - 1).bit_length()
    return short if short <= _LINE_BYTES else -(-least // _LINE_BYTES) * _LINE_BYTES


def batch_bytes(vertices: int, answers: int, dtype: np.dtype[Any]) -> int:
    """Memory of a batch by the dtype of its values, without the answer that is taken in.

    Levels are uint8 in batches that have none above 124, and are widened to uint32 if there come
    such. One answer alone is not copied: only its parents' positions are added.
    """
    each = 4 if vertices <= np.iinfo(np.int32).max else 8
    if answers == 1:
        return vertices * each
    narrow = row_bytes(answers, _BYTE) if dtype == _LEVEL else 0
    return vertices * (narrow + row_bytes(answers, dtype) + (answers + 1) * each)


def most_at_once(
    vertices: int, dtype: np.dtype[Any], available_bytes: int, most: int = MOST_ANSWERS
) -> int:
    """Answers of a batch that takes no more memory than there is, at most; 0 if one takes more."""
    counts = range(1, most + 1)
    return sum(batch_bytes(vertices, count, dtype) <= available_bytes for count in counts)


def _values(vertices: int, answers: int, dtype: np.dtype[Any]) -> AnyArray:
    return _lines(vertices, row_bytes(answers, dtype)).view(dtype)


def _lines(rows: int, width: int) -> AnyArray:
    """Zeroed bytes (rows, width) that begin where a line of memory does."""
    memory = np.empty(rows * width + _LINE_BYTES, np.uint8)  # not zeros: its pages are small ones
    memory.fill(0)
    first = -memory.ctypes.data % _LINE_BYTES
    return memory[first : first + rows * width].reshape(rows, width)


def first_unknown(ids: IntArray, positions: AnyArray) -> int:
    """Smallest id without a position, int64's largest if there is none."""
    if len(ids) == 0 or positions.min() >= 0:
        return NONE
    return int(ids[positions < 0].min())
