"""Graph500's Kronecker edges on the CPU, bit for bit, ``LANES`` edges at a time.

Every edge has its own random stream: the multiple recursive generator of L'Ecuyer, Blouin and
Couture (1993), modulus 2**31 - 1, skipped ahead by ``edge * 2**64`` steps. Consecutive edges are
thus one fixed matrix J apart, and ``LANES`` streams run side by side in loops that LLVM turns
into vector instructions: every lane moves on by J**LANES after each batch.

Three things keep the inner loop short:

- A level's quadrant depends on ``v mod 10000`` only through comparisons, and those can be made on
  the fractional part of ``v / 10000`` in fixed point (Lemire, Kaser, Kurz 2019): no division.
- B and D (the target's bit) fill one interval of the circle of residues, and B and C (the bits
  differ) another: two comparisons a level. The source's bit is their exclusive or.
- "Clip and flip" can only change the first level at which the bits differ, so it is done once
  per edge. So is the rejection of draws: lanes that met one (about 1 in 25,000 edges at scale
  22) are done again, one by one.

All arithmetic is in uint64; a state is (z1, z2, z3, z4, z5), newest draw first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ooc_graph.kernels.common.compiled import inlined, kernel, subroutine
from ooc_graph.types import AnyArray

UInt64Array = NDArray[np.uint64]

LANE_BITS = 7
LANES = 1 << LANE_BITS
ORDER = 5
MODULUS = 2**31 - 1
FIRST_FACTOR = 107374182
LAST_FACTOR = 104480

_U = np.uint64
_P = _U(MODULUS)
_X = _U(FIRST_FACTOR)
_Y = _U(LAST_FACTOR)
_LOW32 = _U(0xFFFFFFFF)
_ZERO, _ONE, _FOLD, _SIGN = _U(0), _U(1), _U(31), _U(63)
_WORD = _U(64)

# A draw is kept when it is at least 2**31 - 1 mod 10000; then v mod 10000 picks the quadrant:
# [0, 1900) B, [1900, 3800) C, [3800, 9500) A, [9500, 10000) D.
_REJECT_BELOW = _U(3647)
_TEN_THOUSAND, _END_C, _END_B, _END_A = _U(10000), _U(3800), _U(1900), _U(9500)

# Fixed point with 45 fractional bits: v * _INVERSE mod 2**45 lies in [r, r + 0.08) * _INVERSE for
# every v < 2**31 with remainder r, so comparisons with multiples of _INVERSE are exact.
_FRACTION_BITS = 45
_INVERSE_INT = -(-(2**_FRACTION_BITS) // 10000)
_INVERSE = _U(_INVERSE_INT)
_FRACTION = _U(2**_FRACTION_BITS - 1)
_DIFFER_BELOW = _U(3800 * _INVERSE_INT)
_TURN_INT = 2**_FRACTION_BITS - 9500 * _INVERSE_INT
_TURN = _U(_TURN_INT)
_TARGET_BELOW = _U(_TURN_INT + 1900 * _INVERSE_INT)

_SCRAMBLE_0 = _U(0x4519840211493211)
_SCRAMBLE_1 = _U(0x3050852102C843A5)
_WEIGHT_SCALE = 4.65661287524579692e-10

# Rows of the scratch array, LANES entries each: where the lanes' edges start, the running states,
# the smallest draw met, and the two bit strings.
_START, _STATE, _LEAST, _DIFFER, _TARGET = 0, 5 * LANES, 10 * LANES, 11 * LANES, 12 * LANES
SCRATCH_WORDS = 13 * LANES


def _type_bit_reverse(_context: Any, word: Any) -> Any:
    """Reverse the 64 bits of a word (LLVM has a name for it, numba has none)."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.bitreverse", [ir.IntType(64)])
        return builder.call(function, arguments)

    return types.uint64(word), generate


_bit_reverse: Any = intrinsic(_type_bit_reverse)


