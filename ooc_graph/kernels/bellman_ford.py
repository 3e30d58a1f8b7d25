"""Potentials by Bellman-Ford from an added vertex, with the negative cycle if there is one (CPU).

The added vertex has an arc of weight 0 to every vertex [1]_, so all potentials start at 0 and fall.
Only vertices whose potential fell push along their arcs, and a row, lightest first, is left at the
first arc that leads no lower than 0. A pass goes once over the rows, in their order, and each that
waits when its turn comes pushes; what falls after its turn waits for the next pass. So exact sums
without a negative cycle need no more passes than vertices. After
passes with so many improvements the parents are looked through: a cycle among them is a cycle of
negative weight [2]_.

Rounded sums around a cycle of weight zero may fall for ever. So an improvement counts only if it
is larger than the rounding of an addition, relatively to the lowest potential, and a cycle of
parents only if its exact sum is negative; if it is not, rounding made it, and improvements have to
be twice as large from then on. A negative cycle lighter than that may go unnoticed, and arcs may
stay negative by that much; integers are exact.

References
----------
.. [1] D. B. Johnson, "Efficient algorithms for shortest paths in sparse networks", J. ACM 24
   (1977).
.. [2] B. V. Cherkassky, A. V. Goldberg, "Negative-cycle detection algorithms", Math. Program. 85
   (1999).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ooc_graph.errors import InputError, NegativeCycleError
from ooc_graph.kernels.bitmap import ONE, WORD_BITS, Words, lowest_bit, pack_bits, put
from ooc_graph.kernels.compiled import kernel, subroutine
from ooc_graph.kernels.sssp_push import LightRows
from ooc_graph.kernels.sssp_search import distance_dtype, overflow_error, sums_may_overflow
from ooc_graph.types import AnyArray, IntArray

INTEGER_BOUND = 1 << 61
"""Integer potentials and weights stay below, so that two of them can be added and subtracted."""


@subroutine
def fall_along(
    u: int,
    begin: int,
    end: int,
    neighbors: Any,
    weights: Any,
    potential: Any,
    parent: Any,
    changed: Any,
    eps: float,
    lowest: Any,
) -> tuple[int, bool]:
    """Push from vertex ``u`` along the arcs at ``begin`` to ``end``.

    Returns the improvements made, and whether an arc was met that leads no lower than 0: then
    those that follow do not either.
    """
    at, improved = potential[u], 0
    for position in range(begin, end):
        candidate = at + weights[position]
        if candidate >= 0:
            return improved, True
        v = np.int64(neighbors[position])
        fallen = potential[v] - candidate
        if fallen > 0 and (eps == 0 or fallen > eps * -min(lowest, candidate)):
            potential[v] = candidate
            parent[v] = u
            put(changed, v)
            improved += 1
    return improved, False


@kernel
def fall(out: Any, potential: Any, parent: Any, changed: Any, eps: float, most: int) -> int:
    """Push from changed vertices, pass by pass, until none is left or ``most`` improvements made.

    Parameters
    ----------
    out
        `LightRows` of out-arcs, weights of any sign.
    potential, parent
        (rows,): distances from the added vertex, and int64 previous vertices, -1 for the added one.
    changed
        Bitmap of the rows that have to push.
    eps
        Relative error of one addition, 0 for integers.

    Returns
    -------
    Improvements made; fewer than ``most`` only if nothing is left to do. The last pass is ended.
    """
    improved, going = 0, True
    lowest = potential[0]
    for row in range(len(potential)):
        lowest = min(lowest, potential[row])
    while going and improved < most:
        going = False
        for index in range(len(changed)):
            word = changed[index]
            while word != 0:
                going = True
                u = index * WORD_BITS + lowest_bit(word)
                bit = word & ~(word - ONE)
                changed[index] &= ~bit
                lowest = min(lowest, potential[u])
                begin, end = out.offsets[u], out.offsets[u + 1]
                columns = out.neighbors, out.weights
                more, _ = fall_along(
                    u, begin, end, *columns, potential, parent, changed, eps, lowest
                )
                improved += more
                # Those whose turn is over wait, or it might be theirs 2^n times.
                word = changed[index] & ~(bit | (bit - ONE))
    return improved


@kernel
def vertex_on_cycle(parent: Any, seen: Any) -> int:
    """A vertex on a cycle of parents, -1 if they form trees; ``seen`` (rows,) int64 is scratch."""
    seen[:] = -1
    for start in range(len(parent)):
        v = start
        while v >= 0 and seen[v] < 0:
            seen[v] = start
            v = parent[v]
        if v >= 0 and seen[v] == start:
            return v
    return -1


@dataclass(frozen=True)
class Potentials:
    """Potentials under which no arc is negative, but for rounding.

    Parameters
    ----------
    potential
        (rows,), <= 0: the distance from the added vertex, of the distances' dtype.
    improvements
        How often a potential fell.
    tolerance
        Smallest improvement that counted, relatively to the lowest potential; 0 for integers.
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

    def fall(
        self, potential: AnyArray, parent: IntArray, changed: Words, eps: float, most: int
    ) -> int:
        """As the kernel `fall`."""

    def arcs_of(self, row: int) -> tuple[AnyArray, AnyArray]:
        """Neighbours of one row, and weights."""


