"""Push from the root along heads alone, under a rising bound (CPU).

What lies beyond the heads of the rows reached comes later: until then no distance from the smallest
of it on is final.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.sssp.distances import raised
from ooc_graph.kernels.cpu.sssp.push import (
    adapt_step,
    push_below,
    push_is_enough,
    smallest_pending,
    start_wave,
    take_pending,
)


@subroutine
def _arcs_of(wave: Any, lengths: Any, begin: int, end: int) -> int:
    """Arcs, beyond heads too, of the vertices ``first[begin:end]``."""
    arcs = 0
    for index in range(begin, end):
        arcs += lengths[np.int64(wave.first[index])]
    return arcs


@kernel
def push_heads(
    out: Any, wave: Any, lengths: Any, arcs: int, root: int, stop_for_pull: bool
) -> tuple[Any, Any, int, int, bool]:
    """Push from the root along ``out``, the heads of rows; one thread.

    Parameters
    ----------
    lengths, arcs
        Arcs of each row, and of all.

    Returns
    -------
    As `ooc_graph.kernels.cpu.sssp.push.push_rising`, of the graph of heads: the bound, the floor
    and the number of inner vertices, the arcs examined, and whether nothing is left to do.
    """
    start_wave(wave, root)
    count, pending, total, reached = 1, 0, 0, 1
    bound, floor = wave.distance[root], wave.distance[root]
    inner, inner_arcs, growing = 0, 0, True
    while True:
        pending, reached, examined, again = push_below(out, wave, count, pending, bound, reached)
        total += examined
        wave.step[0] = adapt_step(wave.step[0], examined, again)
        smallest = smallest_pending(out, wave, pending)
        growing = growing and reached <= len(wave.first)
        if growing:
            inner_arcs += _arcs_of(wave, lengths, inner, reached)
            growing = not push_is_enough(inner_arcs, arcs)
            if growing:
                inner, floor = reached, smallest
        if smallest == wave.top[0]:
            return bound, floor, inner, total, True
        if stop_for_pull and push_is_enough(total, arcs):
            return bound, floor, inner, total, False
        bound = raised(wave.bound, smallest, wave.step[0], wave.top[0])
        count, pending = take_pending(out, wave, pending, bound)
