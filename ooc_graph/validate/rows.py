"""Distances of a batch in rows, or levels that need more than a byte."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate import brackets, edge_loops, loops
from ooc_graph.validate.edge_loops import Marks, State
from ooc_graph.validate.tally import Tally
from ooc_graph.validate.tree_arcs import InRanges, TreeArcs, in_small_pages
from ooc_graph.validate.tree_loops import RANGE

_LEVEL = np.dtype(np.uint32)
_LINE_BYTES = 64


@dataclass
class Rows:
    """Distances, or levels as uint32: ``value`` (n, at least k); ``unreached`` is the largest.

    A vertex that some answer reaches has a row, whose number is in ``rows`` (V,); others share one
    (`loops.lay_out`). Of one answer alone, ``rows`` is empty, and a vertex' number is that of its
    row. ``ends`` are brackets of distances (V, 2) with a ``margin``, None if there are none.
    """

    value: AnyArray
    rows: AnyArray
    unreached: Any
    answers: int
    ends: AnyArray | None = None
    margin: Any = None

    @classmethod
    def alone(cls, column: AnyArray, unreached: Any, position: np.dtype[Any]) -> Rows:
        """One answer's values, which are not copied."""
        return cls(column[:, None], np.empty(0, position), unreached, 1)

    @classmethod
    def of(cls, vertices: int, answers: int, unreached: Any, position: np.dtype[Any]) -> Rows:
        """Room for the values of some answers; memory is taken as vertices are reached."""
        most = vertices + -(-vertices // RANGE)
        lines = in_small_pages(lines_of(most, row_bytes(answers, unreached.dtype)))
        value = lines.view(unreached.dtype)
        number = position if most <= np.iinfo(position).max else np.dtype(np.int64)
        return cls(value, np.empty(vertices, number), unreached, answers)

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of values that are put in."""
        return self.value.dtype

    @cached_property
    def _used(self) -> IntArray:
        """How many rows the vertices of a range have."""
        return np.zeros(-(-len(self.rows) // RANGE), np.int64)

    def put(self, values: AnyArray, answer: int, in_ranges: InRanges) -> None:
        """Take in the values of answers ``answer``, ... (n, V)."""
        given = (self.value, self.rows), self._used
        in_ranges(lambda a, b: loops.lay_out(values, self.unreached, answer, a, b, *given))

    def seal(self, arcs: TreeArcs, taken: int, in_ranges: InRanges) -> None:
        """All answers are there."""
        del arcs
        if self.dtype == _LEVEL:
            return
        some = self.rows[:: max(1, len(self.rows) // brackets.SAMPLE)]
        offset = brackets.offsets(self.value[some, :taken], self.unreached)
        ends = self.ends = lines_of(len(self.rows), 2 * offset.itemsize).view(offset.dtype)
        given = self.state, self.unreached, offset
        found = in_ranges(lambda a, b: brackets.bracket(*given, a, b, ends))
        self.margin = brackets.margin(offset, max(found, default=0.0))

    def at(self, vertices: AnyArray, answer: int) -> AnyArray:
        """Levels or distances of vertices in an answer."""
        rows = self.rows[vertices] if len(self.rows) else vertices
        found: AnyArray = self.value[rows, answer]
        return found.astype(np.int64) if self.dtype == _LEVEL else found

    def look(self, source: AnyArray, target: AnyArray, weight: Any, marks: Marks) -> None:
        """Mark the tuples of a block, whose weights are None if each counts 1."""
        if self.ends is None:
            lengths = self._lengths(weight, len(source))
            edge_loops.look(source, target, lengths, self.state, self.unreached, marks)
        else:
            brackets.look_at_brackets(source, target, weight, self.ends, self.margin, marks)

    def settle(
        self,
        source: AnyArray,
        target: AnyArray,
        weight: Any,
        directed: bool,
        arcs: TreeArcs,
        listed: IntArray,
        tally: Tally,
    ) -> None:
        """Do what marks ask for."""
        given = self._lengths(weight, len(source)), directed, self.state, self.unreached
        found = tally.counts, tally.broken, tally.equal
        edge_loops.settle(source, target, *given, arcs.arrays, listed, found)

    def _lengths(self, weight: Any, count: int) -> AnyArray:
        if weight is not None:
            return np.asarray(weight)
        return np.broadcast_to(self.dtype.type(1), count)

    @property
    def state(self) -> State:
        """As the loops have it, read-only as columns may be: they are compiled once."""
        value = self.value.view()
        value.flags.writeable = False
        return value, self.rows


def value_bytes(answers: int, dtype: np.dtype[Any], position_bytes: int) -> int:
    """Memory of a vertex for the values of some answers, at most."""
    ends = 0 if dtype == _LEVEL else 2 * brackets.bracket_dtype(dtype).itemsize
    return row_bytes(answers, dtype) + position_bytes + ends


def lines_of(rows: int, width: int) -> AnyArray:
    """Bytes (rows, width), not cleared, that begin where a line of memory does."""
    memory = np.empty(rows * width + _LINE_BYTES, np.uint8)  # not zeros: its pages are small ones
    first = -memory.ctypes.data % _LINE_BYTES
    return memory[first : first + rows * width].reshape(rows, width)


def row_bytes(answers: int, dtype: np.dtype[Any]) -> int:
    """Bytes of the levels or distances of a vertex: a power of two, or whole lines of memory."""
    least = max(8, answers * dtype.itemsize)
    short = 1 << (least - 1).bit_length()
    return short if short <= _LINE_BYTES else -(-least // _LINE_BYTES) * _LINE_BYTES
