"""The loops of `ooc_graph.exchange.codec` for numbers and members, compiled; none allocates.

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
    least = most = np.uint64(values[0])
    falls: Any = 0
    changes: Any = 0
    for index in range(1, len(values)):
        value, before = np.uint64(values[index]), np.uint64(values[index - 1])
        falls += value < before
        changes += value != before
        least, most = min(least, value), max(most, value)
    return least, most, falls, changes


@compiled
def measure_steps(values: Any, rising: bool) -> int:
    """Bytes that `write_steps` takes."""
    count = 0
    for index in range(1, len(values)):
        step = np.uint64(values[index]) - np.uint64(values[index - 1])
        count += _bytes_of(step if rising else _zigzag(np.int64(step)))
    return count


@compiled
def write_steps(values: Any, rising: bool, out: Any) -> None:
    """Write the step from each value to the next, in groups of 7 bits."""
    at: Any = 0
    for index in range(1, len(values)):
        step = np.uint64(values[index]) - np.uint64(values[index - 1])
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


@compiled
def write_narrow(values: Any, least: Any, width: int, out: Any) -> None:
    """Write each value less the least in ``width`` bytes; 8 are written each time."""
    if width == 0:
        return
    for index in range(len(values)):
        number, at = np.uint64(values[index]) - least, index * width
        for byte in range(8):
            out[at + byte] = np.uint8(number >> np.uint64(8 * byte))


@compiled
def read_narrow(body: Any, least: Any, width: int, values: Any) -> None:
    """Undo `write_narrow`."""
    mask = (ONE << np.uint64(8 * width)) - ONE if width < 8 else ~np.uint64(0)
    for index in range(len(values)):
        at, number = index * width, np.uint64(0)
        if at + 8 <= len(body):
            for byte in range(8):
                number |= np.uint64(body[at + byte]) << np.uint64(8 * byte)
        else:
            for byte in range(width):
                number |= np.uint64(body[at + byte]) << np.uint64(8 * byte)
        values[index] = (number & mask) + least


@subroutine
def list_bits(marks: Any, base: Any, out: Any, at: int) -> int:
    """Write positions of a word's bits, above ``base``; where the next begins."""
    end: int = at + count_bits(marks)
    while at < end:
        for slot in range(SLACK):
            out[at + slot] = base + np.uint64(lowest_bit(marks))
            marks &= marks - ONE
        at += SLACK
    return end


@compiled
def list_members(words: Any, base: Any, out: Any) -> None:
    """List the members of a bitmap, ascending, above ``base``."""
    at = 0
    for index in range(len(words)):
        if words[index]:
            at = list_bits(words[index], base + np.uint64(index * 64), out, at)


@compiled
def put_members(members: Any, base: Any, words: Any) -> None:
    """Add members, less ``base``, to a bitmap."""
    for index in range(len(members)):
        bit = np.uint64(members[index]) - base
        words[bit >> SIX] |= ONE << (bit & TOP_BIT)


@compiled
def rank_members(members: Any, base: Any, words: Any, before: Any, ranks: Any) -> None:
    """How many in a bitmap are less than each of its members; ``before`` counts those of words."""
    for index in range(len(members)):
        bit = np.uint64(members[index]) - base
        below = words[bit >> SIX] & ((ONE << (bit & TOP_BIT)) - ONE)
        ranks[index] = before[bit >> SIX] + count_bits(below)
