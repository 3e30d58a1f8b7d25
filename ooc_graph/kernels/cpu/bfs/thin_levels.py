"""Thin levels, one after another, by one thread from a plain list of vertices.

A road network has hundreds of levels of a few hundred vertices each. What counts then is how many
instructions and cache misses a vertex takes, so nothing here costs more in a level than its
frontier and its arcs, and

- what is known of a vertex is one byte, `UNSEEN` or its level modulo 3. That is enough to find
  parents: neighbours' levels differ by one at most, and what lies farther down an in-arc has not
  been reached yet. Where in-rows are the out-rows, as of all undirected graphs, the row that is
  read to find new vertices names the parent, too;
- rows of at most four arcs, if most are so short, have a fixed place (`ListRows`): one cache line
  and no look at the offsets, which is asked for while earlier rows are searched;
- no branch depends on what the bytes say. All neighbours that were not seen before the level are
  written to the list, two with one store; a second pass drops what stands there twice and sets
  the bytes. (Setting them at once was slower on road networks.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import decisions
from ooc_graph.kernels.common.bitmap import ONE, WORD_BITS, lowest_bit
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.decisions import PUSH
from ooc_graph.kernels.common.intrinsics import rarely, stays_apart, store_two
from ooc_graph.kernels.common.prefetch import prefetch, prefetch_to_write
from ooc_graph.kernels.common.team import take_chunk
from ooc_graph.kernels.common.tuning import LIST_ARCS
from ooc_graph.kernels.cpu.bfs.pull import BEGIN, DEPTH, END, FOUND, FOUND_ARCS, REACHED
from ooc_graph.types import AnyArray

AHEAD, ROW_AHEAD = 64, 32
"""Entries of the list between a row's search, and the fetch of its place and of its arcs."""
FEW = 8
"""A level of fewer vertices goes by way of the offsets: what wide levels gain from costs more."""
MOVE_TO_FRONT = 8192
"""The list starts again at its front from this entry on, so that it stays in cache."""
CHUNK_WORDS = 128
"""Bitmap words, of 64 rows each, that a thread takes at once."""
LIST_EXTRA = LIST_ARCS + AHEAD + 2
"""Entries of the list beyond one for each row: a level's finds before the second pass, and what
is read ahead or written with the last of them."""

UNSEEN, SEEN, TURN = 0, 32, 64
"""A vertex's byte: `UNSEEN`, or `SEEN` + `TURN` * (level modulo 3). So its low 6 bits are how far
to shift a word of two ids to drop the first one: 0 if that is new, 32 if not."""
_SHIFT, _HALF, _LOW = np.uint64(63), np.uint64(32), np.uint64((1 << 32) - 1)
_COUNT = np.uint64(32 + decisions.FIXED_ID_BITS)
_IDS = (ONE << _COUNT) - ONE
_MOST, LONG = np.uint64(decisions.FIXED_ARCS), np.uint64(7)

choose_direction = subroutine(decisions.choose_direction)
stays_listed = subroutine(decisions.stays_listed)


class ListRows(NamedTuple):
    """Rows to search from a list: int64 offsets, and ids that ascend in each row.

    ``fixed`` is uint64 (2 * rows,), or empty: words 2r and 2r + 1 hold row r's four ids of 32 bits,
    r itself if it has fewer, and in the first word's highest 3 bits its number of arcs, or `LONG`
    of a row that has more than `FIXED_ARCS`.
    """

    offsets: AnyArray
    neighbors: AnyArray
    fixed: AnyArray


class Sides(NamedTuple):
    """Out- and in-rows, whether they are the ``same``, and the most out-arcs of a row."""

    out: ListRows
    into: ListRows
    same: bool
    widest: int


@kernel
def survey_rows(offsets: Any) -> tuple[Any, int]:
    """Most arcs of a row, and how many rows have more than `FIXED_ARCS`."""
    widest, longer = np.int64(0), 0
    for row in range(len(offsets) - 1):
        arcs = offsets[row + 1] - offsets[row]
        widest = max(widest, arcs)
        longer += arcs > decisions.FIXED_ARCS
    return widest, longer


@kernel
def fix_rows(offsets: Any, neighbors: Any, fixed: Any) -> None:
    """Fill ``fixed`` of `ListRows`."""
    for row in range(len(offsets) - 1):
        first, arcs = offsets[row], offsets[row + 1] - offsets[row]
        for half in range(2):
            word = np.uint64(0)
            for arc in range(2 * half, 2 * half + 2):
                v = np.uint64(neighbors[first + arc]) if arc < arcs else np.uint64(row)
                word |= v << np.uint64(32 * (arc & 1))
            fixed[2 * row + half] = word
        fixed[2 * row] |= (np.uint64(arcs) if arcs <= decisions.FIXED_ARCS else LONG) << _COUNT


@subroutine
def _byte_of(depth: Any) -> Any:
    """What the byte of a vertex of this level is; of level -1, too."""
    return np.uint8(SEEN + TURN * (np.uint64(depth + 3) % np.uint64(3)))


