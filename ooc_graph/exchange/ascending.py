"""Ids in ascending order, each once: fewer travel, and in fewer bytes."""

from __future__ import annotations

import numpy as np

from ooc_graph.exchange import codec_loops as loops
from ooc_graph.exchange.coded_bitmap import listed
from ooc_graph.types import AnyArray

SPARSE = 512
"""Ids are counted by a bitmap if at least one in 512 of their range is there."""
FEW_IDS = 256
"""A list of at most 256 ids stays as it is: half of it would take as long to send."""
LONG_PIECES = 64
"""Lists that ascend in pieces of at least 64 ids, as one thread pulls them, are sorted quickly."""


def smallest_of_each(ids: AnyArray, values: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Ascending ids, each once, and the smallest of the values that stand beside it.

    Both are (k,), ids unsigned, values of any dtype; the arrays themselves if ids ascend or
    are few.
    """
    if len(ids) <= FEW_IDS:
        return ids, values
    falls = np.count_nonzero(ids[1:] <= ids[:-1])
    if not falls:
        return ids, values
    least, most = ids.min(), ids.max()
    if falls * LONG_PIECES > len(ids) and int(most - least) < SPARSE * len(ids):
        ascending, ranks = _ranked(ids, np.uint64(least), np.uint64(most))
        smallest = np.full(len(ascending), values.max(), values.dtype)
        np.minimum.at(smallest, ranks, values)
        return ascending, smallest
    order = np.argsort(ids, kind="stable")
    ids, values = ids[order], values[order]
    begins = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    if len(begins) == len(ids):
        return ids, values
    return ids[begins], np.minimum.reduceat(values, begins)


def _ranked(ids: AnyArray, least: np.uint64, most: np.uint64) -> tuple[AnyArray, AnyArray]:
    """Ascending ids, each once, and where each of the given ones stands among them."""
    words = np.zeros(int(most - least) // 64 + 1, np.uint64)
    loops.put_members(ids, least, words)
    before = np.zeros(len(words) + 1, np.int64)
    np.cumsum(np.bitwise_count(words), out=before[1:])
    ranks = np.empty(len(ids), np.int64)
    loops.rank_members(ids, least, words, before, ranks)
    return listed(words, int(before[-1]), least, ids.dtype), ranks
