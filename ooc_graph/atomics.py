"""Elements of arrays that several threads change: instructions that numba has no words for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils


def element_pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Generate the address of ``array[index]``."""
    view = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, view, [index], wraparound=False)


def read_modify_write(operation: str) -> Callable[..., Any]:
    """``(array, index, value)``: change an element, return what was there; for ``intrinsic``."""

    def typing(typing_context: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = element_pointer(context, builder, signature.args[0], args[0], args[1])
            kind = "f" if isinstance(args[2].type, ir.FloatType | ir.DoubleType) else ""
            return builder.atomic_rmw(kind + operation, pointer, args[2], "seq_cst")

        return array.dtype(array, types.intp, array.dtype), generate

    return typing
