"""Memory that is asked for before it is needed: an instruction that numba has no words for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ooc_graph.atomics import element_pointer
from ooc_graph.kernel_cache import subroutine

_LINE_BYTES = 64
_TO_READ, _TO_WRITE, _ALL_CACHES, _DATA = 0, 1, 3, 1


def _fetch(purpose: int) -> Callable[..., Any]:
    def typing(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            element = element_pointer(context, builder, signature.args[0], args[0], args[1])
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            called = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            function = cgutils.get_or_insert_function(builder.module, called, "llvm.prefetch.p0i8")
            how = word(purpose), word(_ALL_CACHES), word(_DATA)
            builder.call(function, [builder.bitcast(element, byte), *how])
            return context.get_dummy_value()

        return types.void(array, types.intp), generate

    return typing


prefetch: Any = intrinsic(_fetch(_TO_READ))
"""``prefetch(array, index)``: fetch that cache line for reading, without waiting; any index."""
prefetch_to_write: Any = intrinsic(_fetch(_TO_WRITE))
"""As `prefetch`, for writing: no other core keeps the line."""


def _counting(typing_context: Any, array: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return ir.IntType(64)(_LINE_BYTES * 8 // signature.args[0].dtype.bitwidth)

    return types.int64(array), generate


_in_a_line: Any = intrinsic(_counting)
"""``_in_a_line(array)``: elements of a cache line, known when code is compiled."""


@subroutine
def prefetch_row(rows: Any, row: int) -> None:
    """Fetch all lines of a row that begins where a line does, or is shorter."""
    prefetch(rows[row], 0)
    for column in range(_in_a_line(rows), rows.shape[1], _in_a_line(rows)):
        prefetch(rows[row], column)
