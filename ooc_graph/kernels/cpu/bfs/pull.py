"""Bottom-up step: every unvisited row looks for its first neighbour in the frontier.

Rows ascend by id (hubs first), so the first hit is the smallest parent, and comes early.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import bitmap
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.team import FIRST_FREE, LINE, atomic_add, take_chunk
from ooc_graph.prefetch import prefetch
from ooc_graph.types import AnyArray

FOUND, FOUND_ARCS, EXAMINED = FIRST_FREE, FIRST_FREE + LINE, FIRST_FREE + 2 * LINE
"""Words of the control array: new vertices, their out-arcs, arcs looked at."""
BEGIN, END, DEPTH = FIRST_FREE + 3 * LINE, FIRST_FREE + 4 * LINE, FIRST_FREE + 5 * LINE
"""Words of the control array: the frontier is ``queue[BEGIN:END]``; level of what comes next."""
SETTLED = FIRST_FREE + 6 * LINE
"""Word of the control array: new vertices that a thread has taken to settle."""
REACHED = FIRST_FREE + 7 * LINE
"""Word of the control array: vertices that a search from a list has reached."""
CHUNK_WORDS = 64
"""Bitmap words that a thread takes at once: 4,096 rows."""
BLOCK_WORDS = 8
"""Bitmap words whose heads are looked up before the rest of their rows is."""
DENSE = 24
"""Hits in a word from which it is quicker to go through all its rows than from hit to hit."""


class IntoRows(NamedTuple):
    """Rows to pull along: `heads` holds the first neighbour of each row, apart from the rest."""

    offsets: AnyArray
    neighbors: AnyArray
    heads: AnyArray


class Tree(NamedTuple):
    """What a search finds out about the own rows, and the bitmaps it needs for that."""

    parent: AnyArray
    level: AnyArray
    visited: bitmap.Words
    found: bitmap.Words


@subroutine
def _heads_in(heads: Any, frontier: Any, base: Any) -> Any:
    """Which of 64 rows have their head in the frontier; no branch, so that the looks overlap."""
    hits = np.uint64(0)
    for bit in range(bitmap.WORD_BITS):
        shift = np.uint64(bit)
        head = np.uint64(heads[base + shift])
        hits |= ((frontier[head >> bitmap.SIX] >> (head & bitmap.LOW)) & bitmap.ONE) << shift
    return hits


@subroutine
def _take_heads(into: Any, tree: Any, frontier: Any, index: int, depth: int) -> None:
    """Claim the rows of a whole word by their heads: ``tree.found`` tells which."""
    base = np.uint64(index) << bitmap.SIX
    hits = ~tree.visited[index] & _heads_in(into.heads, frontier, base)
    tree.found[index] = hits
    deep = tree.level.dtype.type(depth)
    if bitmap.count_bits(hits) >= DENSE:
        for bit in range(bitmap.WORD_BITS):
            row, hit = base + np.uint64(bit), (hits >> np.uint64(bit)) & bitmap.ONE
            tree.parent[row] = into.heads[row] if hit else tree.parent[row]
            tree.level[row] = deep if hit else tree.level[row]
        return
    while hits != 0:
        row = base + np.uint64(bitmap.lowest_bit(hits))
        hits &= hits - bitmap.ONE
        tree.parent[row] = into.heads[row]
        tree.level[row] = deep


@subroutine
def _take_row(
    into: Any, tree: Any, frontier: Any, row: Any, first: Any, depth: int
) -> tuple[Any, Any]:
    """Claim a row by its arcs from position ``first`` on; 1 if claimed, and arcs looked at."""
    position, end = first, np.uint64(into.offsets[row + bitmap.ONE])
    while position < end:
        u = into.neighbors[position]
        position += bitmap.ONE
        if bitmap.has(frontier, u):
            tree.parent[row] = u
            tree.level[row] = depth
            return bitmap.ONE, position - first
    return np.uint64(0), position - first


@subroutine
def _take_few(
    into: Any, tree: Any, frontier: Any, index: int, todo: Any, depth: int
) -> tuple[Any, Any]:
    """Claim the rows ``todo`` of a word one by one; those claimed, and arcs looked at."""
    base, found, examined = np.uint64(index) << bitmap.SIX, np.uint64(0), np.uint64(0)
    while todo != 0:
        shift = np.uint64(bitmap.lowest_bit(todo))
        todo &= todo - bitmap.ONE
        row = base + shift
        examined += bitmap.ONE
        head = into.heads[row]
        if bitmap.has(frontier, head):
            tree.parent[row] = head
            tree.level[row] = depth
            found |= bitmap.ONE << shift
        else:
            first = np.uint64(into.offsets[row]) + bitmap.ONE
            hit, looked = _take_row(into, tree, frontier, row, first, depth)
            found |= hit << shift
            examined += looked
    return found, np.int64(examined)


@subroutine
def _fetch_tails(into: Any, tree: Any, index: int) -> None:
    """Fetch the first arcs after the head of a word's rows that have not been claimed."""
    rest, base = ~(tree.visited[index] | tree.found[index]), np.uint64(index) << bitmap.SIX
    while rest != 0:
        row = base + np.uint64(bitmap.lowest_bit(rest))
        rest &= rest - bitmap.ONE
        prefetch(into.neighbors, np.uint64(into.offsets[row]) + bitmap.ONE)