@inlined
def _draw(newest: Any, oldest: Any) -> Any:
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
def _start_lanes(scratch: UInt64Array, seed: UInt64Array, powers: UInt64Array, start: int) -> None:
    """Set lane i to the first state of edge ``start + i``."""
    state = scratch[_STATE : _STATE + ORDER]
    for k in range(ORDER):
        state[k] = seed[k]
    advance(state, powers, start)
    for lane in range(LANES):
        for k in range(ORDER):
            scratch[_START + k * LANES + lane] = state[k]
        advance(state, powers, 1)


@subroutine
def _advance_lanes(scratch: UInt64Array, m: UInt64Array) -> None:
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
        z1 = scratch[_STATE + lane]
        v1 = _draw(z1, scratch[_STATE + 4 * LANES + lane])
        v2 = _draw(v1, scratch[_STATE + 3 * LANES + lane])
        v3 = _draw(v2, scratch[_STATE + 2 * LANES + lane])
        v4 = _draw(v3, scratch[_STATE + LANES + lane])
        v5 = _draw(v4, z1)
        scratch[_STATE + lane] = v5
        scratch[_STATE + LANES + lane] = v4
        scratch[_STATE + 2 * LANES + lane] = v3
        scratch[_STATE + 3 * LANES + lane] = v2
        scratch[_STATE + 4 * LANES + lane] = v1
        least = min(v1, v2, v3, v4, v5)
        scratch[_LEAST + lane] = min(scratch[_LEAST + lane], least)
        bits = (scratch[_DIFFER + lane] << _ONE) | _differ_bit(v1)
        bits = (bits << _ONE) | _differ_bit(v2)
        bits = (bits << _ONE) | _differ_bit(v3)
        bits = (bits << _ONE) | _differ_bit(v4)
        scratch[_DIFFER + lane] = (bits << _ONE) | _differ_bit(v5)
        bits = (scratch[_TARGET + lane] << _ONE) | _target_bit(v1)
        bits = (bits << _ONE) | _target_bit(v2)
        bits = (bits << _ONE) | _target_bit(v3)
        bits = (bits << _ONE) | _target_bit(v4)
        scratch[_TARGET + lane] = (bits << _ONE) | _target_bit(v5)


@subroutine
def _one_level(scratch: UInt64Array) -> None:
    """One level for every lane, the state moved along."""
    for lane in range(LANES):
        value = _draw(scratch[_STATE + lane], scratch[_STATE + 4 * LANES + lane])
        scratch[_STATE + 4 * LANES + lane] = scratch[_STATE + 3 * LANES + lane]
        scratch[_STATE + 3 * LANES + lane] = scratch[_STATE + 2 * LANES + lane]
        scratch[_STATE + 2 * LANES + lane] = scratch[_STATE + LANES + lane]
        scratch[_STATE + LANES + lane] = scratch[_STATE + lane]
        scratch[_STATE + lane] = value
        scratch[_LEAST + lane] = min(scratch[_LEAST + lane], value)
        scratch[_DIFFER + lane] = (scratch[_DIFFER + lane] << _ONE) | _differ_bit(value)
        scratch[_TARGET + lane] = (scratch[_TARGET + lane] << _ONE) | _target_bit(value)


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
        z1, z2, z3, z4, z5 = _draw(z1, z5), z1, z2, z3, z4
        if z1 >= _REJECT_BELOW:
            residue = z1 % _TEN_THOUSAND
            differ = (differ << _ONE) | _U(residue < _END_C)
            target = (target << _ONE) | _U((residue < _END_B) | (residue >= _END_A))
            level += 1
    scratch[_DIFFER + lane] = differ
    scratch[_TARGET + lane] = target
    # The weight's draw needs these two only.
    scratch[_STATE + lane] = z1
    scratch[_STATE + 4 * LANES + lane] = z5


@subroutine
def _draw_levels(scratch: UInt64Array, scale: int) -> None:
    """All levels of the lanes' current edges."""
    for word in range(ORDER * LANES):
        scratch[_STATE + word] = scratch[_START + word]
    for lane in range(LANES):
        scratch[_LEAST + lane] = _P
        scratch[_DIFFER + lane] = _ZERO
        scratch[_TARGET + lane] = _ZERO
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


