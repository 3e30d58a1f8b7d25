"""BFS steps on one shard of many, and the state that the ranks of a process share (CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.common import bitmap
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.dealt import WHOLE, arcs_of, dealt_of, internal_of, local_of
from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.bfs.common import common_bytes
from ooc_graph.kernels.cpu.bfs.pull import EXAMINED, FOUND, FOUND_ARCS, IntoRows, pull_part
from ooc_graph.kernels.cpu.bfs.push import OutRows
from ooc_graph.kernels.cpu.bfs.search import new_tree
from ooc_graph.layout.names import id_dtype
from ooc_graph.types import AnyArray, Dealing, Gathering, owner_of


class CpuBfsShared:
    """Frontier and visited vertices of the whole graph, one bit each, in host memory."""

    def __init__(self, vertices: int, shards: int) -> None:
        self._vertices, self._shards = vertices, shards
        self.memory: AnyArray | None = None
        """Bytes that the processes of all ranks map, once they have joined."""
        self.gathering: Gathering | None = None
        group = bitmap.BLOCK_WORDS * shards
        self.frontier = np.zeros(-(-bitmap.words_for(vertices) // group) * group, np.uint64)
        self.visited = np.zeros_like(self.frontier)

    @property
    def joined_bytes(self) -> int:
        """Memory for ranks that search together."""
        return common_bytes(self._vertices, self._shards, id_dtype(self._vertices).itemsize)

    def join(self, memory: AnyArray | None, part: int, parts: int) -> None:
        """Take the memory; zeros are what searches begin with."""
        del part, parts
        self.memory = memory

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Deal the ranks' bitmaps into the global one, block by block.

        There are as many ranks as shards, or half of them, a quarter, and so on.
        """
        for rank, (words,) in enumerate(payloads):
            _deal(self.frontier, self.visited, words, len(payloads), rank)


@kernel
def _deal(frontier: Any, visited: Any, words: Any, ranks: int, rank: int) -> None:
    """Deal the bitmap of one rank's rows into that of all vertices, which are visited now."""
    for first in range(0, len(words), bitmap.BLOCK_WORDS):
        shift = first * (ranks - 1) + rank * bitmap.BLOCK_WORDS
        for index in range(first, min(first + bitmap.BLOCK_WORDS, len(words))):
            frontier[index + shift] = words[index]
            visited[index + shift] |= words[index]


@kernel
def push_rows(
    out: Any, dealt: Any, rows: Any, visited: Any, sent: Any, target: Any, parent: Any
) -> tuple[int, int]:
    """List unvisited neighbours of ascending rows, each once with its smallest parent.

    The fused search writes a parent where its row stands; here that may be another rank's. Rows
    come in the order of their ids, so whoever comes first is the smallest parent: a bit for each
    vertex does. Returns how many are listed, and the arcs examined.
    """
    listed, examined = 0, 0
    for index in range(len(rows)):
        row = np.int64(rows[index])
        u = internal_of(row, dealt)
        begin, end = out.offsets[row], out.offsets[row + 1]
        examined += end - begin
        for position in range(begin, end):
            v = np.int64(out.neighbors[position])
            if not bitmap.has(visited, v) and not bitmap.has(sent, v):
                bitmap.put(sent, v)
                target[listed], parent[listed] = v, u
                listed += 1
    for index in range(listed):
        bitmap.drop(sent, np.int64(target[index]))
    return listed, examined


@kernel
def _offer(tree: Any, dealt: Any, target: Any, parent: Any, claimed: Any) -> None:
    """Give unvisited own rows the smallest of the parents offered, and note them in a bitmap."""
    for index in range(len(target)):
        row = local_of(np.int64(target[index]), dealt)
        if not bitmap.has(tree.visited, row):
            bitmap.put(claimed, row)
            if parent[index] < tree.parent[row]:
                tree.parent[row] = parent[index]


@kernel
def _settle(tree: Any, claimed: Any, queue: Any, depth: int) -> int:
    """Make the rows of a bitmap, which is emptied, the frontier, and list them; how many."""
    count = 0
    for index in range(len(claimed)):
        word = claimed[index]
        tree.found[index] = word
        tree.visited[index] |= word
        claimed[index] = 0
        while word != 0:
            row = index * bitmap.WORD_BITS + bitmap.lowest_bit(word)
            tree.level[row] = depth
            queue[count] = row
            count += 1
            word &= word - bitmap.ONE
    return count


