"""Merge ascending runs of (id, count), for inputs whose ids have gaps."""

from __future__ import annotations

import numpy as np

from ooc_graph.kernels.common.compiled import kernel
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
