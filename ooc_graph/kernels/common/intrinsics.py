"""Instructions that numba has no words for."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.atomics import element_pointer
from ooc_graph.kernels.common.compiled import instruction


@instruction
def rarely(typing_context: Any, condition: Any) -> Any:  # noqa: ARG001
    """``condition``, which the compiler shall take to be false: its registers go elsewhere."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        bit = ir.IntType(1)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(bit, [bit, bit]), "llvm.expect.i1"
        )
        return builder.call(function, [args[0], bit(0)])

    return types.boolean(types.boolean), generate


@instruction
def store_two(typing_context: Any, array: Any, index: Any, word: Any) -> Any:  # noqa: ARG001
    """Store a uint64 as two elements of a uint32 array, the low half at ``index``; unchecked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = element_pointer(context, builder, signature.args[0], args[0], args[1])
        pointer = builder.bitcast(element, ir.IntType(64).as_pointer())
        builder.store(args[2], pointer, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.uint64), generate


def _half(builder: Any, word: Any, top: Any) -> Any:
    """The high half of a word: 32 bits, as a float where ``top`` is one."""
    bits = builder.trunc(builder.lshr(word, word.type(32)), ir.IntType(32))
    return builder.bitcast(bits, ir.FloatType()) if isinstance(top, types.Float) else bits


def _word(builder: Any, half: Any) -> Any:
    """A word with this high half, and a low half of zeros."""
    if half.type == ir.FloatType():
        half = builder.bitcast(half, ir.IntType(32))
    word = ir.IntType(64)
    return builder.shl(builder.zext(half, word), word(32))


@instruction
def further(typing_context: Any, at: Any, arc: Any, top: Any) -> Any:  # noqa: ARG001
    """Word ``at``, whose low half is zero, and the high half of ``arc`` added to it.

    The halves are of the type of ``top``, float32 or int64.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        at, arc = args[:2]
        if not isinstance(top, types.Float):
            return builder.add(at, builder.and_(arc, arc.type(0xFFFFFFFF << 32)))
        return _word(builder, builder.fadd(*(_half(builder, word, top) for word in (at, arc))))

    return types.uint64(types.uint64, types.uint64, top), generate


@instruction
def is_absorbed(typing_context: Any, candidate: Any, at: Any, top: Any) -> Any:  # noqa: ARG001
    """Tell whether a sum is no longer than ``at``; of integers above zero it never is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        if not isinstance(top, types.Float):
            return cgutils.false_bit
        return builder.icmp_unsigned("==", args[0], args[1])

    return types.boolean(types.uint64, types.uint64, top), generate


@instruction
def high_value(typing_context: Any, word: Any, top: Any) -> Any:  # noqa: ARG001
    """A word's high half as a number of the type of ``top``, float32 or int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        half = _half(builder, args[0], top)
        return half if isinstance(top, types.Float) else builder.zext(half, ir.IntType(64))

    return top(types.uint64, top), generate


@instruction
def high_word(typing_context: Any, value: Any, top: Any) -> Any:  # noqa: ARG001
    """A word with a float64, below 2^32, in its high half, as a number of the type of ``top``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        if isinstance(top, types.Float):
            return _word(builder, builder.fptrunc(args[0], ir.FloatType()))
        return _word(builder, builder.fptoui(args[0], ir.IntType(32)))

    return types.uint64(types.float64, top), generate


@instruction
def stays_apart(typing_context: Any) -> Any:  # noqa: ARG001
    """The function that calls this shall not be inlined, as it needs all registers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


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
