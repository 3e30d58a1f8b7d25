"""Tables of vertices: ascending runs of (id, count), and which of some have edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import inlined, kernel
from ooc_graph.types import AnyArray, IntArray


@kernel
def merge_counts(
    ids_a: IntArray,
    counts_a: AnyArray,
    ids_b: IntArray,
    counts_b: AnyArray,
    ids_out: IntArray,
    counts_out: AnyArray,
) -> int:
    """Merge two strictly ascending runs, adding the counts of equal ids; number of ids written."""
    i, j, k = 0, 0, 0
    while i < len(ids_a) or j < len(ids_b):
        if j == len(ids_b) or (i < len(ids_a) and ids_a[i] < ids_b[j]):
            ids_out[k], counts_out[k] = ids_a[i], counts_a[i]
            i += 1
        elif i == len(ids_a) or ids_b[j] < ids_a[i]:
            ids_out[k], counts_out[k] = ids_b[j], counts_b[j]
            j += 1
        else:
            ids_out[k], counts_out[k] = ids_a[i], counts_a[i] + counts_b[j]
            i += 1
            j += 1
        k += 1
    return k


def run_lengths(ids: IntArray) -> tuple[IntArray, AnyArray]:
    """Ascending distinct ids and how often each occurs (uint64)."""
    ordered = np.sort(ids)
    first = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1)) if len(ids) else ids
    counts = np.diff(first, append=len(ordered)).astype(np.uint64)
    return ordered[first], counts


@inlined
def _slot_of(vertex: Any, table: Any) -> Any:
    """Slot of an open-addressing table that holds ``vertex``, or the empty one it would get."""
    slot = vertex & (table.shape[0] - 1)
    while table[slot] >= 0 and table[slot] != vertex:
        slot = (slot + 1) & (table.shape[0] - 1)
    return slot


@kernel
def insert_vertices(vertices: AnyArray, table: AnyArray) -> None:
    """Enter non-negative ids into a table of -1s (int64, a power of two long, never full)."""
    for vertex in vertices:
        table[_slot_of(vertex, table)] = vertex


@kernel
def mark_touched(source: AnyArray, target: AnyArray, table: AnyArray, touched: AnyArray) -> None:
    """Set ``touched[slot]`` (uint8) of every tabled vertex that a non-loop edge meets."""
    for edge in range(source.shape[0]):
        u, v = source[edge], target[edge]
        if u != v:
            slot = _slot_of(u, table)
            if table[slot] >= 0:
                touched[slot] = 1
            slot = _slot_of(v, table)
            if table[slot] >= 0:
                touched[slot] = 1
