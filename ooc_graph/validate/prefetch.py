"""A line of memory asked for before it is needed; an instruction that numba has no words for.

Apart from `kernels`, as the validator shares no code with what it checks.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ooc_graph.kernel_cache import subroutine
from ooc_graph.types import AnyArray

_LINE_BYTES = 64
_READ, _ALL_CACHES, _DATA = 0, 3, 1


def _ask(typing_context: Any, rows: Any, row: Any, column: Any) -> Any:  # noqa: ARG001
    """Ask for the line of ``rows[row, column]``, without waiting."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        view, index = context.make_array(kind)(context, builder, args[0]), [args[1], args[2]]
        element = cgutils.get_item_pointer(context, builder, kind, view, index, wraparound=False)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        called = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, called, "llvm.prefetch.p0i8")
        line = builder.bitcast(element, byte)
        builder.call(function, [line, word(_READ), word(_ALL_CACHES), word(_DATA)])
        return context.get_dummy_value()

    return types.void(rows, types.intp, types.intp), generate


_prefetch: Any = intrinsic(_ask)


@subroutine
def prefetch_row(rows: AnyArray, row: int) -> None:
    """Ask for all lines of a row that begins where a line does, or is shorter."""
    for column in range(0, rows.shape[1], _LINE_BYTES // rows.itemsize):
        _prefetch(rows, row, column)