@inlined
def _scramble(vertex: Any, add: Any, first: Any, second: Any, shift: Any) -> Any:
    """Graph500's bijection on [0, 2**scale)."""
    return _bit_reverse((_bit_reverse((vertex + add) * first) >> shift) * second) >> shift


@subroutine
def _write_edges(
    scratch: UInt64Array,
    scale: int,
    scramble: UInt64Array,
    source: AnyArray,
    target: AnyArray,
    first: int,
    count: int,
) -> None:
    """Flip, scramble and store the endpoints of the first ``count`` lanes."""
    add = scramble[0] + scramble[1]
    one, two = scramble[0] | _SCRAMBLE_0, scramble[1] | _SCRAMBLE_1
    shift = _WORD - _U(scale)
    for lane in range(count):
        differ = scratch[_DIFFER + lane]
        v = scratch[_TARGET + lane]
        u = v ^ differ
        smear = differ | (differ >> _U(1))
        smear |= smear >> _U(2)
        smear |= smear >> _U(4)
        smear |= smear >> _U(8)
        smear |= smear >> _U(16)
        smear |= smear >> _U(32)
        flip = u & (smear ^ (smear >> _ONE))
        source[first + lane] = _scramble(u ^ flip, add, one, two, shift)
        target[first + lane] = _scramble(v ^ flip, add, one, two, shift)


@subroutine
def _write_weights(scratch: UInt64Array, weight: AnyArray, first: int, count: int) -> None:
    """The draw after the edge's, rounded to float32 before and after the product."""
    for lane in range(count):
        value = _draw(scratch[_STATE + lane], scratch[_STATE + 4 * LANES + lane])
        rounded = np.float64(np.float32(np.int64(value)))
        weight[first + lane] = np.float32(rounded * _WEIGHT_SCALE)


@kernel
def generate_into(
    start: int,
    scale: int,
    seed: UInt64Array,
    powers: UInt64Array,
    scramble: UInt64Array,
    scratch: UInt64Array,
    source: AnyArray,
    target: AnyArray,
    weight: AnyArray | None,
) -> None:
    """Fill the caller's arrays with edges ``start``, ``start + 1``, …; allocates nothing.

    Runs on the calling thread without the GIL; concurrent calls need a scratch array each. The
    scale is 1 to 63. uint64: ``seed`` (5,), the state of the generator at edge 0; ``powers`` (63,
    5, 5), J**(2**i), J being the step from an edge to the next; ``scramble`` (2,), the constants
    that follow from the seed; ``scratch`` (SCRATCH_WORDS,). ``source`` and ``target`` are int64,
    uint64 or uint32 (for ``scale`` <= 32), ``weight`` float32 or None.
    """
    _start_lanes(scratch, seed, powers, start)
    edges = source.shape[0]
    for first in range(0, edges, LANES):
        _draw_levels(scratch, scale)
        count = min(LANES, edges - first)
        _write_edges(scratch, scale, scramble, source, target, first, count)
        if weight is not None:
            _write_weights(scratch, weight, first, count)
        _advance_lanes(scratch, powers[LANE_BITS])


@inlined
def _slot_of(vertex: Any, table: Any) -> Any:
    """Slot of an open-addressing table that holds ``vertex``, or the empty one it would get."""
    slot = vertex & (table.shape[0] - 1)
    while table[slot] >= 0 and table[slot] != vertex:
        slot = (slot + 1) & (table.shape[0] - 1)
    return slot


@kernel
def insert_vertices(vertices: AnyArray, table: AnyArray) -> None:
    """Enter non-negative ids into a table of -1s (int64, a power of two long, never full)."""
    for vertex in vertices:
        table[_slot_of(vertex, table)] = vertex


@kernel
def mark_touched(source: AnyArray, target: AnyArray, table: AnyArray, touched: AnyArray) -> None:
    """Set ``touched[slot]`` (uint8) of every tabled vertex that a non-loop edge meets."""
    for edge in range(source.shape[0]):
        u, v = source[edge], target[edge]
        if u != v:
            slot = _slot_of(u, table)
            if table[slot] >= 0:
                touched[slot] = 1
            slot = _slot_of(v, table)
            if table[slot] >= 0:
                touched[slot] = 1
