"""One pass of SSSP over grouped edges (CPU)."""

from __future__ import annotations

from typing import Any

from ooc_graph.kernels.common.compiled import subroutine
from ooc_graph.kernels.common.intrinsics import atomic_lower
from ooc_graph.kernels.common.team import FIRST_FREE, LINE, atomic_add
from ooc_graph.kernels.cpu.edge_list.grouped import HALF, LOW_END, pieces_of

EXAMINED, PASSES, STILL_OPEN, WHOLE, LIGHT_PASSES = (FIRST_FREE + k * LINE for k in range(4, 9))
"""Words of the control array: edges read by passes, passes; vertices without a distance after the
last pass over all pieces, 1 if the next is over all, light passes since."""


@subroutine
def _relax_piece(edges: Any, piece: int, distance: Any, top: Any) -> tuple[Any, Any]:
    """Relax a piece; the smallest distances improved in the segments of heads and of tails."""
    heads = distance[edges.base[edges.head[piece]] :]
    tails = distance[edges.base[edges.tail[piece]] :]
    low_head, low_tail = top, top
    for index in range(edges.begin[piece], edges.begin[piece + 1]):
        tail, head = edges.ends[index] & LOW_END, edges.ends[index] >> HALF
        of_tail, of_head = tails[tail], heads[head]
        weight = distance.dtype.type(edges.weights[index])
        ahead, back = of_tail + weight, of_head + weight
        # One branch for both ways: most edges fail it, and which ones cannot be predicted.
        if (ahead >= of_head) & (back >= of_tail):
            continue
        if ahead < of_head:
            if ahead < atomic_lower(heads, head, ahead):
                low_head = min(low_head, ahead)
        elif edges.undirected and back < atomic_lower(tails, tail, back):
            low_tail = min(low_tail, back)
    return low_head, low_tail


@subroutine
def relax_part(control: Any, edges: Any, field: Any, turn: int) -> None:
    """One pass; all threads call it. Word `CHUNK` must be 0 at the start."""
    low, after, bound, top = field.low[turn], field.low[1 - turn], field.bound, field.top[0]
    least, cap, whole = field.least, field.cap[0], control[WHOLE] != 0
    examined = 0
    for piece in pieces_of(control, edges):
        tail, head = edges.tail[piece], edges.head[piece]
        lightest = low.dtype.type(edges.lightest[piece])
        light = lightest < cap
        if not light and not whole:
            continue
        ahead, back = (low[tail], low[head]) if light else (least[tail], least[head])
        useful = ahead < top and ahead + lightest < bound[head]
        if edges.undirected and not useful:
            useful = back < top and back + lightest < bound[tail]
        if not useful:
            continue
        examined += edges.begin[piece + 1] - edges.begin[piece]
        low_head, low_tail = _relax_piece(edges, piece, field.distance, top)
        if low_head < after[head]:
            atomic_lower(after, head, low_head)
        if low_tail < after[tail]:
            atomic_lower(after, tail, low_tail)
    atomic_add(control, EXAMINED, examined)
