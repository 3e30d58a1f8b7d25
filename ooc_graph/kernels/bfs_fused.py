"""A whole BFS in one call per thread: the loop over levels runs inside (decision 8)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels import interface
from ooc_graph.kernels.bfs_pull import EXAMINED, FOUND, FOUND_ARCS, pull_part
from ooc_graph.kernels.bfs_push import push_alone, push_part, settle
from ooc_graph.kernels.bitmap import Words, members, put_all
from ooc_graph.kernels.compiled import kernel
from ooc_graph.kernels.interface import PULL, PUSH
from ooc_graph.kernels.team import CHUNK, FIRST_FREE, LINE, OPERATION, barrier
from ooc_graph.types import AnyArray

DONE = 2
BEGIN, END, DEPTH = FIRST_FREE + 3 * LINE, FIRST_FREE + 4 * LINE, FIRST_FREE + 5 * LINE
"""Words of the control array: the frontier is ``queue[BEGIN:END]``; level of what comes next."""
ALONE_ARCS = 8192
"""A frontier with no more arcs than this is pushed by one thread: a barrier costs more."""

choose_direction = kernel(interface.choose_direction)


class Course(NamedTuple):
    """What happened, level by level: (levels,) arrays with room for one level a vertex."""

    vertices: AnyArray
    arcs: AnyArray
    direction: AnyArray


class Scratch(NamedTuple):
    """Room that one search needs: never read before written, except ``never``.

    ``never`` is the bitmap of rows that can not be claimed: no in-arcs, or past the last row.
    """

    queue: AnyArray
    buffers: AnyArray
    frontier: Words
    never: Words


@kernel
def _reset(thread: int, threads: int, tree: Any, scratch: Any) -> None:
    rows, words = len(tree.parent), len(tree.visited)
    begin, end = rows * thread // threads, rows * (thread + 1) // threads
    tree.parent[begin:end] = tree.parent.dtype.type(-1)
    tree.level[begin:end] = -1
    begin, end = words * thread // threads, words * (thread + 1) // threads
    for index in range(begin, end):
        tree.visited[index] = scratch.never[index]


@kernel
def _claim_root(out: Any, tree: Any, queue: Any, root: int) -> Any:
    tree.parent[root] = root
    queue[0] = root
    return settle(out, tree, queue, 0, 1, 0)


@kernel
def _fill_frontier(tree: Any, scratch: Any, in_bits: bool, begin: int, end: int) -> None:
    """Bring the frontier into ``scratch.frontier`` for a level that pulls."""
    if in_bits:
        for index in range(len(tree.found)):
            scratch.frontier[index] = tree.found[index]
    else:
        scratch.frontier[:] = 0
        put_all(scratch.frontier, scratch.queue[begin:], end - begin)


@kernel
def _plan(
    control: Any, out: Any, tree: Any, scratch: Any, course: Any, unvisited: int, direction: int
) -> int:
    """Close the level that ends here, run small ones alone, and say what all threads do next.

    ``direction`` is that of the level that ends. Called by thread 0 while the others wait;
    returns the arcs not visited yet.
    """
    queue, rows, in_bits = scratch.queue, len(tree.parent), direction == PULL
    begin, end, depth = control[BEGIN], control[END], control[DEPTH]
    count, arcs = control[FOUND], control[FOUND_ARCS]
    if direction == PUSH and depth > 0:
        arcs = settle(out, tree, queue, end, end + count, depth)
        begin, end = end, end + count
    if depth > 0:
        course.arcs[depth - 1] = control[EXAMINED]
    while True:
        course.vertices[depth], course.arcs[depth] = count, 0
        course.direction[depth] = direction
        unvisited -= arcs
        if count == 0:
            control[DEPTH], control[OPERATION] = depth, DONE
            return unvisited
        chosen = choose_direction(direction, count, arcs, unvisited, rows)
        if chosen == PUSH and in_bits:
            begin, end, in_bits = 0, members(tree.found, queue), False
        course.direction[depth] = chosen
        direction = chosen
        if chosen == PULL or arcs > ALONE_ARCS:
            break
        tail, examined = push_alone(out, tree, queue, begin, end)
        course.arcs[depth] = examined
        depth += 1
        begin, end, count = end, tail, tail - end
        arcs = settle(out, tree, queue, begin, end, depth)
    if direction == PULL:
        _fill_frontier(tree, scratch, in_bits, begin, end)
    control[BEGIN], control[END], control[DEPTH] = begin, end, depth + 1
    control[FOUND] = control[FOUND_ARCS] = control[EXAMINED] = control[CHUNK] = 0
    control[OPERATION] = direction
    return unvisited


@kernel
def search(
    thread: int,
    threads: int,
    control: Any,
    out: Any,
    into: Any,
    tree: Any,
    scratch: Any,
    course: Any,
    root: int,
) -> None:
    """Search from ``root``; word `DEPTH` of the control array ends as the number of levels."""
    _reset(thread, threads, tree, scratch)
    if not barrier(control, threads):
        return
    direction, unvisited = PUSH, np.int64(len(out.neighbors))
    if thread == 0:
        control[FOUND_ARCS] = _claim_root(out, tree, scratch.queue, root)
        control[FOUND], control[BEGIN], control[END] = 1, 0, 1
    while True:
        if thread == 0:
            unvisited = _plan(control, out, tree, scratch, course, unvisited, direction)
        if not barrier(control, threads) or control[OPERATION] == DONE:
            return
        direction = control[OPERATION]
        if direction == PULL:
            pull_part(control, into, tree, out.offsets, scratch.frontier, control[DEPTH])
        else:
            push_part(
                control,
                out,
                tree,
                scratch.queue,
                scratch.buffers[thread],
                control[BEGIN],
                control[END],
            )
        if not barrier(control, threads):
            return
