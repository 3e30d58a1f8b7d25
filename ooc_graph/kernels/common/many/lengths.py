"""Bounds of path lengths in searches from many sources, on any device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.kernels.common.sssp.distances import overflow_error, sums_may_overflow
from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.types import AnyArray

INTEGER_TOP = 1 << 61
"""Integer distances stay below; what is not reached lies at it, what never will be at twice it."""


def require_fit(heaviest: Any, vertices: int, dtype: np.dtype[Any], longest: int | None) -> None:
    """Refuse weights whose sums might not fit distances of ``dtype``, by InputError.

    ``longest`` bounds a path's length, as for `CpuManySearch`.
    """
    if dtype.kind == "f":
        if sums_may_overflow(float(heaviest), vertices, dtype):
            raise overflow_error(dtype)
        return
    bound = int(heaviest) * vertices if longest is None else longest
    if bound >= INTEGER_TOP:
        raise InputError(
            f"a path might be as long as {bound}, with {vertices} vertices, above the bound of "
            f"{INTEGER_TOP} for many sources at once",
            advice="divide the weights, or give them as floats for rounded sums",
        )


def longest_reweighted(plain: LightRows, potential: AnyArray) -> int | None:
    """As `longest_within`, of rows in memory."""
    weights = plain.weights
    return longest_within((weights.min(initial=0), weights.max(initial=0)), potential)


def longest_within(ends: tuple[Any, Any], potential: AnyArray) -> int | None:
    """Bound of a path's integer length in new weights; None for floats.

    Along a path potentials cancel, except the first and the last: each new weight may be larger
    by all their span, but not the sum. ``ends`` are the lightest and the heaviest weight, and 0
    among them or between.
    """
    if potential.dtype.kind == "f":
        return None
    heaviest = max(abs(int(weight)) for weight in ends)
    return heaviest * len(potential) - int(potential.min(initial=0))


TOP = (1 << 30) - 1
"""Where there is no path."""


def holds_all(heaviest: int, rows: int) -> bool:
    """Whether every path is shorter than `TOP`, if no weight exceeds ``heaviest``."""
    return heaviest * max(rows - 1, 0) < TOP


def may_be_longer(distances: Any, heaviest: int, part: int) -> bool:
    """Whether a path may be as long as `TOP`, seen from all distances that are below.

    Along a shortest path distances rise by one weight at a time. So if one is as long as `TOP`,
    another one is less than ``heaviest`` below that. The distances, a NumPy or CuPy array, are
    looked at in pieces of ``part``.
    """
    for start in range(0, len(distances), part):
        some = distances[start : start + part]
        if bool(((some >= TOP - heaviest) & (some < TOP)).any()):
            return True
    return False
