"""Parents from final distances, by the rule of decision 7, plateaus included.

v's parent is the neighbour u with ``d(u) + w == d(v)`` (in the distances' arithmetic) and
``d(u) < d(v)`` that has the smallest ``(d(u), id)``. Vertices without one lie on a *plateau*: all
their shortest ways come over arcs of weight zero, or absorbed by rounding. They take the smallest
id among the plateau neighbours that are nearest, in hops, to a vertex that has a parent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.bitmap import ONE, WORD_BITS, drop, has, members
from ooc_graph.kernels.compiled import kernel
from ooc_graph.kernels.sssp_push import QUEUED, arc_of, path_sum
from ooc_graph.kernels.team import CHUNK, FIRST_FREE, LINE, atomic_add

EXAMINED, UNRESOLVED = FIRST_FREE + 4 * LINE, FIRST_FREE + 5 * LINE
"""Words of the control array: arcs examined, rows left on plateaus."""
CHUNK_WORDS = 16


@kernel
def parent_of_row(
    into: Any, distance: Any, row: int, at: Any, floor: Any, top: Any
) -> tuple[Any, int]:
    """Parent among neighbours nearer than ``at``, not than ``floor``; -1 if none; arcs examined."""
    parent, nearest = np.int64(-1), at
    begin = into.offsets[row]
    length, index = into.offsets[row + 1] - begin, 0
    while index < length:
        u, weight = arc_of(into, row, begin, index)
        if path_sum(floor, weight, top) > at:
            break
        away = distance[u]
        index += 1
        if away > nearest or away >= at or path_sum(away, weight, top) != at:
            continue
        if away < nearest or u < parent:
            parent, nearest = u, away
    return parent, index


@kernel
def plateau_parent(into: Any, distance: Any, unresolved: Any, row: int, at: Any, top: Any) -> Any:
    """Smallest neighbour at the same distance that is resolved, -1 if there is none yet."""
    parent = np.int64(-1)
    for position in range(into.offsets[row], into.offsets[row + 1]):
        if path_sum(at, into.weights[position], top) > at:
            break
        u = np.int64(into.neighbors[position])
        if distance[u] == at and not has(unresolved, u) and (parent < 0 or u < parent):
            parent = u
    return parent


@kernel
def inner_parents(out: Any, wave: Any, parent: Any, inner: int) -> int:
    """Offer ``first[:inner]`` as parents along all of their arcs; arcs examined. One thread.

    They are nearer than all other vertices, so whoever finds a parent here needs no other.
    """
    distance, top, examined = wave.distance, wave.top[0], 0
    none = parent.dtype.type(-1)
    for index in range(inner):
        u = np.int64(wave.first[index])
        at = distance[u]
        examined += out.offsets[u + 1] - out.offsets[u]
        for position in range(out.offsets[u], out.offsets[u + 1]):
            v = np.int64(out.neighbors[position])
            away = distance[v]
            if at >= away or away == top or path_sum(at, out.weights[position], top) != away:
                continue
            if parent[v] != none:
                rival = np.int64(parent[v])
                if distance[rival] < at or (distance[rival] == at and rival < u):
                    continue
            parent[v] = u
    return examined


@kernel
def parents_part(
    control: Any,
    into: Any,
    distance: Any,
    parent: Any,
    unresolved: Any,
    root: int,
    floor: Any,
    top: Any,
) -> None:
    """Find parents chunk after chunk; all threads call it. Word `CHUNK` must be 0 at the start.

    Rows that have a parent already (not all ones) keep it; ``floor`` is a lower bound of the
    distances of all that has not been offered as parent. ``unresolved`` becomes the bitmap of
    reached rows on plateaus.
    """
    rows, words = len(distance), len(unresolved)
    none = parent.dtype.type(-1)
    examined, left = 0, 0
    while True:
        begin = atomic_add(control, CHUNK, CHUNK_WORDS)
        if begin >= words:
            break
        for index in range(begin, min(begin + CHUNK_WORDS, words)):
            bits = np.uint64(0)
            for row in range(index * WORD_BITS, min((index + 1) * WORD_BITS, rows)):
                at = distance[row]
                if row == root:
                    parent[row] = row
                elif at < top and parent[row] == none:
                    found, looked = parent_of_row(into, distance, row, at, floor, top)
                    examined += looked
                    if found >= 0:
                        parent[row] = found
                    else:
                        bits |= ONE << np.uint64(row & 63)
                        left += 1
            unresolved[index] = bits
    atomic_add(control, EXAMINED, examined)
    atomic_add(control, UNRESOLVED, left)


@kernel
def _next_to(out: Any, wave: Any, unresolved: Any, found: int) -> int:
    """List unresolved rows beside ``queue[:found]`` in ``pending``, each once."""
    count, top = 0, wave.top[0]
    for index in range(found):
        u = np.int64(wave.queue[index])
        at = wave.distance[u]
        for position in range(out.offsets[u], out.offsets[u + 1]):
            if path_sum(at, out.weights[position], top) > at:
                break
            v = np.int64(out.neighbors[position])
            if wave.distance[v] == at and has(unresolved, v) and wave.marks[v] == 0:
                wave.marks[v] = QUEUED
                wave.pending[count] = v
                count += 1
    for index in range(count):
        wave.marks[np.int64(wave.pending[index])] = 0
    return count


@kernel
def resolve_plateaus(out: Any, into: Any, wave: Any, parent: Any, unresolved: Any) -> Any:
    """Give the rows on plateaus their parents, hop by hop; one thread.

    Returns how many rows found none: above zero only where out- and in-arcs contradict each other.

    Uses the wave's queue and pending list as scratch; the marks are wiped.
    """
    wave.marks[:] = 0
    count = members(unresolved, wave.pending)
    left = count
    while count > 0:
        found = 0
        for index in range(count):
            v = np.int64(wave.pending[index])
            at = wave.distance[v]
            u = plateau_parent(into, wave.distance, unresolved, v, at, wave.top[0])
            if u >= 0:
                parent[v] = u
                wave.queue[found] = v
                found += 1
        for index in range(found):
            drop(unresolved, np.int64(wave.queue[index]))
        left -= found
        count = _next_to(out, wave, unresolved, found)
    return left


@kernel
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