class _InMemory:
    """`Falling` of rows in memory."""

    def __init__(self, out: LightRows) -> None:
        self._out, self.rows = out, len(out.offsets) - 1
        self.dtype = distance_dtype(out.weights)

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

    def fall(
        self, potential: AnyArray, parent: IntArray, changed: Words, eps: float, most: int
    ) -> int:
        return int(fall(self._out, potential, parent, changed, eps, most)) if self.rows else 0

    def arcs_of(self, row: int) -> tuple[AnyArray, AnyArray]:
        begin, end = int(self._out.offsets[row]), int(self._out.offsets[row + 1])
        return self._out.neighbors[begin:end], self._out.weights[begin:end]


def potentials(out: LightRows) -> Potentials:
    """Find potentials for rows in memory with weights of any sign.

    Parameters
    ----------
    out
        Light-first rows of out-arcs.

    Raises
    ------
    NegativeCycleError
        There is a cycle of negative weight; the error holds its vertices and exact weight.
    InputError
        Integer weights so large that a sum of as many as there are vertices might not fit.
    """
    return find_potentials(_InMemory(out))


def find_potentials(out: Falling) -> Potentials:
    """As `potentials`, for rows wherever they are; the bits are the same."""
    rows, dtype = out.rows, out.dtype
    _require_room(out.ends, rows, dtype)
    potential, parent = np.zeros(rows, dtype), np.full(rows, -1, np.int64)
    changed = out.negative()
    seen = np.empty(rows, np.int64)
    eps = 2 * float(np.finfo(dtype.name).eps) if dtype.kind == "f" else 0.0
    improvements, most = 0, max(rows, 1)
    while True:
        improvements += out.fall(potential, parent, changed, eps, most)
        found = vertex_on_cycle(parent, seen)
        if found >= 0:
            cycle = _negative_cycle(out, parent, found)
            if cycle.weight < 0:
                raise cycle
            eps *= 2
            parent[:] = -1
        elif not changed.any():
            return Potentials(potential, improvements, eps)


def reweighted(rows: LightRows, potential: AnyArray, *, into: bool) -> LightRows:
    """Rows with ``w + potential(u) - potential(v)``, at least 0, light first.

    Only rounding makes it negative.

    Parameters
    ----------
    rows
        Rows of out-arcs, or of in-arcs.
    into
        Whether the rows list in-arcs: then an arc leads from the neighbour to the row.
    """
    row = np.repeat(np.arange(len(rows.offsets) - 1), np.diff(rows.offsets))
    source, target = (rows.neighbors, row) if into else (row, rows.neighbors)
    # In this order in both directions, so that an arc has the same bits in both.
    weights = (rows.weights + potential[source]) - potential[target]
    weights = np.maximum(weights, weights.dtype.type(0))
    found = _sorted_integers(row, weights, rows.neighbors)
    if found is None:
        order = np.lexsort((rows.neighbors, weights, row))
        found = rows.neighbors[order], weights[order]
    return LightRows(rows.offsets, *found, weights[:0])


def _sorted_integers(
    row: IntArray, weights: AnyArray, neighbors: AnyArray
) -> tuple[AnyArray, AnyArray] | None:
    """Neighbours and weights by row, weight and neighbour, which one number holds; None: it cannot.

    One sort of numbers takes a small part of the time that one of places by three keys takes.
    """
    if weights.dtype.kind == "f" or not len(weights):
        return None
    low, middle = (int(part.max()).bit_length() for part in (neighbors, weights))
    if low + middle + int(row[-1]).bit_length() > 63:
        return None
    keys = (row << (low + middle)) | (weights << low) | neighbors.astype(np.int64)
    keys.sort()
    near = (keys & ((1 << low) - 1)).astype(neighbors.dtype)
    return near, (keys >> low) & ((1 << middle) - 1)


@kernel
def restore(answer: Any, potential: Any, sources: Any, far: Any) -> None:
    """Turn reweighted distances (sources, rows) into distances, in place; ``far`` stays."""
    for index in range(len(sources)):
        mine = potential[sources[index]]
        for v in range(len(potential)):
            if answer[index, v] < far:
                answer[index, v] = answer[index, v] - mine + potential[v]


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


def _require_room(ends: tuple[Any, Any], rows: int, dtype: np.dtype[Any]) -> None:
    """Refuse weights whose sums might not fit."""
    heaviest = max(map(abs, ends))
    if dtype.kind == "f":
        if sums_may_overflow(2 * heaviest, rows, dtype):
            raise overflow_error(dtype)
    elif heaviest * rows >= INTEGER_BOUND:
        raise InputError(
            f"a path might be as long as {rows} times {heaviest}, above the bound of "
            f"{INTEGER_BOUND}",
            advice="divide the weights, or give them as floats for rounded sums",
        )
