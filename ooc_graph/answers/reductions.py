"""Distances from one source as a number, or as counts by how far."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from ooc_graph.errors import InputError, UsageError
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray

HISTOGRAM = "histogram"
REDUCTIONS = ("eccentricity", "closeness", "sum", HISTOGRAM)
BINS = 64
"""Bins of a histogram unless said otherwise."""


@dataclass(frozen=True)
class Bins:
    """Bins of distances: bin i counts those from ``i * width`` on, below ``(i + 1) * width``.

    The last one counts all beyond, too, and the first one those below 0.

    Parameters
    ----------
    count
        Number of bins, 1 at least.
    width
        Width of each, above 0; for integer distances an integer. None: 1, for integer distances.
    """

    count: int = BINS
    width: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no number of bins, and no width.

        Raises
        ------
        UsageError
        """
        if not isinstance(self.count, Integral) or self.count < 1:
            raise UsageError("bins: give how many there are to be, 1 or more")
        object.__setattr__(self, "count", int(self.count))
        if self.width is not None:
            width = finite(self.width, "bin width: give a number above 0")
            if width <= 0:
                raise UsageError("bin width: give a number above 0")
            object.__setattr__(self, "width", width)

    def width_for(self, dtype: np.dtype[Any]) -> float:
        """Width for distances of a type.

        Raises
        ------
        UsageError
            Floats need one that is given, integers an integer.
        """
        if dtype.kind == "f":
            if self.width is None:
                raise UsageError("a histogram of distances that are floats needs a bin width")
            return self.width
        if self.width is None:
            return 1
        if self.width != int(self.width):
            raise UsageError("bin width: distances are integers, so give an integer")
        return int(self.width)

    def counts(self, distances: AnyArray) -> IntArray:
        """How many distances are in each bin: int64 (count,).

        Floats are divided in float64, and the quotient rounded down.
        """
        width = self.width_for(distances.dtype)
        if distances.dtype.kind == "f":
            with np.errstate(over="ignore"):
                place = np.floor(distances.astype(np.float64) / width)
        else:
            # No distance is beyond, and a width of any size fits.
            place = distances.astype(np.int64) // min(int(width), INT64_UNREACHED)
        inside = np.clip(place, 0, self.count - 1).astype(np.int64)
        return np.bincount(inside, minlength=self.count).astype(np.int64)


@dataclass(frozen=True)
class Reduced:
    """One source's distances reduced, and how many vertices it reaches, itself included.

    ``value`` is a number, or the counts of a histogram.
    """

    value: Any
    reached: int


def finite(number: Any, otherwise: str) -> float:
    """Python's own number, exact where it is whole.

    Raises
    ------
    UsageError
        It is none, or not finite: what ``otherwise`` says.
    """
    with suppress(ValueError, OverflowError):
        if isinstance(number, Real) and math.isfinite(number):
            return int(number) if isinstance(number, Integral) else float(number)
    raise UsageError(otherwise)


def reduced_dtype(reduce: str, distance: np.dtype[Any]) -> np.dtype[Any]:
    """Type of a reduction's column."""
    if reduce == "eccentricity":
        return distance
    is_whole = reduce == HISTOGRAM or (reduce == "sum" and distance.kind == "i")
    return np.dtype(np.int64 if is_whole else np.float64)


def sum_of(distances: AnyArray) -> float:
    """Sum of distances; exact for integers.

    Raises
    ------
    InputError
        It does not fit 64 bits.
    """
    if distances.dtype.kind == "f":
        return float(distances.sum(dtype=np.float64))
    total = distances.sum(dtype=np.int64)
    # Rounded, and so out of bounds by far where the sum of int64 has gone round.
    if abs(distances.sum(dtype=np.float64)) >= 2.0**62:
        raise InputError(
            "a sum of distances does not fit 64 bits",
            advice="divide the weights, or give them as floats for rounded sums",
        )
    return int(total)


def closeness(total: float, others: int, vertices: int) -> float:
    """Closeness of a source after Wasserman and Faust: of its way out, over ``others`` it reaches.

    0 if it reaches nothing but itself; NaN if its distances sum up to nothing, or less.
    """
    if others < 1:
        return 0.0
    if total <= 0:
        return math.nan
    return others / total * (others / (vertices - 1))
