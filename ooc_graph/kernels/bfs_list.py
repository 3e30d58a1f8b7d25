"""Thin levels, one after another, by one thread from a plain list; parents when they are over.

A road network has hundreds of levels of a few hundred vertices each. Nothing here costs more in a
level than its frontier and its arcs, and of each arc one array is looked up: the levels, which
also tell what is visited. Claiming has no branch that depends on the graph, and rows are fetched
into cache while earlier ones are searched; that was worth a factor of 4 to 5.

Parents follow from the levels: of a row, the first in-neighbour one level up. All threads find
them, row after row, in the order of memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels import interface
from ooc_graph.kernels.bfs_pull import BEGIN, DEPTH, END, FOUND, FOUND_ARCS
from ooc_graph.kernels.bitmap import ONE, WORD_BITS
from ooc_graph.kernels.compiled import kernel
from ooc_graph.kernels.interface import PUSH
from ooc_graph.kernels.prefetch import prefetch
from ooc_graph.kernels.team import CHUNK, atomic_add

OFFSETS_AHEAD, ROW_AHEAD = 64, 32
"""Entries of the list between a row's search, and the fetch of its offsets and its arcs."""
MOVE_TO_FRONT = 8192
"""The list starts again at its front from this entry on, so that it stays in cache."""
CHUNK_WORDS = 128
"""Bitmap words, of 64 rows each, that a thread takes at once."""
TWO, THREE = np.uint64(2), np.uint64(3)

choose_direction = kernel(interface.choose_direction)
stays_listed = kernel(interface.stays_listed)


@kernel
def _claim(level: Any, queue: Any, v: Any, tail: Any, depth: Any) -> Any:
    """Write ``v`` to the list's end, and count it in if it was not visited: no branch."""
    old = level[v]
    new = old < 0
    queue[tail] = v
    level[v] = depth if new else old
    return tail + np.uint64(new)


@kernel
def _search_level(
    out: Any, level: Any, queue: Any, begin: int, end: int, depth: int
) -> tuple[Any, Any]:
    """Append the unvisited neighbours of ``queue[begin:end]``; the list's end and the arcs seen."""
    # Unsigned throughout: numba checks signed indices for being negative, at each access.
    deep, arcs = level.dtype.type(depth), np.uint64(0)
    index, last, tail = np.uint64(begin), np.uint64(end), np.uint64(end)
    offsets_ahead, row_ahead = np.uint64(OFFSETS_AHEAD), np.uint64(ROW_AHEAD)
    while index < last:
        u = np.uint64(queue[index])
        position, stop = np.uint64(out.offsets[u]), np.uint64(out.offsets[u + ONE])
        arcs += stop - position
        # Past this level's end lies the next one, as far as it is known.
        known = tail - ONE
        prefetch(out.offsets, np.uint64(queue[min(index + offsets_ahead, known)]))
        ahead = np.uint64(queue[min(index + row_ahead, known)])
        prefetch(out.neighbors, np.uint64(out.offsets[ahead]))
        if stop > position:
            # Rows of up to three take the same way: what is claimed twice counts once.
            final = stop - ONE
            tail = _claim(level, queue, np.uint64(out.neighbors[position]), tail, deep)
            second = min(position + ONE, final)
            tail = _claim(level, queue, np.uint64(out.neighbors[second]), tail, deep)
            third = min(position + TWO, final)
            tail = _claim(level, queue, np.uint64(out.neighbors[third]), tail, deep)
            position += THREE
        while position < stop:
            tail = _claim(level, queue, np.uint64(out.neighbors[position]), tail, deep)
            position += ONE
        index += ONE
    return np.int64(tail), np.int64(arcs)


@kernel
def _arcs_of(out: Any, queue: Any, begin: int, end: int) -> Any:
    arcs = np.int64(0)
    for index in range(begin, end):
        u = np.uint64(queue[index])
        arcs += np.int64(out.offsets[u + ONE]) - np.int64(out.offsets[u])
    return arcs


