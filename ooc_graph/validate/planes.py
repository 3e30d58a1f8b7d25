"""Levels of a batch in planes of bits, so that those of all answers are compared at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate import plane_loops
from ooc_graph.validate.edge_loops import Marks
from ooc_graph.validate.rows import lines_of
from ooc_graph.validate.tally import Tally
from ooc_graph.validate.tree_arcs import InRanges, TreeArcs, word_bytes

FOUR_BITS, EIGHT_BITS = np.uint8(15), np.uint8(255)
"""Unreached among levels that fit four bits, or eight."""
_BITS = {FOUR_BITS: 4, EIGHT_BITS: 8}


@dataclass
class Planes:
    """Levels of a batch: ``lines`` (V, 2 p) of words, p planes and what stands for parents."""

    lines: AnyArray
    unreached: Any
    answers: int

    @classmethod
    def of(cls, vertices: int, answers: int, unreached: Any, position: np.dtype[Any]) -> Planes:
        """Room for the levels of some answers."""
        del position
        word = word_bytes(answers)
        lines = lines_of(vertices, 2 * _BITS[unreached] * word)
        return cls(lines.view(f"u{word}"), unreached, answers)

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of levels that are put in."""
        return np.dtype(np.uint8)

    def put(self, levels: AnyArray, answer: int, in_ranges: InRanges) -> None:
        """Take in the levels of answers ``answer``, ... (n, V)."""
        in_ranges(lambda a, b: plane_loops.slice_levels(levels, answer, a, b, self.lines))

    def seal(self, arcs: TreeArcs, taken: int, in_ranges: InRanges) -> None:
        """All answers are there."""
        del taken
        in_ranges(lambda a, b: plane_loops.note_parents(arcs.arrays, a, b, self.lines))

    def at(self, vertices: AnyArray, answer: int) -> IntArray:
        """Levels of vertices in an answer."""
        found = np.zeros(len(vertices), np.int64)
        for plane in range(_BITS[self.unreached]):
            bit = self.lines[vertices, plane] >> self.lines.dtype.type(answer)
            found |= (bit & self.lines.dtype.type(1)).astype(np.int64) << plane
        return found

    def look(self, source: AnyArray, target: AnyArray, weight: None, marks: Marks) -> None:
        """Mark the tuples of a block."""
        del weight
        plane_loops.look_at_planes(source, target, self.lines, self._planes, marks)

    def settle(
        self,
        source: AnyArray,
        target: AnyArray,
        weight: None,
        directed: bool,
        arcs: TreeArcs,
        listed: IntArray,
        tally: Tally,
    ) -> None:
        """Do what marks ask for."""
        del weight
        found = tally.counts, tally.broken
        given = self.lines, self._planes, arcs.arrays, listed
        plane_loops.settle_planes(source, target, directed, *given, found)

    @property
    def _planes(self) -> tuple[int, ...]:
        """As many entries as there are planes: loops are compiled for each number of them."""
        return (0,) * _BITS[self.unreached]


def plane_bytes(answers: int) -> int:
    """Memory of a vertex for the levels of some answers, at most."""
    return 2 * _BITS[EIGHT_BITS] * word_bytes(answers)
