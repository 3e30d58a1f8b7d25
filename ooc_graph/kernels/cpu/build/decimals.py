"""Decimal text to 64-bit integers and doubles, exactly.

Doubles are rounded correctly. Short numbers take one operation on exact doubles (W. D. Clinger,
"How to read floating point numbers accurately", PLDI 1990), others of up to 19 significant digits
the algorithm of Eisel and Lemire (D. Lemire, "Number parsing at a gigabyte per second", Software:
Practice and Experience 51(8), 2021). What that leaves open (longer numbers, subnormal ones,
halfway doubts) is answered with ``SLOW_BITS`` and left to Python's ``float``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.cpu.build import doubles as rounding

# Status codes of the kernels.
OK = 0
FEW_FIELDS = 1
MANY_FIELDS = 2
BAD_ID = 3
NEGATIVE_ID = 4
BIG_ID = 5
ID_OUT_OF_RANGE = 6
BAD_WEIGHT = 7
NOT_FINITE = 8
BIG_WEIGHT = 9
NOT_INTEGER = 10
LONE_CR = 11
OPEN_QUOTE = 12
BAD_TAG = 13
MANY_LINES = 14
CONTROL_BYTE = 15

# How weights are read.
WEIGHT_NONE, WEIGHT_INTEGER, WEIGHT_EITHER, WEIGHT_FLOAT = 0, 1, 2, 3


_INT64_MAX = np.uint64((1 << 63) - 1)


@subroutine
def read_id(text: Any, start: Any, stop: Any, first: Any, last: Any) -> Any:
    """(status, id) of the decimal in text[start:stop]."""
    if start == stop:
        return BAD_ID, np.int64(0)
    value = rounding.U0
    # Checking each digit is faster than a loop without branches, which LLVM makes into vector
    # code that does not pay for seven digits.
    for at in range(start, stop):
        digit = text[at] - np.uint8(48)
        # 2**63 - 1 has 19 digits: above this bound the next digit leaves int64 or uint64.
        if digit > 9 or value > np.uint64(922337203685477580):
            return _id_fault(text, start, stop), np.int64(0)
        value = value * rounding.U10 + np.uint64(digit)
    if value > _INT64_MAX:
        return BIG_ID, np.int64(0)
    signed = np.int64(value)
    if signed < first or signed > last:
        return ID_OUT_OF_RANGE, np.int64(0)
    return OK, signed


@subroutine
def _id_fault(text: Any, start: Any, stop: Any) -> Any:
    """Why text[start:stop] is no id: negative, too big, or no number at all."""
    begin = start + 1 if text[start] == 45 else start
    if begin == stop:
        return BAD_ID
    for at in range(begin, stop):
        if text[at] < 48 or text[at] > 57:
            return BAD_ID
    return NEGATIVE_ID if begin > start else BIG_ID


@subroutine
def _weight_fault(text: Any, start: Any, stop: Any) -> Any:
    """NOT_FINITE for spellings of nan and infinity, else BAD_WEIGHT."""
    at = start
    if at < stop and (text[at] == 43 or text[at] == 45):
        at += 1
    if stop - at >= 3:
        a, b, c = text[at] | 32, text[at + 1] | 32, text[at + 2] | 32
        if (a == 110 and b == 97 and c == 110) or (a == 105 and b == 110 and c == 102):
            return NOT_FINITE
    return BAD_WEIGHT


@subroutine
def _leading_digits(text: Any, start: Any, stop: Any) -> Any:
    """(digits, too_many) of text[start:stop], digits and at most one point, zeros in front free."""
    digits, kept = rounding.U0, 0
    for at in range(start, stop):
        if text[at] == 46:
            continue
        if kept >= 19:
            return digits, True
        digits = digits * rounding.U10 + np.uint64(text[at] - np.uint8(48))
        if digits != rounding.U0:
            kept += 1
    return digits, False


@kernel
def read_weight(text: Any, start: Any, stop: Any, mode: Any) -> Any:
    """(status, is_integer, integer, bits of the double or SLOW_BITS) of text[start:stop]."""
    at = start
    negative = False
    if at < stop and (text[at] == 45 or text[at] == 43):
        negative = text[at] == 45
        at += 1
    digits, count, point, exponent_from = rounding.U0, 0, -1, -1
    first = at
    while at < stop:
        byte = text[at]
        digit = byte - np.uint8(48)
        if digit <= 9:
            # Wraps around beyond 19 digits; done again below in that case.
            digits = digits * rounding.U10 + np.uint64(digit)
            count += 1
        elif byte == 46 and point < 0:
            point = at
        elif (byte == 101 or byte == 69) and count > 0:
            exponent_from = at + 1
            break
        else:
            return _weight_fault(text, start, stop), False, np.int64(0), rounding.U0
        at += 1
    fraction = point >= 0
    power = point + 1 - at if fraction else 0
    slow = False
    if count > 19:
        digits, slow = _leading_digits(text, first, at)
    if count == 0:
        return _weight_fault(text, start, stop), False, np.int64(0), rounding.U0
    if exponent_from >= 0:
        at = exponent_from
        exponent_negative = False
        if at < stop and (text[at] == 45 or text[at] == 43):
            exponent_negative = text[at] == 45
            at += 1
        if at == stop:
            return BAD_WEIGHT, False, np.int64(0), rounding.U0
        exponent = np.int64(0)
        while at < stop:
            digit = text[at] - np.uint8(48)
            if digit > 9:
                return BAD_WEIGHT, False, np.int64(0), rounding.U0
            if exponent < 100000:
                exponent = exponent * 10 + np.int64(digit)
            at += 1
        power += -exponent if exponent_negative else exponent
        slow = bool(slow or exponent >= 100000)
    whole = not fraction and exponent_from < 0
    if mode != WEIGHT_FLOAT:
        if whole:
            if slow or digits > _INT64_MAX + (rounding.U1 if negative else rounding.U0):
                return BIG_WEIGHT, True, np.int64(0), rounding.U0
            integer = np.int64(rounding.U0 - digits) if negative else np.int64(digits)
            return OK, True, integer, rounding.U0
        if mode == WEIGHT_INTEGER:
            return NOT_INTEGER, False, np.int64(0), rounding.U0
    bits = rounding.SLOW_BITS
    if not slow and digits <= rounding.EXACT_DIGITS and -22 <= power <= 22:
        # Both numbers are exact doubles, so one operation rounds once (Clinger, PLDI 1990).
        value = np.float64(digits)
        value = value / rounding.TENS[-power] if power < 0 else value * rounding.TENS[power]
        bits = np.float64(-value if negative else value).view(np.uint64)
    elif not slow:
        bits = rounding.double_bits(digits, power)
        if negative and bits != rounding.SLOW_BITS:
            bits |= np.uint64(1) << np.uint64(63)
    return OK, False, np.int64(0), bits


@subroutine
def put_weight(
    text: Any, start: Any, stop: Any, mode: Any, row: Any, columns: Any, slow_rows: Any
) -> Any:
    """Write the weight in text[start:stop] to a row of the columns that the mode has use for.

    These are integers, doubles and slow ones, as a tokenizer has them. Returns the status, how many
    rows are left to the caller (listed in the slow ones), and False where a column that may have
    either has a number that is no integer.
    """
    integers, doubles, slow = columns
    status, whole, integer, bits = read_weight(text, start, stop, mode)
    if status != OK:
        return status, slow_rows, True
    if mode != WEIGHT_FLOAT:
        integers[row] = integer
    if mode == WEIGHT_INTEGER:
        return OK, slow_rows, True
    if whole:
        doubles[row] = np.float64(integer)
        return OK, slow_rows, True
    doubles.view(np.uint64)[row] = bits
    if bits == rounding.SLOW_BITS:
        slow[slow_rows, 0], slow[slow_rows, 1], slow[slow_rows, 2] = row, start, stop
        slow_rows += 1
    return OK, slow_rows, False
