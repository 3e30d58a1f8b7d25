"""Count tuples at every vertex, order vertices by falling count, and look some of them up."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import inlined, kernel
from ooc_graph.types import AnyArray, IntArray

_DIGIT_BITS = 16
_DIGITS = 1 << _DIGIT_BITS


@inlined
def add_one(low: AnyArray, degree: AnyArray, position: Any) -> None:
    """Add one to the count at a position, which is ``low[position] + degree[position]``."""
    count = np.uint8(low[position] + np.uint8(1))
    low[position] = count
    if count == 0:
        degree[position] += np.uint32(256)


@kernel
def count_dense(
    source: IntArray, target: IntArray, first: int, low: AnyArray, degree: AnyArray
) -> int:
    """Add each tuple to both its ends, ``id - first``, but self-loops; how many these are.

    The count is the sum of ``low`` and ``degree``, uint8 and uint32 (n,). The bytes, which nearly
    all additions go to, stay in caches that four times as much would not fit.
    """
    loops = 0
    for i in range(len(source)):
        u, v = source[i], target[i]
        if u == v:
            loops += 1
        else:
            add_one(low, degree, u - first)
            add_one(low, degree, v - first)
    return loops


@kernel
def _falling_pass(
    degree: AnyArray, order: AnyArray, shift: int, histogram: IntArray, out: AnyArray
) -> None:
    """One stable counting pass on a 16-bit digit, largest digit first."""
    histogram[:] = 0
    for i in range(len(order)):
        histogram[(degree[order[i]] >> np.uint64(shift)) & np.uint64(_DIGITS - 1)] += 1
    position = 0
    for digit in range(_DIGITS - 1, -1, -1):
        count = histogram[digit]
        histogram[digit] = position
        position += count
    for i in range(len(order)):
        digit = (degree[order[i]] >> np.uint64(shift)) & np.uint64(_DIGITS - 1)
        out[histogram[digit]] = order[i]
        histogram[digit] += 1


def falling_order(degree: AnyArray) -> AnyArray:
    """Positions with a degree above zero, by falling degree, ties by position.

    They are uint32 or uint64 (kept,), one for each internal id; two such arrays of host memory.
    """
    dtype: Any = np.uint32 if len(degree) < 1 << 32 else np.uint64
    order = np.flatnonzero(degree).astype(dtype)
    spare = np.empty_like(order)
    histogram = np.empty(_DIGITS, np.int64)
    top = int(degree.max(initial=0))
    for shift in range(0, max(1, top.bit_length()), _DIGIT_BITS):
        _falling_pass(degree, order, shift, histogram, spare)
        order, spare = spare, order
    return order


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
