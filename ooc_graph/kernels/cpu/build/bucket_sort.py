"""Sort one bucket of arcs inside the cache: by (row, neighbour), then by (row, weight).

A bucket is split into strips of whole rows that fit a core's own cache, and these are sorted by
least-significant-digit counting passes with the row as the last digit: a pass costs the same for
rows of any length, where sorting row by row pays for the counts of every row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import allocating_kernel
from ooc_graph.kernels.cpu.build.rows import radix_sort
from ooc_graph.types import AnyArray, IntArray

_MOST_BITS = 11
_TELLING_DIGITS = 2
_LONG_ROW = 64


@allocating_kernel
def split_strips(
    rows: AnyArray,
    neighbors: AnyArray,
    keys: AnyArray,
    tuples: AnyArray,
    strip_arcs: int,
    strip_of: AnyArray,
    strip_rows: IntArray,
    offsets: IntArray,
    rows_out: AnyArray,
    neighbors_out: AnyArray,
    keys_out: AnyArray,
) -> Any:
    """Bring a bucket's arcs into strips of consecutive rows.

    Parameters
    ----------
    rows, neighbors, keys
        (m,): the arcs, rows counted from the bucket's first; ``keys`` of length 0 if there are
        none, as ``keys_out`` then is.
    tuples
        Unsigned (r,): at each row, at least as many as arcs.
    strip_arcs
        Tuples of a strip; a longer row is a strip of its own.
    strip_of
        uint32 (r,): scratch.
    strip_rows
        int64 (sum of tuples // strip_arcs + 2,): receives each strip's first row, and r.
    offsets
        int64 (r + 1,): receives where each row will begin.

    Returns
    -------
    Arcs of the largest strip.
    """
    offsets[:] = 0
    for i in range(len(rows)):
        offsets[np.int64(rows[i]) + 1] += 1
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
    weighted = len(keys) > 0
    for i in range(len(rows)):
        mine = strip_of[rows[i]]
        place = cursor[mine]
        cursor[mine] = place + 1
        rows_out[place] = rows[i]
        neighbors_out[place] = neighbors[i]
        if weighted:
            keys_out[place] = keys[i]
    return largest


@allocating_kernel
def _find_places(column: AnyArray, low: int, width: int, cursors: AnyArray) -> None:
    """First place of every value of every digit, all digits in one look at the column.

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
        place = np.uint32(0)
        for value in range(cursors.shape[1]):
            count = cursors[digit, value]
            cursors[digit, value] = place
            place = np.uint32(place + count)


@allocating_kernel
def _digit_pass(
    digits: AnyArray,
    shift: Any,
    cursor: AnyArray,
    rows: AnyArray,
    neighbors: AnyArray,
    keys: AnyArray,
    rows_out: AnyArray,
    neighbors_out: AnyArray,
    keys_out: AnyArray,
) -> None:
    """One stable pass on the bits of ``digits``, one of the columns, above ``shift``.

    ``cursor`` holds the next place of each value of these bits and is advanced.
    """
    mask = np.uint64(len(cursor) - 1)
    weighted = len(keys) > 0
    for i in range(len(digits)):
        digit = (np.uint64(digits[i]) >> shift) & mask
        place = cursor[digit]
        cursor[digit] = place + np.uint32(1)
        rows_out[place] = rows[i]
        neighbors_out[place] = neighbors[i]
        if weighted:
            keys_out[place] = keys[i]


@allocating_kernel
def _row_pass(
    first: int,
    offsets: IntArray,
    cursor: IntArray,
    rows: AnyArray,
    neighbors: AnyArray,
    keys: AnyArray,
    neighbors_out: AnyArray,
    keys_out: AnyArray,
) -> None:
    """The last pass of a strip of rows from ``first`` on, to the places in ``offsets``."""
    for row in range(len(cursor)):
        cursor[row] = offsets[first + row]
    weighted = len(keys) > 0
    for i in range(len(rows)):
        mine = np.int64(rows[i]) - first
        place = cursor[mine]
        cursor[mine] = place + 1
        neighbors_out[place] = neighbors[i]
        if weighted:
            keys_out[place] = keys[i]


@allocating_kernel
def _digits_of(bits: int) -> tuple[int, int]:
    """Number of passes, and bits of each."""
    digits = -(-bits // _MOST_BITS)
    return digits, -(-bits // max(1, digits))


@allocating_kernel
def sort_strips(
    strip_rows: IntArray,
    offsets: IntArray,
    bits: int,
    rows: AnyArray,
    neighbors: AnyArray,
    keys: AnyArray,
    rows_a: AnyArray,
    neighbors_a: AnyArray,
    keys_a: AnyArray,
    rows_b: AnyArray,
    neighbors_b: AnyArray,
    keys_b: AnyArray,
) -> None:
    """Order what `split_strips` has split by row and neighbour, in place.

    Parameters
    ----------
    bits
        Of the largest neighbour.
    rows_a, ..., keys_b
        Two sets of scratch, as large as the largest strip.
    """
    digits, width = _digits_of(bits)
    cursors = np.empty((digits, 1 << width), np.uint32)
    cursor = np.empty(len(offsets), np.int64)
    start: Any
    stop: Any
    for strip in range(len(strip_rows) - 1):
        first, last = strip_rows[strip], strip_rows[strip + 1]
        start, stop = offsets[first], offsets[last]
        r, n, k = rows[start:stop], neighbors[start:stop], keys[start:stop]
        m = stop - start
        ra, na, ka = rows_a[:m], neighbors_a[:m], keys_a[:m]
        rb, nb, kb = rows_b[:m], neighbors_b[:m], keys_b[:m]
        _find_places(n, 0, width, cursors)
        _digit_pass(n, np.uint64(0), cursors[0], r, n, k, ra, na, ka)
        single = last - first == 1 and digits > 1
        for digit in range(1, digits):
            if single and digit == digits - 1:
                nb, kb = n, k
            _digit_pass(na, np.uint64(digit * width), cursors[digit], ra, na, ka, rb, nb, kb)
            ra, na, ka, rb, nb, kb = rb, nb, kb, ra, na, ka
        if not single:
            _row_pass(first, offsets, cursor[: last - first], ra, na, ka, neighbors, keys)


@allocating_kernel
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
def _finish_row(
    keys: AnyArray,
    neighbors: AnyArray,
    spare_keys: AnyArray,
    spare_neighbors: AnyArray,
    histogram: IntArray,
) -> None:
    """Sort a row, stably, in which hardly anything is out of order; by radix if much is."""
    left = 4 * len(keys)
    for i in range(1, len(keys)):
        key = keys[i]
        j = i - 1
        if keys[j] <= key:
            continue
        neighbor = neighbors[i]
        while j >= 0 and keys[j] > key:
            keys[j + 1] = keys[j]
            neighbors[j + 1] = neighbors[j]
            j -= 1
        keys[j + 1] = key
        neighbors[j + 1] = neighbor
        left -= i - j
        if left < 0:
            radix_sort(keys, neighbors, spare_keys, spare_neighbors, histogram)
            return


@allocating_kernel
def sort_by_weight(
    strip_rows: IntArray,
    lengths: IntArray,
    neighbors: AnyArray,
    keys: AnyArray,
    rows_a: AnyArray,
    neighbors_a: AnyArray,
    keys_a: AnyArray,
    rows_b: AnyArray,
    neighbors_b: AnyArray,
    keys_b: AnyArray,
    neighbors_out: AnyArray,
    keys_out: AnyArray,
) -> None:
    """Order rows by key, ties by neighbour.

    Parameters
    ----------
    strip_rows, lengths
        Strips as above, and the lengths int64 (r,) of the rows, which stand one after the other
        and ascend by neighbour.
    neighbors, keys
        (m,): the arcs.
    rows_a, ..., keys_b
        Two sets of scratch, as large as the largest strip.
    neighbors_out, keys_out
        (m,): receive the arcs.
    """
    offsets = np.empty(len(lengths) + 1, np.int64)
    offsets[0] = 0
    for row in range(len(lengths)):
        offsets[row + 1] = offsets[row] + lengths[row]
    low, bits = _range_of_bits(keys)
    digits, width = _digits_of(bits)
    # All digits are more than it takes to tell nearly all weights of a row from each other, and
    # where rows are long what is left costs less than a pass.
    finish = digits > _TELLING_DIGITS and len(keys) >= _LONG_ROW * len(lengths)
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
        n, k = neighbors[start:stop], keys[start:stop]
        m = stop - start
        ra, na, ka = rows_a[:m], neighbors_a[:m], keys_a[:m]
        rb, nb, kb = rows_b[:m], neighbors_b[:m], keys_b[:m]
        for row in range(first, last):
            rb[offsets[row] - start : offsets[row + 1] - start] = row
        r = rb
        _find_places(k, low, width, cursors)
        single = last - first == 1 and digits > 0
        for digit in range(digits):
            if single and digit == digits - 1:
                na, ka = neighbors_out[start:stop], keys_out[start:stop]
            shift = np.uint64(low + digit * width)
            _digit_pass(k, shift, cursors[digit], r, n, k, ra, na, ka)
            r, n, k, ra, na, ka, rb, nb, kb = ra, na, ka, rb, nb, kb, ra, na, ka
        if not single:
            _row_pass(first, offsets, cursor[: last - first], r, n, k, neighbors_out, keys_out)
        if finish:
            for row in range(first, last):
                start, stop = offsets[row], offsets[row + 1]
                _finish_row(
                    keys_out[start:stop],
                    neighbors_out[start:stop],
                    keys_a[: stop - start],
                    neighbors_a[: stop - start],
                    histogram,
                )
