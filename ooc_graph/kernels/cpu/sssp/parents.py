"""Parents from final distances, by the rule of docs/reference/storage.md, plateaus included.

v's parent is the neighbour u with ``d(u) + w == d(v)`` (in the distances' arithmetic) and
``d(u) < d(v)`` that has the smallest ``(d(u), id)``. Vertices without one lie on a *plateau*: all
their shortest ways come over arcs of weight zero, or absorbed by rounding. They take the smallest
id among the plateau neighbours that are nearest, in hops, to a vertex that has a parent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import inlined, kernel, subroutine, varying
from ooc_graph.kernels.common.dealt import internal_of
from ooc_graph.kernels.common.sssp.plateaus import is_better_parent
from ooc_graph.kernels.common.sssp.sums import path_sum
from ooc_graph.kernels.common.team import FIRST_FREE, LINE, atomic_add, take_chunk
from ooc_graph.kernels.cpu.sssp.push import AHEAD, HEADS, ask_for_arcs
from ooc_graph.prefetch import prefetch
from ooc_graph.types import DEAL_BLOCK, AnyArray

EXAMINED, UNRESOLVED = FIRST_FREE + 4 * LINE, FIRST_FREE + 5 * LINE
"""Words of the control array: arcs examined, rows left on plateaus."""
CHUNK_ROWS = 1024
"""Rows that a thread takes at once. Their internal ids are consecutive."""
assert DEAL_BLOCK % CHUNK_ROWS == 0


class Scratch(NamedTuple):
    """Scratch for the rows of one chunk: (`CHUNK_ROWS`,) of one thread, (threads, ...) of all.

    ``left`` lists the offsets, in the chunk, of rows that are still being looked at; ``best``
    has a distance for each row.
    """

    left: AnyArray
    best: AnyArray


def new_scratches(threads: int, dtype: np.dtype[Any]) -> Scratch:
    """Scratch of all threads, for distances of a type."""
    shape = threads, CHUNK_ROWS
    return Scratch(np.empty(shape, np.int32), np.empty(shape, dtype))


@inlined
def ask_for_neighbor(
    distance: Any, neighbors: Any, base: int, scratch: Any, index: int, count: int
) -> None:
    """Prefetch the distance of a neighbour that is looked at soon."""
    soon = base + np.int64(scratch.left[min(index + 4 * AHEAD, count - 1)])
    prefetch(distance, np.int64(neighbors[soon]))


@inlined
def ask_for_tails(into: Any, base: int, scratch: Any, index: int, count: int) -> None:
    """Prefetch the tails of the rows that are looked at soon."""
    later = base + np.int64(scratch.left[min(index + 2 * AHEAD, count - 1)])
    soon = base + np.int64(scratch.left[min(index + AHEAD, count - 1)])
    ask_for_arcs(into, later, soon, HEADS)


@subroutine
def _nearer(distance: Any, parent: Any, row: int, u: int) -> bool:
    """Whether ``u`` is a better parent of a row than the one that it has, if any."""
    if parent[row] == parent.dtype.type(-1):
        return True
    rival = np.int64(parent[row])
    return bool(is_better_parent(distance[u], u, distance[rival], rival))


@kernel
def inner_parents(
    out: Any, wave: Any, parent: Any, inner: int, target: Any, offered: Any
) -> tuple[int, int]:
    """Offer ``first[:inner]`` as parents along all of their arcs. One thread.

    They are nearer than all other vertices, so whoever finds a parent here needs no other. Offers
    are taken, or only listed in ``target`` and ``offered`` unless these are empty. Returns how
    many are listed, and the arcs examined.
    """
    distance, top, listed, examined = wave.distance, wave.top[0], 0, 0
    for index in range(inner):
        row = np.int64(wave.first[index])
        u = internal_of(row, wave.dealt)
        at = distance[u]
        examined += out.offsets[row + 1] - out.offsets[row]
        for position in range(out.offsets[row], out.offsets[row + 1]):
            v = np.int64(out.neighbors[position])
            away = distance[v]
            if at >= away or away == top or path_sum(at, out.weights[position], top) != away:
                continue
            if len(target) > 0:
                target[listed], offered[listed] = v, u
                listed += 1
            elif _nearer(distance, parent, v, u):
                parent[v] = u
    return listed, examined


@kernel
def take_offered(distance: Any, parent: Any, rows: Any, offered: Any) -> None:
    """Give rows the best of the parents that they are offered; one thread."""
    for index in range(len(rows)):
        row, u = np.int64(rows[index]), np.int64(offered[index])
        if _nearer(distance, parent, row, u):
            parent[row] = u


@subroutine
def _offer(
    distance: Any, parent: Any, row: int, at: Any, u: int, weight: Any, near: Any, top: Any
) -> Any:
    """Take neighbour ``u`` as the row's parent if it is a better one; the parent's distance."""
    away, rival = distance[u], np.int64(parent[row])
    if is_better_parent(away, u, near, rival) & (away < at) & (path_sum(away, weight, top) == at):
        parent[row] = u
        return away
    return near


@subroutine
def _offer_heads(
    into: Any, wave: Any, parent: Any, base: int, first: int, count: int, floor: Any, scratch: Any
) -> tuple[int, int]:
    """Look for parents along the heads, as `sssp.pull` looks for distances."""
    distance, top, examined = wave.distance, wave.top[0], 0
    for column in range(HEADS):
        neighbors, weights = into.head_neighbors[column], into.head_weights[column]
        following = into.head_weights[min(column + 1, HEADS - 1)]
        kept = 0
        for index in range(count):
            ask_for_neighbor(distance, neighbors, base, scratch, index, count)
            offset = np.int64(scratch.left[index])
            row, at = base + offset, distance[first + offset]
            u = np.int64(neighbors[row])
            scratch.best[offset] = _offer(
                distance, parent, row, at, u, weights[row], scratch.best[offset], top
            )
            examined += u != first + offset
            scratch.left[kept] = offset
            kept += path_sum(floor, following[row], top) <= at
        count = kept
    return count, examined


@subroutine
def _offer_tails(
    into: Any, wave: Any, parent: Any, base: int, first: int, count: int, floor: Any, scratch: Any
) -> int:
    """Go on along the tails of rows; arcs examined."""
    distance, top, examined = wave.distance, wave.top[0], 0
    for index in range(count):
        ask_for_tails(into, base, scratch, index, count)
        offset = np.int64(scratch.left[index])
        row = base + offset
        at, near = distance[first + offset], scratch.best[offset]
        position, end = into.offsets[row] + HEADS, into.offsets[row + 1]
        while position < end:
            weight = into.weights[position]
            if path_sum(floor, weight, top) > at:
                break
            u = np.int64(into.neighbors[position])
            near = _offer(distance, parent, row, at, u, weight, near, top)
            position += 1
            examined += 1
    return examined


@kernel
def parents_part(
    thread: int,
    _threads: int,
    control: Any,
    into: Any,
    wave: Any,
    parent: Any,
    root: int,
    floor: Any,
    scratches: Any,
) -> None:
    """Find parents chunk after chunk; all threads call it. Word `CHUNK` must be 0 at the start.

    Rows that have a parent already (not all ones) keep it; ``floor`` is a lower bound of the
    distances of all that has not been offered as parent. ``wave.pending`` lists the reached rows on
    plateaus, as many as the word `UNRESOLVED` says.
    """
    distance, top = wave.distance, wave.top[0]
    rows, examined = len(parent), 0
    none = parent.dtype.type(-1)
    scratch = Scratch(scratches.left[thread], scratches.best[thread])
    lightest = into.head_weights[0]
    while True:
        base, end = take_chunk(control, CHUNK_ROWS, rows)
        if base >= end:
            break
        first = internal_of(base, wave.dealt)
        if first <= root < first + end - base:
            parent[base + root - first] = root
        count = varying(0)
        for row in range(base, end):
            at = distance[first + row - base]
            scratch.best[row - base] = at
            scratch.left[count] = row - base
            wanted = (at < top) & (parent[row] == none)
            count += wanted & (path_sum(floor, lightest[row], top) <= at)
        count, looked = _offer_heads(into, wave, parent, base, first, count, floor, scratch)
        examined += looked
        examined += _offer_tails(into, wave, parent, base, first, count, floor, scratch)
        for row in range(base, end):
            if (parent[row] == none) & (distance[first + row - base] < top):
                wave.pending[atomic_add(control, UNRESOLVED, 1)] = row
    atomic_add(control, EXAMINED, examined)


@subroutine
def lost_by_overflow(out: Any, row: int, at: Any, heaviest: Any, distance: Any, top: Any) -> bool:
    """Tell whether a row at distance ``at`` is reached but has an unreached out-neighbor.

    Only a path sum that overflows does that, and only near the largest distance.
    """
    if at == top or path_sum(at, heaviest, top) < top:
        return False
    for position in range(out.offsets[row], out.offsets[row + 1]):
        if distance[np.int64(out.neighbors[position])] == top:
            return True
    return False
