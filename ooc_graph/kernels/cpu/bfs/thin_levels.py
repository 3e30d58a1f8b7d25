"""Thin levels, one after another, by one thread from a plain list of vertices.

A road network has hundreds of levels of a few hundred vertices each. What counts then is how many
instructions and cache misses a vertex takes, so nothing here costs more in a level than its
frontier and its arcs, and

- what is known of a vertex is one byte, `UNSEEN` or its level modulo 3. That is enough to find
  parents: neighbours' levels differ by one at most, and what lies farther down an in-arc has not
  been reached yet. Where in-rows are the out-rows, as of all undirected graphs, the row that is
  read to find new vertices names the parent, too;
- rows of at most four arcs, if most are so short, have a fixed slot (`ListRows`): one cache line
  and no look at the offsets, which is asked for while earlier rows are searched;
- no branch depends on what the bytes say. All neighbours that were not seen before the level are
  written to the list, two with one store; a second pass drops what stands there twice and sets
  the bytes. (Setting them at once was slower on road networks.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common import decisions
from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, lowest_bit
from ooc_graph.kernels.common.compiled import kernel, subroutine, varying
from ooc_graph.kernels.common.dealt import WHOLE, arcs_of
from ooc_graph.kernels.common.decisions import PUSH
from ooc_graph.kernels.common.team import take_chunk
from ooc_graph.kernels.common.tuning import LIST_ARCS
from ooc_graph.kernels.cpu.bfs import list_level
from ooc_graph.kernels.cpu.bfs.pull import BEGIN, DEPTH, END, FOUND, FOUND_ARCS, REACHED

FEW = 8
"""A level of fewer vertices goes by way of the offsets: what wide levels gain from costs more."""
MOVE_TO_FRONT = 8192
"""The list starts again at its front from this entry on, so that it stays in cache."""
CHUNK_WORDS = 128
"""Bitmap words, of 64 rows each, that a thread takes at once."""
LIST_EXTRA = LIST_ARCS + list_level.AHEAD + 2
"""Entries of the list beyond one for each row: a level's finds before the second pass, and what
is read ahead or written with the last of them."""


choose_direction = subroutine(decisions.choose_direction)
stays_listed = subroutine(decisions.stays_listed)


@subroutine
def _goes_on(count: int, arcs: int, left: int, rows: int) -> bool:
    """`stays_listed`, of so many frontier arcs or an upper bound, of ``left`` not searched yet."""
    direction = choose_direction(PUSH, count, arcs, left - arcs, rows)
    return bool(stays_listed(direction, arcs))


@subroutine
def _is_enough(state: Any, scratch: Any, depth: int) -> bool:
    """Whether what is wanted has been seen, with all of a level."""
    if depth >= scratch.most:
        return True
    for row in scratch.targets:
        if state[row] <= list_level.UNSEEN:
            return False
    return len(scratch.targets) > 0


@kernel
def search_list(control: Any, sides: Any, tree: Any, scratch: Any, trace: Any, root: int) -> Any:
    """Search from ``root`` for as long as `stays_listed` says, and more is wanted; one thread.

    Words `BEGIN`, `END` and `DEPTH` of the control array become the bounds of the frontier in
    ``queue`` and its level; `FOUND` and `FOUND_ARCS` its vertices and out-arcs, 0 when the search
    is over; `REACHED` all vertices that were seen. These have parents and levels; see `leave_list`.

    The queue, ids (rows + `LIST_EXTRA`,), is zeros before the first search. The out-arcs of the
    widest row bound those of the frontier at no cost. Returns the out-arcs of the frontier and of
    all that is not seen yet.
    """
    out, into, state, queue = sides.out, sides.into, scratch.state, scratch.queue
    rows, left = len(tree.level), np.int64(len(out.neighbors))
    state[:] = list_level.UNSEEN
    state[root] = list_level.byte_of(0)
    queue[0] = root
    begin, end, depth, reached, arcs = varying(0), varying(1), varying(0), 0, varying(0)
    while end > begin:
        count = end - begin
        reached += count
        arcs = count * sides.widest
        is_enough = _is_enough(state, scratch, depth)
        if is_enough or not _goes_on(count, arcs, left, rows):
            arcs = arcs_of(out.offsets, WHOLE, queue[begin:end])
            if is_enough or not _goes_on(count, arcs, left, rows):
                list_level.find_parents(into, state, tree, queue, begin, end, depth)
                break
        placed = len(out.fixed) > 0 and count >= FEW
        if placed:
            list_level.fetch_first(out, tree, queue, begin, end)
            tail, arcs = list_level.search_level(out, state, tree, queue, begin, end, depth)
        else:
            tail, arcs = list_level.search_level_by_offsets(
                out, state, tree, queue, begin, end, depth
            )
        if not sides.same:
            list_level.find_parents(into, state, tree, queue, begin, end, depth)
        trace.vertices[depth], trace.arcs[depth] = count, arcs
        trace.direction[depth] = PUSH
        left -= arcs
        depth += 1
        if placed:
            tail = list_level.settle_level(state, queue, end, tail, depth)
        begin, end, arcs = end, tail, np.int64(0)
        if begin >= MOVE_TO_FRONT and begin >= 4 * (end - begin):
            for index in range(end - begin):
                queue[index] = queue[begin + index]
            begin, end = 0, end - begin
    tree.parent[root] = root
    control[BEGIN], control[END], control[DEPTH] = begin, end, depth
    control[FOUND], control[FOUND_ARCS], control[REACHED] = end - begin, arcs, reached
    return left


@subroutine
def leave_list(control: Any, tree: Any, state: Any, never: Any) -> None:
    """Bring the bitmap of what is visited up to the bytes, and clear what was not seen.

    All threads call it. Word `CHUNK` must be 0 at the start.
    """
    none, rows, words = tree.parent.dtype.type(-1), len(tree.level), len(never)
    while True:
        begin, end = take_chunk(control, CHUNK_WORDS, words)
        if begin >= end:
            break
        for index in range(begin, end):
            seen, first = np.uint64(0), index * WORD_BITS
            count = min(WORD_BITS, rows - first)
            for bit in range(count):
                seen |= np.uint64(state[np.uint64(first + bit)] > list_level.UNSEEN) << np.uint64(
                    bit
                )
            tree.visited[index] = seen | never[index]
            rest = ~seen & (~np.uint64(0) >> np.uint64(WORD_BITS - count))
            while rest != 0:
                row = np.uint64(first + lowest_bit(rest))
                rest &= rest - ONE
                tree.parent[row] = none
                tree.level[row] = -1
