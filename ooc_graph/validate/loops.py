"""Compiled loops over vertices: positions of ids, and the rules that need no edges."""

from __future__ import annotations

from typing import Any

from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate.compiled import compiled


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
def bfs_tree_rules(
    parent: IntArray, position: AnyArray, level: AnyArray, root: int, broken: IntArray
) -> None:
    """Check every vertex against its parent.

    Parameters
    ----------
    parent, position, level
        (V,): original id of the parent, its position (-1 if it is no vertex), level.
    root
        Position of the root.
    broken
        int64 (3,), -1 at entry: receives the smallest position whose parent is not a vertex,
        that is reached by one column only, whose level is not its parent's plus one.
    """
    for v in range(len(parent) - 1, -1, -1):
        if parent[v] != -1 and position[v] < 0:
            broken[0] = v
        elif (parent[v] == -1) != (level[v] == -1) or level[v] < -1:
            broken[1] = v
        elif parent[v] != -1 and v != root and not 1 <= level[v] == level[position[v]] + 1:
            broken[2] = v


@compiled
def sssp_tree_rules(
    parent: IntArray,
    position: AnyArray,
    distance: AnyArray,
    unreached: Any,
    root: int,
    broken: IntArray,
) -> None:
    """Check every vertex against its parent; as `bfs_tree_rules`, with distances.

    The last rule is that a parent is reached and no farther than its child. NaN and negative
    distances break the second.
    """
    for v in range(len(parent) - 1, -1, -1):
        if parent[v] != -1 and position[v] < 0:
            broken[0] = v
        elif (parent[v] == -1) != (distance[v] == unreached) or not distance[v] >= 0:
            broken[1] = v
        elif parent[v] != -1 and v != root and not distance[position[v]] <= distance[v]:
            broken[2] = v


@compiled
def find_cycle(
    parent: IntArray, position: AnyArray, distance: AnyArray, root: int, stamp: AnyArray
) -> int:
    """Return the smallest position whose chain of parents ends in a cycle, -1 if there is none.

    If no parent is farther than its child, a cycle consists of equal distances; so only
    those links are walked, each once. ``stamp`` (V,) is zero at entry and holds afterwards which
    walk came by.
    """
    for start in range(len(parent)):
        v = start
        while parent[v] != -1 and v != root and distance[position[v]] == distance[v]:
            if stamp[v] != 0:
                if stamp[v] == start + 1:
                    return start
                break
            stamp[v] = start + 1
            v = position[v]
    return -1
