"""Distances of SSSP on any device: their type and sums, the ranks' bounds, and what ranks share.

And bounds of path lengths in searches from many sources.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.kernels.common.sssp.rows import Known, LightRows
from ooc_graph.types import INT64_UNREACHED, AnyArray, Dealing, owner_of


def distance_dtype(weights: AnyArray) -> np.dtype[np.generic]:
    """Type of the distances by such weights."""
    return distances_of(weights.dtype)


def distances_of(weights: np.dtype[Any] | None) -> np.dtype[Any]:
    """Type of distances by the type of the weights: theirs if it is a float's, else int64."""
    return weights if weights is not None and weights.kind == "f" else np.dtype(np.int64)


def sums_may_overflow(heaviest: float, vertices: int, dtype: np.dtype[Any]) -> bool:
    """Tell whether a path of ``vertices`` could be too long; a rounded sum at most doubles."""
    largest = float(np.finfo(dtype).max) if dtype.kind == "f" else float(INT64_UNREACHED)
    return 2.0 * float(heaviest) * vertices >= largest


def overflow_error(dtype: np.dtype[Any]) -> InputError:
    """Error for weights whose shortest path sums do not fit the distances' dtype."""
    if dtype.kind != "f":
        return InputError(
            "a shortest distance exceeds the largest 64-bit integer",
            advice="integer weights are summed exactly; give them as floats for rounded sums",
        )
    wider = "use float64 weights" if dtype.itemsize < np.dtype("f8").itemsize else "scale them down"
    return InputError(f"a shortest distance exceeds the largest {dtype}", advice=wider)


def unreached(dtype: np.dtype[Any]) -> AnyArray:
    """Distance of what is not reached, as an array (1,)."""
    return np.array([np.inf if dtype.kind == "f" else INT64_UNREACHED], dtype)


def largest_of(dtype: np.dtype[Any]) -> Any:
    """Largest number of a weights' dtype: +inf, or the largest integer."""
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def bound_above(smallest: Any, step: float, top: Any) -> float:
    """Bound that lies ``step`` above ``smallest``, in its dtype; ``top`` if that is too far."""
    from ooc_graph.kernels.common.sssp.sums import raised  # noqa: PLC0415 (imports numba)

    scratch = np.empty(1, top.dtype)
    return top.dtype.type(raised(scratch, smallest, step, top))  # type: ignore[no-any-return]


class SharedBounds:
    """What the last merge found of all distances (float32, float64 or int64), wherever they stand.

    ``top`` (1,) is the distance of what is not reached.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.top = unreached(dtype)
        self._smallest = self._low = self.top[0]

    @property
    def smallest(self) -> float:
        """Smallest candidate not yet taken, of all ranks in the last merge."""
        return self._smallest  # type: ignore[no-any-return]

    @property
    def low(self) -> float:
        """Smallest distance that the last merge improved."""
        return self._low  # type: ignore[no-any-return]

    @property
    def unreached(self) -> float:
        """Distance of what is not reached."""
        return self.top[0]  # type: ignore[no-any-return]

    def bound_above(self, step: float) -> float:
        """Bound that lies ``step`` above the smallest candidate."""
        return bound_above(self._smallest, step, self.top[0])


Payload = tuple[AnyArray, AnyArray, AnyArray]


class BaseSsspRank:
    """A rank with the rows of one shard, so many ``arcs``; ids and weights are of these dtypes."""

    def __init__(
        self,
        dealing: Dealing,
        arcs: int,
        ids: np.dtype[Any],
        weights: np.dtype[Any],
        known: Known,
    ) -> None:
        self.vertices, self.arcs = dealing.vertices, arcs
        self._dealing, self._ids, self._known = dealing, ids, known
        self._top = unreached(distances_of(weights))[0]
        self._pending = self._left = 0

    def survey(self) -> tuple[tuple[int, ...], float]:
        """Tuples at the first rows and at all, first rows with spread weights and all; a step.

        The last count says whether paths of the heaviest own arcs would be too long.
        """
        s, heaviest = self._known.survey, float(self._known.heaviest)
        may_overflow = sums_may_overflow(heaviest, self.vertices, self._top.dtype)
        counts = s.head_tuples, s.tuples, s.spread_rows, s.sampled_rows
        return (*counts, int(may_overflow)), s.step

    def nothing(self, smallest: float) -> Payload:
        """Payload that relaxes nothing."""
        dtype = self._top.dtype
        # The first step is a float64; beyond the largest float32 it is as good as infinite.
        with np.errstate(over="ignore"):
            least = np.array([min(self._top, smallest)], dtype)
        return np.empty(0, self._ids), np.empty(0, dtype), least

    def seed(self, root: int) -> Payload:
        """Payload that puts the root at distance 0, if this rank owns it."""
        if owner_of(np.array(root, np.int64), self._dealing.shards) != self._dealing.shard:
            return self.nothing(self._top)
        dtype = self._top.dtype
        return np.array([root], self._ids), np.zeros(1, dtype), np.array([self._top], dtype)

    def refuse_overflow(self) -> None:
        """Raise the error that says that a distance exceeds its dtype."""
        raise overflow_error(self._top.dtype)


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
