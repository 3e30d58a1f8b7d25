"""Distances of a batch, summed up: two numbers of a vertex say of most tuples that they are right.

Shortest paths from many roots share most of their arcs, so that distances from one root are often
those from another and a constant. Less such an offset for each answer, the distances of a vertex
are close together, and the smallest and the largest of them, its *bracket*, stand for all. What
they do not rule out is looked at in the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernel_cache import compiled
from ooc_graph.types import AnyArray
from ooc_graph.validate.edge_loops import (
    ARC_DOWN,
    ARC_UP,
    DOWN,
    OUTSIDE,
    UP,
    Marks,
    State,
    ask_ahead,
    row_of,
)

SAMPLE = 1024
"""Vertices by which offsets are chosen."""
_ROUNDINGS = 16  # more than there are on the way to a comparison, of sums and differences


def bracket_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What brackets of distances are in; not exactly, for which there is a margin."""
    return dtype if dtype == np.float32 else np.dtype(np.float64)


def offsets(distances: AnyArray, unreached: Any) -> AnyArray:
    """What is taken from the distances of each answer (k,), by those of some vertices (n, k).

    Any number will do: the median of how far it is from the first answer leaves most brackets
    narrow.
    """
    sample = np.where(distances == unreached, np.nan, distances.astype(np.float64))
    found = np.zeros(sample.shape[1], bracket_dtype(distances.dtype))
    for answer in range(sample.shape[1]):
        apart = sample[:, answer] - sample[:, 0]
        both = apart[~np.isnan(apart)]
        found[answer] = np.median(both) if len(both) else 0
    return found


def margin(offset: AnyArray, largest: float) -> Any:
    """What brackets must be apart beyond a weight, by their largest end: roundings are less."""
    most = largest + 2 * float(np.max(np.abs(offset), initial=0))
    return offset.dtype.type(_ROUNDINGS * float(np.finfo(offset.dtype).eps) * most)


@compiled
def bracket(
    state: State,
    unreached: Any,
    offset: AnyArray,
    start: int,
    stop: int,
    ends: AnyArray,
) -> float:
    """Write brackets ``start`` to ``stop - 1``; the largest finite end of them.

    ``state`` are distances, ``offset`` (k,) and ``ends`` (V, 2) float32 or float64.
    Unreached in some answer: the upper end is infinite.
    """
    most = 0.0
    for v in range(start, stop):
        low, high = offset.dtype.type(np.inf), offset.dtype.type(-np.inf)
        outside, row = False, row_of(state, v)
        for answer in range(len(offset)):
            far = state[0][row, answer]
            reduced = offset.dtype.type(far - offset[answer])
            outside |= far == unreached
            low = reduced if far != unreached and reduced < low else low
            high = max(high, reduced)
        high = offset.dtype.type(np.inf) if outside else high
        ends[v, 0], ends[v, 1] = low, high
        for end in (abs(low), abs(high)):
            most = end if most < end < np.inf else most
    return most


@compiled
def look_at_brackets(
    source: AnyArray,
    target: AnyArray,
    weight: AnyArray,
    ends: AnyArray,
    margin: Any,
    marks: Marks,
) -> None:
    """Mark the tuples of a block, as `edge_loops.look` does, by brackets of their distances.

    A tuple without a mark is shorter, in no answer, than its ends are apart, nor exactly as long.
    """
    for e in range(len(source)):
        ask_ahead(ends, source, target, e)
        u, v, short = source[e], target[e], ends.dtype.type(weight[e]) - margin
        mark = (not ends[v, 1] - ends[u, 0] < short) * (DOWN | ARC_DOWN)
        mark |= (not ends[u, 1] - ends[v, 0] < short) * (UP | ARC_UP)
        marks[e] = mark | (max(ends[u, 1], ends[v, 1]) == np.inf) * OUTSIDE
