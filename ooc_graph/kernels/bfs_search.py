"""BFS on a graph that one rank holds whole: the rows, the buffers and the fused call (CPU)."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from ooc_graph.kernels.bfs_fused import DEPTH, Course, Scratch, search
from ooc_graph.kernels.bfs_pull import IntoRows, Tree
from ooc_graph.kernels.bfs_push import BUFFER, OutRows
from ooc_graph.kernels.bitmap import Words, pack_bits
from ooc_graph.kernels.interface import BfsTree
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
        self._out, self._into, self._team = out_rows(out), into_rows(into), team
        never = never_claimed(into)
        self._tree = Tree(
            np.empty(rows, ids),
            np.empty(rows, np.int32),
            np.empty_like(never),
            np.empty_like(never),
        )
        buffers = np.empty((team.threads, BUFFER), ids)
        self._scratch = Scratch(np.empty(rows, ids), buffers, np.empty_like(never), never)
        # Memory is only taken up to the last level that is written.
        self._course = Course(
            np.empty(rows + 1, np.int64), np.empty(rows + 1, np.int64), np.empty(rows + 1, np.int8)
        )

    def run(self, root: int) -> BfsTree:
        """Search from internal id ``root``; the arrays stay this search's until the next run."""
        control = new_control()
        start = perf_counter()
        self._team.launch(
            search,
            control,
            self._out,
            self._into,
            self._tree,
            self._scratch,
            self._course,
            root,
        )
        elapsed_s = perf_counter() - start
        levels = int(control[DEPTH])
        course: list[AnyArray] = [column[:levels] for column in self._course]
        return BfsTree(self._tree.parent, self._tree.level, elapsed_s, *course)
