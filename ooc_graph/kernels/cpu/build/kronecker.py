"""Graph500's Kronecker edges on the CPU, bit for bit, `LANES` edges at a time.

"Clip and flip" can only change the first level at which the bits of source and target differ, so
it is done once per edge, after all levels were drawn (`random_draws`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ooc_graph.kernels.common.compiled import inlined, instruction, kernel, subroutine
from ooc_graph.kernels.cpu.build import random_draws
from ooc_graph.types import AnyArray

_WORD = random_draws.U(64)
_SCRAMBLE_0 = random_draws.U(0x4519840211493211)
_SCRAMBLE_1 = random_draws.U(0x3050852102C843A5)
_WEIGHT_SCALE = 4.65661287524579692e-10


@instruction
def _bit_reverse(typing_context: Any, word: Any) -> Any:  # noqa: ARG001
    """Reverse the 64 bits of a word (LLVM has a name for it, numba has none)."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.bitreverse", [ir.IntType(64)])
        return builder.call(function, arguments)

    return types.uint64(word), generate


@inlined
def _scramble(vertex: Any, add: Any, first: Any, second: Any, shift: Any) -> Any:
    """Graph500's bijection on [0, 2**scale)."""
    return _bit_reverse((_bit_reverse((vertex + add) * first) >> shift) * second) >> shift


@subroutine
def _write_edges(
    scratch: random_draws.UInt64Array,
    scale: int,
    scramble: random_draws.UInt64Array,
    source: AnyArray,
    target: AnyArray,
    first: int,
    count: int,
) -> None:
    """Flip, scramble and store the endpoints of the first ``count`` lanes."""
    add = scramble[0] + scramble[1]
    one, two = scramble[0] | _SCRAMBLE_0, scramble[1] | _SCRAMBLE_1
    shift = _WORD - random_draws.U(scale)
    for lane in range(count):
        differ = scratch[random_draws.DIFFER + lane]
        v = scratch[random_draws.TARGET + lane]
        u = v ^ differ
        smear = differ | (differ >> random_draws.U(1))
        smear |= smear >> random_draws.U(2)
        smear |= smear >> random_draws.U(4)
        smear |= smear >> random_draws.U(8)
        smear |= smear >> random_draws.U(16)
        smear |= smear >> random_draws.U(32)
        flip = u & (smear ^ (smear >> random_draws.ONE))
        source[first + lane] = _scramble(u ^ flip, add, one, two, shift)
        target[first + lane] = _scramble(v ^ flip, add, one, two, shift)


@subroutine
def _write_weights(
    scratch: random_draws.UInt64Array, weight: AnyArray, first: int, count: int
) -> None:
    """The draw after the edge's, rounded to float32 before and after the product."""
    for lane in range(count):
        value = random_draws.draw(
            scratch[random_draws.STATE + lane],
            scratch[random_draws.STATE + 4 * random_draws.LANES + lane],
        )
        rounded = np.float64(np.float32(np.int64(value)))
        weight[first + lane] = np.float32(rounded * _WEIGHT_SCALE)


@kernel
def generate_into(
    start: int,
    scale: int,
    seed: random_draws.UInt64Array,
    powers: random_draws.UInt64Array,
    scramble: random_draws.UInt64Array,
    scratch: random_draws.UInt64Array,
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
    random_draws.start_lanes(scratch, seed, powers, start)
    edges = source.shape[0]
    for first in range(0, edges, random_draws.LANES):
        random_draws.draw_levels(scratch, scale)
        count = min(random_draws.LANES, edges - first)
        _write_edges(scratch, scale, scramble, source, target, first, count)
        if weight is not None:
            _write_weights(scratch, weight, first, count)
        random_draws.advance_lanes(scratch, powers[random_draws.LANE_BITS])