@subroutine
def _take_tails(
    into: Any, tree: Any, frontier: Any, index: int, rest: Any, depth: int
) -> tuple[Any, Any]:
    """Claim rows of a word by the arcs after their head; those claimed, and arcs looked at."""
    base, found, examined = np.uint64(index) << bitmap.SIX, np.uint64(0), np.uint64(0)
    while rest != 0:
        shift = np.uint64(bitmap.lowest_bit(rest))
        rest &= rest - bitmap.ONE
        first = np.uint64(into.offsets[base + shift]) + bitmap.ONE
        hit, looked = _take_row(into, tree, frontier, base + shift, first, depth)
        found |= hit << shift
        examined += looked
    return found, np.int64(examined)


@subroutine
def arcs_of_word(offsets: Any, index: int, members: Any) -> Any:
    """Arcs of the rows of a word that are members, by way of the others where these are fewer."""
    base = np.uint64(index) << bitmap.SIX
    few = bitmap.count_bits(members) * 2 <= bitmap.WORD_BITS or (
        index + 1
    ) * bitmap.WORD_BITS >= len(offsets)
    rest = members if few else ~members
    arcs = np.int64(0)
    while rest != 0:
        row = base + np.uint64(bitmap.lowest_bit(rest))
        rest &= rest - bitmap.ONE
        arcs += offsets[row + bitmap.ONE] - offsets[row]
    return arcs if few else offsets[base + np.uint64(bitmap.WORD_BITS)] - offsets[base] - arcs


@subroutine
def pull_block(
    into: Any, tree: Any, out_offsets: Any, frontier: Any, begin: int, end: int, depth: int
) -> tuple[int, int, int]:
    """Pull the rows of a few words; return rows found, their out-arcs, and arcs looked at."""
    count, arcs, examined, many = 0, 0, 0, np.uint64(0)
    for index in range(begin, end):
        todo = ~tree.visited[index]
        if bitmap.count_bits(todo) >= DENSE and (index + 1) * bitmap.WORD_BITS <= len(tree.parent):
            examined += bitmap.count_bits(todo)
            many |= bitmap.ONE << np.uint64(index - begin)
            _take_heads(into, tree, frontier, index, depth)
            _fetch_tails(into, tree, index)
        else:
            tree.found[index], looked = _take_few(into, tree, frontier, index, todo, depth)
            examined += looked
    for index in range(begin, end):
        if (many >> np.uint64(index - begin)) & bitmap.ONE:
            rest = ~(tree.visited[index] | tree.found[index])
            found, looked = _take_tails(into, tree, frontier, index, rest, depth)
            tree.found[index] |= found
            examined += looked
        found = tree.found[index]
        if found != 0:
            tree.visited[index] |= found
            count += bitmap.count_bits(found)
            arcs += arcs_of_word(out_offsets, index, found)
    return count, arcs, examined


@kernel
def pull_part(
    _thread: int,
    _threads: int,
    control: Any,
    into: Any,
    tree: Any,
    out_offsets: Any,
    frontier: Any,
    depth: int,
) -> None:
    """Pull chunk after chunk of the rows until none is left; all threads call it.

    ``tree.found`` becomes the bitmap of rows found; it and ``tree.visited`` are written a word
    at a time by the thread that holds the word. Words `FOUND`, `FOUND_ARCS` and `EXAMINED` of
    the control array count up; word `CHUNK` must be 0 at the start.
    """
    words = len(tree.visited)
    count, arcs, examined = 0, 0, 0
    while True:
        begin, end = take_chunk(control, CHUNK_WORDS, words)
        if begin >= end:
            break
        for block in range(begin, end, BLOCK_WORDS):
            c, a, e = pull_block(
                into, tree, out_offsets, frontier, block, min(block + BLOCK_WORDS, end), depth
            )
            count += c
            arcs += a
            examined += e
    atomic_add(control, FOUND, count)
    atomic_add(control, FOUND_ARCS, arcs)
    atomic_add(control, EXAMINED, examined)
