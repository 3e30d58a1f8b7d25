"""Levels of one source as a row of an answer, or as counts, on any device."""

from __future__ import annotations

import numpy as np

from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray

REACHED, SUM, DEEPEST, BINS = range(4)
"""Columns of the tallies: vertices, sum of their levels, last level; from here on bins."""


def empty_tallies(sources: int, bins: int) -> IntArray:
    """What `CpuManyBfs.tally` writes to: int64 (sources, 3 + bins), zeros."""
    return np.zeros((sources, BINS + bins), np.int64)


def tally_levels(level: AnyArray, most: int, wanted: AnyArray, width: int, row: IntArray) -> None:
    """Write the tally of levels up to ``most`` of rows that are ``wanted``: int64 (3 + bins,)."""
    counts = np.bincount(level[wanted & (level >= 0) & (level <= most)])
    at = np.arange(len(counts))
    row[:3] = counts.sum(), (counts * at).sum(), max(len(counts) - 1, 0)
    bins = len(row) - 3
    if bins:
        np.add.at(row[3:], np.minimum(at // width, bins - 1), counts)


def write_levels(level: AnyArray, most: int, row: AnyArray) -> None:
    """Write levels up to ``most`` to a row of an answer; the largest int32 for all others."""
    row[:] = level
    row[(level < 0) | (level > most)] = INT32_UNREACHED
