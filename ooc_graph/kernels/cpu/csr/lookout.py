"""Looks at many arcs, of which few need a closer look, without a branch for each.

A branch that is foreseen wrongly costs as much as a look at ten arcs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import LOW, ONE, SIX
from ooc_graph.kernels.common.compiled import small_part

BLOCK = 4096
"""Arcs that are looked at before those that were found are."""


@small_part
def list_unseen(targets: Any, begin: int, end: int, unseen: Any, found: Any) -> int:
    """List which arcs lead to a set bit; how many. ``found`` has room for one more than all."""
    # Unsigned: numba would ask of every index whether it is below 0.
    count = np.uint64(0)
    for arc in range(np.uint64(begin), np.uint64(end)):
        vertex = np.uint64(targets[arc])
        found[count] = arc
        count += (unseen[vertex >> SIX] >> (vertex & LOW)) & ONE
    return np.int64(count)  # type: ignore[return-value]


@small_part
def list_nearer(arcs: Any, begin: int, end: int, at: float, distance: Any, found: Any) -> int:
    """As `list_unseen`: which arcs from a vertex ``at`` a distance shorten that of another."""
    count = np.uint64(0)
    for arc in range(np.uint64(begin), np.uint64(end)):
        found[count] = arc
        is_nearer = at + arcs.weights[arc] < distance[np.uint64(arcs.targets[arc])]
        count += np.uint64(is_nearer)
    return np.int64(count)  # type: ignore[return-value]
