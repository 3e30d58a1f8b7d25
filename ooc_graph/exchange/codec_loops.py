"""The loops of `ooc_graph.exchange.codec`, compiled; none allocates.

They stand here and not among the kernels of searches because messages are the exchange's. What
would be a branch for every number or bit is avoided: numbers of 7 and of 14 bits take the same
instructions, and positions are written 4 at a time, of which the next ones overwrite those that
are none. So there are `SLACK` bytes, or numbers, behind what is written or read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.bits import count_bits, lowest_bit, zeros_above
from ooc_graph.kernel_cache import compiled, subroutine

ONE, SIX, TOP_BIT = np.uint64(1), np.uint64(6), np.uint64(63)
SEVEN, LOW_BITS, MORE = np.uint64(7), np.uint64(127), np.uint64(128)
SLACK = 4

BLOCK_WORDS, BLOCK_BYTES = 4, 32
"""A block of a bitmap, in which one byte says which bit."""
GROUP_WORDS = 64 * BLOCK_WORDS
"""A group of blocks: one word says which of them have members."""
# How a block lies: as words, by so many members, or by so many changes from zeros or ones on.
AS_WORDS, CHANGES_FROM_ZERO, CHANGES_FROM_ONE = 0, BLOCK_BYTES, 2 * BLOCK_BYTES


@subroutine
def _bytes_of(number: Any) -> int:
    """Bytes of a number in groups of 7 bits, as LEB128 has them."""
    # That is one more than log2 / 7, rounded down; without a division.
    return int(9 * (63 - zeros_above(number | ONE)) + 73) >> 6


@subroutine
def _zigzag(step: Any) -> Any:
    """A step up or down as a number that is small if the step is."""
    return np.uint64((step << 1) ^ (step >> 63))


@compiled
def survey(values: Any) -> tuple[Any, Any, int, int]:
    """Least and most of some numbers; how often the next is less, and how often another."""
    least = most = values[0]
    falls, changes = 0, 0
    for index in range(1, len(values)):
        value, before = values[index], values[index - 1]
        falls += value < before
        changes += value != before
        least, most = min(least, value), max(most, value)
    return least, most, falls, changes


@compiled
def measure_steps(values: Any, rising: bool) -> int:
    """Bytes that `write_steps` takes."""
    count = 0
    for index in range(1, len(values)):
        step = values[index] - values[index - 1]
        count += _bytes_of(step if rising else _zigzag(np.int64(step)))
    return count


@compiled
def write_steps(values: Any, rising: bool, out: Any) -> None:
    """Write the step from each value to the next, in groups of 7 bits."""
    at: Any = 0
    for index in range(1, len(values)):
        step = values[index] - values[index - 1]
        number = step if rising else _zigzag(np.int64(step))
        while number >> np.uint64(14):
            out[at] = np.uint8(number & LOW_BITS | MORE)
            number >>= SEVEN
            at += 1
        is_long = number >= MORE
        out[at] = np.uint8(number & LOW_BITS) | np.uint8(is_long << 7)
        out[at + 1] = np.uint8(number >> SEVEN)
        at += 1 + is_long


@compiled
def read_steps(body: Any, rising: bool, first: Any, values: Any) -> None:
    """Undo `write_steps`."""
    value, at = first, 0
    values[0] = value
    for index in range(1, len(values)):
        low, high = np.uint64(body[at]), np.uint64(body[at + 1])
        is_long = low >> SEVEN
        step = low & LOW_BITS | (high & LOW_BITS & (np.uint64(0) - is_long)) << SEVEN
        at += 1 + int(is_long)
        if is_long & (high >> SEVEN):
            shift = np.uint64(14)
            while body[at - 1] >= MORE:
                step |= (np.uint64(body[at]) & LOW_BITS) << shift
                shift += SEVEN
                at += 1
        if not rising:
            step = (step >> ONE) ^ (np.uint64(0) - (step & ONE))
        value += step
        values[index] = value


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
def measure_blocks(words: Any) -> tuple[int, int, int]:
    """Members of a bitmap of whole blocks; blocks that lie as words, and bytes of the others."""
    members, as_words, block_bytes = 0, 0, 0
    for first in range(0, len(words), BLOCK_WORDS):
        if not _is_empty(words, first):
            inside, changes = _measure_block(words, first)
            members += inside
            least = min(inside, changes)
            as_words += least >= BLOCK_BYTES
            block_bytes += 1 + (least if least < BLOCK_BYTES else 0)
    return members, as_words, block_bytes


@subroutine
def _list_bits(marks: Any, base: int, out: Any, at: int) -> int:
    """Write positions of a word's bits, above ``base``; where the next begins."""
    end: int = at + count_bits(marks)
    while at < end:
        for slot in range(SLACK):
            out[at + slot] = base + lowest_bit(marks)
            marks &= marks - ONE
        at += SLACK
    return end


@compiled
def list_members(words: Any, out: Any) -> None:
    """List the members of a bitmap, ascending."""
    at = 0
    for index in range(len(words)):
        if words[index]:
            at = _list_bits(words[index], index * 64, out, at)


@compiled
def put_members(members: Any, base: Any, words: Any) -> None:
    """Add members, less ``base``, to a bitmap."""
    for index in range(len(members)):
        bit = members[index] - base
        words[bit >> SIX] |= ONE << (bit & TOP_BIT)


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
                    at = _list_bits(words[first + index], index * 64, out, at)
            else:
                kind = changes + (CHANGES_FROM_ONE if before else CHANGES_FROM_ZERO)
                for index in range(BLOCK_WORDS):
                    word = words[first + index]
                    at = _list_bits(_changes_in(word, before), index * 64, out, at)
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
