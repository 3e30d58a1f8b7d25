"""Fetching into cache ahead of use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.kernels.common.compiled import instruction
from ooc_graph.kernels.common.team import element_pointer

TO_READ, TO_WRITE = 0, 1


def generate_fetch(builder: Any, pointer: Any, purpose: int) -> None:
    """Generate the fetch of the cache line of an address."""
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VoidType(), [byte, word, word, word]),
        "llvm.prefetch.p0i8",
    )
    # Into all levels of cache; data, not instructions.
    line = builder.bitcast(pointer, byte)
    builder.call(function, [line, word(purpose), word(3), word(1)])


def _fetch(purpose: int) -> Callable[..., Any]:
    def typing(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            element = element_pointer(context, builder, signature.args[0], args[0], args[1])
            generate_fetch(builder, element, purpose)
            return context.get_dummy_value()

        return types.void(array, types.intp), generate

    return typing


prefetch = instruction(_fetch(TO_READ))
"""``prefetch(array, index)``: fetch that cache line for reading, without waiting; any index."""
prefetch_to_write = instruction(_fetch(TO_WRITE))
"""As `prefetch`, for writing: no other core keeps the line."""
