"""Top-down step: the frontier's rows offer themselves as parents; the smallest id wins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import LOW, ONE, SIX, has
from ooc_graph.kernels.common.compiled import inlined, subroutine, varying
from ooc_graph.kernels.common.team import atomic_add, atomic_or, atomic_umin, take_chunk
from ooc_graph.kernels.cpu.bfs.pull import DEPTH, EXAMINED, FOUND, FOUND_ARCS, SETTLED
from ooc_graph.types import AnyArray

CHUNK_ROWS = 16
"""Frontier vertices that a thread takes at once."""
CHUNK_SETTLED = 512
"""New vertices that a thread settles at once."""
BUFFER = 512
"""New vertices that a thread gathers before it claims entries of the common queue."""


class OutRows(NamedTuple):
    """Rows to push along."""

    offsets: AnyArray
    neighbors: AnyArray


@inlined
def claim(
    tree: Any, u: Any, neighbors: Any, position: Any, stop: Any, queue: Any, tail: Any
) -> Any:
    """Offer ``u`` as parent to the vertices of its arcs that no level before has; one thread.

    Vertices without a parent so far go to ``queue[tail:]``. Returns their end.
    """
    none = np.uint64(len(tree.parent))
    while position < stop:
        v = np.uint64(neighbors[position])
        position += 1
        if has(tree.visited, v):
            continue
        old = np.uint64(tree.parent[v])
        if u < old:
            tree.parent[v] = u
            if old >= none:
                queue[tail] = v
                tail += 1
    return tail


@subroutine
def push_alone(out: Any, tree: Any, queue: Any, begin: int, end: int) -> tuple[int, Any]:
    """Push ``queue[begin:end]`` on one thread; new vertices go to ``queue[end:]``.

    Returns the end of the new vertices and the arcs examined. Only parents are set; see `settle`.
    """
    tail, examined = end, np.int64(0)
    for index in range(begin, end):
        u = np.uint64(queue[index])
        first, stop = np.int64(out.offsets[u]), np.int64(out.offsets[u + ONE])
        examined += stop - first
        tail = claim(tree, u, out.neighbors, first, stop, queue, tail)
    return tail, examined


@subroutine
def settle(out: Any, tree: Any, queue: Any, begin: int, end: int, depth: int) -> int:
    """Mark new vertices visited at ``depth``; return their out-arcs. One thread."""
    arcs = 0
    for index in range(begin, end):
        v = np.uint64(queue[index])
        tree.visited[v >> SIX] |= ONE << (v & LOW)
        tree.level[v] = depth
        arcs += out.offsets[v + ONE] - out.offsets[v]
    return arcs


@subroutine
def settle_part(control: Any, out: Any, tree: Any, queue: Any, begin: int, end: int) -> None:
    """As `settle`, by all threads: word `FOUND_ARCS` counts the arcs.

    The depth is in word `DEPTH`. Word `SETTLED` must be 0 at the start.
    """
    arcs, depth = 0, control[DEPTH]
    while True:
        first, last = take_chunk(control, CHUNK_SETTLED, end, begin, SETTLED)
        if first >= last:
            break
        for index in range(first, last):
            v = np.uint64(queue[index])
            atomic_or(tree.visited, v >> SIX, ONE << (v & LOW))
            tree.level[v] = depth
            arcs += out.offsets[v + ONE] - out.offsets[v]
    atomic_add(control, FOUND_ARCS, arcs)


@subroutine
def _flush(control: Any, queue: Any, end: int, buffer: Any, count: int) -> None:
    start = end + atomic_add(control, FOUND, count)
    for index in range(count):
        queue[start + index] = buffer[index]


@subroutine
def push_part(
    control: Any, out: Any, tree: Any, queue: Any, buffer: Any, begin: int, end: int
) -> None:
    """Push chunks of ``queue[begin:end]`` until none is left; all threads call it.

    New vertices go to ``queue[end:]`` in any order, word `FOUND` counts them; ``buffer`` is this
    thread's own. Word `CHUNK` must be 0 at the start.
    """
    count, examined, none = varying(0), np.int64(0), np.uint64(len(tree.parent))
    while True:
        first, last = take_chunk(control, CHUNK_ROWS, end, begin)
        if first >= last:
            break
        for index in range(first, last):
            u = np.uint64(queue[index])
            position, stop = np.uint64(out.offsets[u]), np.uint64(out.offsets[u + ONE])
            examined += np.int64(stop - position)
            while position < stop:
                v = np.uint64(out.neighbors[position])
                position += ONE
                if has(tree.visited, v) or np.uint64(tree.parent[v]) <= u:
                    continue
                if np.uint64(atomic_umin(tree.parent, v, u)) >= none:
                    buffer[count] = v
                    count += 1
                    if count == BUFFER:
                        _flush(control, queue, end, buffer, count)
                        count = 0
    _flush(control, queue, end, buffer, count)
    atomic_add(control, EXAMINED, examined)
