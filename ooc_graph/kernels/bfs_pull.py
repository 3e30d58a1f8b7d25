"""Bottom-up step: every unvisited row looks for its first neighbour in the frontier.

Rows ascend by id (hubs first), so the first hit is the smallest parent, and comes early.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.bitmap import ONE, WORD_BITS, Words, has, lowest_bit
from ooc_graph.kernels.compiled import kernel
from ooc_graph.kernels.team import CHUNK, FIRST_FREE, LINE, atomic_add
from ooc_graph.types import AnyArray

FOUND, FOUND_ARCS, EXAMINED = FIRST_FREE, FIRST_FREE + LINE, FIRST_FREE + 2 * LINE
"""Words of the control array: new vertices, their out-arcs, arcs looked at."""
CHUNK_WORDS = 64
"""Bitmap words that a thread takes at once: 4,096 rows."""


class IntoRows(NamedTuple):
    """Rows to pull along: `heads` holds the first neighbour of each row, apart from the rest."""

    offsets: AnyArray
    neighbors: AnyArray
    heads: AnyArray


class Tree(NamedTuple):
    """What a search finds out about the own rows, and the bitmaps it needs for that."""

    parent: AnyArray
    level: AnyArray
    visited: Words
    found: Words


@kernel
def _first_in(offsets: Any, neighbors: Any, row: int, frontier: Any) -> Any:
    """Position of the first neighbour after the head that is in the frontier, or the row's end."""
    end = offsets[row + 1]
    position = offsets[row] + 1
    while position < end:
        if has(frontier, np.int64(neighbors[position])):
            break
        position += 1
    return position


@kernel
def _pull_word(
    into: Any, tree: Any, out_offsets: Any, frontier: Any, index: int, depth: int
) -> tuple[int, int, int]:
    found = np.uint64(0)
    count, arcs, examined = 0, 0, 0
    todo = ~tree.visited[index]
    while todo != 0:
        bit = lowest_bit(todo)
        todo &= todo - ONE
        row = index * WORD_BITS + bit
        head = into.heads[row]
        examined += 1
        hit = has(frontier, np.int64(head))
        if not hit:
            position = _first_in(into.offsets, into.neighbors, row, frontier)
            examined += position - into.offsets[row]
            if position < into.offsets[row + 1]:
                hit = True
                head = into.neighbors[position]
        if hit:
            tree.parent[row] = head
            tree.level[row] = depth
            found |= ONE << np.uint64(bit)
            count += 1
            arcs += out_offsets[row + 1] - out_offsets[row]
    tree.found[index] = found
    tree.visited[index] |= found
    return count, arcs, examined


@kernel
def pull_part(
    control: Any, into: Any, tree: Any, out_offsets: Any, frontier: Any, depth: int
) -> None:
    """Pull chunk after chunk of the rows until none is left; all threads call it.

    ``tree.found`` becomes the bitmap of rows found; it and ``tree.visited`` are written a word
    at a time by the thread that holds the word. Words `FOUND`, `FOUND_ARCS` and `EXAMINED` of
    the control array count up; word `CHUNK` must be 0 at the start.
    """
    words = len(tree.visited)
    count, arcs, examined = 0, 0, 0
    while True:
        begin = atomic_add(control, CHUNK, CHUNK_WORDS)
        if begin >= words:
            break
        for index in range(begin, min(begin + CHUNK_WORDS, words)):
            c, a, e = _pull_word(into, tree, out_offsets, frontier, index, depth)
            count += c
            arcs += a
            examined += e
    atomic_add(control, FOUND, count)
    atomic_add(control, FOUND_ARCS, arcs)
    atomic_add(control, EXAMINED, examined)
