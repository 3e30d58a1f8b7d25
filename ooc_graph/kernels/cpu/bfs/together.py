"""A whole BFS by ranks whose processes share memory: the loop over levels runs inside (CPU)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common import bitmap, meeting
from ooc_graph.kernels.common.bitmap import SIX
from ooc_graph.kernels.common.compiled import kernel, subroutine, varying
from ooc_graph.kernels.common.dealt import internal_of
from ooc_graph.kernels.common.decisions import PULL, PUSH
from ooc_graph.kernels.common.team import (
    FIRST_FREE,
    LINE,
    OPERATION,
    atomic_add,
    take_chunk,
)
from ooc_graph.kernels.cpu.bfs import pull
from ooc_graph.kernels.cpu.bfs.claims import push, settle
from ooc_graph.kernels.cpu.bfs.fused import DONE
from ooc_graph.kernels.cpu.bfs.thin_levels import choose_direction

CHUNKS = pull.REACHED + LINE
"""First of three words of a process's control array, by which its threads take work."""
COUNTS = FIRST_FREE
"""First of three groups of words of the common control array: vertices found, arcs, examined."""
_GROUP = 3 * LINE


@subroutine
def _tell(found: Any, dealt: Any, frontier: Any, begin: int, end: int) -> None:
    """Write own words into a bitmap of all vertices."""
    for index in range(begin, end):
        vertex = internal_of(index * bitmap.WORD_BITS, dealt)
        frontier[np.uint64(vertex) >> SIX] = found[index]


@subroutine
def _tell_all(control: Any, word: int, found: Any, dealt: Any, frontier: Any) -> None:
    """Write all own words into a bitmap of all vertices, by all threads."""
    while True:
        begin, end = take_chunk(control, pull.CHUNK_WORDS, len(found), 0, word)
        if begin >= end:
            return
        _tell(found, dealt, frontier, begin, end)


@subroutine
def _pull(
    control: Any, word: int, own: Any, dealt: Any, frontier: Any, found: Any, depth: int
) -> tuple[int, int, int]:
    """Pull own rows, and tell others which were found; rows found, their out-arcs, arcs seen."""
    tree, count, arcs, examined = own.tree, 0, 0, 0
    while True:
        begin, end = take_chunk(control, pull.CHUNK_WORDS, len(tree.visited), 0, word)
        if begin >= end:
            return count, arcs, examined
        for block in range(begin, end, pull.BLOCK_WORDS):
            stop = min(block + pull.BLOCK_WORDS, end)
            c, a, e = pull.pull_block(own.into, tree, own.out.offsets, frontier, block, stop, depth)
            count += c
            arcs += a
            examined += e
        _tell(tree.found, dealt, found, begin, end)


@subroutine
def _begin_step(thread: int, control: Any, common: Any, dealt: Any, step: int) -> tuple[int, int]:
    """Words of a step: by which threads take work, and the first that it counts in.

    Those of the next step are set to zero. They were last used two steps ago, and all have been at
    a barrier since.
    """
    now, after = step % 3, (step + 1) % 3
    if thread == 0:
        control[CHUNKS + after * LINE] = 0
        if dealt.shard == 0:
            for word in range(3):
                common.control[COUNTS + after * _GROUP + word * LINE] = 0
    return CHUNKS + now * LINE, COUNTS + now * _GROUP


@subroutine
def _end_step(
    control: Any, common: Any, start: Any, begun_s: int, counts: int, counted: Any
) -> bool:
    """Add to what the step counts, and wait for all."""
    for word in range(3):
        atomic_add(common.control, counts + word * LINE, counted[word])
    return bool(meeting.meet(common.control, control, start.members, begun_s, start.waits))


@kernel
def search_together(
    thread: int, threads: int, control: Any, common: Any, own: Any, start: Any
) -> None:
    """Search on from the root, which its owner has claimed; all threads of all ranks call it.

    Word `DEPTH` of the control array becomes the number of levels, and `OPERATION` `DONE` unless
    somebody gave up or there are more levels than ``own.trace`` has entries for.
    """
    begun_s, dealt, half = meeting.seconds(), start.dealt, len(common.frontier) // 2
    step, depth, direction, is_known = varying(0), varying(0), varying(PUSH), False
    unvisited, trace, nothing = start.arcs, own.trace, (varying(0), varying(0), varying(0))
    # A step that only clears what the next one counts in: the search before has used that.
    word, counts = _begin_step(thread, control, common, dealt, step)
    if not _end_step(control, common, start, begun_s, counts, nothing):
        return
    step += 1
    word, counts = _begin_step(thread, control, common, dealt, step)
    c, a, e = nothing
    if thread == 0:
        c, a = start.found, start.found_arcs
    while _end_step(control, common, start, begun_s, counts, (c, a, e)):
        count, arcs = common.control[counts], common.control[counts + LINE]
        if thread == 0 and depth > 0:
            trace.arcs[depth - 1] = common.control[counts + 2 * LINE]
        if count == 0:
            if thread == 0:
                control[pull.DEPTH], control[OPERATION] = depth, DONE
            return
        if depth == len(trace.vertices):
            return
        unvisited -= arcs
        direction = choose_direction(direction, count, arcs, unvisited, start.vertices)
        if thread == 0:
            trace.vertices[depth], trace.direction[depth] = count, direction
        this = common.frontier[half * (depth & 1) : half * ((depth & 1) + 1)]
        after = common.frontier[half * (~depth & 1) : half * ((~depth & 1) + 1)]
        depth += 1
        step += 1
        word, counts = _begin_step(thread, control, common, dealt, step)
        is_ready = direction == PULL and is_known
        if not is_ready:
            # Two steps, of which the first counts nothing.
            if direction == PULL:
                _tell_all(control, word, own.tree.found, dealt, this)
            else:
                e = push(threads, control, word, own, dealt, common)
            if not _end_step(control, common, start, begun_s, counts, nothing):
                return
            step += 1
            word, counts = _begin_step(thread, control, common, dealt, step)
        if direction == PULL:
            c, a, e = _pull(control, word, own, dealt, this, after, depth)
        else:
            c, a = settle(control, word, own, dealt, common, depth)
        is_known = direction == PULL
