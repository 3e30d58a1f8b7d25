"""BFS on a graph that one rank holds whole: the rows, the buffers and the fused call (CPU)."""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import decisions
from ooc_graph.kernels.common.bitmap import Words, pack_bits, whole_set
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.common.wanted import EVERYTHING, Wanted
from ooc_graph.kernels.cpu.bfs import thin_levels
from ooc_graph.kernels.cpu.bfs.fused import Scratch, Trace, search
from ooc_graph.kernels.cpu.bfs.list_level import ListRows, list_rows, survey_rows
from ooc_graph.kernels.cpu.bfs.pull import DEPTH, FOUND, REACHED, IntoRows, Tree
from ooc_graph.kernels.cpu.bfs.push import BUFFER, OutRows
from ooc_graph.types import AnyArray, IntArray, Rows


class Sides(NamedTuple):
    """Out- and in-rows, whether they are the ``same``, and the most out-arcs of a row."""

    out: ListRows
    into: ListRows
    same: bool
    widest: int


def out_rows(rows: Rows) -> OutRows:
    """Rows to push along; offsets as int64, which uint64 would turn to float in a sum."""
    return OutRows(rows.offsets.view(np.int64), rows.neighbors)


def into_rows(rows: Rows) -> IntoRows:
    """Rows to pull along, their heads (first neighbours) copied into an array of their own."""
    offsets = rows.offsets.view(np.int64)
    if not len(rows.neighbors):
        return IntoRows(offsets, rows.neighbors, np.zeros(len(offsets) - 1, rows.neighbors.dtype))
    first = np.minimum(offsets[:-1], len(rows.neighbors) - 1)
    return IntoRows(offsets, rows.neighbors, rows.neighbors[first])


def never_claimed(is_empty: AnyArray) -> Words:
    """Bitmap of what a pull must leave out: rows without in-arcs, and the last word's padding."""
    return pack_bits(is_empty) | ~whole_set(len(is_empty))


def new_tree(never: Words, rows: int, ids: np.dtype[Any]) -> Tree:
    """Buffers for the state of a search; ``never`` is the bitmap of `never_claimed`."""
    visited, found = np.empty_like(never), np.zeros_like(never)
    return Tree(np.empty(rows, ids), np.empty(rows, np.int32), visited, found)


def new_trace(levels: int) -> Trace:
    """Arrays for so many levels. Memory is only taken up to the last one that is written."""
    vertices, arcs = (np.empty(levels, np.int64) for _ in range(2))
    return Trace(vertices, arcs, np.empty(levels, np.int8))


@kernel
def _same_rows(offsets: Any, neighbors: Any, other_offsets: Any, other_neighbors: Any) -> bool:
    """Tell whether two sets of as many rows are equal; ends at the first difference."""
    if len(neighbors) != len(other_neighbors):
        return False
    for row in range(len(offsets)):
        if offsets[row] != other_offsets[row]:
            return False
    for position in range(len(neighbors)):
        if neighbors[position] != other_neighbors[position]:
            return False
    return True


class CpuBfsSearch:
    """BFS searches of one whole graph, one at a time; buffers are allocated once.

    ``out`` and ``into`` are hub-first rows (the same object when undirected). With ``copies`` short
    rows may get fixed slots as well.
    """

    ends_early = True  # given what is wanted

    def __init__(self, out: Rows, into: Rows, team: Team, *, copies: bool = True) -> None:
        rows, ids = len(out.offsets) - 1, out.neighbors.dtype
        if into is not out and _same_rows(out.offsets, out.neighbors, into.offsets, into.neighbors):
            # As of a road network that lists each road both ways: less memory to go through.
            into = out
        self._out, self._into, self._team = out_rows(out), into_rows(into), team
        self._alone = not decisions.team_pays(rows, len(out.neighbors))
        self._list = self._rows_to_list(out, into, copies)
        never = never_claimed(into.offsets[1:] == into.offsets[:-1])
        self._tree = new_tree(never, rows, ids)
        self._scratch = Scratch(
            np.zeros(rows + (thin_levels.LIST_EXTRA if self._list else 1), ids),
            np.empty((team.threads, BUFFER), ids),
            np.empty_like(never),
            never,
            np.empty(rows if self._list else 0, np.uint8),
            EVERYTHING.most,
            EVERYTHING.targets,
        )
        self._trace = new_trace(rows + 1)

    def _rows_to_list(self, out: Rows, into: Rows, copies: bool) -> Sides | None:
        """Rows to search from a list; None if they are not short."""
        is_same = into is out
        widest, longer = survey_rows(self._out.offsets)
        widest_in, longer_in = (widest, longer) if is_same else survey_rows(self._into.offsets)
        if not decisions.rows_are_short(widest, widest_in):
            return None
        rows = list_rows(out, longer, copies)
        rows_in = rows if is_same else list_rows(into, longer_in, copies)
        return Sides(rows, rows_in, is_same, int(widest))

    def run(self, root: int, wanted: Wanted = EVERYTHING) -> BfsTree:
        """Search from internal id ``root``; the arrays stay this search's until the next run.

        All levels are whole up to the last one that is wanted.
        """
        scratch = self._scratch._replace(most=wanted.most, targets=wanted.targets)
        control = new_control()
        start = perf_counter()
        listed = -1
        if self._list is not None:
            # On the calling thread, and mostly it ends there: nobody is woken up for it.
            given = self._list, self._tree, scratch, self._trace
            listed = int(thin_levels.search_list(control, *given, root))
        if control[REACHED] < len(self._tree.parent) or control[FOUND] > 0:
            self._search(control, scratch, root, listed)
        elapsed_s = perf_counter() - start
        levels = int(control[DEPTH])
        trace: list[AnyArray] = [column[:levels] for column in self._trace]
        return BfsTree(self._tree.parent, self._tree.level, elapsed_s, *trace)

    def _search(self, control: IntArray, scratch: Scratch, root: int, listed: int) -> None:
        """Search, or go on from a list; or clear what was not reached, if the list did all."""
        given = self._out, self._into, self._tree, scratch, self._trace, root, listed
        if self._alone or (listed >= 0 and control[FOUND] == 0):
            search(0, 1, control, *given)
        else:
            self._team.launch(search, control, *given)
