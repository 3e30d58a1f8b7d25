"""BFS on a graph that one rank holds whole: the rows, the buffers and the fused call (CPU)."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.kernels.bfs_fused import Course, Scratch, search
from ooc_graph.kernels.bfs_pull import DEPTH, IntoRows, Tree
from ooc_graph.kernels.bfs_push import BUFFER, OutRows
from ooc_graph.kernels.bitmap import Words, pack_bits
from ooc_graph.kernels.compiled import kernel
from ooc_graph.kernels.interface import BfsTree, rows_are_short, team_pays
from ooc_graph.kernels.team import Team, new_control
from ooc_graph.types import AnyArray, Rows


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


def never_claimed(rows: Rows) -> Words:
    """Bitmap of what a pull must leave out: rows without in-arcs, and the last word's padding."""
    words = pack_bits(rows.offsets[1:] == rows.offsets[:-1])
    used = (len(rows.offsets) - 1) % 64
    if used:
        words[-1] |= ~np.uint64(0) << np.uint64(used)
    return words


@kernel
def _widest(offsets: Any) -> Any:
    """Most arcs of a row."""
    widest = np.int64(0)
    for row in range(len(offsets) - 1):
        widest = max(widest, offsets[row + 1] - offsets[row])
    return widest


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

    Parameters
    ----------
    out, into
        Hub-first rows of out- and in-arcs (the same object when undirected).
    team
        Threads that search together.
    """

    def __init__(self, out: Rows, into: Rows, team: Team) -> None:
        rows, ids = len(out.offsets) - 1, out.neighbors.dtype
        if into is not out and _same_rows(out.offsets, out.neighbors, into.offsets, into.neighbors):
            # As of a road network that lists each road both ways: less memory to go through.
            into = out
        self._out, self._into, self._team = out_rows(out), into_rows(into), team
        widest = _widest(self._out.offsets)
        short = rows_are_short(widest, _widest(self._into.offsets))
        self._widest = int(widest) if short else 0
        self._alone = not team_pays(rows, len(out.neighbors))
        never = never_claimed(into)
        self._tree = Tree(
            np.empty(rows, ids),
            np.empty(rows, np.int32),
            np.empty_like(never),
            np.empty_like(never),
        )
        buffers = np.empty((team.threads, BUFFER), ids)
        self._scratch = Scratch(np.empty(rows + 1, ids), buffers, np.empty_like(never), never)
        # Memory is only taken up to the last level that is written.
        self._course = Course(
            np.empty(rows + 1, np.int64), np.empty(rows + 1, np.int64), np.empty(rows + 1, np.int8)
        )

    def run(self, root: int) -> BfsTree:
        """Search from internal id ``root``; the arrays stay this search's until the next run."""
        control = new_control()
        arguments = (
            self._out,
            self._into,
            self._tree,
            self._scratch,
            self._course,
            root,
            self._widest,
        )
        start = perf_counter()
        if self._alone:
            search(0, 1, control, *arguments)
        else:
            self._team.launch(search, control, *arguments)
        elapsed_s = perf_counter() - start
        levels = int(control[DEPTH])
        course: list[AnyArray] = [column[:levels] for column in self._course]
        return BfsTree(self._tree.parent, self._tree.level, elapsed_s, *course)
