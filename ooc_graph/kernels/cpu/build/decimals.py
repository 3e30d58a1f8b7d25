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
from numpy.typing import NDArray

from ooc_graph.kernels.common.compiled import inlined, kernel, subroutine

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

_SMALLEST_POWER, _LARGEST_POWER = -342, 308
_WORD = (1 << 64) - 1


def _five_to(power: int) -> int:
    """128 leading bits of 5**power: rounded down for power >= 0, up for power < 0."""
    if power >= 0:
        exact = int(5**power)
        shift = exact.bit_length() - 128
        return exact >> shift if shift > 0 else exact << -shift
    divisor = int(5**-power)
    quotient: int = (1 << (divisor.bit_length() + 127)) // divisor + 1
    while quotient.bit_length() > 128:
        quotient >>= 1
    return quotient


def _power_table() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    table = [_five_to(power) for power in range(_SMALLEST_POWER, _LARGEST_POWER + 1)]
    high = np.array([entry >> 64 for entry in table], dtype=np.uint64)
    low = np.array([entry & _WORD for entry in table], dtype=np.uint64)
    return high, low


_FIVE_HIGH, _FIVE_LOW = _power_table()

_U0, _U1, _U3, _U10 = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(10)
_U32, _LOW32 = np.uint64(32), np.uint64(0xFFFFFFFF)
_ALL_ONES = np.uint64(_WORD)
_INT64_MAX = np.uint64((1 << 63) - 1)
SLOW_BITS = np.uint64(0x7FF8 << 48)  # a NaN pattern: "ask Python's float"
_NINE_ONES = np.uint64(0x1FF)
_HIDDEN_BIT = np.uint64(1 << 52)
_EXACT_DIGITS = np.uint64(1 << 53)
_TENS = np.array([float(10**power) for power in range(23)])


@inlined
def _multiply(a: Any, b: Any) -> Any:
    """Product of two 64-bit words as (high, low)."""
    a_high, a_low = a >> _U32, a & _LOW32
    b_high, b_low = b >> _U32, b & _LOW32
    low_low = a_low * b_low
    middle = a_high * b_low + (low_low >> _U32)
    other = a_low * b_high + (middle & _LOW32)
    high = a_high * b_high + (middle >> _U32) + (other >> _U32)
    return high, (other << _U32) | (low_low & _LOW32)


@subroutine
def _double_bits(digits: Any, power: Any) -> Any:
    """Bits of the double nearest to digits * 10**power, or the NaN pattern if undecided."""
    if digits == _U0:
        return _U0
    if power < _SMALLEST_POWER or power > _LARGEST_POWER:
        return SLOW_BITS
    word, zeros = digits, 0
    for step in (32, 16, 8, 4, 2, 1):
        if (word >> np.uint64(64 - step)) == _U0:
            word <<= np.uint64(step)
            zeros += step
    entry = power - _SMALLEST_POWER
    high, low = _multiply(word, _FIVE_HIGH[entry])
    if (high & _NINE_ONES) == _NINE_ONES:
        more, _ = _multiply(word, _FIVE_LOW[entry])
        low += more
        if more > low:
            high += _U1
    if low == _ALL_ONES and (power < -27 or power > 55):
        return SLOW_BITS
    top = high >> np.uint64(63)
    shift = top + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * power) >> 16) + 1086 + np.int64(top) - zeros
    if exponent <= 0:
        return SLOW_BITS
    halfway = low <= _U1 and -4 <= power <= 23 and (mantissa & _U3) == _U1
    if halfway and (mantissa << shift) == high:
        mantissa -= _U1
    mantissa = (mantissa + (mantissa & _U1)) >> _U1
    if mantissa >= (_HIDDEN_BIT << _U1):
        mantissa = _HIDDEN_BIT
        exponent += 1
    if exponent >= 2047:
        return SLOW_BITS
    return (mantissa - _HIDDEN_BIT) | (np.uint64(exponent) << np.uint64(52))


