"""How many sectors of host memory a BFS asks for, worked out from the rows and the CPU's answer."""

from __future__ import annotations

import numpy as np

from ooc_graph.kernels.common.decisions import PULL, BfsTree
from ooc_graph.types import AnyArray, Rows

WORDS = 8
"""Of a sector."""
LANES, TURN, PIECE_ARCS = 32, 128, 1024


def sectors(begin: AnyArray, end: AnyArray) -> AnyArray:
    """Of words [begin, end), not empty."""
    return (end + WORDS - 1) // WORDS - begin // WORDS


def pulled(rows: Rows, level: AnyArray, step: int, first: int, held: int) -> int:
    """What a level bottom-up asks for: exact, as long as each row has one stretch outside.

    Parameters
    ----------
    level
        Of each row in the answer.
    step
        The level that is found.
    first
        Neighbours of each row that stand in columns.
    held
        Rows whose neighbours all are on the device.
    """
    total, offsets = 0, rows.offsets.astype(np.int64)
    front = level == step - 1
    for v in np.flatnonzero((level < 0) | (level >= step)).tolist():
        begin, end = int(offsets[v]) + first, int(offsets[v + 1])
        if begin >= end or v < held or front[rows.neighbors[begin - first : begin]].any():
            continue
        assert end - begin <= PIECE_ARCS
        for at in range(begin // LANES * LANES, end, TURN):
            low, high = max(at, begin), min(at + TURN, end)
            total += int(sectors(np.int64(low), np.int64(high)))
            if front[rows.neighbors[low:high]].any():
                break
    return total


def root_pushed(rows: Rows, root: int, held: int) -> int:
    """What the first level asks for, top-down: the root's arcs, a warp's lanes at a time."""
    begin, end = (int(at) for at in rows.offsets[root : root + 2])
    if root < held:
        return 0
    low = np.arange(begin, end, LANES)
    return int(sectors(low, np.minimum(low + LANES, end)).sum())


def pushed(rows: Rows, level: AnyArray, step: int, held: int) -> tuple[int, int]:
    """Least and most that a level top-down asks for.

    Its arcs are gone through once, or twice to settle parents; rows are cut at each warp's lanes.
    """
    offsets = rows.offsets.astype(np.int64)
    front = np.flatnonzero((level == step - 1) & (np.arange(len(level)) >= held))
    begin, end = offsets[front], offsets[front + 1]
    arcs = int((offsets[1:] - offsets[:-1])[level == step - 1].sum())
    most = int(sectors(begin, end)[end > begin].sum()) + arcs // LANES + 1
    return -(-int((end - begin).sum()) // WORDS), 2 * most


def bounds(sides: tuple[Rows, Rows], tree: BfsTree, first: int, held: int) -> tuple[int, int]:
    """Least and most sectors of a whole search whose directions are known."""
    least = most = 0
    for number, direction in enumerate(tree.level_direction.tolist()):
        if direction == PULL:
            low = high = pulled(sides[1], tree.level, number + 1, first, held)
        else:
            low, high = pushed(sides[0], tree.level, number + 1, held)
        least, most = least + low, most + high
    return least, most
