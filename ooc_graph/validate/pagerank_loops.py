"""Compiled loops over the arcs of a PageRank iteration, and over its scores.

Threads look at different tuples, and add to the same arrays by atomics. Scores are integers, whose
sums do not depend on who is first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import intrinsic

from ooc_graph.atomics import read_modify_write
from ooc_graph.kernel_cache import compiled, small_part
from ooc_graph.prefetch import prefetch
from ooc_graph.types import AnyArray, IntArray

_AHEAD = 32
"""Tuples whose vertices memory is asked for before they are looked at."""


_add: Any = intrinsic(read_modify_write("add"))
"""``_add(array, at, value)``: add to a float64 or an int64, also while other threads do."""


@small_part
def _weight(weight: Any, i: int) -> float:
    return 1.0 if weight is None else weight[i]


@compiled
def add_out_weights(
    source: AnyArray,
    target: AnyArray,
    weight: Any,
    is_directed: bool,
    out: AnyArray,
    added: IntArray,
) -> None:
    """Add the weight of each tuple, or 1, to its source, and to its target if it goes both ways.

    ``source`` and ``target`` are positions; -1 is an unknown vertex, whose tuples are left out.
    ``weight`` is None, or float64; then what is added is counted in ``added``.
    """
    for i in range(len(source)):
        u, v = source[i], target[i]
        if u < 0 or v < 0:
            continue
        _add(out, u, _weight(weight, i))
        if not is_directed:
            _add(out, v, _weight(weight, i))
        if weight is not None:
            _add(added, u, 1)
            if not is_directed:
                _add(added, v, 1)


@small_part
def _along(score: IntArray, out: AnyArray, alpha: float, u: Any, weight: float) -> Any:
    """What a vertex sends along an arc of this weight; nothing if its weights are all 0."""
    share = alpha * score[u] / out[u] if out[u] > 0.0 else 0.0
    return np.int64(np.rint(share * weight))


@compiled
def add_arriving(
    source: AnyArray,
    target: AnyArray,
    weight: Any,
    is_directed: bool,
    state: tuple[IntArray, AnyArray],
    alpha: float,
    sums: IntArray,
) -> None:
    """Add what arrives along each tuple to the ``sums`` of its target, and its source if it may.

    ``state`` are scores, and the sums of the weights of vertices' out-arcs.
    """
    score, out = state
    for i in range(len(source)):
        soon = min(i + _AHEAD, len(source) - 1)
        prefetch(sums, target[soon])
        if not is_directed:
            prefetch(score, target[soon])
            prefetch(out, target[soon])
        u, v, each = source[i], target[i], _weight(weight, i)
        if u < 0 or v < 0:
            continue
        _add(sums, v, _along(score, out, alpha, u, each))
        if not is_directed:
            _add(sums, u, _along(score, out, alpha, v, each))


@compiled
def first_unfit(score: AnyArray) -> int:
    """Position of the first score that is none: below 0, above 1, or NaN; -1 if there is none."""
    for v in range(len(score)):
        if not 0.0 <= score[v] <= 1.0:
            return v
    return -1


@compiled
def round_scores(score: AnyArray, scale: float, out: IntArray) -> None:
    """Write scores as integers in units of ``1 / scale``."""
    for v in range(len(score)):
        out[v] = np.int64(np.rint(score[v] * scale))


@compiled
def sum_without_arcs(score: IntArray, out: AnyArray) -> int:
    """Sum of the scores of vertices whose out-arcs weigh nothing, or that have none."""
    total = 0
    for v in range(len(score)):
        if out[v] == 0.0:
            total += score[v]
    return total


@compiled
def apart(one: IntArray, other: IntArray, largest: IntArray) -> int:
    """Sum of absolute differences; ``largest`` (1,) receives where the largest is first."""
    total, most = 0, -1
    for v in range(len(one)):
        differs = abs(one[v] - other[v])
        total += differs
        if differs > most:
            most, largest[0] = differs, v
    return total
