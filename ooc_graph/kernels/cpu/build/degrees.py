"""Count tuples at every vertex, and order vertices by falling count."""

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
