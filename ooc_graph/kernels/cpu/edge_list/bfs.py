"""BFS over grouped edges, level by level, with levels of one byte.

A level reads the groups that lead from a segment with vertices of the frontier to a segment with
vertices not visited yet; the rest is skipped unread. Parents are found on the way: every edge from
the frontier to a vertex that was not visited when the level began offers its nearer end, and the
smallest id wins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import team
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.decisions import PUSH
from ooc_graph.kernels.cpu.edge_list.grouped import HALF, LOW_END, pieces_of, segment_of_id
from ooc_graph.types import AnyArray, IntArray

GO, DONE, WIDEN = 0, 1, 2
DEPTH, EXAMINED = team.FIRST_FREE, team.FIRST_FREE + team.LINE
"""Words of the control array: level of the frontier, edges read in a level."""


class Reach(NamedTuple):
    """State of a search over (vertices,) in segments.

    ``level``: unsigned, all ones where unreached; ``parent`` the same. ``front`` int64
    (2, segments): vertices of the frontier in each segment, of even and odd levels. ``left``
    int64 (segments,): vertices not visited when the level began.
    """

    level: AnyArray
    parent: AnyArray
    front: IntArray
    left: IntArray


@subroutine
def reset_part(thread: int, threads: int, edges: Any, reach: Any) -> None:
    """Forget the last search; all threads call it."""
    rows = len(reach.parent)
    begin, end = rows * thread // threads, rows * (thread + 1) // threads
    reach.level[begin:end] = reach.level.dtype.type(-1)
    reach.parent[begin:end] = reach.parent.dtype.type(-1)
    if thread == 0:
        reach.front[:] = 0
        for segment in range(len(reach.left)):
            reach.left[segment] = edges.base[segment + 1] - edges.base[segment]


@subroutine
def _visit(levels: Any, parents: Any, vertex: Any, parent: Any, depth: Any) -> int:
    """Offer a parent at ``depth``; 1 to the one thread that is the first to reach the vertex."""
    if parents[vertex] <= parent:
        return 0
    if team.atomic_umin(parents, vertex, parent) != parents.dtype.type(-1):
        return 0
    levels[vertex] = depth + 1
    return 1


@subroutine
def _read_piece(edges: Any, piece: int, reach: Any, depth: Any) -> tuple[int, int]:
    """Visit along the edges of a piece; vertices found in the segments of heads and tails."""
    tail_id, head_id = edges.base[edges.tail[piece]], edges.base[edges.head[piece]]
    tails, heads = reach.level[tail_id:], reach.level[head_id:]
    parent_of_tail, parent_of_head = reach.parent[tail_id:], reach.parent[head_id:]
    found_heads, found_tails = 0, 0
    for index in range(edges.begin[piece], edges.begin[piece + 1]):
        tail, head = edges.ends[index] & LOW_END, edges.ends[index] >> HALF
        of_tail, of_head = tails[tail], heads[head]
        # One branch for both ways: most edges fail it, and which ones cannot be predicted.
        if (min(of_tail, of_head) != depth) | (max(of_tail, of_head) == depth):
            continue
        if of_tail == depth:
            found_heads += _visit(heads, parent_of_head, head, tail_id + tail, depth)
        elif edges.undirected:
            found_tails += _visit(tails, parent_of_tail, tail, head_id + head, depth)
    return found_heads, found_tails


@subroutine
def level_part(control: Any, edges: Any, reach: Any, depth: int) -> None:
    """Read pieces until none is left; all threads call it. Word `CHUNK` must be 0 at the start."""
    front, after, examined = reach.front[depth & 1], reach.front[(depth + 1) & 1], 0
    at = reach.level.dtype.type(depth)
    for piece in pieces_of(control, edges):
        tail, head = edges.tail[piece], edges.head[piece]
        useful = front[tail] > 0 and reach.left[head] > 0
        if edges.undirected and not useful:
            useful = front[head] > 0 and reach.left[tail] > 0
        if not useful:
            continue
        examined += edges.begin[piece + 1] - edges.begin[piece]
        heads, tails = _read_piece(edges, piece, reach, at)
        if heads > 0:
            team.atomic_add(after, head, heads)
        if tails > 0:
            team.atomic_add(after, tail, tails)
    team.atomic_add(control, EXAMINED, examined)


@subroutine
def _plan(control: Any, reach: Any, trace: Any, depth: int, fresh: bool) -> None:
    """Begin the level of the vertices at ``depth``. Thread 0, while the others wait.

    ``fresh`` is False if the search continues with wider levels: all is counted already.
    """
    front, count, left = reach.front[depth & 1], 0, 0
    for segment in range(len(reach.left)):
        if fresh:
            reach.left[segment] -= front[segment]
        count += front[segment]
        left += reach.left[segment]
    if fresh and depth > 0:
        trace.arcs[depth - 1] = control[EXAMINED]
    trace.vertices[depth], trace.arcs[depth], trace.direction[depth] = count, 0, PUSH
    control[DEPTH], control[team.CHUNK], control[EXAMINED] = depth, 0, 0
    reach.front[(depth + 1) & 1][:] = 0
    # The largest level says unreached, so the one below it is the last that can be given.
    last = np.uint64(reach.level.dtype.type(-1)) - np.uint64(1)
    if count == 0:
        control[team.OPERATION] = DONE
    elif left == 0:
        control[team.OPERATION], control[DEPTH] = DONE, depth + 1
    else:
        control[team.OPERATION] = GO if np.uint64(depth) < last else WIDEN


@kernel
def search(
    thread: int,
    threads: int,
    control: Any,
    edges: Any,
    reach: Any,
    trace: Any,
    root: int,
    depth: int,
) -> None:
    """Search from ``root``, or go on from ``depth`` where that is above 0.

    Word `OPERATION` ends as `DONE`, or as `WIDEN` where the levels' dtype is too narrow to go on;
    word `DEPTH` as the number of levels, or as the one to go on from.
    """
    fresh = depth == 0
    if fresh:
        reset_part(thread, threads, edges, reach)
        if not team.barrier(control, threads):
            return
        if thread == 0:
            reach.level[root], reach.parent[root] = 0, root
            reach.front[0, segment_of_id(root)] = 1
    while True:
        if thread == 0:
            _plan(control, reach, trace, depth, fresh)
        if not team.barrier(control, threads) or control[team.OPERATION] != GO:
            return
        level_part(control, edges, reach, depth)
        depth += 1
        fresh = True
        if not team.barrier(control, threads):
            return


@kernel
def publish_part(thread: int, threads: int, control: Any, narrow: Any, level: Any) -> None:  # noqa: ARG001
    """Bring one-byte levels into ``level``, -1 where unreached; all threads call it."""
    none = narrow.dtype.type(-1)
    begin, end = len(level) * thread // threads, len(level) * (thread + 1) // threads
    for vertex in range(begin, end):
        level[vertex] = -1 if narrow[vertex] == none else np.int32(narrow[vertex])