@subroutine
def _fetch_row(rows: Any, queue: Any, index: Any) -> Any:
    """Fetch what the rows some entries ahead will need; the vertex `AHEAD` entries ahead.

    Past the known end of the list stand older entries: their rows are fetched for nothing.
    """
    ahead = np.uint64(queue[index + np.uint64(AHEAD)])
    if len(rows.fixed) > 0:
        prefetch(rows.fixed, ahead << ONE)
    else:
        prefetch(rows.offsets, ahead)
        near = np.uint64(queue[index + np.uint64(ROW_AHEAD)])
        prefetch(rows.neighbors, np.uint64(rows.offsets[near]))
    return ahead


@subroutine
def _fetch_first(rows: Any, tree: Any, queue: Any, begin: Any, end: Any) -> None:
    """Fetch what the first vertices of a level need, before their turn comes."""
    for index in range(np.uint64(begin), np.uint64(min(end, begin + AHEAD))):
        u = np.uint64(queue[index])
        prefetch(rows.fixed, u << ONE)
        prefetch_to_write(tree.parent, u)
        prefetch_to_write(tree.level, u)


@subroutine
def _search_long(
    rows: Any, state: Any, queue: Any, u: Any, tail: Any, above: Any
) -> tuple[Any, Any, Any]:
    """Append the unseen neighbours of ``u``; the list's end, the first at ``above``, arcs.

    Backwards, so that the last hit is the first neighbour: where that lies can not be foreseen.
    """
    first, position = np.uint64(rows.offsets[u]), np.uint64(rows.offsets[u + ONE])
    arcs, parent = position - first, u
    while position > first:
        position -= ONE
        v = np.uint64(rows.neighbors[position])
        seen = state[v]
        queue[tail] = v
        tail += np.uint64(seen < ONE)
        parent = v if seen == above else parent
    return tail, parent, arcs


@subroutine
def _search_level(
    rows: Any, state: Any, tree: Any, queue: Any, begin: int, end: int, depth: int
) -> tuple[Any, Any]:
    """Append the unseen neighbours of ``queue[begin:end]``, some more than once.

    Sets levels, and parents as they are where in-rows are the out-rows. Returns the list's end and
    the arcs seen.
    """
    stays_apart()
    # Unsigned throughout: numba checks signed indices for being negative, at each access.
    index, last, tail, arcs = np.uint64(begin), np.uint64(end), np.uint64(end), np.uint64(0)
    above = _byte_of(depth - 1)
    while index < last:
        u = np.uint64(queue[index])
        ahead = np.uint64(queue[index + np.uint64(AHEAD)])
        prefetch(rows.fixed, ahead << ONE)
        prefetch_to_write(tree.parent, ahead)
        prefetch_to_write(tree.level, ahead)
        index += ONE
        ab, cd = rows.fixed[u << ONE], rows.fixed[(u << ONE) + ONE]
        found = ab >> _COUNT
        if rarely(found > _MOST):
            tail, parent, found = _search_long(rows, state, queue, u, tail, above)
        else:
            ab &= _IDS
            a, b, c, d = ab & _LOW, ab >> _HALF, cd & _LOW, cd >> _HALF
            at_a, at_b, at_c, at_d = state[a], state[b], state[c], state[d]
            store_two(queue, tail, ab >> (np.uint64(at_a) & _SHIFT))
            tail += np.uint64(at_a < ONE)
            tail += np.uint64(at_b < ONE)
            store_two(queue, tail, cd >> (np.uint64(at_c) & _SHIFT))
            tail += np.uint64(at_c < ONE)
            tail += np.uint64(at_d < ONE)
            parent = c if at_c == above else d
            parent = b if at_b == above else parent
            parent = a if at_a == above else parent
        arcs += found
        tree.parent[u] = parent
        tree.level[u] = depth
    return np.int64(tail), np.int64(arcs)


@subroutine
def _search_level_by_offsets(
    rows: Any, state: Any, tree: Any, queue: Any, begin: int, end: int, depth: int
) -> tuple[Any, Any]:
    """As `_search_level`, without fixed places; each new vertex is listed once, and its byte set.

    Longer rows find the same vertex more often, so a second pass would take longer than this.
    """
    index, last, tail, arcs = np.uint64(begin), np.uint64(end), np.uint64(end), np.uint64(0)
    above, byte = _byte_of(depth - 1), _byte_of(depth + 1)
    while index < last:
        u = np.uint64(queue[index])
        ahead = _fetch_row(rows, queue, index)
        prefetch_to_write(tree.parent, ahead)
        prefetch_to_write(tree.level, ahead)
        index += ONE
        first, position = np.uint64(rows.offsets[u]), np.uint64(rows.offsets[u + ONE])
        arcs += position - first
        parent = u
        while position > first:
            position -= ONE
            v = np.uint64(rows.neighbors[position])
            seen = state[v]
            queue[tail] = v
            state[v] = byte if seen < ONE else seen
            tail += np.uint64(seen < ONE)
            parent = v if seen == above else parent
        tree.parent[u] = parent
        tree.level[u] = depth
    return np.int64(tail), np.int64(arcs)


