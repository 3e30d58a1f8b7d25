"""Rows to search from a list of vertices, and one level of that, on one thread (CPU)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import decisions, intrinsics
from ooc_graph.kernels.common.bitmap import ONE
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.prefetch import prefetch, prefetch_to_write
from ooc_graph.types import AnyArray, Rows

COUNT_SHIFT = np.uint64(32 + decisions.FIXED_ID_BITS)
MOST_FIXED, LONG = np.uint64(decisions.FIXED_ARCS), np.uint64(7)


class ListRows(NamedTuple):
    """Rows to search from a list: int64 offsets, and ids that ascend in each row.

    ``fixed`` is uint64 (2 * rows,), or empty: words 2r and 2r + 1 hold row r's four ids of 32 bits,
    r itself if it has fewer, and in the first word's highest 3 bits its number of arcs, or `LONG`
    of a row that has more than `FIXED_ARCS`.
    """

    offsets: AnyArray
    neighbors: AnyArray
    fixed: AnyArray


@kernel
def survey_rows(offsets: Any) -> tuple[Any, int]:
    """Most arcs of a row, and how many rows have more than `FIXED_ARCS`."""
    widest, longer = np.int64(0), 0
    for row in range(len(offsets) - 1):
        arcs = offsets[row + 1] - offsets[row]
        widest = max(widest, arcs)
        longer += arcs > decisions.FIXED_ARCS
    return widest, longer


@kernel
def fix_rows(offsets: Any, neighbors: Any, fixed: Any) -> None:
    """Fill ``fixed`` of `ListRows`."""
    for row in range(len(offsets) - 1):
        first, arcs = offsets[row], offsets[row + 1] - offsets[row]
        for half in range(2):
            word = np.uint64(0)
            for arc in range(2 * half, 2 * half + 2):
                v = np.uint64(neighbors[first + arc]) if arc < arcs else np.uint64(row)
                word |= v << np.uint64(32 * (arc & 1))
            fixed[2 * row + half] = word
        fixed[2 * row] |= (np.uint64(arcs) if arcs <= decisions.FIXED_ARCS else LONG) << COUNT_SHIFT


def list_rows(rows: Rows, longer: int, copies: bool) -> ListRows:
    """Rows to search from a list, in fixed slots if that pays; ``longer`` rows do not fit."""
    offsets, neighbors = rows.offsets.view(np.int64), rows.neighbors
    count = len(offsets) - 1
    pays = copies and decisions.fixed_rows_pay(count, len(neighbors), longer)
    if neighbors.dtype != np.uint32 or not pays:
        return ListRows(offsets, neighbors, np.empty(0, np.uint64))
    fixed = np.empty(decisions.FIXED_ROW_BYTES // 8 * count, np.uint64)
    fix_rows(offsets, neighbors, fixed)
    return ListRows(offsets, neighbors, fixed)


AHEAD, ROW_AHEAD = 64, 32
"""Entries of the list between a row's search, and the fetch of its slot and of its arcs."""
UNSEEN, SEEN, TURN = 0, 32, 64
"""A vertex's byte: `UNSEEN`, or `SEEN` + `TURN` * (level modulo 3). So its low 6 bits are how far
to shift a word of two ids to drop the first one: 0 if that is new, 32 if not."""
_SHIFT, _HALF, _LOW = np.uint64(63), np.uint64(32), np.uint64((1 << 32) - 1)
_IDS = (ONE << COUNT_SHIFT) - ONE


@subroutine
def byte_of(depth: Any) -> Any:
    """What the byte of a vertex of this level is; of level -1, too."""
    return np.uint8(SEEN + TURN * (np.uint64(depth + 3) % np.uint64(3)))


@subroutine
def _fetch_row(rows: Any, queue: Any, index: Any) -> Any:
    """Fetch what the rows some entries ahead will need; the vertex `AHEAD` entries ahead.

    Past the known end of the list stand older entries: their rows are fetched for nothing.
    """
    ahead = np.uint64(queue[index + np.uint64(AHEAD)])
    if len(rows.fixed) > 0:
        prefetch(rows.fixed, ahead << ONE)
    else:
        prefetch(rows.offsets, ahead)
        near = np.uint64(queue[index + np.uint64(ROW_AHEAD)])
        prefetch(rows.neighbors, np.uint64(rows.offsets[near]))
    return ahead


@subroutine
def fetch_first(rows: Any, tree: Any, queue: Any, begin: Any, end: Any) -> None:
    """Fetch what the first vertices of a level need, before their turn comes."""
    for index in range(np.uint64(begin), np.uint64(min(end, begin + AHEAD))):
        u = np.uint64(queue[index])
        prefetch(rows.fixed, u << ONE)
        prefetch_to_write(tree.parent, u)
        prefetch_to_write(tree.level, u)


@subroutine
def _search_long(
    rows: Any, state: Any, queue: Any, u: Any, tail: Any, above: Any
) -> tuple[Any, Any, Any]:
    """Append the unseen neighbours of ``u``; the list's end, the first at ``above``, arcs.

    Backwards, so that the last hit is the first neighbour: where that lies can not be foreseen.
    """
    first, position = np.uint64(rows.offsets[u]), np.uint64(rows.offsets[u + ONE])
    arcs, parent = position - first, u
    while position > first:
        position -= ONE
        v = np.uint64(rows.neighbors[position])
        seen = state[v]
        queue[tail] = v
        tail += np.uint64(seen < ONE)
        parent = v if seen == above else parent
    return tail, parent, arcs


