"""Looks at many arcs, of which few need a closer look, without a branch for each.

A branch that is foreseen wrongly costs as much as a look at ten arcs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import LOW, ONE, SIX
from ooc_graph.kernels.common.compiled import small_part
from ooc_graph.prefetch import prefetch

BLOCK = 4096
"""Arcs that are looked at before those that were found are."""
LINE_ARCS = 16
"""Targets in a cache line: they are int32."""
NEAR_ARCS = 256
"""Arcs ahead that are fetched: the processor itself keeps too few lines on their way."""


@small_part
def _list_one(targets: Any, arc: Any, unseen: Any, found: Any, count: Any) -> Any:
    vertex = np.uint64(targets[arc])
    found[count] = arc
    return count + ((unseen[vertex >> SIX] >> (vertex & LOW)) & ONE)


@small_part
def list_unseen(targets: Any, begin: int, end: int, unseen: Any, found: Any) -> int:
    """List which arcs lead to a set bit; how many. ``found`` has room for one more than all."""
    # Unsigned: numba would ask of every index whether it is below 0.
    count, arc, stop, step = np.uint64(0), np.uint64(begin), np.uint64(end), np.uint64(LINE_ARCS)
    while arc + step <= stop:
        # Of a short row the last line, again and again: a branch would take as long.
        prefetch(targets, min(arc + np.uint64(NEAR_ARCS), stop - ONE))
        for one in range(LINE_ARCS):
            count = _list_one(targets, arc + np.uint64(one), unseen, found, count)
        arc += step
    while arc < stop:
        count = _list_one(targets, arc, unseen, found, count)
        arc += ONE
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
