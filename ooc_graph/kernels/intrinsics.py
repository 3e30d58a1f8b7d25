"""Instructions that numba has no words for."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.kernels.compiled import instruction
from ooc_graph.kernels.team import element_pointer


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


@instruction
def stays_apart(typing_context: Any) -> Any:  # noqa: ARG001
    """The function that calls this shall not be inlined, as it needs all registers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate
