"""Potentials by Bellman-Ford from an added vertex, with the negative cycle if there is one (CPU).

Passes are those of `ooc_graph.kernels.common.many.bellman_ford`. After passes with so many
improvements the parents are looked through: a cycle among them is a cycle of negative weight [1].

Rounded sums around a cycle of weight zero may fall for ever. So an improvement counts only if it
is larger than the rounding of an addition, relatively to the lowest potential along its path, and a
cycle of parents only if its exact sum is negative; if it is not, rounding made it, and improvements
have to be twice as large from then on. A negative cycle lighter than that may go unnoticed, and
arcs may stay negative by that much; integers are exact. Of the path, not of the whole graph, so
that heavy weights are no reason to be less exact where no path from them leads.

Passes are counted. Exact sums settle in as many as there are rows: whose parents lead back to the
added vertex, along a path of fewer arcs, has a potential that one pass for each of them found. So
where `PASSES` times as many do not do, rounding is at work, and improvements have to be twice as
large, too. No cycle of weight zero or more is closed once they exceed the roundings along a path of
all rows, so that there is a bound for the times they are doubled as well.

[1] B. V. Cherkassky, A. V. Goldberg, "Negative-cycle detection algorithms", Math. Program. 85
(1999).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ooc_graph.errors import InputError, NegativeCycleError
from ooc_graph.kernels.common.bitmap import Words, pack_bits
from ooc_graph.kernels.common.many.bellman_ford import Fall, fall, vertex_on_cycle
from ooc_graph.kernels.common.sssp import distances
from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.types import AnyArray, IntArray

INTEGER_BOUND = 1 << 61
"""Integer potentials and weights stay below, so that two of them can be added and subtracted."""
PASSES: float = 2
"""Passes for each row after which the tolerance of floats is doubled."""
MORE_DOUBLINGS = 4
"""The tolerance is doubled so often, and once for each bit of the number of rows, at most."""


@dataclass(frozen=True)
class Potentials:
    """Potentials under which no arc is negative, except by rounding.

    ``potential`` (rows,), <= 0, is the distance from the added vertex, and fell so many times as
    ``improvements`` says. Smaller improvements than ``tolerance`` did not count, relatively to the
    lowest potential along their path; 0 for integers.
    """

    potential: AnyArray
    improvements: int
    tolerance: float


class Falling(Protocol):
    """Light-first rows of out-arcs, wherever they are, as `find_potentials` wants them."""

    @property
    def rows(self) -> int:
        """How many."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of potentials."""

    @property
    def ends(self) -> tuple[Any, Any]:
        """Lightest and heaviest weight, as Python's numbers; 0 if there are none."""

    def negative(self) -> Words:
        """Bitmap of the rows that have a negative arc, which is their first."""

    def fall(self, state: Fall, most: int, most_passes: int) -> tuple[int, int]:
        """As the kernel `ooc_graph.kernels.common.many.bellman_ford.fall`."""

    def arcs_of(self, row: int) -> tuple[AnyArray, AnyArray]:
        """Neighbours of one row, and weights."""


class _InMemory:
    """`Falling` of rows in memory."""

    def __init__(self, out: LightRows) -> None:
        self._out, self.rows = out, len(out.offsets) - 1
        self.dtype = distances.distance_dtype(out.weights)

    @property
    def ends(self) -> tuple[Any, Any]:
        weights = self._out.weights
        return weights.min(initial=0).item(), weights.max(initial=0).item()

    def negative(self) -> Words:
        changed = np.zeros(self.rows, np.bool_)
        begin, end = self._out.offsets[:-1], self._out.offsets[1:]
        some = np.flatnonzero(begin < end)
        changed[some] = self._out.weights[begin[some]] < 0
        return pack_bits(changed)

    def fall(self, state: Fall, most: int, most_passes: int) -> tuple[int, int]:
        if not self.rows:
            return 0, 0
        improved, passes = fall(self._out, state, most, most_passes)
        return int(improved), int(passes)

    def arcs_of(self, row: int) -> tuple[AnyArray, AnyArray]:
        begin, end = int(self._out.offsets[row]), int(self._out.offsets[row + 1])
        return self._out.neighbors[begin:end], self._out.weights[begin:end]


def potentials(out: LightRows) -> Potentials:
    """Find potentials for light-first rows of out-arcs in memory, with weights of any sign.

    NegativeCycleError: there is a cycle of negative weight; the error holds its vertices and exact
    weight. InputError: integer weights so large that a sum of as many as there are vertices might
    not fit, or floats whose rounded sums do not settle.
    """
    return find_potentials(_InMemory(out))


def find_potentials(out: Falling) -> Potentials:
    """As `potentials`, for rows wherever they are; the bits are the same."""
    rows, dtype = out.rows, out.dtype
    _require_fit(out.ends, rows, dtype)
    eps = 2 * float(np.finfo(dtype.name).eps) if dtype.kind == "f" else 0.0
    depth, seen = np.zeros(rows if eps else 0, dtype), np.empty(rows, np.int64)
    state = Fall(np.zeros(rows, dtype), np.full(rows, -1, np.int64), out.negative(), depth, eps)
    improvements, most = 0, max(rows, 1)
    passes, most_passes, doublings = 0, int(PASSES * most), 0
    while True:
        left = most_passes - passes
        more, made = out.fall(state, most, left)
        improvements, passes = improvements + more, passes + made
        found = vertex_on_cycle(state.parent, seen)
        if found >= 0:
            cycle = _negative_cycle(out, state.parent, found)
            if cycle.weight < 0:
                raise cycle
            state.parent[:] = -1
        elif not state.changed.any():
            return Potentials(state.potential, improvements, state.eps)
        elif passes < most_passes:
            continue
        if eps == 0 or doublings >= rows.bit_length() + MORE_DOUBLINGS:
            raise _unsettled(state.eps)
        state, passes, doublings = state._replace(eps=2 * state.eps), 0, doublings + 1


def _unsettled(eps: float) -> InputError:
    """Exact sums settle or show a cycle; so do rounded ones, within as many doublings."""
    return InputError(
        f"sums of negative weights do not settle, not even if they may be wrong by {eps:.1g} of "
        "the lowest",
        advice="give the weights as integers",
    )


def _negative_cycle(out: Falling, parent: IntArray, vertex: int) -> NegativeCycleError:
    """The error that shows the cycle of parents through ``vertex``, in the arcs' direction."""
    cycle = [vertex]
    while (v := int(parent[cycle[-1]])) != vertex:
        cycle.append(v)
    cycle.reverse()
    weights = []
    for u, v in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        neighbors, weighs = out.arcs_of(u)
        weights.append(weighs[neighbors == v].min().item())
    exact = sum(weights) if isinstance(weights[0], int) else math.fsum(weights)
    return NegativeCycleError(cycle, exact)


def _require_fit(ends: tuple[Any, Any], rows: int, dtype: np.dtype[Any]) -> None:
    """Refuse weights whose sums might not fit."""
    heaviest = max(map(abs, ends))
    if dtype.kind == "f":
        if distances.sums_may_overflow(2 * heaviest, rows, dtype):
            raise distances.overflow_error(dtype)
    elif heaviest * rows >= INTEGER_BOUND:
        raise InputError(
            f"a path might be as long as {rows} times {heaviest}, above the bound of "
            f"{INTEGER_BOUND}",
            advice="divide the weights, or give them as floats for rounded sums",
        )
