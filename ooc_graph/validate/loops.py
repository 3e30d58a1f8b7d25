"""Compiled loops over vertices: positions of ids, rules without edges, rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernel_cache import compiled, subroutine
from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate.edge_loops import State, row_of
from ooc_graph.validate.tree_loops import RANGE_BITS, Arcs, parent_in


@compiled
def dense_positions(ids: IntArray, first: int, count: int, out: AnyArray) -> None:
    """Write ``ids - first`` to ``out``, -1 outside ``[0, count)``."""
    for i in range(len(ids)):
        position = ids[i] - first
        # The id itself is looked at too: -1 - first must not wrap into the range.
        out[i] = position if ids[i] >= first and position < count else -1


@subroutine
def _rank(vertex: int, vertices: IntArray) -> Any:
    """Position of an id in ``vertices`` (ascending), -1 if it is not there."""
    low: Any = np.int64(0)
    length = len(vertices)
    while length > 1:
        half = length >> 1
        low += half if vertices[low + half] <= vertex else 0
        length -= half
    return low if length == 1 and vertices[low] == vertex else np.int64(-1)


@compiled
def sorted_positions(ids: IntArray, vertices: IntArray, out: AnyArray) -> None:
    """Write the rank of each id in ``vertices`` (ascending) to ``out``, -1 if it is not there."""
    for i in range(len(ids)):
        out[i] = _rank(ids[i], vertices)


@compiled
def take_column(
    parent: IntArray,
    value: AnyArray,
    unreached: tuple[Any, Any],
    vertices: IntArray,
    lowest: int,
    start: int,
    stop: int,
    position: AnyArray,
    row: AnyArray,
    first: IntArray,
) -> int:
    """Check vertices ``start`` to ``stop - 1`` of an answer, each alone, and copy it into a batch.

    ``parent`` are original ids, ``value`` levels or distances. ``vertices`` are all ids, or empty
    if they are those from ``lowest`` on. ``position`` receives the positions of the parents (-1: no
    vertex), and ``row``, unless it is empty, the values in its dtype; ``unreached`` is what stands
    for that in ``value`` and in ``row``. ``first``, int64 (2,), is at entry larger than any
    position. It receives the smallest whose parent is not a vertex, and that is reached by one
    column only or has a value that is no level or distance, as NaN and what is negative. Returns
    how many vertices have a parent.
    """
    given, copied = unreached
    count, odd = np.uint64(len(parent)), np.int64(0)
    reached = np.int64(0)
    # Vectors of a range that begins at 0; each loop has one kind of condition.
    ids, far = parent[start:stop], value[start:stop]
    above, taken = position[start:stop], row[start:stop]
    for i in range(len(ids) if len(vertices) == 0 else 0):
        gap = np.uint64(ids[i]) - np.uint64(lowest)
        is_vertex = np.int64(gap < count)
        above[i] = np.int64(gap) if gap < count else -1
        reached += is_vertex
        odd |= is_vertex ^ np.int64(far[i] != given) | is_vertex ^ np.int64(ids[i] != -1)
    for i in range(len(ids) if len(vertices) else 0):
        above[i] = _rank(ids[i], vertices)
        is_vertex = np.int64(above[i] >= 0)
        reached += is_vertex
        odd |= is_vertex ^ np.int64(far[i] != given) | is_vertex ^ np.int64(ids[i] != -1)
    for i in range(len(ids)):
        odd |= np.int64(far[i] != given) & np.int64(not far[i] >= 0)
    for i in range(len(taken)):
        taken[i] = copied if far[i] == given else row.dtype.type(far[i])
    for i in range(len(ids) - 1 if odd else -1, -1, -1):
        is_reached = far[i] != given
        if ids[i] != -1 and above[i] < 0:
            first[0] = start + i
        elif (ids[i] != -1) != is_reached or (is_reached and not far[i] >= 0):
            first[1] = start + i
    return int(reached)


@subroutine
def _equal_parent(state: State, arcs: Arcs, answer: int, root: int, v: Any) -> Any:
    """Parent of a vertex, confirmed or not, if it is at the same distance; -1 if not."""
    above = np.int64(parent_in(arcs, v, answer))
    if above < 0 or v == root:
        return np.int64(-1)
    near, far = state[0][row_of(state, above), answer], state[0][row_of(state, v), answer]
    return above if near == far else np.int64(-1)


@compiled
def flag_equal(state: State, vertices: int, answers: int, arcs: Arcs, equal: AnyArray) -> None:
    """Set the bits of vertices that are as far as their parent in some answer."""
    for v in range(vertices):
        found = False
        for answer in range(answers):
            found |= _equal_parent(state, arcs, answer, -1, v) >= 0
        equal[v >> 3] |= found << (v & 7)


@subroutine
def _ends_in_cycle(
    state: State, arcs: Arcs, answer: int, root: int, start: int, seen: AnyArray
) -> bool:
    """Whether parents at the same distance lead from a vertex into a cycle not seen before."""
    v: Any = np.int64(start)
    steps = 0
    while v >= 0 and seen[v >> 3] >> (v & 7) & 1 == 0:
        seen[v >> 3] |= 1 << (v & 7)
        v = _equal_parent(state, arcs, answer, root, v)
        steps += 1
    # If the walk met what was seen before: was that in this walk?
    met, v = v, np.int64(start)
    for _ in range(steps if met >= 0 else 0):
        if v == met:
            return True
        v = _equal_parent(state, arcs, answer, root, v)
    return False


@compiled
def find_cycle(
    state: State, arcs: Arcs, answer: int, root: int, equal: AnyArray, seen: AnyArray
) -> int:
    """Return the smallest position whose chain of parents ends in a cycle, -1 if there is none.

    If no parent is farther than its child, a cycle consists of equal distances: only those links
    are followed, each once or twice, from vertices with a bit in ``equal``. ``seen``, uint8, has a
    bit for each vertex, 0 at entry.
    """
    for byte in range(len(equal)):
        for start in range(8 * byte, 8 * byte + 8 if equal[byte] else 8 * byte):
            if equal[byte] >> (start & 7) & 1 and _ends_in_cycle(
                state, arcs, answer, root, start, seen
            ):
                return start
    return -1


@compiled
def lay_out(
    values: AnyArray,
    unreached: Any,
    first: int,
    start: int,
    stop: int,
    state: State,
    used: IntArray,
) -> None:
    """Copy vertices ``start`` to ``stop - 1``, a range, of some answers into rows of a batch.

    ``values`` (n, V) become columns ``first`` to ``first + n - 1``. A vertex has a row of its own
    from when an answer reaches it. Before, it has the first one of its range, of which there is one
    more than vertices; ``used`` are how many a range has. ``first`` is 0 once, at the beginning.
    """
    value, rows = state
    which = start >> RANGE_BITS
    base = start + which
    if first == 0:
        used[which] = 1
        rows[start:stop] = base
        value[base] = 0
    for answer in range(len(values)):
        value[base, first + answer] = unreached
    for v in range(start, stop):
        if rows[v] == base:
            is_reached = False
            for answer in range(len(values)):
                is_reached |= values[answer, v] != unreached
            if is_reached:
                rows[v] = base + used[which]
                used[which] += 1
                for column in range(value.shape[1]):
                    value[rows[v], column] = value[base, column]
        if rows[v] != base:
            for answer in range(len(values)):
                value[rows[v], first + answer] = values[answer, v]
