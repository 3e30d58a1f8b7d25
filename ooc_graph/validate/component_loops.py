"""Compiled loops over components: a forest of what edges join, and labels at the ends of edges."""

from __future__ import annotations

from ooc_graph.kernel_cache import compiled, subroutine
from ooc_graph.types import AnyArray


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