@subroutine
def read_id(text: Any, start: Any, stop: Any, first: Any, last: Any) -> Any:
    """(status, id) of the decimal in text[start:stop]."""
    if start == stop:
        return BAD_ID, np.int64(0)
    value = _U0
    # Checking each digit is faster than a loop without branches, which LLVM makes into vector
    # code that does not pay for seven digits.
    for at in range(start, stop):
        digit = text[at] - np.uint8(48)
        # 2**63 - 1 has 19 digits: above this bound the next digit leaves int64 or uint64.
        if digit > 9 or value > np.uint64(922337203685477580):
            return _id_fault(text, start, stop), np.int64(0)
        value = value * _U10 + np.uint64(digit)
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
    digits, kept = _U0, 0
    for at in range(start, stop):
        if text[at] == 46:
            continue
        if kept >= 19:
            return digits, True
        digits = digits * _U10 + np.uint64(text[at] - np.uint8(48))
        if digits != _U0:
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
    digits, count, point, exponent_from = _U0, 0, -1, -1
    first = at
    while at < stop:
        byte = text[at]
        digit = byte - np.uint8(48)
        if digit <= 9:
            # Wraps around beyond 19 digits; done again below in that case.
            digits = digits * _U10 + np.uint64(digit)
            count += 1
        elif byte == 46 and point < 0:
            point = at
        elif (byte == 101 or byte == 69) and count > 0:
            exponent_from = at + 1
            break
        else:
            return _weight_fault(text, start, stop), False, np.int64(0), _U0
        at += 1
    fraction = point >= 0
    power = point + 1 - at if fraction else 0
    slow = False
    if count > 19:
        digits, slow = _leading_digits(text, first, at)
    if count == 0:
        return _weight_fault(text, start, stop), False, np.int64(0), _U0
    if exponent_from >= 0:
        at = exponent_from
        exponent_negative = False
        if at < stop and (text[at] == 45 or text[at] == 43):
            exponent_negative = text[at] == 45
            at += 1
        if at == stop:
            return BAD_WEIGHT, False, np.int64(0), _U0
        exponent = np.int64(0)
        while at < stop:
            digit = text[at] - np.uint8(48)
            if digit > 9:
                return BAD_WEIGHT, False, np.int64(0), _U0
            if exponent < 100000:
                exponent = exponent * 10 + np.int64(digit)
            at += 1
        power += -exponent if exponent_negative else exponent
        slow = bool(slow or exponent >= 100000)
    whole = not fraction and exponent_from < 0
    if mode != WEIGHT_FLOAT:
        if whole:
            if slow or digits > _INT64_MAX + (_U1 if negative else _U0):
                return BIG_WEIGHT, True, np.int64(0), _U0
            integer = np.int64(_U0 - digits) if negative else np.int64(digits)
            return OK, True, integer, _U0
        if mode == WEIGHT_INTEGER:
            return NOT_INTEGER, False, np.int64(0), _U0
    bits = SLOW_BITS
    if not slow and digits <= _EXACT_DIGITS and -22 <= power <= 22:
        # Both numbers are exact doubles, so one operation rounds once (Clinger, PLDI 1990).
        value = np.float64(digits)
        value = value / _TENS[-power] if power < 0 else value * _TENS[power]
        bits = np.float64(-value if negative else value).view(np.uint64)
    elif not slow:
        bits = _double_bits(digits, power)
        if negative and bits != SLOW_BITS:
            bits |= np.uint64(1) << np.uint64(63)
    return OK, False, np.int64(0), bits


@subroutine
def put_weight(
    text: Any,
    start: Any,
    stop: Any,
    mode: Any,
    row: Any,
    integers: Any,
    doubles: Any,
    slow: Any,
    slow_rows: Any,
) -> Any:
    """Write the weight in text[start:stop] to a row of the columns that the mode has use for.

    Returns the status, how many rows are left to the caller (listed in ``slow``), and False where
    a column that may have either has a number that is no integer.
    """
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
    if bits == SLOW_BITS:
        slow[slow_rows, 0], slow[slow_rows, 1], slow[slow_rows, 2] = row, start, stop
        slow_rows += 1
    return OK, slow_rows, False
