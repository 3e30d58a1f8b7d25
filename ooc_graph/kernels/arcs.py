"""Tuples of original ids -> arcs of internal ids, grouped by the bucket of their row."""

from __future__ import annotations

import numpy as np
from numba import njit

from ooc_graph.types import AnyArray, IntArray


@njit(cache=True, nogil=True)
def translate_dense(ids: IntArray, first: int, internal_of: AnyArray, out: AnyArray) -> None:
    """``out[i] = internal_of[ids[i] - first]``; isolated vertices become the largest id."""
    for i in range(len(ids)):
        out[i] = internal_of[ids[i] - first]


@njit(cache=True, nogil=True)
def translate_sorted(
    ids: IntArray, originals: IntArray, internal_of: AnyArray, out: AnyArray
) -> int:
    """As `translate_dense`, by binary search in the ascending ``originals``.

    Returns the index of the first id that is not among them, or -1.
    """
    missing = -1
    for i in range(len(ids)):
        position = np.searchsorted(originals, ids[i])
        if position < len(originals) and originals[position] == ids[i]:
            out[i] = internal_of[position]
        elif missing < 0:
            missing = i
    return missing


@njit(cache=True, nogil=True, inline="always")
def _bucket_of(
    row: np.uint64,
    hub_rows: np.uint64,
    bucket_of_hub: AnyArray,
    bucket_of_block: AnyArray,
) -> np.uint32:
    if row < hub_rows:
        return bucket_of_hub[row]
    return bucket_of_block[row >> np.uint64(10)]


@njit(cache=True, nogil=True)
def count_buckets(
    head: AnyArray,
    other: AnyArray,
    bucket_of_hub: AnyArray,
    bucket_of_block: AnyArray,
    counts: IntArray,
) -> None:
    """Add the bucket of each arc's row ``head[i]`` to ``counts``, self-loops left out."""
    hub_rows = np.uint64(len(bucket_of_hub))
    for i in range(len(head)):
        if head[i] != other[i]:
            counts[_bucket_of(np.uint64(head[i]), hub_rows, bucket_of_hub, bucket_of_block)] += 1


@njit(cache=True, nogil=True)
def scatter_arcs(
    head: AnyArray,
    other: AnyArray,
    weight: AnyArray,
    bucket_of_hub: AnyArray,
    bucket_of_block: AnyArray,
    cursor: IntArray,
    rows: AnyArray,
    neighbors: AnyArray,
    weights: AnyArray,
) -> None:
    """Write each arc (row, neighbour[, weight]) to its bucket's next place.

    ``cursor`` holds each bucket's next index and is advanced. ``weight`` and ``weights`` have
    length 0 where there are none.
    """
    hub_rows = np.uint64(len(bucket_of_hub))
    weighted = len(weight) > 0
    for i in range(len(head)):
        if head[i] == other[i]:
            continue
        bucket = _bucket_of(np.uint64(head[i]), hub_rows, bucket_of_hub, bucket_of_block)
        place = cursor[bucket]
        cursor[bucket] = place + 1
        rows[place] = head[i]
        neighbors[place] = other[i]
        if weighted:
            weights[place] = weight[i]
