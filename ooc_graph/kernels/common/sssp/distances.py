"""Distances of SSSP on any device: their type and sums, the ranks' bounds, and what ranks share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.sssp.rows import Known
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


@subroutine
def path_sum(distance: Any, weight: Any, top: Any) -> Any:
    """Length of a path one arc longer, in the distances' own arithmetic; ``top`` on overflow."""
    # Looking at the sum for a wrapped sign would not do: the compiler may assume there is none.
    if weight > top - distance:
        return top
    return distance + weight


@kernel
def raised(scratch: Any, smallest: Any, step: float, top: Any) -> Any:
    """Bound ``step`` above the smallest candidate, in the distances' dtype, not below it."""
    total = smallest + step
    if total >= top:
        return top
    scratch[0] = total
    return max(smallest, scratch[0])


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

    def survey(self) -> tuple[tuple[int, int, int, int], float]:
        """Tuples at the first rows and at all, first rows with spread weights and all; a step."""
        s = self._known.survey
        return (s.head_tuples, s.tuples, s.spread_rows, s.sampled_rows), s.step

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
