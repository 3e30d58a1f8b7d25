"""Components of a graph that one rank holds whole, and steps on one shard of many (CPU).

A whole search takes, in addition to the rows, 4 bytes a vertex (8 from 2**32 vertices) for labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.components import EVERY_ROW, IN, ComponentLabels
from ooc_graph.kernels.common.dealt import copy_own, dealt_of, internal_of
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.bfs.push import OutRows
from ooc_graph.kernels.cpu.bfs.search import out_rows
from ooc_graph.kernels.cpu.components import fused
from ooc_graph.layout.names import id_dtype
from ooc_graph.types import AnyArray, Dealing, Rows


class CpuComponentsSearch:
    """Weakly connected components of one whole graph; the labels are allocated once.

    ``out`` and ``into`` are hub-first rows (the same object when undirected).
    """

    def __init__(self, out: Rows, into: Rows, team: Team) -> None:
        self._out, self._into, self._directed = out_rows(out), out_rows(into), into is not out
        self._label = np.empty(len(out.offsets) - 1, out.neighbors.dtype)
        self._team = team

    def run(self) -> ComponentLabels:
        """Find them; the array stays this search's until the next run."""
        control, sample = new_control(), np.empty(fused.SAMPLE, np.int64)
        start = perf_counter()
        if len(self._label):
            given = self._out, self._into, self._directed, self._label, sample
            self._team.launch(fused.search, control, *given)
        elapsed_s = perf_counter() - start
        arcs = {"sample": int(control[fused.SAMPLE_ARCS]), "rest": int(control[fused.REST_ARCS])}
        return ComponentLabels(self._label, elapsed_s, arcs)


LEAST_LISTED = 4096
"""Pairs that a step may send however few rows there are."""


class CpuComponentsShared:
    """Label of every vertex of the whole graph, in host memory: the root of its tree."""

    def __init__(self, vertices: int) -> None:
        self.label = np.arange(vertices, dtype=id_dtype(vertices))

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Unite what every rank's pairs join; afterwards every label is its tree's root."""
        for one, other in payloads:
            fused.link_all(self.label, one, other)
        fused.compress(self.label, 0, len(self.label))

    def most_common(self) -> int:
        """Vertex of the component that most of an even sample of the vertices is in."""
        if not len(self.label):
            return EVERY_ROW
        common, _ = fused.most_common(self.label, np.empty(fused.SAMPLE, np.int64))
        return int(common)


@kernel
def _differing(
    rows: Any,
    label: Any,
    dealt: Any,
    span: tuple[int, int],
    common: int,
    cursor: Any,
    one: Any,
    other: Any,
) -> tuple[int, int]:
    """Pairs of labels that arcs join, from where ``cursor`` (row, arc) stands; it moves on.

    ``span`` bounds the neighbours of each row that are looked at; rows with label ``common`` are
    left out. Returns pairs and arcs examined; when the pairs fill their arrays, the cursor stays
    on the arc that had none left.
    """
    first, last = span
    count, examined = 0, 0
    while cursor[0] < len(rows.offsets) - 1:
        row = cursor[0]
        mine = np.int64(label[internal_of(row, dealt)])
        start = rows.offsets[row]
        stop = start if mine == common else min(rows.offsets[row + 1], start + last)
        previous = mine
        for position in range(max(cursor[1], start + first), stop):
            theirs = np.int64(label[rows.neighbors[position]])
            if theirs not in (mine, previous):
                if count == len(one):
                    cursor[1] = position
                    return count, examined
                one[count], other[count] = mine, theirs
                count += 1
                previous = theirs
            examined += 1
        cursor[0], cursor[1] = row + 1, 0
    return count, examined


class CpuComponentsRank:
    """Component steps on the rows of one shard; ``into`` is ``out`` when undirected."""

    def __init__(self, dealing: Dealing, out: OutRows, into: OutRows) -> None:
        self.vertices, self.arcs = dealing.vertices, len(out.neighbors)
        self.directed = into is not out
        self._dealing, self._sides = dealing, (out, into)
        self._cursor, self._side = np.zeros(2, np.int64), out
        self._span, self._common = (0, 0), EVERY_ROW

    def begin(self, side: int, first: int, last: int | None, common: int) -> None:
        """Begin a pass over the neighbours ``first:last`` of each row of a side."""
        self._side = self._sides[int(side == IN)]
        self._span = (first, len(self._side.neighbors) if last is None else last)
        self._cursor[:], self._common = 0, common

    def _most_listed(self) -> int:
        """Pairs that one step may send."""
        return max(LEAST_LISTED, self._dealing.rows // 4)

    def step(self, shared: CpuComponentsShared) -> tuple[tuple[AnyArray, AnyArray], int, bool]:
        """Go on with the pass: pairs of labels that arcs join; arcs examined; whether it ended."""
        label, dealing = shared.label, self._dealing
        common = EVERY_ROW if self._common == EVERY_ROW else int(label[self._common])
        one, other = np.empty((2, self._most_listed()), label.dtype)
        given = label, dealt_of(dealing), self._span, common, self._cursor
        count, examined = _differing(self._side, *given, one, other)
        ended = bool(self._cursor[0] == dealing.rows)
        return (one[:count], other[:count]), examined, ended

    def answer(self, shared: CpuComponentsShared, phase_arcs: dict[str, int]) -> ComponentLabels:
        """Answer for the own rows, in an array of its own."""
        label = np.empty(self._dealing.rows, shared.label.dtype)
        copy_own(shared.label, dealt_of(self._dealing), label)
        return ComponentLabels(label, 0.0, phase_arcs)
