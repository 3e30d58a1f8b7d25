"""How lengths of paths are held and summed on a CUDA device, for each type of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.common.sssp.distances import distance_dtype, sums_may_overflow
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.types import INT64_UNREACHED, Rows

HEAVIEST_NARROW = (1 << 32) - 2
"""The largest integer that a length of 32 bits can be; one more stands for what is not reached."""

STORED_TYPES = tuple(np.dtype(name) for name in ("float32", "float64", "int32", "int64"))
"""Types of weights that stores have, and that searches take as they are."""


@dataclass(frozen=True)
class Sums:
    """Types of lengths and weights in a kernel, where both are bits that order like integers."""

    wide: bool  # lengths have 64 bits, not 32
    integers: bool  # not the bits of floats
    weight: np.dtype[Any]  # uint32 or uint64: the bits of weights

    @property
    def constants(self) -> dict[str, int | str]:
        """What the sources are compiled with."""
        name = "u64" if self.weight.itemsize == 8 else "u32"
        return {"WIDE": int(self.wide), "INTEGERS": int(self.integers), "WEIGHT": name}

    @property
    def length(self) -> np.dtype[Any]:
        """Type of a length's bits."""
        return np.dtype(np.uint64 if self.wide else np.uint32)

    @property
    def distance(self) -> np.dtype[Any]:
        """Type of the answer's distances, as on the CPU."""
        if self.integers:
            return np.dtype(np.int64)
        return np.dtype(np.float64 if self.wide else np.float32)

    @property
    def longest_step(self) -> float:
        """Most that a bound may rise at a time."""
        return float(np.finfo(np.float32).max) if not (self.wide or self.integers) else float("inf")

    def bits_of(self, weights: Any) -> Any:
        """Bits of weights that are on the device; the same memory where nothing has to change."""
        if self.integers and weights.dtype.itemsize != self.weight.itemsize:
            return weights.astype(self.weight)
        if self.integers and self.wide and weights.dtype.kind == "u":
            # Whatever is longer than the longest distance is too long.
            return cuda().minimum(weights, np.uint64(INT64_UNREACHED))
        return weights.view(self.weight)

    def values_of(self, bits: Any) -> Any:
        """Weights whose bits these are."""
        return bits if self.integers else bits.view(f"f{self.weight.itemsize}")

    def weight_argument(self, weight: float) -> Any:
        """A weight's bits as a kernel's argument."""
        if not self.integers:
            return np.array(weight, f"f{self.weight.itemsize}").view(self.weight)[()]
        return self.weight.type(min(int(weight), INT64_UNREACHED))

    def may_overflow(self, heaviest: float, rows: int) -> bool:
        """Tell whether a path of so many rows could be too long."""
        if self.integers and not self.wide:
            return int(heaviest) * rows > HEAVIEST_NARROW
        return sums_may_overflow(heaviest, rows, self.distance)


def require_weights(rows: Rows) -> None:
    """Refuse rows without weights, or with weights of an unknown kind (`UsageError`)."""
    found = None if rows.weights is None else rows.weights.dtype
    if found is None or not (found.kind in "iu" or found in (np.float32, np.float64)):
        raise UsageError(
            "SSSP on a CUDA device takes weights of type float32, float64 or integers, "
            f"not {'none' if found is None else found}"
        )


def sums_of_stored(dtype: np.dtype[Any]) -> Sums:
    """How to sum weights of rows in pinned memory: their bits are those that they have.

    Integers of 64 bits are summed in 64 even if all of them would fit 32. Other types than those
    that stores have are refused (`UsageError`).
    """
    if dtype not in STORED_TYPES:
        known = ", ".join(map(str, STORED_TYPES))
        raise UsageError(
            f"SSSP with rows in host memory takes weights of type {known}, not {dtype}"
        )
    return Sums(dtype.itemsize == 8, dtype.kind == "i", np.dtype(f"u{dtype.itemsize}"))


def sums_for(weights: Any, heaviest: float, *, wide: bool) -> Sums:
    """How to sum weights, of which this is the heaviest; in 64 bits where ``wide`` or needed."""
    if distance_dtype(weights).kind == "f":
        bits = np.dtype(f"u{weights.dtype.itemsize}")
        return Sums(weights.dtype.itemsize == 8, False, bits)
    narrow = int(heaviest) <= HEAVIEST_NARROW
    return Sums(wide or not narrow, True, np.dtype(np.uint32 if narrow else np.uint64))
