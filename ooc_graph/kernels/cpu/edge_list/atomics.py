"""Atomics of the edge-list kernels that plain unsigned minimum and addition do not give."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from ooc_graph.kernels.common.compiled import instruction
from ooc_graph.kernels.common.team import element_pointer


def _bits(builder: Any, value: Any, width: int) -> Any:
    """A number's bits as an integer; a pointer to a number as one to an integer."""
    whole = ir.IntType(width)
    return builder.bitcast(value, whole.as_pointer() if value.type.is_pointer else whole)


@instruction
def atomic_lower(typing_context: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
    """``atomic_lower(array, index, value)``: minimum in place of numbers >= 0, what was there.

    Floats of zero or more (infinity included, -0.0 and NaN not) are ordered as their bits are.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = element_pointer(context, builder, signature.args[0], args[0], args[1])
        width = 8 * context.get_abi_sizeof(args[2].type)
        old = builder.atomic_rmw(
            "umin", _bits(builder, pointer, width), _bits(builder, args[2], width), "seq_cst"
        )
        return builder.bitcast(old, args[2].type)

    return array.dtype(array, types.intp, array.dtype), generate


@instruction
def atomic_replace(
    typing_context: Any,  # noqa: ARG001
    array: Any,
    index: Any,  # noqa: ARG001
    expected: Any,  # noqa: ARG001
    value: Any,  # noqa: ARG001
) -> Any:
    """``atomic_replace(array, index, expected, value)``: compare and swap, what was there."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = element_pointer(context, builder, signature.args[0], args[0], args[1])
        pair = builder.cmpxchg(pointer, args[2], args[3], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 0)

    return array.dtype(array, types.intp, array.dtype, array.dtype), generate
