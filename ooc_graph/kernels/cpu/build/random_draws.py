"""Random draws of Graph500's Kronecker edges on the CPU, `LANES` edges at a time.

Every edge has its own random stream: the multiple recursive generator of L'Ecuyer, Blouin and
Couture (1993), modulus 2**31 - 1, skipped ahead by ``edge * 2**64`` steps. Consecutive edges are
thus one fixed matrix J apart, and `LANES` streams run side by side in loops that LLVM turns into
vector instructions: every lane advances by J**LANES after each batch.

Three things keep the inner loop short:

- A level's quadrant depends on ``v mod 10000`` only through comparisons, and those can be made on
  the fractional part of ``v / 10000`` in fixed point (Lemire, Kaser, Kurz 2019): no division.
- B and D (the target's bit) fill one interval of the circle of residues, and B and C (the bits
  differ) another: two comparisons a level. The source's bit is their exclusive or.
- Draws are rejected once per edge, not per level: lanes that met one to reject (about 1 in 25,000
  edges at scale 22) are done again, one by one.

All arithmetic is in uint64; a state is (z1, z2, z3, z4, z5), newest draw first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernels.common.compiled import inlined, subroutine

UInt64Array = NDArray[np.uint64]

LANE_BITS = 7
LANES = 1 << LANE_BITS
ORDER = 5
MODULUS = 2**31 - 1
FIRST_FACTOR = 107374182
LAST_FACTOR = 104480

U = np.uint64
_P = U(MODULUS)
_X = U(FIRST_FACTOR)
_Y = U(LAST_FACTOR)
_LOW32 = U(0xFFFFFFFF)
_ZERO, ONE, _FOLD, _SIGN = U(0), U(1), U(31), U(63)

# A draw is kept when it is at least 2**31 - 1 mod 10000; then v mod 10000 picks the quadrant:
# [0, 1900) B, [1900, 3800) C, [3800, 9500) A, [9500, 10000) D.
_REJECT_BELOW = U(3647)
_TEN_THOUSAND, _END_C, _END_B, _END_A = U(10000), U(3800), U(1900), U(9500)

# Fixed point with 45 fractional bits: v * _INVERSE mod 2**45 lies in [r, r + 0.08) * _INVERSE for
# every v < 2**31 with remainder r, so comparisons with multiples of _INVERSE are exact.
_FRACTION_BITS = 45
_INVERSE_INT = -(-(2**_FRACTION_BITS) // 10000)
_INVERSE = U(_INVERSE_INT)
_FRACTION = U(2**_FRACTION_BITS - 1)
_DIFFER_BELOW = U(3800 * _INVERSE_INT)
_TURN_INT = 2**_FRACTION_BITS - 9500 * _INVERSE_INT
_TURN = U(_TURN_INT)
_TARGET_BELOW = U(_TURN_INT + 1900 * _INVERSE_INT)

# Rows of the scratch array, LANES entries each: where the lanes' edges start, the running states,
# the smallest draw met, and the two bit strings.
_START, STATE, _LEAST, DIFFER, TARGET = 0, 5 * LANES, 10 * LANES, 11 * LANES, 12 * LANES
SCRATCH_WORDS = 13 * LANES


@inlined
def draw(newest: Any, oldest: Any) -> Any:
    """Next output of the recurrence; the sum is below 2**58, so that one fold is enough."""
    total = _X * (newest & _LOW32) + _Y * (oldest & _LOW32)
    folded = (total & _P) + (total >> _FOLD)
    return min(folded, folded - _P)


@inlined
def _differ_bit(value: Any) -> Any:
    """1 where the draw picks B or C."""
    return (((value & _LOW32) * _INVERSE & _FRACTION) - _DIFFER_BELOW) >> _SIGN


@inlined
def _target_bit(value: Any) -> Any:
    """1 where the draw picks B or D."""
    return ((((value & _LOW32) * _INVERSE + _TURN) & _FRACTION) - _TARGET_BELOW) >> _SIGN


@inlined
def _row_times(a: Any, b: Any, c: Any, d: Any, e: Any, m: Any, row: int) -> Any:
    """One row of a 5 by 5 matrix times a state, in [0, p)."""
    four = m[row, 0] * a + m[row, 1] * b + m[row, 2] * c + m[row, 3] * d
    total = (four & _P) + (four >> _FOLD) + m[row, 4] * e
    folded = (total & _P) + (total >> _FOLD)
    folded = (folded & _P) + (folded >> _FOLD)
    return min(folded, folded - _P)


@subroutine
def advance(state: UInt64Array, powers: UInt64Array, steps: int) -> None:
    """Apply the ``steps``-th power of a matrix to a state, uint64 (5,), in place.

    ``powers[i]`` of uint64 (k, 5, 5) is the matrix to the power 2**i, entries below 2**31 - 1, and
    0 <= steps < 2**k.
    """
    for bit in range(powers.shape[0]):
        if (steps >> bit) & 1:
            m = powers[bit]
            a, b, c, d, e = state[0], state[1], state[2], state[3], state[4]
            for row in range(ORDER):
                state[row] = _row_times(a, b, c, d, e, m, row)


@subroutine
def start_lanes(scratch: UInt64Array, seed: UInt64Array, powers: UInt64Array, start: int) -> None:
    """Set lane i to the first state of edge ``start + i``."""
    state = scratch[STATE : STATE + ORDER]
    for k in range(ORDER):
        state[k] = seed[k]
    advance(state, powers, start)
    for lane in range(LANES):
        for k in range(ORDER):
            scratch[_START + k * LANES + lane] = state[k]
        advance(state, powers, 1)


@subroutine
def advance_lanes(scratch: UInt64Array, m: UInt64Array) -> None:
    """Move every lane on by LANES edges (``m`` is J**LANES)."""
    for lane in range(LANES):
        a = scratch[_START + lane] & _LOW32
        b = scratch[_START + LANES + lane] & _LOW32
        c = scratch[_START + 2 * LANES + lane] & _LOW32
        d = scratch[_START + 3 * LANES + lane] & _LOW32
        e = scratch[_START + 4 * LANES + lane] & _LOW32
        scratch[_START + lane] = _row_times(a, b, c, d, e, m, 0)
        scratch[_START + LANES + lane] = _row_times(a, b, c, d, e, m, 1)
        scratch[_START + 2 * LANES + lane] = _row_times(a, b, c, d, e, m, 2)
        scratch[_START + 3 * LANES + lane] = _row_times(a, b, c, d, e, m, 3)
        scratch[_START + 4 * LANES + lane] = _row_times(a, b, c, d, e, m, 4)


@subroutine
def _five_levels(scratch: UInt64Array) -> None:
    """Five levels for every lane; five draws renew the whole state."""
    for lane in range(LANES):
        z1 = scratch[STATE + lane]
        v1 = draw(z1, scratch[STATE + 4 * LANES + lane])
        v2 = draw(v1, scratch[STATE + 3 * LANES + lane])
        v3 = draw(v2, scratch[STATE + 2 * LANES + lane])
        v4 = draw(v3, scratch[STATE + LANES + lane])
        v5 = draw(v4, z1)
        scratch[STATE + lane] = v5
        scratch[STATE + LANES + lane] = v4
        scratch[STATE + 2 * LANES + lane] = v3
        scratch[STATE + 3 * LANES + lane] = v2
        scratch[STATE + 4 * LANES + lane] = v1
        least = min(v1, v2, v3, v4, v5)
        scratch[_LEAST + lane] = min(scratch[_LEAST + lane], least)
        bits = (scratch[DIFFER + lane] << ONE) | _differ_bit(v1)
        bits = (bits << ONE) | _differ_bit(v2)
        bits = (bits << ONE) | _differ_bit(v3)
        bits = (bits << ONE) | _differ_bit(v4)
        scratch[DIFFER + lane] = (bits << ONE) | _differ_bit(v5)
        bits = (scratch[TARGET + lane] << ONE) | _target_bit(v1)
        bits = (bits << ONE) | _target_bit(v2)
        bits = (bits << ONE) | _target_bit(v3)
        bits = (bits << ONE) | _target_bit(v4)
        scratch[TARGET + lane] = (bits << ONE) | _target_bit(v5)


@subroutine
def _one_level(scratch: UInt64Array) -> None:
    """One level for every lane, the state moved along."""
    for lane in range(LANES):
        value = draw(scratch[STATE + lane], scratch[STATE + 4 * LANES + lane])
        scratch[STATE + 4 * LANES + lane] = scratch[STATE + 3 * LANES + lane]
        scratch[STATE + 3 * LANES + lane] = scratch[STATE + 2 * LANES + lane]
        scratch[STATE + 2 * LANES + lane] = scratch[STATE + LANES + lane]
        scratch[STATE + LANES + lane] = scratch[STATE + lane]
        scratch[STATE + lane] = value
        scratch[_LEAST + lane] = min(scratch[_LEAST + lane], value)
        scratch[DIFFER + lane] = (scratch[DIFFER + lane] << ONE) | _differ_bit(value)
        scratch[TARGET + lane] = (scratch[TARGET + lane] << ONE) | _target_bit(value)


@subroutine
def _redo_lane(scratch: UInt64Array, lane: int, scale: int) -> None:
    """Draw one lane's edge again, rejections and all, and leave what the lane should hold."""
    z1 = scratch[_START + lane]
    z2 = scratch[_START + LANES + lane]
    z3 = scratch[_START + 2 * LANES + lane]
    z4 = scratch[_START + 3 * LANES + lane]
    z5 = scratch[_START + 4 * LANES + lane]
    differ, target = _ZERO, _ZERO
    level = 0
    while level < scale:
        z1, z2, z3, z4, z5 = draw(z1, z5), z1, z2, z3, z4
        if z1 >= _REJECT_BELOW:
            residue = z1 % _TEN_THOUSAND
            differ = (differ << ONE) | U(residue < _END_C)
            target = (target << ONE) | U((residue < _END_B) | (residue >= _END_A))
            level += 1
    scratch[DIFFER + lane] = differ
    scratch[TARGET + lane] = target
    # The weight's draw needs these two only.
    scratch[STATE + lane] = z1
    scratch[STATE + 4 * LANES + lane] = z5


@subroutine
def draw_levels(scratch: UInt64Array, scale: int) -> None:
    """All levels of the lanes' current edges."""
    for word in range(ORDER * LANES):
        scratch[STATE + word] = scratch[_START + word]
    for lane in range(LANES):
        scratch[_LEAST + lane] = _P
        scratch[DIFFER + lane] = _ZERO
        scratch[TARGET + lane] = _ZERO
    for _ in range(scale // ORDER):
        _five_levels(scratch)
    for _ in range(scale % ORDER):
        _one_level(scratch)
    least = _P
    for lane in range(LANES):
        least = min(least, scratch[_LEAST + lane])
    if least < _REJECT_BELOW:
        for lane in range(LANES):
            if scratch[_LEAST + lane] < _REJECT_BELOW:
                _redo_lane(scratch, lane, scale)
