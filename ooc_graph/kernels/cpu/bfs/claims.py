"""A push by ranks that search together: what each claims, and what its owner makes of it (CPU)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common import bitmap
from ooc_graph.kernels.common.bitmap import LOW, ONE, SIX, has, lowest_bit
from ooc_graph.kernels.common.compiled import subroutine
from ooc_graph.kernels.common.dealt import internal_of
from ooc_graph.kernels.common.team import atomic_or, atomic_umin, take_chunk
from ooc_graph.kernels.cpu.bfs import pull
from ooc_graph.kernels.cpu.bfs.common import index_of
from ooc_graph.prefetch import prefetch, prefetch_to_write
from ooc_graph.types import DEAL_BLOCK_BITS

AHEAD = np.uint64(8)
"""Arcs between the one along which a push goes, and the one whose parent it fetches."""
PUSH_WORDS = 4
"""Bitmap words of the frontier that a thread takes at once to push."""


@subroutine
def push(threads: int, control: Any, word: int, own: Any, dealt: Any, common: Any) -> Any:
    """Offer the rows found last to their neighbours as parents; arcs examined."""
    out, found = own.out, own.tree.found
    examined, none = np.int64(0), np.uint64(common.parent.dtype.type(-1))
    all_words = len(common.visited)
    claimed = common.claimed[dealt.shard * all_words : (dealt.shard + 1) * all_words]
    blocks = len(common.touched) >> dealt.shard_bits
    touched = common.touched[dealt.shard * blocks : (dealt.shard + 1) * blocks]
    while True:
        begin, end = take_chunk(control, PUSH_WORDS, len(found), 0, word)
        if begin >= end:
            return examined
        for index in range(begin, end):
            rest = found[index]
            while rest != 0:
                row = np.int64(index * bitmap.WORD_BITS + lowest_bit(rest))
                rest &= rest - ONE
                u = np.uint64(internal_of(row, dealt))
                position, stop = np.uint64(out.offsets[row]), np.uint64(out.offsets[row + 1])
                examined += np.int64(stop - position)
                while position < stop:
                    ahead = out.neighbors[min(position + AHEAD, stop - ONE)]
                    prefetch_to_write(common.parent, index_of(ahead, dealt, common.stride))
                    at = index_of(out.neighbors[position], dealt, common.stride)
                    position += ONE
                    if has(common.visited, at) or np.uint64(common.parent[at]) <= u:
                        continue
                    if np.uint64(atomic_umin(common.parent, at, u)) != none:
                        continue
                    if threads == 1:
                        bitmap.put(claimed, at)
                    else:
                        atomic_or(claimed, at >> SIX, ONE << (at & LOW))
                    touched[at >> np.uint64(DEAL_BLOCK_BITS)] = 1


@subroutine
def _take_claimed(claimed: Any, all_words: int, ranks: int, word: int) -> Any:
    """What all ranks have claimed of a word of rows, which they forget."""
    new = np.uint64(0)
    for rank in range(ranks):
        theirs = claimed[np.uint64(rank * all_words + word)]
        if theirs != 0:
            new |= theirs
            claimed[np.uint64(rank * all_words + word)] = 0
    return new


@subroutine
def _is_touched(common: Any, block: int, ranks: int) -> bool:
    """Whether any rank has claimed rows of a block, which is forgotten."""
    blocks, found = len(common.touched) // ranks, False
    for rank in range(ranks):
        if common.touched[np.uint64(rank * blocks + block)] != 0:
            common.touched[np.uint64(rank * blocks + block)] = 0
            found = True
    return found


@subroutine
def _take_block(own: Any, common: Any, ranks: int, first: int, begin: int, end: int) -> None:
    """Make what was claimed of some words the frontier, and fetch what is needed of these rows."""
    tree, all_words = own.tree, len(common.visited)
    for index in range(begin, end):
        rest = _take_claimed(common.claimed, all_words, ranks, first + index)
        tree.found[index] = rest
        tree.visited[index] |= rest
        while rest != 0:
            row = np.uint64(index * bitmap.WORD_BITS + lowest_bit(rest))
            rest &= rest - ONE
            prefetch(own.out.offsets, row)
            prefetch_to_write(tree.level, row)


@subroutine
def settle(
    control: Any, word: int, own: Any, dealt: Any, common: Any, depth: int
) -> tuple[int, int]:
    """Make what was claimed of the own rows the frontier; how many, and their out-arcs."""
    tree, count, arcs, ranks = own.tree, 0, 0, 1 << dealt.shard_bits
    first = dealt.shard * common.stride // bitmap.WORD_BITS
    while True:
        begin, end = take_chunk(control, pull.CHUNK_WORDS, len(tree.found), 0, word)
        if begin >= end:
            return count, arcs
        for block in range(begin, end, bitmap.BLOCK_WORDS):
            stop = min(block + bitmap.BLOCK_WORDS, end)
            if not _is_touched(common, (first + block) // bitmap.BLOCK_WORDS, ranks):
                tree.found[block:stop] = 0
                continue
            _take_block(own, common, ranks, first, block, stop)
            for index in range(block, stop):
                rest = tree.found[index]
                count += bitmap.count_bits(rest)
                arcs += pull.arcs_of_word(own.out.offsets, index, rest)
                while rest != 0:
                    tree.level[index * bitmap.WORD_BITS + lowest_bit(rest)] = depth
                    rest &= rest - ONE
