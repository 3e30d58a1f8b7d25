"""Fetching into cache ahead of use."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array

from ooc_graph.kernels.compiled import instruction


@instruction
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001
    """Fetch the cache line of ``array[index]`` for reading, without waiting; any index will do."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_type, byte, word = signature.args[0], ir.IntType(8).as_pointer(), ir.IntType(32)
        view = make_array(array_type)(context, builder, args[0])
        element = cgutils.get_item_pointer(
            context, builder, array_type, view, [args[1]], wraparound=False
        )
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, word, word, word]),
            "llvm.prefetch.p0i8",
        )
        # A read; into all levels of cache; data, not instructions.
        builder.call(function, [builder.bitcast(element, byte), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
