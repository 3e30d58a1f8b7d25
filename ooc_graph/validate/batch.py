"""Answers side by side, in the layout that the edge loops read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ooc_graph.types import AnyArray
from ooc_graph.validate import edge_loops, loops, summaries
from ooc_graph.validate.tally import NONE, Tally

BATCH_ANSWERS = 64
"""Answers of one batch, at most."""
FOUR_BITS, EIGHT_BITS = np.uint8(15), np.uint8(255)
"""Unreached in a batch of levels of one byte, that fit four bits or not."""

InRanges = Callable[[Callable[[int, int], Any]], list[Any]]
"""Calls a function with the start and stop of ranges of vertices, by threads; what it returned."""

_LINE_BYTES = 64
_RANGE = 1 << 14  # vertices whose levels are widened at a time
_BYTE, _LEVEL = np.dtype(np.uint8), np.dtype(np.uint32)


@dataclass
class Batch:
    """Answers in the layout that the edge loops read; shared by all threads.

    ``value`` (V, at least k) are levels or distances in one dtype, ``unreached`` its largest value.
    ``parent``, int32 or int64 (V, k), are positions, -1 if there is none; edges confirm them. Some
    answers wait in ``staged``, positions and values (n, V), until they are laid out together.
    ``summary`` says of most tuples that they are right: levels in planes, or brackets of distances
    with a ``margin``; None if there is none.
    """

    value: AnyArray
    unreached: Any
    parent: AnyArray
    staged: tuple[AnyArray, AnyArray] | None = None
    taken: int = 0
    right: list[int] = field(default_factory=list)  # answers that may be looked at
    summary: AnyArray | None = None
    margin: Any = None

    @classmethod
    def of(cls, vertices: int, answers: int, position: np.dtype[Any], unreached: Any) -> Batch:
        """Return room for some answers, none of which is there yet."""
        parent = _lines(vertices, answers * position.itemsize).view(position)
        waiting = _staged(answers), vertices
        staged = np.empty(waiting, position), np.empty(waiting, unreached.dtype)
        return cls(_values(vertices, answers, unreached.dtype), unreached, parent, staged)

    @property
    def answers(self) -> int:
        """How many answers there is room for."""
        return int(self.parent.shape[1])

    def rows(self, unreached: Any) -> tuple[AnyArray, AnyArray, Any]:
        """Room for the next answer (V,): positions of its parents, and values unless it is alone.

        ``unreached`` stands for that in the smallest dtype that holds its values; returned is also
        what does so in the batch.
        """
        if self.staged is None:
            return self.parent[:, 0], np.empty(0, self.value.dtype), self.unreached
        if unreached > self.unreached:
            self._widen(unreached)
        positions, values = self.staged
        waiting = self.taken % len(values)
        return positions[waiting], values[waiting], self.unreached

    def put(self, is_right: bool, in_ranges: InRanges) -> None:
        """Take in what was written to `rows`; nothing is looked at if it is not right."""
        if self.staged is None:
            return
        if is_right:
            self.right.append(self.taken)
        self.taken += 1
        if self.taken % len(self.staged[1]) == 0:
            self._lay_out(len(self.staged[1]), in_ranges)

    def _lay_out(self, count: int, in_ranges: InRanges) -> None:
        """Copy the last answers into their rows."""
        assert self.staged is not None
        positions, values = (rows[:count] for rows in self.staged)
        first, rows = self.taken - count, (self.value, self.parent)
        in_ranges(lambda a, b: loops.lay_out(values, positions, first, a, b, *rows))

    def _widen(self, unreached: Any) -> None:
        """Make room for levels that are larger."""
        assert self.staged is not None
        positions, levels = self.staged
        self.staged = positions, np.where(levels == self.unreached, unreached, levels)
        levels = self.value
        self.value = _values(len(self.parent), self.answers, unreached.dtype)
        for start in range(0, len(levels), _RANGE):
            part = slice(start, start + _RANGE), slice(self.answers)
            self.value[part] = np.where(levels[part] == self.unreached, unreached, levels[part])
        self.unreached = unreached

    def seal(self, in_ranges: InRanges) -> None:
        """Lay out what waits, and sum up: there come no more answers."""
        if self.staged is None:
            return
        self._lay_out(self.taken % len(self.staged[0]), in_ranges)
        self.staged = None
        if self.taken < self.value.shape[1]:
            self.value[:, self.taken :] = 0
            self.parent[:, self.taken :] = -1
        vertices, width = self.value.shape
        if self.value.dtype == _BYTE:
            words = 8 if self.unreached == FOUR_BITS else 16
            lines = self.summary = _lines(vertices, words * width // 8).view(f"u{width // 8}")
            rows = self.value.view(np.uint64), self.parent
            in_ranges(lambda a, b: summaries.slice_levels(*rows, a, b, lines))
        elif self.value.dtype != _LEVEL:
            offset = summaries.offsets(self.value, self.unreached, self.right)
            ends = self.summary = _lines(vertices, 2 * offset.itemsize).view(offset.dtype)
            given = self.value, self.unreached, offset
            found = in_ranges(lambda a, b: summaries.bracket(*given, a, b, ends))
            self.margin = summaries.margin(offset, max(found, default=0.0))

    def look(
        self, source: AnyArray, target: AnyArray, weight: Any, directed: bool, tally: Tally
    ) -> None:
        """Show the answers tuples by position, with weights, or None if each arc counts 1."""
        if weight is None:
            weight = np.broadcast_to(self.unreached.dtype.type(1), len(source))
        marks = np.empty(len(source), np.uint8)
        value = self.value.view()
        value.flags.writeable = False  # as columns may be: the loops are compiled once
        if self.summary is None:
            edge_loops.look(source, target, weight, value, self.unreached, marks)
        elif self.margin is None:
            planes = (0,) * (self.summary.shape[1] // 2)
            summaries.look_at_planes(source, target, self.summary, planes, marks)
        else:
            summaries.look_at_brackets(source, target, weight, self.summary, self.margin, marks)
        listed = np.empty(len(marks), np.int64)
        count = edge_loops.list_marked(source, target, marks, tally.counts, listed)
        state = value, self.unreached, self.parent, listed[:count]
        found = tally.counts, tally.broken, tally.equal
        edge_loops.settle(source, target, weight, directed, *state, found)

    def tally(self) -> Tally:
        """Nothing seen yet."""
        broken = np.full((3, self.answers, 2), NONE, dtype=np.int64)
        is_level = self.value.dtype in (_BYTE, _LEVEL)
        equal = np.zeros(0 if is_level else -(-len(self.parent) // 8), np.uint8)
        return Tally(np.zeros(self.answers + 1, dtype=np.int64), broken, equal)

    @cached_property
    def equal(self) -> AnyArray:
        """Bits of vertices that are as far as their parent in some answer, a tuple or not."""
        flags = np.zeros(-(-len(self.parent) // 8), np.uint8)
        loops.flag_equal(self.value, self.parent, flags)
        return flags

    def first_unconfirmed(self) -> list[tuple[int, int] | None]:
        """For each answer, tree arc of the smallest vertex that no edge has confirmed."""
        first = np.full(self.answers, -1, np.int64)
        loops.first_pending(self.parent, first)
        arcs = enumerate(first.tolist())
        return [(int(self.parent[v, answer]), v) if v >= 0 else None for answer, v in arcs]


def row_bytes(answers: int, dtype: np.dtype[Any]) -> int:
    """Bytes of the levels or distances of a vertex: a power of two, or whole lines of memory."""
    least = max(8, answers * dtype.itemsize)
    short = 1 << (least - 1).bit_length()
    return short if short <= _LINE_BYTES else -(-least // _LINE_BYTES) * _LINE_BYTES


def batch_bytes(vertices: int, answers: int, dtype: np.dtype[Any]) -> int:
    """Memory of a batch by the dtype of its values, without the answer that is taken in.

    Levels are uint8 in batches that have none above 254, and are widened to uint32 if there come
    such. One answer alone is not copied: only its parents' positions are added.
    """
    each = 4 if vertices <= np.iinfo(np.int32).max else 8
    if answers == 1:
        return vertices * each
    beside = {_BYTE: 2 * row_bytes(answers, _BYTE), _LEVEL: row_bytes(answers, _BYTE)}
    summary = beside.get(dtype, 2 * summaries.bracket_dtype(dtype).itemsize)
    staged = _staged(answers) * (each + dtype.itemsize)
    return vertices * (row_bytes(answers, dtype) + summary + answers * each + staged)


def most_at_once(vertices: int, dtype: np.dtype[Any], available_bytes: int) -> int:
    """Answers of a batch that takes no more memory than there is, at most; 0 if one takes more."""
    counts = range(1, BATCH_ANSWERS + 1)
    return sum(batch_bytes(vertices, count, dtype) <= available_bytes for count in counts)


def _staged(answers: int) -> int:
    """Answers that are laid out together, so that rows are written that much less often."""
    return max(1, answers // 8)


def _values(vertices: int, answers: int, dtype: np.dtype[Any]) -> AnyArray:
    return _lines(vertices, row_bytes(answers, dtype)).view(dtype)


def _lines(rows: int, width: int) -> AnyArray:
    """Bytes (rows, width) that begin where a line of memory does."""
    memory = np.empty(rows * width + _LINE_BYTES, np.uint8)  # not zeros: its pages are small ones
    first = -memory.ctypes.data % _LINE_BYTES
    return memory[first : first + rows * width].reshape(rows, width)
