"""Minima of sums of integers, a block of them held in registers (CPU).

Squares of `TILE` by `TILE` int32 lie one after another, and are lowered by the min-plus product of
two others: ``c[i, j] = min(c[i, j], a[i, k] + b[k, j])``. Written as LLVM vectors, since numba's
loops store a row for every k.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.kernels.common.compiled import instruction, subroutine

TILE = 128
"""Rows, and columns, of a square: three of them are held by the cache next to a core. Half as large
ones are a little faster in matrices that a cache holds, and much slower in others."""
SQUARE = TILE * TILE
_ROWS, _LANES = 4, 16
# Registers for sums fit 16 vectors of 32 bytes: 4 rows of 2 vectors, 2 of a row of b, one of a.


@instruction
def _lower(
    typing_context: Any,  # noqa: ARG001
    numbers: Any,
    c: Any,  # noqa: ARG001
    a: Any,  # noqa: ARG001
    b: Any,  # noqa: ARG001
    depth: Any,  # noqa: ARG001
) -> Any:
    """Lower `_ROWS` by `_LANES` numbers at place ``c`` by ``depth`` columns of a and rows of b."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        element = context.get_value_type(signature.args[0].dtype)
        size, place = context.get_abi_sizeof(element), args[1].type
        vector, lane = ir.VectorType(element, _LANES), ir.IntType(32)
        everywhere = ir.Constant(ir.VectorType(lane, _LANES), [0] * _LANES)
        undefined = ir.Constant(vector, ir.Undefined)

        def at(start: Any, row: Any, column: Any) -> Any:
            down = builder.mul(row, place(TILE))
            return builder.gep(array.data, [builder.add(builder.add(start, down), column)])

        def lanes_at(start: Any, row: Any) -> Any:
            return builder.bitcast(at(start, row, place(0)), vector.as_pointer())

        held = [cgutils.alloca_once(builder, vector) for _ in range(_ROWS)]
        for row, one in enumerate(held):
            builder.store(builder.load(lanes_at(args[1], place(row)), align=size), one)
        with cgutils.for_range_slice(builder, place(0), args[4], place(1)) as (k, _):
            right = builder.load(lanes_at(args[3], k), align=size)
            for row, one in enumerate(held):
                left = builder.load(at(args[2], place(row), k), align=size)
                first = builder.insert_element(undefined, left, lane(0))
                total = builder.add(builder.shuffle_vector(first, undefined, everywhere), right)
                old = builder.load(one)
                smaller = builder.icmp_signed("<", total, old)
                builder.store(builder.select(smaller, total, old), one)
        for row, one in enumerate(held):
            builder.store(builder.load(one), lanes_at(args[1], place(row)), align=size)
        return context.get_dummy_value()

    return types.void(numbers, *[types.intp] * 4), generate


@subroutine
def lower_square(numbers: Any, c: int, a: int, b: int) -> None:
    """Lower the square at place ``c`` by the min-plus product of those at ``a`` and ``b``.

    ``c`` may be one of these if the other one is closed: a sum that was lowered before it is taken
    is that of a path, too.
    """
    for column in range(0, TILE, _LANES):
        for row in range(0, TILE, _ROWS):
            _lower(numbers, c + row * TILE + column, a + row * TILE, b + column, TILE)


@subroutine
def close_square(numbers: Any, c: int) -> None:
    """Floyd-Warshall on the square at place ``c``."""
    for k in range(TILE):
        for row in range(0, TILE, _ROWS):
            for column in range(0, TILE, _LANES):
                at = c + row * TILE
                _lower(numbers, at + column, at + k, c + k * TILE + column, 1)
