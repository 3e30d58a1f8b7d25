"""The loops of `ooc_graph.exchange.codec` for bitmaps by blocks, compiled; none allocates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.bits import count_bits, lowest_bit
from ooc_graph.exchange.codec_loops import ONE, SIX, TOP_BIT, list_bits
from ooc_graph.kernel_cache import compiled, subroutine

BLOCK_WORDS, BLOCK_BYTES = 4, 32
"""A block of a bitmap, in which one byte says which bit."""
GROUP_WORDS = 64 * BLOCK_WORDS
"""A group of blocks: one word says which of them have members."""
# The byte of a block: 0, it lies as words; below 32, the number of its members; from there on, 32
# or 64 and the number of its changes, if it begins with a zero or a one.
AS_WORDS, CHANGES_FROM_ZERO, CHANGES_FROM_ONE = 0, BLOCK_BYTES, 2 * BLOCK_BYTES


@subroutine
def _changes_in(word: Any, before: Any) -> Any:
    """Bits of a word that differ from the one below, that of the lowest being ``before``."""
    return word ^ (word << ONE | before)


@subroutine
def _is_empty(words: Any, first: int) -> bool:
    return bool((words[first] | words[first + 1] | words[first + 2] | words[first + 3]) == 0)


@subroutine
def _measure_block(words: Any, first: int) -> tuple[int, int]:
    """Members of a block, and how often a bit differs from the one below."""
    members, changes, before = 0, 0, words[first] & ONE
    for index in range(first, first + BLOCK_WORDS):
        word = words[index]
        members += count_bits(word)
        changes += count_bits(_changes_in(word, before))
        before = word >> TOP_BIT
    return members, changes


@compiled
def measure_blocks(words: Any) -> tuple[int, int]:
    """Blocks of a bitmap of whole blocks that lie as words, and bytes of the others."""
    as_words, block_bytes = 0, 0
    for first in range(0, len(words), BLOCK_WORDS):
        members, changes = _measure_block(words, first)
        least = min(members, changes)
        is_copied = least >= BLOCK_BYTES
        as_words += is_copied
        block_bytes += (members > 0) + (0 if is_copied else least)
    return as_words, block_bytes


@compiled
def count_members(words: Any) -> int:
    """Members of a bitmap."""
    members = 0
    for index in range(len(words)):
        members += count_bits(words[index])
    return members


@compiled
def take_new(filled: Any, before: Any, words: Any) -> None:
    """Copy the bits that are not in ``before``, and add them there."""
    for index in range(len(filled)):
        words[index] = filled[index] & ~before[index]
        before[index] |= words[index]


@subroutine
def _block_bytes(words: Any, first: int) -> int:
    """Bytes of a block after the one that says how it lies."""
    members, changes = _measure_block(words, first)
    return min(members, changes, BLOCK_BYTES)


@compiled
def fill_blocks(words: Any, free: Any, filled: Any) -> None:
    """Copy a bitmap of whole blocks, with the bits that are ``free`` in those that shrink so."""
    for first in range(0, len(words), BLOCK_WORDS):
        for index in range(first, first + BLOCK_WORDS):
            filled[index] = words[index] | free[index]
        if _block_bytes(words, first) <= _block_bytes(filled, first):
            for index in range(first, first + BLOCK_WORDS):
                filled[index] = words[index]


@compiled
def write_blocks(words: Any, present: Any, begins: Any, whole: Any, out: Any) -> None:
    """Write a bitmap of whole blocks.

    By group: the blocks ``present``, and where it ``begins`` in ``whole``, to which blocks are
    copied as words, and in ``out``, which has how each block lies, and the bytes of the others.
    """
    copied, at = 0, 0
    for group in range(len(present)):
        begin = group * GROUP_WORDS
        end = min(begin + GROUP_WORDS, len(words))
        found, count = np.uint64(0), 0
        for first in range(begin, end, BLOCK_WORDS):
            if not _is_empty(words, first):
                found |= ONE << np.uint64((first - begin) // BLOCK_WORDS)
                count += 1
        present[group], begins[group, 0], begins[group, 1] = found, copied, at
        kind_at, at = at, at + count
        while found != 0:
            first = begin + lowest_bit(found) * BLOCK_WORDS
            found &= found - ONE
            members, changes = _measure_block(words, first)
            before = words[first] & ONE
            if min(members, changes) >= BLOCK_BYTES:
                kind = AS_WORDS
                for index in range(BLOCK_WORDS):
                    whole[copied + index] = words[first + index]
                copied += BLOCK_WORDS
            elif members <= changes:
                kind = members
                for index in range(BLOCK_WORDS):
                    at = list_bits(words[first + index], np.uint64(index * 64), out, at)
            else:
                kind = changes + (CHANGES_FROM_ONE if before else CHANGES_FROM_ZERO)
                for index in range(BLOCK_WORDS):
                    word = words[first + index]
                    changed = _changes_in(word, before)
                    at = list_bits(changed, np.uint64(index * 64), out, at)
                    before = word >> TOP_BIT
            out[kind_at] = kind
            kind_at += 1


@subroutine
def _fill_between(words: Any, first: int, before: Any) -> None:
    """Make a block of where it changes, ``before`` being the bit below."""
    for index in range(first, first + BLOCK_WORDS):
        word = words[index]
        for power in range(6):
            word ^= word << (ONE << np.uint64(power))
        words[index] = word ^ (np.uint64(0) - before)
        before = words[index] >> TOP_BIT


@compiled
def read_blocks(
    present: Any, begins: Any, whole: Any, body: Any, first_group: int, end: int, words: Any
) -> None:
    """Undo `write_blocks` for some groups, whose words are zero; threads may share them out."""
    for group in range(first_group, end):
        found = present[group]
        copied, kind_at = np.int64(begins[group, 0]), np.int64(begins[group, 1])
        at = kind_at + count_bits(found)
        while found != 0:
            first = group * GROUP_WORDS + lowest_bit(found) * BLOCK_WORDS
            found &= found - ONE
            kind = np.int64(body[kind_at])
            kind_at += 1
            if kind == AS_WORDS:
                for index in range(BLOCK_WORDS):
                    words[first + index] = whole[copied + index]
                copied += BLOCK_WORDS
                continue
            count = kind & (BLOCK_BYTES - 1)
            for index in range(at, at + count):
                mark = np.uint64(body[index])
                words[first + np.int64(mark >> SIX)] |= ONE << (mark & TOP_BIT)
            if kind >= CHANGES_FROM_ZERO:
                _fill_between(words, first, np.uint64(kind >= CHANGES_FROM_ONE))
            at += count