@subroutine
def _settle(state: Any, queue: Any, begin: int, end: int, depth: int) -> Any:
    """Keep each vertex of ``queue[begin:end]`` once, seen at level ``depth``; the new end."""
    index, last, tail, byte = np.uint64(begin), np.uint64(end), np.uint64(begin), _byte_of(depth)
    while index < last:
        v = np.uint64(queue[index])
        queue[tail] = v
        tail += np.uint64(state[v] < ONE)
        state[v] = byte
        index += ONE
    return np.int64(tail)


@subroutine
def _parent_of(into: Any, state: Any, u: Any, above: Any) -> Any:
    """First in-neighbour whose byte is ``above``."""
    if len(into.fixed) == 0 or into.fixed[u << ONE] >> _COUNT > _MOST:
        first, position = np.uint64(into.offsets[u]), np.uint64(into.offsets[u + ONE])
        parent = u
        while position > first:
            position -= ONE
            v = np.uint64(into.neighbors[position])
            parent = v if state[v] == above else parent
        return parent
    ab, cd = into.fixed[u << ONE] & _IDS, into.fixed[(u << ONE) + ONE]
    a, b, c, parent = ab & _LOW, ab >> _HALF, cd & _LOW, cd >> _HALF
    parent = c if state[c] == above else parent
    parent = b if state[b] == above else parent
    return a if state[a] == above else parent


@subroutine
def _find_parents(
    into: Any, state: Any, tree: Any, queue: Any, begin: int, end: int, depth: int
) -> None:
    """Set levels and parents of ``queue[begin:end]``, before anything of the next level is seen."""
    above = _byte_of(depth - 1)
    for index in range(begin, end):
        _fetch_row(into, queue, np.uint64(index))
        u = np.uint64(queue[index])
        tree.parent[u] = _parent_of(into, state, u, above)
        tree.level[u] = depth


@subroutine
def _arcs_of(out: Any, queue: Any, begin: int, end: int) -> Any:
    arcs = np.int64(0)
    for index in range(begin, end):
        u = np.uint64(queue[index])
        arcs += np.int64(out.offsets[u + ONE]) - np.int64(out.offsets[u])
    return arcs


@subroutine
def _goes_on(count: int, arcs: int, left: int, rows: int) -> bool:
    """`stays_listed`, of so many frontier arcs or an upper bound, of ``left`` not searched yet."""
    direction = choose_direction(PUSH, count, arcs, left - arcs, rows)
    return bool(stays_listed(direction, arcs))


@kernel
def search_list(control: Any, sides: Any, tree: Any, scratch: Any, trace: Any, root: int) -> Any:
    """Search from ``root`` for as long as `stays_listed` says; one thread.

    Words `BEGIN`, `END` and `DEPTH` of the control array become the place of the frontier in
    ``queue`` and its level; `FOUND` and `FOUND_ARCS` its vertices and out-arcs, 0 when the search
    is over; `REACHED` all vertices that were seen. These have parents and levels; `leave_list`
    does the rest.

    The queue, ids (rows + `LIST_EXTRA`,), is zeros before the first search. The out-arcs of the
    widest row bound those of the frontier at no cost. Returns the out-arcs of the frontier and of
    all that is not seen yet.
    """
    out, into, state, queue = sides.out, sides.into, scratch.state, scratch.queue
    rows, left = len(tree.level), np.int64(len(out.neighbors))
    state[:] = UNSEEN
    state[root] = _byte_of(0)
    queue[0] = root
    begin, end, depth, reached = 0, 1, 0, 0
    arcs: Any = np.int64(0)
    while end > begin:
        count = end - begin
        reached += count
        arcs = count * sides.widest
        if not _goes_on(count, arcs, left, rows):
            arcs = _arcs_of(out, queue, begin, end)
            if not _goes_on(count, arcs, left, rows):
                _find_parents(into, state, tree, queue, begin, end, depth)
                break
        placed = len(out.fixed) > 0 and count >= FEW
        if placed:
            _fetch_first(out, tree, queue, begin, end)
            tail, arcs = _search_level(out, state, tree, queue, begin, end, depth)
        else:
            tail, arcs = _search_level_by_offsets(out, state, tree, queue, begin, end, depth)
        if not sides.same:
            _find_parents(into, state, tree, queue, begin, end, depth)
        trace.vertices[depth], trace.arcs[depth] = count, arcs
        trace.direction[depth] = PUSH
        left -= arcs
        depth += 1
        if placed:
            tail = _settle(state, queue, end, tail, depth)
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
                seen |= np.uint64(state[np.uint64(first + bit)] > UNSEEN) << np.uint64(bit)
            tree.visited[index] = seen | never[index]
            rest = ~seen & (~np.uint64(0) >> np.uint64(WORD_BITS - count))
            while rest != 0:
                row = np.uint64(first + lowest_bit(rest))
                rest &= rest - ONE
                tree.parent[row] = none
                tree.level[row] = -1
