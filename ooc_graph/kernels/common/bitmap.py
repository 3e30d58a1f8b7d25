"""Sets of vertices as one bit each, in words of uint64: bit ``v & 63`` of word ``v >> 6``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph import bits
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.types import DEAL_BLOCK, AnyArray

WORD_BITS = 64
ONE = np.uint64(1)
LOW = np.uint64(63)
SIX = np.uint64(6)

count_bits, lowest_bit = bits.count_bits, bits.lowest_bit

Words = NDArray[np.uint64]


def words_for(bits: int) -> int:
    """Words that hold ``bits`` bits."""
    return (bits + WORD_BITS - 1) // WORD_BITS


def pack_bits(flags: NDArray[np.bool_]) -> Words:
    """Bitmap of a boolean array (rows,): uint64, padded with zeros to whole words."""
    padded = np.zeros(words_for(len(flags)) * WORD_BITS, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def whole_set(count: int) -> Words:
    """Bitmap of the first ``count`` numbers."""
    words = np.full(words_for(count), ~np.uint64(0))
    if count % WORD_BITS:
        words[-1] >>= np.uint64(WORD_BITS - count % WORD_BITS)
    return words


@subroutine
def has(words: Any, vertex: int) -> bool:
    """Tell whether ``vertex`` is in the set."""
    # Unsigned, so that numba need not check whether the index is negative.
    bit = np.uint64(vertex)
    return bool((words[bit >> SIX] >> (bit & LOW)) & ONE)


@subroutine
def put(words: Any, vertex: int) -> None:
    """Add ``vertex``; one thread at a time."""
    bit = np.uint64(vertex)
    words[bit >> SIX] |= ONE << (bit & LOW)


@subroutine
def drop(words: Any, vertex: int) -> None:
    """Remove ``vertex``; one thread at a time."""
    bit = np.uint64(vertex)
    words[bit >> SIX] &= ~(ONE << (bit & LOW))


@subroutine
def members_of(words: Any) -> Iterator[int]:
    """Go through the set's members, ascending; those of a word that has begun are settled."""
    for index in range(len(words)):
        word = words[index]
        while word != 0:
            yield index * WORD_BITS + lowest_bit(word)
            word &= word - ONE


@kernel
def members(words: Any, queue: Any) -> int:
    """Write the set's members to ``queue``, ascending; return how many."""
    count = 0
    for index in range(len(words)):
        word = words[index]
        while word != 0:
            queue[count] = index * WORD_BITS + lowest_bit(word)
            word &= word - ONE
            count += 1
    return count


@subroutine
def put_all(words: Any, queue: Any, count: int) -> None:
    """Add the first ``count`` entries of ``queue``; one thread at a time."""
    for index in range(count):
        put(words, np.int64(queue[index]))


@kernel
def mark_only(words: Any, queue: Any) -> None:
    """Make a bitmap that of the entries of ``queue``."""
    words[:] = 0
    put_all(words, queue, len(queue))


BLOCK_WORDS = DEAL_BLOCK // WORD_BITS


def deal_frontiers(frontier: Words, shards: int, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
    """Deal bitmaps of the ranks' own rows, one in each payload, into that of all vertices.

    ``frontier`` has whole blocks of every shard.
    """
    blocks = frontier.reshape(-1, shards, BLOCK_WORDS)
    for shard, (words,) in enumerate(payloads):
        whole = len(words) // BLOCK_WORDS
        blocks[:whole, shard] = words[: whole * BLOCK_WORDS].reshape(whole, BLOCK_WORDS)
        rest = words[whole * BLOCK_WORDS :]
        if len(rest):
            blocks[whole, shard, : len(rest)] = rest
