"""Arcs that no shortest path needs, whatever its source: those longer than a way over a hub.

An arc from u to v is dropped if some landmark h gives a way ``u .. h .. v`` that is shorter, *also
as rounded sums from any source*: then all distances keep their bits. Let ``span`` bound the way
from any vertex over a landmark to any other. An addition on such a way is wrong by at most
``eps * span``, half a unit in the last place of at most ``2 * span``. So landmarks are searched
with four times that added to every weight, in float64, whose own rounding is less than half of it:
what was added covers the rounding of any sum along the way. Shorter, not as short, so that no arc
vouches for itself: the way's own arcs, where they are dropped, too, have ways that are shorter
still, down to arcs that stay. Integers are exact; nothing is added to them.

From the same distances follow the floors of sources, by which `many.sssp` compares distances.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.types import AnyArray, IntArray

LANDMARKS = 16
"""Vertices of the highest degrees that are tried as ways."""


@kernel
def mark_needed(rows: Any, to: Any, away: Any, margin: Any, top: Any, needed: Any) -> int:
    """Set ``needed``, bool (arcs,), of every out-arc that no landmark replaces; how many are set.

    ``to`` and ``away`` (landmarks, rows) are distances to and from each landmark; at or above
    ``top``: none. A way must be shorter by ``margin``, for the rounding of the sum here.
    """
    count = 0
    for u in range(len(rows.offsets) - 1):
        for position in range(rows.offsets[u], rows.offsets[u + 1]):
            v = np.int64(rows.neighbors[position])
            keep = True
            for mark in range(len(to)):
                # A source that reaches u reaches v over the landmark, too, and the span bounds that
                # way: a way to u that is longer than the span is not part of a shortest one to v.
                found = to[mark, u] < top and away[mark, v] < top
                if found and rows.weights[position] > to[mark, u] + away[mark, v] + margin:
                    keep = False
                    break
            needed[position] = keep
            count += keep
    return count


def inflated(rows: LightRows, error: float) -> LightRows:
    """Rows with ``error`` added to each weight as float64; integers as they are."""
    if rows.weights.dtype.kind != "f":
        return rows
    return rows._replace(weights=rows.weights.astype(np.float64) + error)


def span_of(to: AnyArray, away: AnyArray, top: Any) -> float:
    """Bound of the way over any one of the landmarks, from what reaches it to what it reaches."""
    to_, away_ = (np.where(part < top, part, 0).max(initial=0, axis=1) for part in (to, away))
    return float((to_ + away_).max(initial=0))


def kept_rows(rows: LightRows, needed: AnyArray) -> LightRows:
    """The rows with their needed arcs only, in the same order."""
    kept: IntArray = np.concatenate([[0], np.cumsum(needed, dtype=np.int64)])
    return LightRows(
        kept[rows.offsets], rows.neighbors[needed], rows.weights[needed], rows.lightest[:0]
    )


FEW_ERRORS = 4
"""What is added to arcs on the way to landmarks must be so many times less than they weigh."""
SAMPLED = 1 << 16
"""Arcs that tell what others weigh, about."""
TOO_FAR = 16
"""What lies so many times as far from landmarks as the median does not lower others' floors."""


def tells_apart(rows: LightRows, error: float) -> bool:
    """Whether ways to landmarks are as long as their arcs weigh, and not as they have arcs.

    ``error`` was added to the weight of each arc, for rounding.
    """
    if not len(rows.weights):
        return False
    typical = np.median(rows.weights[:: max(1, len(rows.weights) // SAMPLED)])
    return bool(FEW_ERRORS * error <= typical)


def floors_of(to: AnyArray, top: Any, rows: LightRows, dtype: np.dtype[Any]) -> AnyArray:
    """Floor of each source's slot, (rows,).

    At most the source's lightest arc, below which no distance lies but its own. One source that
    lies very far away is not to lower all others' floors so much that no difference a float
    can hold tells which arcs matter. ``to`` (landmarks, rows) are distances to each landmark;
    ``top`` or more: none.
    """
    reaches = to < top
    count = reaches.sum(axis=0)
    begin, end = rows.offsets[:-1], rows.offsets[1:]
    floors: AnyArray = np.zeros(len(begin), dtype)
    floors[begin < end] = rows.weights[begin[begin < end]]
    # Divided before they are added up, which might overflow.
    mean = (np.where(reaches, to, 0) / np.maximum(count, 1)).sum(axis=0)[count > 0]
    if len(mean):
        far = mean[mean / TOO_FAR <= np.median(mean)].max()
        floors[count > 0] = np.minimum((mean - far).astype(dtype), floors[count > 0])
    return floors
