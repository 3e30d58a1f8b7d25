"""SSSP over grouped edges: Bellman-Ford passes to the fixed point, without what cannot improve.

A pass relaxes an edge both ways by one read. Threads share the distances and meet at an atomic
minimum, which only an edge that improves something reaches; the fixed point does not depend on
their order. Integer distances are unsigned 64 bits here, so that no sum of two wraps: what exceeds
the largest distance is never an improvement.

A piece of the list is left unread where the nearest distance that changed in the last pass, and
its lightest weight, are no less than the farthest distance on the other side. That begins to spare
much once every vertex of a segment has a distance. Passes over all pieces alternate with passes
over light ones alone, which cost little and bring the distances near the final ones.

R. Bellman, "On a routing problem", Quarterly of Applied Mathematics 16 (1958).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ooc_graph.kernels.common import team
from ooc_graph.kernels.common.bitmap import Words
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.intrinsics import atomic_lower
from ooc_graph.kernels.common.team import CHUNK, OPERATION, atomic_add, barrier, take_chunk
from ooc_graph.kernels.cpu.edge_list.grouped import HALF, LOW_END, pieces_of, segment_of_id
from ooc_graph.kernels.cpu.edge_list.parents import gather_unresolved, offer_part, resolve_plateaus
from ooc_graph.types import AnyArray, IntArray

EXAMINED, PASSES, STILL_OPEN, WHOLE, LIGHT_PASSES = (
    team.FIRST_FREE + k * team.LINE for k in range(4, 9)
)
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


GO, SETTLED = 0, 1
LIGHT_SHARE = 1 / 16
"""Share of the edges that are light."""
MOST_LIGHT_PASSES = 6
"""So many light passes in a row at most, settled or not."""


class Field(NamedTuple):
    """State of a search over (vertices,) in segments.

    ``parent``: all ones where there is none. ``unresolved``: bitmap of the reached vertices on
    plateaus. By segment, in the distances' dtype: ``low`` (2, segments), the smallest distance
    that an even or odd pass improved; ``near`` and ``far``, the smallest and the largest distance
    reached; ``bound``, the distance from which on no candidate improves anything. ``open`` int64
    (segments,): vertices without a distance. ``least`` (segments,): as ``low``, of all passes since
    the last one over all pieces began. ``cap`` (1,): light pieces have a weight below it. ``top``
    (1,): the distance of what is not reached.
    """

    distance: AnyArray
    parent: AnyArray
    unresolved: Words
    low: AnyArray
    near: AnyArray
    far: AnyArray
    bound: AnyArray
    open: IntArray
    least: AnyArray
    cap: AnyArray
    top: AnyArray


@subroutine
def _reset_part(thread: int, threads: int, edges: Any, field: Any) -> None:
    rows, top = len(field.distance), field.top[0]
    begin, end = rows * thread // threads, rows * (thread + 1) // threads
    field.distance[begin:end] = top
    field.parent[begin:end] = field.parent.dtype.type(-1)
    if thread == 0:
        field.low[:] = top
        field.near[:], field.bound[:] = top, top
        field.far[:] = 0
        field.least[:] = top
        for segment in range(len(field.open)):
            field.open[segment] = edges.base[segment + 1] - edges.base[segment]


@subroutine
def _survey_part(control: Any, edges: Any, field: Any, turn: int) -> None:
    """Bring ``near``, ``far`` and ``open`` of what a pass changed up to date; all threads."""
    low, top = field.low[1 - turn], field.top[0]
    while True:
        segment, stop = take_chunk(control, 1, len(low))
        if segment >= stop:
            break
        if low[segment] == top:
            continue
        far, reached = field.far.dtype.type(0), 0
        begin, end = edges.base[segment], edges.base[segment + 1]
        for vertex in range(begin, end):
            away = field.distance[vertex]
            if away < top:
                far = max(far, away)
                reached += 1
        field.far[segment], field.open[segment] = far, end - begin - reached
        field.near[segment] = min(field.near[segment], low[segment])


@subroutine
def _note_changes(field: Any, turn: int, whole: bool) -> tuple[bool, bool, int]:
    """Keep what a pass changed for heavy pieces, too.

    Returns whether it changed anything, whether any of it waits, and the open vertices.
    """
    top, changed, waiting, still_open = field.top[0], False, False, 0
    for segment in range(len(field.open)):
        low = field.low[1 - turn, segment]
        field.least[segment] = low if whole else min(field.least[segment], low)
        field.low[turn, segment] = top
        changed = changed or low < top
        waiting = waiting or field.least[segment] < top
        still_open += field.open[segment]
    return changed, waiting, still_open


@subroutine
def _plan(control: Any, field: Any, turn: int) -> None:
    """End a pass and say what the next one is. Thread 0, while the others wait.

    If no vertex was reached since a pass over all pieces ended until the next one did, none will
    be: all edges of all that had a distance have been relaxed towards segments with open
    vertices. From then on open vertices do not count.
    """
    whole = control[WHOLE] != 0
    changed, waiting, still_open = _note_changes(field, turn, whole)
    is_settled = whole and still_open == control[STILL_OPEN]
    for segment in range(len(field.open)):
        if is_settled or field.open[segment] == 0:
            field.bound[segment] = field.far[segment]
    control[CHUNK] = 0
    control[PASSES] += 1
    if whole:
        control[STILL_OPEN], control[LIGHT_PASSES] = still_open, 0
    else:
        control[LIGHT_PASSES] += 1
    control[WHOLE] = 0 if changed and control[LIGHT_PASSES] < MOST_LIGHT_PASSES else 1
    control[OPERATION] = GO if changed or waiting else SETTLED


@kernel
def search(thread: int, threads: int, control: Any, edges: Any, field: Any, root: int) -> None:
    """Search from ``root``: distances by passes, then parents.

    Word `UNRESOLVED` ends with the reached vertices that found no parent, which are none.
    """
    _reset_part(thread, threads, edges, field)
    if not barrier(control, threads):
        return
    if thread == 0:
        segment = segment_of_id(root)
        field.distance[root], field.low[0, segment], field.near[segment] = 0, 0, 0
        field.least[segment] = 0
        field.open[segment] -= 1
        control[STILL_OPEN] = len(field.distance) - 1
    turn = 0
    while True:
        if not barrier(control, threads):
            return
        if control[OPERATION] == SETTLED:
            break
        relax_part(control, edges, field, turn)
        if not barrier(control, threads):
            return
        if thread == 0:
            control[CHUNK] = 0
        if not barrier(control, threads):
            return
        _survey_part(control, edges, field, turn)
        if not barrier(control, threads):
            return
        if thread == 0:
            _plan(control, field, turn)
        turn = 1 - turn
    offer_part(control, edges, field)
    if not barrier(control, threads):
        return
    gather_unresolved(thread, threads, control, field, root)
    resolve_plateaus(thread, threads, control, edges, field)
