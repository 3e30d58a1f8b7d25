"""Fetching into cache ahead of use."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.kernels.compiled import instruction
from ooc_graph.kernels.team import element_pointer


@instruction
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001
    """Fetch the cache line of ``array[index]`` for reading, without waiting; any index will do."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        element = element_pointer(context, builder, signature.args[0], args[0], args[1])
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, word, word, word]),
            "llvm.prefetch.p0i8",
        )
        # A read; into all levels of cache; data, not instructions.
        builder.call(function, [builder.bitcast(element, byte), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
