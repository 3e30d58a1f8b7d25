"""A whole BFS in one call per thread: the loop over levels runs inside."""

from __future__ import annotations

from typing import Any, NamedTuple

from ooc_graph.kernels.common.bitmap import Words, members, put_all
from ooc_graph.kernels.common.compiled import kernel, subroutine, varying
from ooc_graph.kernels.common.decisions import PULL, PUSH
from ooc_graph.kernels.common.team import CHUNK, OPERATION, barrier
from ooc_graph.kernels.cpu.bfs import pull
from ooc_graph.kernels.cpu.bfs.push import push_alone, push_part, settle, settle_part
from ooc_graph.kernels.cpu.bfs.thin_levels import choose_direction, leave_list
from ooc_graph.types import AnyArray

DONE = 2
ALONE_ARCS = 8192
"""A frontier with no more arcs than this is pushed by one thread: a barrier costs more."""

FROM_FOUND, FROM_VISITED, FROM_QUEUE = 0, 1, 2
"""Where the frontier stands: what a pull found; all visited since the push; in the queue alone."""


class Trace(NamedTuple):
    """What happened, level by level: (levels,) arrays, one level a vertex at most."""

    vertices: AnyArray
    arcs: AnyArray
    direction: AnyArray


class Scratch(NamedTuple):
    """Buffers of one search: never read before written, except ``never``.

    ``queue`` has one entry more than rows, or as many more as a list needs; ``state`` is a byte a
    row where the search starts from a list, else empty. ``never`` is the bitmap of rows that can
    not be claimed: no in-arcs, or past the last row.

    A search ends when level ``most`` is found, or, if there are ``targets``, int64 rows, all of
    them.
    """

    queue: AnyArray
    buffers: AnyArray
    frontier: Words
    never: Words
    state: AnyArray
    most: int
    targets: AnyArray


@subroutine
def _is_enough(tree: Any, scratch: Any, depth: int) -> bool:
    """Whether what is wanted has been found, now that the rows of a level are."""
    if depth >= scratch.most:
        return True
    for row in scratch.targets:
        if tree.level[row] < 0:
            return False
    return len(scratch.targets) > 0


@subroutine
def _fill_frontier(tree: Any, scratch: Any, source: int, begin: int, end: int) -> None:
    """Bring the frontier into ``scratch.frontier`` for a level that pulls."""
    if source == FROM_FOUND:
        for index in range(len(tree.found)):
            scratch.frontier[index] = tree.found[index]
    elif source == FROM_VISITED:
        for index in range(len(tree.found)):
            scratch.frontier[index] = tree.visited[index] & ~scratch.frontier[index]
    else:
        scratch.frontier[:] = 0
        put_all(scratch.frontier, scratch.queue[begin:], end - begin)


@subroutine
def _start(
    thread: int, threads: int, control: Any, out: Any, tree: Any, scratch: Any, root: int
) -> int:
    """Forget the search before, claim the root; return the arcs not visited yet."""
    rows, words = len(tree.parent), len(tree.visited)
    begin, end = rows * thread // threads, rows * (thread + 1) // threads
    tree.parent[begin:end] = tree.parent.dtype.type(-1)
    tree.level[begin:end] = -1
    for index in range(words * thread // threads, words * (thread + 1) // threads):
        tree.visited[index] = scratch.never[index]
    if barrier(control, threads) and thread == 0:
        tree.parent[root] = root
        scratch.queue[0] = root
        control[pull.FOUND_ARCS] = settle(out, tree, scratch.queue, 0, 1, 0)
        control[pull.FOUND], control[pull.BEGIN], control[pull.END] = 1, 0, 1
    return len(out.neighbors)


@subroutine
def _push(thread: int, threads: int, control: Any, out: Any, tree: Any, scratch: Any) -> None:
    """Push with all threads, and make what is new the frontier."""
    queue, begin, end = scratch.queue, control[pull.BEGIN], control[pull.END]
    push_part(control, out, tree, queue, scratch.buffers[thread], begin, end)
    if not barrier(control, threads):
        return
    count = control[pull.FOUND]
    settle_part(control, out, tree, queue, end, end + count)
    if thread == 0:
        control[pull.BEGIN], control[pull.END] = end, end + count


@subroutine
def _plan(
    control: Any, out: Any, tree: Any, scratch: Any, trace: Any, unvisited: int, source: int
) -> int:
    """Run small levels alone, and say what all threads do next.

    ``source`` says where the frontier stands. Called by thread 0 while the others wait; returns
    the arcs not visited yet.
    """
    queue, rows = scratch.queue, len(tree.parent)
    direction = varying(PULL if source == FROM_FOUND else PUSH)
    begin, end, depth = control[pull.BEGIN], control[pull.END], control[pull.DEPTH]
    count, arcs = control[pull.FOUND], control[pull.FOUND_ARCS]
    while True:
        trace.vertices[depth], trace.arcs[depth] = count, 0
        trace.direction[depth] = direction
        unvisited -= arcs
        if count == 0 or _is_enough(tree, scratch, depth):
            control[pull.DEPTH], control[OPERATION] = depth + (count > 0), DONE
            return unvisited
        chosen = choose_direction(direction, count, arcs, unvisited, rows)
        if chosen == PUSH and source == FROM_FOUND:
            begin, end, source = 0, members(tree.found, queue), FROM_QUEUE
        trace.direction[depth] = chosen
        direction = chosen
        depth += 1
        if chosen == PULL or arcs > ALONE_ARCS:
            break
        tail, examined = push_alone(out, tree, queue, begin, end)
        source = FROM_QUEUE
        trace.arcs[depth - 1] = examined
        begin, end, count = end, tail, tail - end
        arcs = settle(out, tree, queue, begin, end, depth)
    if direction == PULL:
        _fill_frontier(tree, scratch, source, begin, end)
    else:
        # For `FROM_VISITED`.
        for index in range(len(tree.visited)):
            scratch.frontier[index] = tree.visited[index]
    control[pull.BEGIN], control[pull.END], control[pull.DEPTH] = begin, end, depth
    control[pull.FOUND] = control[pull.FOUND_ARCS] = control[pull.EXAMINED] = 0
    control[CHUNK] = control[pull.SETTLED] = 0
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
    trace: Any,
    root: int,
    listed: int,
) -> None:
    """Search from ``root``; word `DEPTH` of the control array ends as the number of levels.

    ``listed`` is what `search_list` returned, where that began the search, else -1.
    """
    source, unvisited = varying(FROM_QUEUE), listed
    if listed >= 0:
        leave_list(control, tree, scratch.state, scratch.never)
        if not barrier(control, threads):
            return
    else:
        unvisited = _start(thread, threads, control, out, tree, scratch, root)
    while True:
        if thread == 0:
            unvisited = _plan(control, out, tree, scratch, trace, unvisited, source)
        if not barrier(control, threads) or control[OPERATION] == DONE:
            return
        if control[OPERATION] == PULL:
            source = FROM_FOUND
            depth = control[pull.DEPTH]
            pull.pull_part(
                thread, threads, control, into, tree, out.offsets, scratch.frontier, depth
            )
        else:
            source = FROM_VISITED
            _push(thread, threads, control, out, tree, scratch)
        if not barrier(control, threads):
            return
        if thread == 0:
            trace.arcs[control[pull.DEPTH] - 1] = control[pull.EXAMINED]
