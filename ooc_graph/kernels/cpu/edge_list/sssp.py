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

from ooc_graph.kernels.common.bitmap import Words
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.team import CHUNK, OPERATION, barrier, take_chunk
from ooc_graph.kernels.cpu.edge_list import relax
from ooc_graph.kernels.cpu.edge_list.grouped import HALF, LOW_END, segment_of_id
from ooc_graph.kernels.cpu.edge_list.parents import gather_unresolved, offer_part, resolve_plateaus
from ooc_graph.types import AnyArray, IntArray

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
    whole = control[relax.WHOLE] != 0
    changed, waiting, still_open = _note_changes(field, turn, whole)
    is_settled = whole and still_open == control[relax.STILL_OPEN]
    for segment in range(len(field.open)):
        if is_settled or field.open[segment] == 0:
            field.bound[segment] = field.far[segment]
    control[CHUNK] = 0
    control[relax.PASSES] += 1
    if whole:
        control[relax.STILL_OPEN], control[relax.LIGHT_PASSES] = still_open, 0
    else:
        control[relax.LIGHT_PASSES] += 1
    control[relax.WHOLE] = 0 if changed and control[relax.LIGHT_PASSES] < MOST_LIGHT_PASSES else 1
    control[OPERATION] = GO if changed or waiting else SETTLED


@kernel
def lost_by_overflow(edges: Any, distance: Any, top: Any) -> bool:
    """Tell whether a shortest distance exceeds the dtype: an edge leaves what was reached."""
    for piece in range(len(edges.tail)):
        heads = distance[edges.base[edges.head[piece]] :]
        tails = distance[edges.base[edges.tail[piece]] :]
        for index in range(edges.begin[piece], edges.begin[piece + 1]):
            of_tail = tails[edges.ends[index] & LOW_END]
            of_head = heads[edges.ends[index] >> HALF]
            if of_head == top and of_tail < top:
                return True
            if edges.undirected and of_tail == top and of_head < top:
                return True
    return False


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
        control[relax.STILL_OPEN] = len(field.distance) - 1
    turn = 0
    while True:
        if not barrier(control, threads):
            return
        if control[OPERATION] == SETTLED:
            break
        relax.relax_part(control, edges, field, turn)
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
