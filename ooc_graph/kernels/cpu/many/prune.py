"""Arcs that no shortest path needs, whatever its source: those longer than a way over a hub.

An arc from u to v is dropped if some landmark h gives a way ``u .. h .. v`` that is shorter, *also
as rounded sums from any source*: then all distances keep their bits. Let ``span`` bound the way
from any vertex over a landmark to any other. An addition on such a way is wrong by at most
``eps * span``, half a unit in the last place of at most ``2 * span``. So landmarks are searched
with four times that added to every weight, in float64, whose own rounding is less than half of it:
what was added covers the rounding of any sum along the way. Shorter, not as short, so that no arc
vouches for itself: the way's own arcs, where they are dropped, too, have ways that are shorter
still, down to arcs that stay. Integers are exact; nothing is added to them.
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
