"""Compiled loops over vertices: positions of ids, rules without edges, rows, components."""

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


@compiled
def sorted_positions(ids: IntArray, vertices: IntArray, out: AnyArray) -> None:
    """Write the rank of each id in ``vertices`` (ascending) to ``out``, -1 if it is not there."""
    for i in range(len(ids)):
        low, length = 0, len(vertices)
        while length > 1:
            half = length >> 1
            low += half if vertices[low + half] <= ids[i] else 0
            length -= half
        out[i] = low if length == 1 and vertices[low] == ids[i] else -1


@compiled
def column_rules(
    parent: IntArray,
    position: AnyArray,
    value: AnyArray,
    unreached: Any,
    start: int,
    stop: int,
    first: IntArray,
) -> None:
    """Check vertices ``start`` to ``stop - 1`` of an answer, each alone.

    ``parent`` are original ids, ``position`` their positions (-1: no vertex), ``value`` levels or
    distances. ``first``, int64 (2,), is at entry larger than any position. It receives the smallest
    whose parent is not a vertex, and that is reached by one column only or has a value that is no
    level or distance, as NaN and what is negative.
    """
    for v in range(stop - 1, start - 1, -1):
        is_reached = value[v] != unreached
        if parent[v] != -1 and position[v] < 0:
            first[0] = v
        elif (parent[v] != -1) != is_reached or (is_reached and not value[v] >= 0):
            first[1] = v


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


@compiled
def find_cycle(
    value: AnyArray, parent: AnyArray, answer: int, root: int, equal: AnyArray, seen: AnyArray
) -> int:
    """Return the smallest position whose chain of parents ends in a cycle, -1 if there is none.

    If no parent is farther than its child, a cycle consists of equal distances: only those links
    are followed, each once or twice, from vertices that `flag_equal` found. ``seen``, uint8, has a
    bit for each vertex, 0 at entry.
    """
    for start in range(len(parent)):
        if equal[start >> 3] >> (start & 7) & 1 == 0:
            continue
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
                return start
            v = _equal_parent(value, parent, answer, root, v)
    return -1


@compiled
def copy_values(
    column: AnyArray, given: Any, unreached: Any, start: int, stop: int, out: AnyArray
) -> None:
    """Copy a part of a column; ``unreached`` in ``out``'s dtype comes for what is ``given``."""
    for v in range(start, stop):
        out[v] = unreached if column[v] == given else out.dtype.type(column[v])


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


@subroutine
def root_of(above: AnyArray, vertex: int) -> int:
    """Root of a vertex; its path is halved on the way."""
    while above[vertex] != vertex:
        above[vertex] = above[above[vertex]]
        vertex = above[vertex]
    return vertex


@compiled
def unite(above: AnyArray, source: AnyArray, target: AnyArray) -> None:
    """Unite the ends of tuples; -1 is an unknown vertex, whose tuples are left out."""
    for i in range(len(source)):
        if source[i] < 0 or target[i] < 0:
            continue
        a, b = root_of(above, source[i]), root_of(above, target[i])
        if a < b:
            above[b] = a
        elif b < a:
            above[a] = b


@compiled
def first_not_joined(above: AnyArray, position: AnyArray) -> int:
    """Smallest vertex that no edges join to the vertex its label names, -1 if there is none.

    ``above`` is the forest of all edges, ``position`` where the label of each vertex stands.
    """
    for v in range(len(above)):
        if root_of(above, v) != root_of(above, position[v]):
            return v
    return -1


@compiled
def first_parted(label: AnyArray, source: AnyArray, target: AnyArray, broken: AnyArray) -> int:
    """Count tuples between different vertices; find the smallest whose ends differ in label.

    ``label`` is any name of each vertex's component. ``broken``, int64 (2,), is the smallest such
    tuple so far, ends ascending, and receives the smaller one.
    """
    tuples = 0
    for i in range(len(source)):
        a, b = source[i], target[i]
        if a < 0 or b < 0 or a == b:
            continue
        tuples += 1
        if label[a] != label[b]:
            low, high = min(a, b), max(a, b)
            if low < broken[0] or (low == broken[0] and high < broken[1]):
                broken[0], broken[1] = low, high
    return tuples
