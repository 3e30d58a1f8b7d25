"""Pull: a row looks for a shorter way along its lightest arcs, and stops early.

With ``floor`` a lower bound of the distances that may have changed since the row looked last, an
arc of weight w can only help while ``floor + w < best``: rows ascend by weight, so the first arc
that fails ends the row [1]_.

References
----------
.. [1] V. T. Chakaravarthy et al., "Scalable single source shortest path algorithms for massively
   parallel systems", IPDPS 2014 (the pull of long edges is a relative).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.bitmap import ONE, WORD_BITS
from ooc_graph.kernels.compiled import kernel
from ooc_graph.kernels.sssp_parents import EXAMINED
from ooc_graph.kernels.sssp_push import arc_of, path_sum
from ooc_graph.kernels.team import CHUNK, FIRST_FREE, LINE, atomic_add

CHANGED, CHANGED_ARCS, REACHED = (FIRST_FREE + k * LINE for k in range(3))
"""Words of the control array: improved rows, their out-arcs, rows reached for the first time."""
CHUNK_WORDS = 16
"""Bitmap words that a thread takes at once: 1,024 rows."""


@kernel
def pull_row(
    into: Any, distance: Any, row: int, best: Any, floor: Any, top: Any
) -> tuple[Any, int]:
    """Best distance of a row that has ``best`` so far, and the arcs examined."""
    begin = into.offsets[row]
    length, index = into.offsets[row + 1] - begin, 0
    while index < length:
        neighbor, weight = arc_of(into, row, begin, index)
        if path_sum(floor, weight, top) >= best:
            break
        best = min(best, path_sum(distance[neighbor], weight, top))
        index += 1
    return best, index


@kernel
def pull_part(
    control: Any,
    into: Any,
    out_offsets: Any,
    distance: Any,
    changed: Any,
    final: Any,
    floor: Any,
    range_: Any,
) -> None:
    """Pull chunk after chunk of the rows with a distance above ``final``; all threads call it.

    ``changed`` becomes the bitmap of improved rows; ``range_`` (2,), this thread's own, the
    smallest improved distance and the largest of all reached. Threads read distances that others
    improve meanwhile: the fixed point does not depend on it. Word `CHUNK` must be 0 at the start.
    """
    rows, words, top = len(distance), len(changed), range_[0]
    low, high = top, final
    count, arcs, examined, reached = 0, 0, 0, 0
    while True:
        begin = atomic_add(control, CHUNK, CHUNK_WORDS)
        if begin >= words:
            break
        for index in range(begin, min(begin + CHUNK_WORDS, words)):
            bits = np.uint64(0)
            for row in range(index * WORD_BITS, min((index + 1) * WORD_BITS, rows)):
                before = distance[row]
                best = before
                if before > final:
                    best, looked = pull_row(into, distance, row, before, floor, top)
                    examined += looked
                    if best < before:
                        distance[row] = best
                        bits |= ONE << np.uint64(row & 63)
                        low = min(low, best)
                        count += 1
                        arcs += out_offsets[row + 1] - out_offsets[row]
                        reached += before == top
                if best < top:
                    high = max(high, best)
            changed[index] = bits
    range_[0], range_[1] = low, high
    atomic_add(control, CHANGED, count)
    atomic_add(control, CHANGED_ARCS, arcs)
    atomic_add(control, EXAMINED, examined)
    atomic_add(control, REACHED, reached)
