"""Sort one bucket of arcs inside the cache: by (row, neighbour), then by (row, weight).

A bucket is split into strips of whole rows that fit a core's own cache, and these are sorted by
least-significant-digit counting passes with the row as the last digit: a pass costs the same for
rows of any length, where sorting row by row pays for the counts of every row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import allocating_kernel, subroutine
from ooc_graph.kernels.cpu.build.arcs import Arcs, move_arc, part_of
from ooc_graph.kernels.cpu.build.rows import count_rows, insertion, radix_sort
from ooc_graph.types import AnyArray, IntArray

_MOST_BITS = 11
_TELLING_DIGITS = 2
_LONG_ROW = 64


@allocating_kernel
def split_strips(
    arcs: Any, tuples: AnyArray, strip_arcs: int, strip_rows: IntArray, offsets: IntArray, out: Any
) -> Any:
    """Bring a bucket's arcs into strips of consecutive rows; arcs of the largest strip.

    ``arcs`` and ``out`` are `Arcs` with keys of weights, rows counted from the bucket's first.
    ``tuples`` (r,) are those at each row, at least as many as arcs; a strip has ``strip_arcs``, or
    one row that has more. ``strip_rows`` int64 (sum of tuples // strip_arcs + 2,) receives each
    strip's first row, and r; ``offsets`` int64 (r + 1,) where each row will begin.
    """
    strip_of = np.empty(len(tuples), np.uint32)
    offsets[:] = 0
    count_rows(arcs.rows, offsets[1:])
    before: Any = np.int64(0)
    strip: Any = np.int64(0)
    strip_rows[0] = 0
    for row in range(len(tuples)):
        offsets[row + 1] += offsets[row]
        while strip < before // strip_arcs:
            strip += 1
            strip_rows[strip] = row
        strip_of[row] = strip
        before += np.int64(tuples[row])
    for after in range(strip + 1, len(strip_rows)):
        strip_rows[after] = len(tuples)
    cursor = np.empty(len(strip_rows), np.int64)
    largest: Any = np.int64(0)
    for number in range(len(strip_rows) - 1):
        start, stop = offsets[strip_rows[number]], offsets[strip_rows[number + 1]]
        cursor[number] = start
        largest = max(largest, stop - start)
    _scatter(strip_of, cursor, arcs, out)
    return largest


@subroutine
def _scatter(strip_of: AnyArray, cursor: IntArray, arcs: Any, out: Any) -> None:
    """Bring arcs to the next positions in their rows' strips."""
    for i in range(len(arcs.rows)):
        mine = strip_of[arcs.rows[i]]
        position = cursor[mine]
        cursor[mine] = position + 1
        out.rows[position] = arcs.rows[i]
        move_arc(arcs, i, out, position)


@subroutine
def _count_digits(column: AnyArray, low: int, width: int, cursors: AnyArray) -> None:
    """First position of every value of every digit, all digits in one look at the column.

    ``cursors`` is uint32 (digits, 2**width), for digits of ``width`` bits from bit ``low`` on.
    """
    cursors[:] = 0
    mask = np.uint64(cursors.shape[1] - 1)
    for i in range(len(column)):
        rest = np.uint64(column[i]) >> np.uint64(low)
        for digit in range(cursors.shape[0]):
            cursors[digit, rest & mask] += np.uint32(1)
            rest >>= np.uint64(width)
    for digit in range(cursors.shape[0]):
        position = np.uint32(0)
        for value in range(cursors.shape[1]):
            count = cursors[digit, value]
            cursors[digit, value] = position
            position = np.uint32(position + count)


@subroutine
def _digit_pass(digits: AnyArray, shift: Any, cursor: AnyArray, arcs: Any, out: Any) -> None:
    """One stable pass on the bits of ``digits``, one of the columns, above ``shift``.

    ``cursor`` holds the next position of each value of these bits and is advanced.
    """
    mask = np.uint64(len(cursor) - 1)
    for i in range(len(digits)):
        digit = (np.uint64(digits[i]) >> shift) & mask
        position = cursor[digit]
        cursor[digit] = position + np.uint32(1)
        out.rows[position] = arcs.rows[i]
        move_arc(arcs, i, out, position)


@subroutine
def _row_pass(first: int, offsets: IntArray, cursor: IntArray, arcs: Any, out: Any) -> None:
    """The last pass of a strip of rows from ``first`` on, to the positions in ``offsets``."""
    for row in range(len(cursor)):
        cursor[row] = offsets[first + row]
    for i in range(len(arcs.rows)):
        mine = np.int64(arcs.rows[i]) - first
        position = cursor[mine]
        cursor[mine] = position + 1
        move_arc(arcs, i, out, position)


@subroutine
def _digits_of(bits: int) -> tuple[int, int]:
    """Number of passes, and bits of each."""
    digits = -(-bits // _MOST_BITS)
    return digits, -(-bits // max(1, digits))


@allocating_kernel
def sort_strips(
    strip_rows: IntArray, offsets: IntArray, bits: int, arcs: Any, near: Any, spare: Any
) -> None:
    """Order what `split_strips` has split by row and neighbour, in place.

    The largest neighbour has so many ``bits``; ``near`` and ``spare`` are scratch for any strip.
    """
    digits, width = _digits_of(bits)
    cursors = np.empty((digits, 1 << width), np.uint32)
    cursor = np.empty(len(offsets), np.int64)
    start: Any
    stop: Any
    for strip in range(len(strip_rows) - 1):
        first, last = strip_rows[strip], strip_rows[strip + 1]
        start, stop = offsets[first], offsets[last]
        mine = part_of(arcs, start, stop)
        a, b = part_of(near, 0, stop - start), part_of(spare, 0, stop - start)
        _count_digits(mine.neighbors, 0, width, cursors)
        _digit_pass(mine.neighbors, np.uint64(0), cursors[0], mine, a)
        single = last - first == 1 and digits > 1
        for digit in range(1, digits):
            if single and digit == digits - 1:
                b = Arcs(b.rows, mine.neighbors, mine.weights)
            _digit_pass(a.neighbors, np.uint64(digit * width), cursors[digit], a, b)
            a, b = b, a
        if not single:
            _row_pass(first, offsets, cursor[: last - first], a, arcs)


@subroutine
def _range_of_bits(keys: AnyArray) -> tuple[int, int]:
    """Lowest and number of the bits in which keys differ."""
    differ = np.uint64(0)
    for i in range(1, len(keys)):
        differ |= np.uint64(keys[i] ^ keys[0])
    low, high = 0, 64
    while low < 64 and (differ >> np.uint64(low)) & np.uint64(1) == 0:
        low += 1
    while high > low and (differ >> np.uint64(high - 1)) & np.uint64(1) == 0:
        high -= 1
    return low, high - low


@allocating_kernel
def sort_by_weight(
    strip_rows: IntArray, lengths: IntArray, arcs: Any, near: Any, spare: Any, out: Any
) -> None:
    """Order rows by key, ties by neighbour.

    Rows stand one after the other, with these ``lengths`` int64 (r,), and ascend by neighbour; the
    ``rows`` of ``arcs`` and ``out`` are not looked at; ``near``, ``spare`` are scratch for a strip.
    """
    offsets = np.empty(len(lengths) + 1, np.int64)
    offsets[0] = 0
    for row in range(len(lengths)):
        offsets[row + 1] = offsets[row] + lengths[row]
    low, bits = _range_of_bits(arcs.weights)
    digits, width = _digits_of(bits)
    # All digits are more than it takes to tell nearly all weights of a row from each other, and
    # where rows are long what is left costs less than a pass.
    finish = digits > _TELLING_DIGITS and len(arcs.weights) >= _LONG_ROW * len(lengths)
    if finish:
        digits, width = min(digits - 1, _TELLING_DIGITS + 1), _MOST_BITS
        low += bits - digits * width
    histogram = np.empty(1 << _MOST_BITS, np.int64)
    cursors = np.empty((digits, 1 << width), np.uint32)
    cursor = np.empty(len(offsets), np.int64)
    start: Any
    stop: Any
    for strip in range(len(strip_rows) - 1):
        first, last = strip_rows[strip], strip_rows[strip + 1]
        start, stop = offsets[first], offsets[last]
        a, b = part_of(near, 0, stop - start), part_of(spare, 0, stop - start)
        for row in range(first, last):
            b.rows[offsets[row] - start : offsets[row + 1] - start] = row
        mine = Arcs(b.rows, arcs.neighbors[start:stop], arcs.weights[start:stop])
        _count_digits(mine.weights, low, width, cursors)
        single = last - first == 1 and digits > 0
        for digit in range(digits):
            if single and digit == digits - 1:
                a = Arcs(a.rows, out.neighbors[start:stop], out.weights[start:stop])
            _digit_pass(mine.weights, np.uint64(low + digit * width), cursors[digit], mine, a)
            mine, a, b = a, b, a
        if not single:
            _row_pass(first, offsets, cursor[: last - first], mine, out)
        if finish:
            for row in range(first, last):
                start, stop = offsets[row], offsets[row + 1]
                keys, neighbors = out.weights[start:stop], out.neighbors[start:stop]
                # Hardly anything is out of order.
                if not insertion(keys, neighbors, 4 * (stop - start)):
                    more = part_of(near, 0, stop - start)
                    radix_sort(keys, neighbors, more.weights, more.neighbors, histogram)
