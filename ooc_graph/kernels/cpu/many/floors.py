"""Floors of the slots of a batch, by which `many.sssp` compares distances of its sources (CPU)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.types import AnyArray

FEW_ERRORS = 4
"""What is added to arcs on the way to landmarks must be so many times less than they weigh."""
SAMPLED = 1 << 16
"""Arcs that tell what others weigh, about."""
TOO_FAR = 16
"""What lies so many times as far from landmarks as the median does not lower others' floors."""


def tells_apart(rows: LightRows, error: float) -> bool:
    """Whether ways to landmarks are as long as their arcs weigh, and not as they have arcs.

    ``error`` was added to the weight of each arc, for rounding.
    """
    if not len(rows.weights):
        return False
    typical = np.median(rows.weights[:: max(1, len(rows.weights) // SAMPLED)])
    return bool(FEW_ERRORS * error <= typical)


def floors_of(to: AnyArray, top: Any, rows: LightRows, dtype: np.dtype[Any]) -> AnyArray:
    """Floor of each source's slot, (rows,).

    At most the source's lightest arc, below which no distance lies but its own. One source that
    lies very far away is not to lower all others' floors so much that no difference a float has
    room for tells which arcs matter. ``to`` (landmarks, rows) are distances to each landmark;
    ``top`` or more: none.
    """
    reaches = to < top
    count = reaches.sum(axis=0)
    begin, end = rows.offsets[:-1], rows.offsets[1:]
    floors: AnyArray = np.zeros(len(begin), dtype)
    floors[begin < end] = rows.weights[begin[begin < end]]
    # Divided before they are added up, which might overflow.
    mean = (np.where(reaches, to, 0) / np.maximum(count, 1)).sum(axis=0)[count > 0]
    if len(mean):
        far = mean[mean / TOO_FAR <= np.median(mean)].max()
        floors[count > 0] = np.minimum((mean - far).astype(dtype), floors[count > 0])
    return floors
