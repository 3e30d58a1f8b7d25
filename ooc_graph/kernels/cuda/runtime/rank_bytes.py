"""Device memory that the ranks of one process take, known before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RankBytes:
    """Device memory besides the rows, at most."""

    # For each vertex of the whole graph: what the ranks of a process share, and what one of them
    # takes for a push, or all of them for a merge.
    vertex: int
    state: int  # for each row that the process has, as long as it has it
    step: int  # for each such row, what the largest step takes


def bfs_bytes(ids: np.dtype[Any]) -> RankBytes:
    """Memory of BFS with ids of this type.

    A vertex: two bits. A row: parent, level, place in the queue and three bits. While it is pushed:
    its place, its arcs and where they begin, and in a table for half as many targets as there are
    rows two ids and half a place; meanwhile a row may be claimed, by an id and a parent.
    """
    table = 2 * ids.itemsize + 2
    pushed = 4 + 8 + max(8, table + 2 * ids.itemsize)
    return RankBytes(1, ids.itemsize + 4 + 4 + 1, pushed)


def step_bytes(rows: int) -> int:
    """What a step of BFS with ids of 32 bits takes at most while it lasts."""
    return rows * bfs_bytes(np.dtype(np.uint32)).step


def sssp_bytes(ids: np.dtype[Any], distance: np.dtype[Any]) -> RankBytes:
    """Memory of SSSP with ids and distances of these types.

    A vertex: distance, place in the list of what improved and two bits; while a rank pushes, its
    best candidate and its place in the list of targets, or in a merge, its id and a candidate.
    A row: arcs taken, parent, three lists of rows and a bit; while it pushes, where it goes on, its
    arcs and where they begin, or while parents are sought, arcs and where they begin, a distance
    and an id.
    """
    state, step = 2 * ids.itemsize + 3 * 4 + 1, 8 + 8 + max(8, distance.itemsize + ids.itemsize)
    return RankBytes(1 + 2 * (distance.itemsize + ids.itemsize), state, step)


def owned_sssp_bytes(ids: np.dtype[Any], distance: np.dtype[Any]) -> RankBytes:
    """Memory of SSSP ranks that have the distances of their own rows alone.

    A vertex: two bits. A row: distance and that of the parent, parent, arcs taken, places in four
    lists, of which one is an id, and two bits; while it pushes, where it goes on, where its arcs
    begin, and how many they are or its distance.
    """
    state = 3 * ids.itemsize + 2 * distance.itemsize + 3 * 4 + 1
    return RankBytes(1, state, 8 + 8 + 8)


def peers_bytes(vertices: int, rows: int) -> int:
    """Memory, at most, that a rank takes besides for BFS with others whose memory it reaches.

    A vertex: three frontiers and a mark, a bit each, and its place in the list of what is open at
    last. A row: nine first neighbours, two places in the queue, parent, level, and eleven bits; and
    a piece of 8 bytes for each thousand arcs, which are counted as one more word.
    """
    return vertices + 64 * rows + (64 << 20)
