"""Compiled loops over vertices: positions of ids, rules without edges, rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernel_cache import compiled, subroutine
from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate.edge_loops import CONFIRMED


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


@compiled
def first_bad_step(value: AnyArray, parent: AnyArray, answer: int, is_level: bool) -> int:
    """Smallest vertex that does not fit its parent, of those that no tuple has confirmed, or -1.

    Levels are one more than a parent's, distances not less. ``value`` and ``parent`` are those of a
    batch; its value for unreached is the largest, so that nothing reached fits such a parent.
    """
    for v in range(len(parent)):
        above = np.int64(parent[v, answer])
        if above >= 0:
            near, far = value[above, answer], value[v, answer]
            if near > far or (is_level and near + 1 != far):
                return v
    return -1


@subroutine
def _equal_parent(value: AnyArray, parent: AnyArray, answer: int, root: int, v: Any) -> Any:
    """Parent of a vertex, confirmed or not, if it is at the same distance; -1 if not."""
    above = np.int64(parent[v, answer])
    if above < -1:
        above = CONFIRMED - above
    is_equal = above >= 0 and v != root and value[above, answer] == value[v, answer]
    return above if is_equal else np.int64(-1)


@compiled
def flag_equal(value: AnyArray, parent: AnyArray, equal: AnyArray) -> None:
    """Set the bits of vertices that are as far as their parent in some answer."""
    for v in range(len(parent)):
        found = False
        for answer in range(parent.shape[1]):
            found |= _equal_parent(value, parent, answer, -1, v) >= 0
        equal[v >> 3] |= found << (v & 7)


@subroutine
def _ends_in_cycle(
    value: AnyArray, parent: AnyArray, answer: int, root: int, start: int, seen: AnyArray
) -> bool:
    """Whether parents at the same distance lead from a vertex into a cycle not seen before."""
    v: Any = np.int64(start)
    steps = 0
    while v >= 0 and seen[v >> 3] >> (v & 7) & 1 == 0:
        seen[v >> 3] |= 1 << (v & 7)
        v = _equal_parent(value, parent, answer, root, v)
        steps += 1
    # If the walk met what was seen before: was that in this walk?
    met, v = v, np.int64(start)
    for _ in range(steps if met >= 0 else 0):
        if v == met:
            return True
        v = _equal_parent(value, parent, answer, root, v)
    return False


@compiled
def find_cycle(
    value: AnyArray, parent: AnyArray, answer: int, root: int, equal: AnyArray, seen: AnyArray
) -> int:
    """Return the smallest position whose chain of parents ends in a cycle, -1 if there is none.

    If no parent is farther than its child, a cycle consists of equal distances: only those links
    are followed, each once or twice, from vertices with a bit in ``equal``. ``seen``, uint8, has a
    bit for each vertex, 0 at entry.
    """
    for byte in range(len(equal)):
        for start in range(8 * byte, 8 * byte + 8 if equal[byte] else 8 * byte):
            if equal[byte] >> (start & 7) & 1 and _ends_in_cycle(
                value, parent, answer, root, start, seen
            ):
                return start
    return -1


@compiled
def lay_out(
    values: AnyArray,
    positions: AnyArray,
    first: int,
    start: int,
    stop: int,
    value: AnyArray,
    parent: AnyArray,
) -> None:
    """Copy vertices ``start`` to ``stop - 1`` of some answers into their place in rows of a batch.

    ``values`` and ``positions`` (n, V) become columns ``first`` to ``first + n - 1`` of ``value``
    (V, at least k) and ``parent`` (V, k), of the same dtypes.
    """
    for v in range(start, stop):
        for answer in range(len(values)):
            value[v, first + answer] = values[answer, v]
    # Apart, as a cache has no room for so many columns that begin at powers of two.
    for v in range(start, stop):
        for answer in range(len(values)):
            parent[v, first + answer] = positions[answer, v]


@compiled
def first_pending(parent: AnyArray, first: IntArray) -> None:
    """Write the smallest vertex of each answer whose tree arc no tuple has confirmed.

    ``first``, int64 (k,), is -1 at entry, and stays so if there is none.
    """
    for v in range(len(parent)):
        pending = parent.dtype.type(-1)
        for answer in range(parent.shape[1]):
            pending = parent.dtype.type(pending & parent[v, answer])
        for answer in range(parent.shape[1] if pending >= 0 else 0):
            if parent[v, answer] >= 0 and first[answer] < 0:
                first[answer] = v
