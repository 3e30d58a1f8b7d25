"""BFS on a whole graph of which only the heads of the rows are in memory (CPU)."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.kernels.bfs_pull import EXAMINED, FOUND, FOUND_ARCS, IntoRows, Tree
from ooc_graph.kernels.bitmap import pack_bits
from ooc_graph.kernels.interface import PULL, PUSH, BfsTree, choose_direction
from ooc_graph.kernels.team import Team, new_control
from ooc_graph.kernels.tier_bfs import (
    count_found,
    pull_heads,
    pull_tails,
    push_parts,
    settle_queue,
)
from ooc_graph.kernels.tier_rows import TierRows


class TierBfsSearch:
    """BFS searches of one whole graph, one at a time; buffers are allocated once.

    Beside what is in memory of the rows it holds 12 bytes a vertex (ids of 32 bits) and five
    bitmaps.

    Parameters
    ----------
    out, into
        Hub-first rows of out- and in-arcs (the same object when undirected).
    team
        Threads that search together.
    """

    def __init__(self, out: TierRows, into: TierRows, team: Team) -> None:
        heads, ids = into.heads, into.heads.neighbors.dtype
        rows = len(heads.lengths)
        self._out, self._into, self._team = out, into, team
        self._pulled = IntoRows(heads.starts, heads.neighbors, heads.first)
        never = pack_bits(heads.lengths == 0)
        if rows % 64:
            never[-1] |= ~np.uint64(0) << np.uint64(rows % 64)
        self._never = never
        self._tree = Tree(
            np.empty(rows, ids),
            np.empty(rows, np.int32),
            np.empty_like(never),
            np.zeros_like(never),
        )
        self._queue, self._frontier = np.empty(rows, ids), np.empty_like(never)
        self._arcs = int(out.heads.lengths.sum(dtype=np.int64))
        self._examined = self._tail = 0

    def run(self, root: int) -> BfsTree:
        """Search from internal id ``root``; the arrays stay this search's until the next run.

        Raises
        ------
        CorruptStoreError
            What is fetched is not what was written.
        """
        start = perf_counter()
        self._start(root)
        vertices: list[int] = []
        arcs: list[int] = []
        directions: list[int] = []
        unvisited, direction, rows = self._arcs, PUSH, len(self._queue)
        count, found_arcs = self._count()
        while count:
            unvisited -= found_arcs
            direction = choose_direction(direction, count, found_arcs, unvisited, rows)
            vertices.append(count)
            directions.append(direction)
            self._examined = 0
            if direction == PULL:
                self._pull(len(vertices))
            else:
                self._push(len(vertices))
            arcs.append(self._examined)
            count, found_arcs = self._count()
        return BfsTree(
            self._tree.parent,
            self._tree.level,
            perf_counter() - start,
            np.array(vertices, np.int64),
            np.array(arcs, np.int64),
            np.array(directions, np.int8),
        )

    def _start(self, root: int) -> None:
        tree = self._tree
        tree.parent[:] = np.iinfo(tree.parent.dtype).max
        tree.level[:] = -1
        tree.visited[:] = self._never
        tree.parent[root] = self._queue[0] = root
        settle_queue(tree, self._queue, 0, 1, 0)

    def _count(self) -> tuple[int, int]:
        """Vertices found last, and their out-arcs."""
        control = new_control()
        self._team.launch(count_found, control, self._tree, self._out.heads.lengths)
        return int(control[FOUND]), int(control[FOUND_ARCS])

    def _pull(self, depth: int) -> None:
        tree, frontier, control = self._tree, self._frontier, new_control()
        frontier[:] = tree.found
        self._team.launch(pull_heads, control, self._pulled, tree, frontier, depth)
        self._examined += int(control[EXAMINED])

        def scan(*part: Any) -> int:
            kept, examined = pull_tails(tree, frontier, depth, *part)
            self._examined += examined
            return int(kept)

        for waiting in self._into.tails(~tree.visited):
            self._into.scan(waiting, scan)

    def _push(self, depth: int) -> None:
        tree, queue = self._tree, self._queue
        self._tail = 0

        def scan(*part: Any) -> int:
            kept, self._tail, examined = push_parts(tree, queue, self._tail, *part)
            self._examined += examined
            return int(kept)

        out = self._out
        for waiting in out.rows(tree.found):
            out.scan(out.scan_heads(waiting, scan), scan, out.most_look)
        settle_queue(tree, queue, 0, self._tail, depth)
