"""Compiled loops that turn the parents of up to 64 answers into one table of tree arcs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate.compiled import compiled, subroutine

_TILE = 512
_ONE = np.uint64(1)


@subroutine
def _distinct(row: AnyArray, child: int, parents: AnyArray, answers: NDArray[np.uint64]) -> int:
    """Distinct parents of ``child`` in ``row``, ascending, without itself; their places as bits."""
    count = 0
    for j in range(len(row)):
        if row[j] < 0 or row[j] == child:
            continue
        at = 0
        while at < count and parents[at] < row[j]:
            at += 1
        if at == count or parents[at] != row[j]:
            for after in range(count, at, -1):
                parents[after], answers[after] = parents[after - 1], answers[after - 1]
            parents[at], answers[at] = row[j], 0
            count += 1
        answers[at] |= _ONE << np.uint64(j)
    return count


def tile_of(columns: AnyArray) -> AnyArray:
    """Working space of `tree_arcs`: some vertices' entries of all columns, and one row more."""
    return np.empty((_TILE + 1, len(columns)), columns.dtype)


@compiled
def tree_arcs(
    columns: AnyArray,
    tile: AnyArray,
    bits: NDArray[np.uint64],
    offsets: IntArray,
    parents: AnyArray,
    answers: NDArray[np.uint64],
) -> None:
    """Collect the distinct tree arcs into each vertex.

    Parameters
    ----------
    columns
        int32 or int64 (k, V), k <= 64: positions of the parents, -1 unreached, the root's its own.
    tile, bits
        `tile_of` and uint64 (k,): working space, contents ignored.
    offsets
        int64 (V + 1,): receives where each vertex's arcs start.
    parents, answers
        (total,): receive the parent of each arc and a bit for each answer that uses it. If
        they have length 0 only ``offsets`` is written: the first of two passes.
    """
    count, vertices = columns.shape
    row_parents = tile[_TILE]
    offsets[0] = 0
    for first in range(0, vertices, _TILE):
        here = min(_TILE, vertices - first)
        # Through a tile: k columns a power of two apart would fall on the same cache sets.
        for j in range(count):
            for i in range(here):
                tile[i, j] = columns[j, first + i]
        for i in range(here):
            start = offsets[first + i]
            arcs = _distinct(tile[i], first + i, row_parents, bits)
            offsets[first + i + 1] = start + arcs
            if len(parents) > 0:
                for arc in range(arcs):
                    parents[start + arc] = row_parents[arc]
                    answers[start + arc] = bits[arc]