@kernel
def _goes_on(count: int, arcs: int, left: int, rows: int) -> bool:
    """`stays_listed`, of so many frontier arcs or an upper bound, of ``left`` not searched yet."""
    direction = choose_direction(PUSH, count, arcs, left - arcs, rows)
    return bool(stays_listed(direction, arcs))


@kernel
def search_list(
    control: Any, out: Any, tree: Any, queue: Any, course: Any, root: int, widest: int
) -> Any:
    """Search from ``root`` for as long as `stays_listed` says; one thread.

    Sets levels only, -1 where not reached; `parents_from_levels` does the rest. Words `BEGIN`,
    `END` and `DEPTH` of the control array become the place of the frontier in ``queue``, which
    has room for one entry more than rows, and its level; `FOUND` and `FOUND_ARCS` its vertices
    and out-arcs, 0 when the search is over.

    Parameters
    ----------
    widest
        Most out-arcs of a row: a bound of the frontier's arcs that costs nothing.

    Returns
    -------
    int
        Out-arcs of the frontier and of all that is not visited yet.
    """
    rows, left = len(tree.level), np.int64(len(out.neighbors))
    tree.level[:] = -1
    tree.level[root] = 0
    queue[0] = root
    begin, end, depth = 0, 1, 0
    arcs: Any = np.int64(0)
    while end > begin:
        count = end - begin
        arcs = count * widest
        if not _goes_on(count, arcs, left, rows):
            arcs = _arcs_of(out, queue, begin, end)
            if not _goes_on(count, arcs, left, rows):
                break
        tail, arcs = _search_level(out, tree.level, queue, begin, end, depth + 1)
        course.vertices[depth], course.arcs[depth] = count, arcs
        course.direction[depth] = PUSH
        left -= arcs
        begin, end, depth, arcs = end, tail, depth + 1, np.int64(0)
        if begin >= MOVE_TO_FRONT and begin >= 4 * (end - begin):
            for index in range(end - begin):
                queue[index] = queue[begin + index]
            begin, end = 0, end - begin
    control[BEGIN], control[END], control[DEPTH] = begin, end, depth
    control[FOUND], control[FOUND_ARCS] = end - begin, arcs
    return left


@kernel
def _parent_from_levels(into: Any, level: Any, row: Any, none: Any) -> Any:
    """Smallest in-neighbour one level up: the whole row backwards, without an early exit.

    Rows that are neighbours have as many arcs, mostly, so the loop's end is foreseen; where the
    first hit lies is not.
    """
    parent, above = none, level[row] - 1
    first, position = np.uint64(into.offsets[row]), np.uint64(into.offsets[row + ONE])
    while position > first:
        position -= ONE
        u = into.neighbors[position]
        parent = u if level[np.uint64(u)] == above else parent
    return parent


@kernel
def parents_from_levels(control: Any, into: Any, tree: Any, never: Any) -> None:
    """Bring parents and the bitmap of what is visited up to the levels; all threads call it.

    Word `CHUNK` must be 0 at the start. The arcs read here are not among those examined.
    """
    none, rows, words = tree.parent.dtype.type(-1), len(tree.level), len(never)
    while True:
        begin = atomic_add(control, CHUNK, CHUNK_WORDS)
        if begin >= words:
            break
        for index in range(begin, min(begin + CHUNK_WORDS, words)):
            visited = never[index]
            first = index * WORD_BITS
            for bit in range(min(WORD_BITS, rows - first)):
                row = np.uint64(first + bit)
                reached = tree.level[row]
                parent = none
                if reached > 0:
                    parent = _parent_from_levels(into, tree.level, row, none)
                elif reached == 0:
                    parent = tree.parent.dtype.type(row)
                tree.parent[row] = parent
                visited |= np.uint64(reached >= 0) << np.uint64(bit)
            tree.visited[index] = visited
