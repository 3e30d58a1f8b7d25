"""Answers from the order of internal ids to that of original ids (CPU).

No branch depends on a vertex: which ones have arcs, or were reached, cannot be predicted. So the
loads of many vertices are on their way at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel


@kernel
def order_measures(internal_of: Any, measure: Any, unreached: Any, out: Any) -> None:
    """Write levels or distances of vertices, ``unreached`` for those without arcs.

    ``internal_of`` and ``out`` are of the same vertices; ``measure`` (rows,) has one row at least.
    """
    for position in range(len(out)):
        row = np.int64(internal_of[position])
        found = measure[max(row, 0)]
        out[position] = unreached if row < 0 else found


@kernel
def order_parents(internal_of: Any, parent: Any, original_of: Any, out: Any) -> None:
    """Write original ids of the parents of vertices, -1 for those that are not reached.

    As `order_measures`; ``parent`` (rows,) are internal ids, all ones if unreached.
    """
    last = np.uint64(len(original_of) - 1)
    for position in range(len(out)):
        row = np.int64(internal_of[position])
        found = np.uint64(parent[max(row, 0)])
        found = np.uint64(row) if row < 0 else found
        original = original_of[min(found, last)]
        out[position] = original if found <= last else -1


@kernel
def parent_ids_of(parent: Any, original_of: Any, out: Any) -> None:
    """Write original ids of the parents of rows, -1 for those that are not reached.

    ``parent`` and ``out`` are of the same rows; ``original_of`` is of all. Most parents have small
    internal ids, whose original ids stay in the cache. So this, and `order_measures` of what it
    writes, take a third of the time of `order_parents`.
    """
    last = np.uint64(len(original_of) - 1)
    for row in range(len(out)):
        found = np.uint64(parent[row])
        original = original_of[min(found, last)]
        out[row] = original if found <= last else -1


@kernel
def count_from(first: Any, out: Any) -> None:
    """Write ascending numbers."""
    for position in range(len(out)):
        out[position] = first + position