@subroutine
def search_level(
    rows: Any, state: Any, tree: Any, queue: Any, begin: int, end: int, depth: int
) -> tuple[Any, Any]:
    """Append the unseen neighbours of ``queue[begin:end]``, some more than once.

    Sets levels, and parents as they are if in-rows are the out-rows. The list's end, and arcs seen.
    """
    intrinsics.stays_apart()
    # Unsigned throughout: numba checks signed indices for being negative, at each access.
    index, last, tail, arcs = np.uint64(begin), np.uint64(end), np.uint64(end), np.uint64(0)
    above = byte_of(depth - 1)
    while index < last:
        u = np.uint64(queue[index])
        ahead = np.uint64(queue[index + np.uint64(AHEAD)])
        prefetch(rows.fixed, ahead << ONE)
        prefetch_to_write(tree.parent, ahead)
        prefetch_to_write(tree.level, ahead)
        index += ONE
        ab, cd = rows.fixed[u << ONE], rows.fixed[(u << ONE) + ONE]
        found = ab >> COUNT_SHIFT
        if intrinsics.rarely(found > MOST_FIXED):
            tail, parent, found = _search_long(rows, state, queue, u, tail, above)
        else:
            ab &= _IDS
            a, b, c, d = ab & _LOW, ab >> _HALF, cd & _LOW, cd >> _HALF
            at_a, at_b, at_c, at_d = state[a], state[b], state[c], state[d]
            intrinsics.store_two(queue, tail, ab >> (np.uint64(at_a) & _SHIFT))
            tail += np.uint64(at_a < ONE)
            tail += np.uint64(at_b < ONE)
            intrinsics.store_two(queue, tail, cd >> (np.uint64(at_c) & _SHIFT))
            tail += np.uint64(at_c < ONE)
            tail += np.uint64(at_d < ONE)
            parent = c if at_c == above else d
            parent = b if at_b == above else parent
            parent = a if at_a == above else parent
        arcs += found
        tree.parent[u] = parent
        tree.level[u] = depth
    return np.int64(tail), np.int64(arcs)


@subroutine
def search_level_by_offsets(
    rows: Any, state: Any, tree: Any, queue: Any, begin: int, end: int, depth: int
) -> tuple[Any, Any]:
    """As `search_level`, without fixed slots; each new vertex is listed once, and its byte set.

    Longer rows find the same vertex more often, so a second pass would take longer than this.
    """
    index, last, tail, arcs = np.uint64(begin), np.uint64(end), np.uint64(end), np.uint64(0)
    above, byte = byte_of(depth - 1), byte_of(depth + 1)
    while index < last:
        u = np.uint64(queue[index])
        ahead = _fetch_row(rows, queue, index)
        prefetch_to_write(tree.parent, ahead)
        prefetch_to_write(tree.level, ahead)
        index += ONE
        first, position = np.uint64(rows.offsets[u]), np.uint64(rows.offsets[u + ONE])
        arcs += position - first
        parent = u
        while position > first:
            position -= ONE
            v = np.uint64(rows.neighbors[position])
            seen = state[v]
            queue[tail] = v
            state[v] = byte if seen < ONE else seen
            tail += np.uint64(seen < ONE)
            parent = v if seen == above else parent
        tree.parent[u] = parent
        tree.level[u] = depth
    return np.int64(tail), np.int64(arcs)


@subroutine
def settle_level(state: Any, queue: Any, begin: int, end: int, depth: int) -> Any:
    """Keep each vertex of ``queue[begin:end]`` once, seen at level ``depth``; the new end."""
    index, last, tail, byte = np.uint64(begin), np.uint64(end), np.uint64(begin), byte_of(depth)
    while index < last:
        v = np.uint64(queue[index])
        queue[tail] = v
        tail += np.uint64(state[v] < ONE)
        state[v] = byte
        index += ONE
    return np.int64(tail)


@subroutine
def _parent_of(into: Any, state: Any, u: Any, above: Any) -> Any:
    """First in-neighbour whose byte is ``above``."""
    if len(into.fixed) == 0 or into.fixed[u << ONE] >> COUNT_SHIFT > MOST_FIXED:
        first, position = np.uint64(into.offsets[u]), np.uint64(into.offsets[u + ONE])
        parent = u
        while position > first:
            position -= ONE
            v = np.uint64(into.neighbors[position])
            parent = v if state[v] == above else parent
        return parent
    ab, cd = into.fixed[u << ONE] & _IDS, into.fixed[(u << ONE) + ONE]
    a, b, c, parent = ab & _LOW, ab >> _HALF, cd & _LOW, cd >> _HALF
    parent = c if state[c] == above else parent
    parent = b if state[b] == above else parent
    return a if state[a] == above else parent


@subroutine
def find_parents(
    into: Any, state: Any, tree: Any, queue: Any, begin: int, end: int, depth: int
) -> None:
    """Set levels and parents of ``queue[begin:end]``, before anything of the next level is seen."""
    above = byte_of(depth - 1)
    for index in range(begin, end):
        _fetch_row(into, queue, np.uint64(index))
        u = np.uint64(queue[index])
        tree.parent[u] = _parent_of(into, state, u, above)
        tree.level[u] = depth
