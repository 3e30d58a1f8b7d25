"""Compiled loops over vertices: positions of ids, rules without edges, tree arcs, components."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernel_cache import compiled, subroutine
from ooc_graph.types import AnyArray, IntArray

_TILE = 512
_ONE = np.uint64(1)


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
    """Check every vertex against its parent: original id and position (-1: no vertex), and level.

    ``broken``, int64 (3,), is -1 at entry. It receives the smallest position whose parent is not a
    vertex, that is reached by one column only, whose level is not its parent's plus one.
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

    If no parent is farther than its child, a cycle consists of equal distances: only those links
    are followed, each once. ``stamp`` (V,) is zero at entry.
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

    ``columns``, int32 or int64 (k, V), k <= 64, are positions of the parents, -1 unreached, the
    root's its own. ``tile`` (`tile_of`) and ``bits``, uint64 (k,), are working space. ``offsets``,
    int64 (V + 1,), receives where each vertex's arcs begin; ``parents`` and ``answers`` (total,)
    the parent of each arc and a bit for each answer that has it. If they are empty, only
    ``offsets`` is written: the first of two passes.
    """
    count, vertices = columns.shape
    row_parents = tile[_TILE]
    offsets[0] = 0
    for first in range(0, vertices, _TILE):
        rows = min(_TILE, vertices - first)
        # Through a tile: k columns a power of two apart would fall on the same cache sets.
        for j in range(count):
            for i in range(rows):
                tile[i, j] = columns[j, first + i]
        for i in range(rows):
            start = offsets[first + i]
            arcs = _distinct(tile[i], first + i, row_parents, bits)
            offsets[first + i + 1] = start + arcs
            if len(parents) > 0:
                for arc in range(arcs):
                    parents[start + arc] = row_parents[arc]
                    answers[start + arc] = bits[arc]


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
