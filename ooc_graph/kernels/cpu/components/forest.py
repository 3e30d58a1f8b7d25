"""A union-find forest that threads join without locks: every parent is the smaller id.

``parent[v] <= v`` always, so there are no cycles, and the root of a tree is its smallest id
whatever the order of the links. Linking is Afforest's [1], with an atomic minimum in place of its
compare-and-swap: what the minimum displaces is linked again, so no link is ever lost.

[1] M. Sutton, T. Ben-Nun, A. Barak, "Optimizing parallel graph connectivity computation via
subgraph sampling", IPDPS 2018.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.team import atomic_umin


@subroutine
def link(parent: Any, u: int, v: int) -> None:
    """Bring ``u`` and ``v`` into one tree; any number of threads at once."""
    a, b = np.int64(parent[u]), np.int64(parent[v])
    while a != b:
        high, low = max(a, b), min(a, b)
        above = np.int64(parent[high])
        if above == low:
            return
        if above == high:
            above = np.int64(atomic_umin(parent, high, low))
            if above in (high, low):
                return
            # Another thread was first; its link is kept, this one continues from there.
            a, b = above, low
        else:
            a, b = np.int64(parent[above]), np.int64(parent[low])


@kernel
def link_all(parent: Any, one: Any, other: Any) -> None:
    """Link pair after pair, on one thread."""
    for index in range(len(one)):
        link(parent, np.int64(one[index]), np.int64(other[index]))


@kernel
def compress(parent: Any, begin: int, end: int) -> None:
    """Make every vertex of a range a child of its root.

    Threads may do ranges apart at once, but none may link.
    """
    for v in range(begin, end):
        above = np.int64(parent[v])
        root = np.int64(parent[above])
        if root != above:
            while root != above:
                above, root = root, np.int64(parent[root])
            parent[v] = root


SAMPLE = 256
"""Vertices looked at, evenly spaced, to find the most common component."""


@kernel
def most_common(parent: Any, sample: Any) -> tuple[Any, int]:
    """Root of the component that most of an even sample of a forest is in, and how many are.

    The forest is compressed and not empty; ``sample`` int64 (`SAMPLE`,) is scratch.
    """
    for index in range(SAMPLE):
        sample[index] = np.int64(parent[index * len(parent) // SAMPLE])
    best, most = sample[0], 0
    for index in range(SAMPLE):
        count = 0
        for other in range(SAMPLE):
            count += int(sample[other] == sample[index])
        if count > most:
            best, most = sample[index], count
    return best, most


@kernel
def first_positions(internal_of: Any, label: Any, first: Any) -> None:
    """Write where each component's smallest original id stands, at the component's label.

    ``internal_of`` has the row of each vertex by ascending original id, -1 for none; ``label`` the
    component of each row, named by one of its rows. ``first`` (rows,), -1 at entry, receives the
    first position that has the component, at the rows that name one.
    """
    for position in range(len(internal_of)):
        row = np.int64(internal_of[position])
        if row >= 0 and first[np.int64(label[row])] < 0:
            first[np.int64(label[row])] = position
