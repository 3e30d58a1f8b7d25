"""Minima of sums of integers, a block of them in registers (CPU).

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
"""Rows, and columns, of a square: three of them fit the cache next to a core. Half as large
ones are a little faster in matrices that fit a cache, and much slower in others."""
SQUARE = TILE * TILE
_ROWS, _COLUMNS = 4, 16
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
    """Lower `_ROWS` by `_COLUMNS` numbers at ``c`` by ``depth`` columns of a and rows of b."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        element = context.get_value_type(signature.args[0].dtype)
        size, index = context.get_abi_sizeof(element), args[1].type
        vector, lane = ir.VectorType(element, _COLUMNS), ir.IntType(32)
        everywhere = ir.Constant(ir.VectorType(lane, _COLUMNS), [0] * _COLUMNS)
        undefined = ir.Constant(vector, ir.Undefined)

        def at(start: Any, row: Any, column: Any) -> Any:
            down = builder.mul(row, index(TILE))
            return builder.gep(array.data, [builder.add(builder.add(start, down), column)])

        def vector_at(start: Any, row: Any) -> Any:
            return builder.bitcast(at(start, row, index(0)), vector.as_pointer())

        sums = [cgutils.alloca_once(builder, vector) for _ in range(_ROWS)]
        for row, one in enumerate(sums):
            builder.store(builder.load(vector_at(args[1], index(row)), align=size), one)
        with cgutils.for_range_slice(builder, index(0), args[4], index(1)) as (k, _):
            right = builder.load(vector_at(args[3], k), align=size)
            for row, one in enumerate(sums):
                left = builder.load(at(args[2], index(row), k), align=size)
                first = builder.insert_element(undefined, left, lane(0))
                total = builder.add(builder.shuffle_vector(first, undefined, everywhere), right)
                old = builder.load(one)
                smaller = builder.icmp_signed("<", total, old)
                builder.store(builder.select(smaller, total, old), one)
        for row, one in enumerate(sums):
            builder.store(builder.load(one), vector_at(args[1], index(row)), align=size)
        return context.get_dummy_value()

    return types.void(numbers, *[types.intp] * 4), generate


@subroutine
def lower_square(numbers: Any, c: int, a: int, b: int) -> None:
    """Lower the square at ``c`` by the min-plus product of those at ``a`` and ``b``.

    ``c`` may be one of these if the other one is closed: a sum that was lowered before it is taken
    is that of a path, too.
    """
    for column in range(0, TILE, _COLUMNS):
        for row in range(0, TILE, _ROWS):
            _lower(numbers, c + row * TILE + column, a + row * TILE, b + column, TILE)


@subroutine
def close_square(numbers: Any, c: int) -> None:
    """Floyd-Warshall on the square at ``c``."""
    for k in range(TILE):
        for row in range(0, TILE, _ROWS):
            for column in range(0, TILE, _COLUMNS):
                at = c + row * TILE
                _lower(numbers, at + column, at + k, c + k * TILE + column, 1)