class CpuBfsRank:
    """BFS steps on the rows of one shard, which are pushed along ``out`` and pulled along ``into``.

    ``never`` is a bitmap of own rows that cannot be claimed: those without in-arcs, and padding.
    """

    def __init__(
        self, dealing: Dealing, out: OutRows, into: IntoRows, never: bitmap.Words, team: Team
    ) -> None:
        rows, ids = dealing.rows, out.neighbors.dtype
        self.vertices, self.arcs = dealing.vertices, len(out.neighbors)
        self._dealing, self._dealt = dealing, dealt_of(dealing)
        self._out, self._into, self._never = out, into, never
        self._team, self._depth = team, 0
        self._tree = new_tree(never, rows, ids)
        self._queue = np.empty(rows, ids)
        self._sent = np.zeros(bitmap.words_for(dealing.vertices), np.uint64)
        self._claimed, self._is_claiming = np.zeros_like(never), False
        self._count = self._frontier_arcs = 0

    def start(self, root: int) -> None:
        """Forget everything, and claim the root if this rank owns it."""
        tree, dealing = self._tree, self._dealing
        tree.parent[:] = np.iinfo(tree.parent.dtype).max
        tree.level[:] = -1
        tree.visited[:] = self._never
        self._claimed[:] = 0
        self._depth = -1
        vertex = np.array([root], self._queue.dtype)
        mine = vertex[owner_of(vertex, dealing.shards) == dealing.shard]
        # The root may have no in-arcs, which else means that nobody can claim it.
        for row in dealing.local_of(mine).tolist():
            tree.visited[row // bitmap.WORD_BITS] &= ~(
                np.uint64(1) << np.uint64(row % bitmap.WORD_BITS)
            )
        self.claim(mine, mine)

    def frontier(self) -> tuple[int, int, AnyArray]:
        """Vertices found last, their out-arcs, and their bitmap over the own rows (a copy)."""
        if self._is_claiming:
            self._is_claiming = False
            self._depth += 1
            self._count = _settle(self._tree, self._claimed, self._queue, self._depth)
            self._frontier_arcs = self._arcs_of(self._queue[: self._count])
        return self._count, self._frontier_arcs, self._tree.found.copy()

    def _arcs_of(self, rows: AnyArray) -> int:
        return int(arcs_of(self._out.offsets, WHOLE, rows))

    def push(self, shared: CpuBfsShared) -> tuple[AnyArray, AnyArray, int]:
        """Neighbours of the own frontier not visited yet, their parents; arcs examined."""
        capacity = min(self._frontier_arcs, self.vertices)
        target, parent = np.empty((2, capacity), self._queue.dtype)
        rows = self._queue[: bitmap.members(self._tree.found, self._queue)]
        lists = shared.visited, self._sent, target, parent
        listed, examined = push_rows(self._out, self._dealt, rows, *lists)
        return target[:listed], parent[:listed], examined

    def claim(self, target: AnyArray, parent: AnyArray) -> None:
        """Offer own rows parents, of which the smallest counts; they are the next frontier."""
        self._is_claiming = True
        _offer(self._tree, self._dealt, target, parent, self._claimed)

    def pull(self, shared: CpuBfsShared) -> int:
        """Find the unvisited own rows next to the frontier; return arcs examined."""
        self._depth += 1
        control, offsets = new_control(), self._out.offsets
        given = self._into, self._tree, offsets, shared.frontier, self._depth
        self._team.launch(pull_part, control, *given)
        self._count, self._frontier_arcs = int(control[FOUND]), int(control[FOUND_ARCS])
        return int(control[EXAMINED])

    def tree(
        self, vertices: Sequence[int], arcs: Sequence[int], direction: Sequence[int]
    ) -> BfsTree:
        """Answer for the own rows, in local order."""
        tree, counts = self._tree, (np.array(vertices, np.int64), np.array(arcs, np.int64))
        return BfsTree(tree.parent, tree.level, 0.0, *counts, np.array(direction, np.int8))
