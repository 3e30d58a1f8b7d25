"""Digits and a power of ten to the nearest double (CPU)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernels.common.compiled import inlined, subroutine

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
U0, U1, _U3, U10 = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(10)
_U32, _LOW32 = np.uint64(32), np.uint64(0xFFFFFFFF)
_ALL_ONES = np.uint64(_WORD)
SLOW_BITS = np.uint64(0x7FF8 << 48)  # a NaN pattern: "ask Python's float"
_NINE_ONES = np.uint64(0x1FF)
_HIDDEN_BIT = np.uint64(1 << 52)
EXACT_DIGITS = np.uint64(1 << 53)
TENS = np.array([float(10**power) for power in range(23)])


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
def double_bits(digits: Any, power: Any) -> Any:
    """Bits of the double nearest to digits * 10**power, or the NaN pattern if undecided."""
    if digits == U0:
        return U0
    if power < _SMALLEST_POWER or power > _LARGEST_POWER:
        return SLOW_BITS
    word, zeros = digits, 0
    for step in (32, 16, 8, 4, 2, 1):
        if (word >> np.uint64(64 - step)) == U0:
            word <<= np.uint64(step)
            zeros += step
    entry = power - _SMALLEST_POWER
    high, low = _multiply(word, _FIVE_HIGH[entry])
    if (high & _NINE_ONES) == _NINE_ONES:
        more, _ = _multiply(word, _FIVE_LOW[entry])
        low += more
        if more > low:
            high += U1
    if low == _ALL_ONES and (power < -27 or power > 55):
        return SLOW_BITS
    top = high >> np.uint64(63)
    shift = top + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * power) >> 16) + 1086 + np.int64(top) - zeros
    if exponent <= 0:
        return SLOW_BITS
    halfway = low <= U1 and -4 <= power <= 23 and (mantissa & _U3) == U1
    if halfway and (mantissa << shift) == high:
        mantissa -= U1
    mantissa = (mantissa + (mantissa & U1)) >> U1
    if mantissa >= (_HIDDEN_BIT << U1):
        mantissa = _HIDDEN_BIT
        exponent += 1
    if exponent >= 2047:
        return SLOW_BITS
    return (mantissa - _HIDDEN_BIT) | (np.uint64(exponent) << np.uint64(52))
