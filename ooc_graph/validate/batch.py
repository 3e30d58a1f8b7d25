"""Answers side by side, in the layout that the edge loops read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ooc_graph.types import AnyArray
from ooc_graph.validate import edge_loops, loops
from ooc_graph.validate.planes import Planes, plane_bytes
from ooc_graph.validate.rows import Rows, value_bytes
from ooc_graph.validate.tally import NONE, Tally
from ooc_graph.validate.tree_arcs import InRanges, TreeArcs, arc_bytes
from ooc_graph.validate.tree_loops import RANGE

BATCH_ANSWERS = 64
"""Answers of one batch, at most."""


@dataclass
class Batch:
    """Answers in the layout that the edge loops read; shared by all threads.

    ``measure`` has the levels or distances, ``arcs`` the trees. Some answers wait in ``staged``,
    positions of parents and values (n, V), until they are laid out together.
    """

    measure: Planes | Rows
    arcs: TreeArcs
    staged: tuple[AnyArray, AnyArray] | None = None
    taken: int = 0

    @classmethod
    def alone(cls, column: AnyArray, unreached: Any, position: np.dtype[Any]) -> Batch:
        """Return one answer's batch: its ``column`` of values is not copied."""
        measure = Rows.alone(column, unreached, position)
        return cls(measure, TreeArcs.alone(len(column), position))

    @classmethod
    def of(cls, vertices: int, answers: int, position: np.dtype[Any], unreached: Any) -> Batch:
        """Return room for some answers, none of which is there yet."""
        kind = Planes if unreached.dtype == np.uint8 else Rows
        measure = kind.of(vertices, answers, unreached, position)
        waiting = _staged(answers), vertices
        staged = np.empty(waiting, position), np.empty(waiting, measure.dtype)
        return cls(measure, TreeArcs.of(vertices, answers, position), staged)

    @property
    def answers(self) -> int:
        """How many answers there is room for."""
        return self.measure.answers

    @property
    def unreached(self) -> Any:
        """What stands for the value of an unreached vertex; it is larger than all others."""
        return self.measure.unreached

    def is_full(self) -> bool:
        """Whether no further answer may be put in."""
        if self.taken == self.answers:
            return True
        if self.staged is None or self.taken % len(self.staged[0]):
            return False
        return not self.arcs.fits(len(self.staged[0]))

    def rows(self) -> tuple[AnyArray, AnyArray]:
        """Room for the next answer (V,): its parents' positions, and values unless it is alone."""
        if self.staged is None:
            return self.arcs.parent[0], np.empty(0, self.measure.dtype)
        positions, values = self.staged
        waiting = self.taken % len(values)
        return positions[waiting], values[waiting]

    def put(self, in_ranges: InRanges) -> None:
        """Take in what was written to `rows`."""
        self.taken += 1
        if self.staged is not None and self.taken % len(self.staged[0]) == 0:
            self._lay_out(len(self.staged[0]), in_ranges)

    def _lay_out(self, count: int, in_ranges: InRanges) -> None:
        """Take the last answers out of those that wait."""
        assert self.staged is not None
        positions, values = (rows[:count] for rows in self.staged)
        self.measure.put(values, self.taken - count, in_ranges)
        self.arcs.merge(positions, self.taken - count, in_ranges)

    def seal(self, in_ranges: InRanges) -> None:
        """Lay out what waits, and sum up: there come no more answers."""
        if self.staged is None:
            return
        if left := self.taken % len(self.staged[0]):
            self._lay_out(left, in_ranges)
        self.staged = None
        self.arcs.seal(in_ranges)
        if self.taken:
            self.measure.seal(self.arcs, self.taken, in_ranges)

    def look(
        self, source: AnyArray, target: AnyArray, weight: Any, directed: bool, tally: Tally
    ) -> None:
        """Show the answers tuples by position, with weights, or None if each arc counts 1."""
        if not self.taken:
            return
        marks = np.empty(len(source), np.uint8)
        self.measure.look(source, target, weight, marks)
        listed = np.empty(len(marks), np.int64)
        count = edge_loops.list_marked(source, target, marks, tally.counts, listed)
        given = source, target, weight, directed, self.arcs
        self.measure.settle(*given, listed[:count], tally)

    def tally(self) -> Tally:
        """Nothing seen yet."""
        broken = np.full((3, self.answers, 2), NONE, dtype=np.int64)
        equal = np.zeros(-(-self.arcs.vertices // 8) if self._has_distances else 0, np.uint8)
        return Tally(np.zeros(self.answers + 1, dtype=np.int64), broken, equal)

    @property
    def _has_distances(self) -> bool:
        return self.measure.dtype not in (np.uint8, np.uint32)

    @cached_property
    def equal(self) -> AnyArray:
        """Bits of vertices that are as far as their parent in some answer, a tuple or not."""
        assert isinstance(self.measure, Rows)
        flags = np.zeros(-(-self.arcs.vertices // 8), np.uint8)
        given = self.measure.state, self.arcs.vertices, self.taken
        loops.flag_equal(*given, self.arcs.arrays, flags)
        return flags

    def cycle(self, answer: int, root: int, equal: AnyArray) -> int:
        """Smallest vertex whose chain of parents at one distance ends in a cycle, or -1.

        ``equal`` has bits of vertices that are as far as their parent.
        """
        assert isinstance(self.measure, Rows)
        seen = np.zeros_like(equal)
        given = self.measure.state, self.arcs.arrays, answer, root
        return int(loops.find_cycle(*given, equal, seen))

    def first_unconfirmed(self) -> list[tuple[int, int] | None]:
        """For each answer, tree arc of the smallest vertex that no edge has confirmed."""
        first = self.arcs.first_pending(self.answers)
        arcs = enumerate(first.tolist())
        return [(self.arcs.parent_of(v, answer), v) if v >= 0 else None for answer, v in arcs]

    def first_bad_step(self, answer: int) -> tuple[int, int] | None:
        """Smallest vertex, behind its parent, that does not fit it; None if all do.

        Of those whose tree arc no tuple has confirmed. Levels are one more than a parent's,
        distances not less.
        """
        for start in range(0, self.arcs.vertices, RANGE):
            stop = min(start + RANGE, self.arcs.vertices)
            child, above = self.arcs.unconfirmed(answer, start, stop)
            near, far = self.measure.at(above, answer), self.measure.at(child, answer)
            is_bad = near > far if self._has_distances else near + 1 != far
            if is_bad.any():
                first = int(is_bad.argmax())
                return int(above[first]), int(child[first])
        return None


def batch_bytes(vertices: int, answers: int, dtype: np.dtype[Any]) -> int:
    """Memory of a batch by the dtype of its values, without the answer that is taken in.

    One answer alone is not copied: only its parents' positions are added.
    """
    each = 4 if vertices <= np.iinfo(np.int32).max else 8
    arcs = arc_bytes(answers, each)
    if answers == 1:
        return vertices * arcs
    measure = plane_bytes(answers) if dtype == np.uint8 else value_bytes(answers, dtype, each)
    return vertices * (measure + arcs + _staged(answers) * (each + dtype.itemsize))


def most_at_once(vertices: int, dtype: np.dtype[Any], available_bytes: int) -> int:
    """Answers of a batch that takes no more memory than there is, at most; 0 if one takes more."""
    counts = range(1, BATCH_ANSWERS + 1)
    return sum(batch_bytes(vertices, count, dtype) <= available_bytes for count in counts)


def _staged(answers: int) -> int:
    """Answers that are laid out together, so that rows are written that much less often."""
    return max(1, answers // 8)
