"""Distances from one source as a number, or as counts by how far."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from ooc_graph.errors import InputError, UsageError
from ooc_graph.layout.names import CHUNK_BYTES
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray

HISTOGRAM = "histogram"
REDUCTIONS = ("eccentricity", "closeness", "sum", HISTOGRAM)
BINS = 64
"""Bins of a histogram unless said otherwise."""
MOST_BINS = CHUNK_BYTES // 8
"""So many counts fill a chunk of a store."""


@dataclass(frozen=True)
class Bins:
    """Bins of distances: bin i counts those from ``i * width`` on, below ``(i + 1) * width``.

    The last one counts all beyond, too, and the first one those below 0. There are 1 to `MOST_BINS`
    of a width above 0, an integer for integer distances. None: 1, for those.
    """

    count: int = BINS
    width: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no number of bins, and no width, with a UsageError."""
        if not isinstance(self.count, Integral) or self.count < 1:
            raise UsageError("bins: give how many there are to be, 1 or more")
        if self.count > MOST_BINS:
            raise UsageError(
                f"bins: give {MOST_BINS:,} at most; wider ones (--bin-width) reach as far"
            )
        object.__setattr__(self, "count", int(self.count))
        if self.width is not None:
            width = finite(self.width, "bin width: give a number above 0")
            if width <= 0:
                raise UsageError("bin width: give a number above 0")
            object.__setattr__(self, "width", width)

    def width_for(self, dtype: np.dtype[Any]) -> float:
        """Width for distances of a type; floats need one that is given, integers an integer."""
        if dtype.kind == "f":
            if self.width is None:
                raise UsageError("a histogram of floats needs a bin width: give --bin-width")
            return self.width
        if self.width is None:
            return 1
        if self.width != int(self.width):
            raise UsageError("bin width: distances are integers, so give an integer")
        return int(self.width)

    def counts(self, distances: AnyArray) -> IntArray:
        """How many distances are in each bin, int64 (count,); quotients are rounded down."""
        width = self.width_for(distances.dtype)
        if distances.dtype.kind == "f":
            with np.errstate(over="ignore"):
                bins = np.floor(distances.astype(np.float64) / width)
        else:
            # No distance is beyond, and a width of any size fits.
            bins = distances.astype(np.int64) // min(int(width), INT64_UNREACHED)
        inside = np.clip(bins, 0, self.count - 1).astype(np.int64)
        return np.bincount(inside, minlength=self.count).astype(np.int64)


@dataclass(frozen=True)
class Reduced:
    """One source's distances reduced, and how many vertices it reaches, itself included.

    ``value`` is a number, or the counts of a histogram.
    """

    value: Any
    reached: int


def finite(number: Any, otherwise: str) -> float:
    """Python's own number, an integer if it is whole and fits 64 bits; else a UsageError."""
    with suppress(ValueError, OverflowError):
        if isinstance(number, Real) and math.isfinite(number):
            if isinstance(number, Integral):
                return int(number)
            found = float(number)
            return int(found) if found.is_integer() and abs(found) < 1 << 63 else found
    raise UsageError(otherwise)


def reduced_dtype(reduce: str, distance: np.dtype[Any]) -> np.dtype[Any]:
    """Type of a reduction's column."""
    if reduce == "eccentricity":
        return distance
    is_whole = reduce == HISTOGRAM or (reduce == "sum" and distance.kind == "i")
    return np.dtype(np.int64 if is_whole else np.float64)


def sum_of(distances: AnyArray) -> float:
    """Sum of distances: of integers an exact one of any size, of floats what fits float64.

    A sum of floats that exceeds float64 is infinite. None that fits is, nor NaN, whatever its parts
    are.
    """
    if distances.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(distances.sum(dtype=np.float64))
        return total if math.isfinite(total) else _unscaled(*scaled_sum(distances))
    return exact_sum(int(distances.sum(dtype=np.int64)), float(distances.sum(dtype=np.float64)))


def scaled_sum(distances: AnyArray) -> tuple[float, int]:
    """Sum of floats as a number and the power of 2 that it is to be multiplied by."""
    power = len(distances).bit_length()
    return float(np.ldexp(distances.astype(np.float64), -power).sum()), power


def _unscaled(number: float, power: int) -> float:
    try:
        return math.ldexp(number, power)
    except OverflowError:
        return math.copysign(math.inf, number)


def exact_sum(total: int, rounded: float) -> int:
    """A sum of integers, of any size, from the sum modulo 2^64 and one of floats.

    Rounding must not take the latter farther than 2^63 away: else the sum is as wrong as that.
    """
    turns = (int(rounded) - total + 2**63) >> 64
    return total + (turns << 64)


def fits(total: float) -> bool:
    """Whether a sum of distances, as `sum_of` gives it, fits its column: int64 or float64."""
    return abs(total) <= INT64_UNREACHED if isinstance(total, int) else math.isfinite(total)


def sum_error(total: float, source: int) -> InputError:
    """What is wrong if a sum of distances from ``source``, an original id, does not fit."""
    bound, advice = float(np.finfo(np.float64).max), "divide the weights"
    if isinstance(total, int):
        bound, advice = INT64_UNREACHED, "divide the weights, or give them as floats"
    return InputError(
        f"the distances from vertex {source} sum up to {total}, beyond the bound of {bound}",
        advice=advice,
    )


def closeness_of(distances: AnyArray, others: int, vertices: int) -> float:
    """As `closeness`, of distances whose sum may exceed any type."""
    total = sum_of(distances)
    if math.isfinite(total):
        return closeness(total, others, vertices)
    scaled, power = scaled_sum(distances)
    return math.ldexp(closeness(scaled, others, vertices), -power)


def closeness(total: float, others: int, vertices: int) -> float:
    """Closeness of a source after Wasserman and Faust: of its way out, over ``others`` it reaches.

    ``total`` is any number. 0 if it reaches nothing but itself; NaN if its distances sum up to
    nothing, or less.
    """
    if others < 1:
        return 0.0
    if total <= 0:
        return math.nan
    return others / total * (others / (vertices - 1))
