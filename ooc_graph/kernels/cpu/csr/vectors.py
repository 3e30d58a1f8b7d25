"""Looks at several arcs at once: vector instructions that numba has no words for.

Most arcs lead to what was found before, or is nearer already. A scan without branches passes these
several at a time, and returns a bit for each arc that needs a closer look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.kernels.common.compiled import instruction
from ooc_graph.kernels.common.team import element_pointer

UNSEEN_ARCS, NEARER_ARCS = 16, 8
"""Arcs that `unseen`, and that `nearer` and `tight`, look at."""
_BIT, _INT, _LONG = ir.IntType(1), ir.IntType(32), ir.IntType(64)


class _Vector:
    """Generates what is done for all of some arcs; nothing from the ``count``-th on."""

    def __init__(self, context: Any, builder: Any, width: int, count: Any) -> None:
        self.context, self.builder, self.width = context, builder, width
        numbers = ir.Constant(ir.VectorType(_LONG, width), list(range(width)))
        self.used = builder.icmp_signed("<", numbers, self.everywhere(count))

    def everywhere(self, value: Any) -> Any:
        vector = ir.VectorType(value.type, self.width)
        undefined, zeros = ir.Constant(vector, ir.Undefined), ir.VectorType(_INT, self.width)
        one = self.builder.insert_element(undefined, value, _INT(0))
        return self.builder.shuffle_vector(one, undefined, ir.Constant(zeros, [0] * self.width))

    def load(self, array_type: Any, array: Any, first: Any) -> Any:
        """Elements of an array from ``first`` on; zeros where it is not used."""
        pointer = element_pointer(self.context, self.builder, array_type, array, first)
        vector = ir.VectorType(self.context.get_value_type(array_type.dtype), self.width)
        return self._masked("load", vector, self.builder.bitcast(pointer, vector.as_pointer()))

    def gather(self, array_type: Any, array: Any, indices: Any) -> Any:
        """Elements of an array at some indices, integers of 64 bits."""
        element = self.context.get_value_type(array_type.dtype)
        view = self.context.make_array(array_type)(self.context, self.builder, array)
        size = ir.Constant(indices.type, [element_bytes(element)] * self.width)
        base = self.everywhere(self.builder.ptrtoint(view.data, _LONG))
        at = self.builder.add(base, self.builder.mul(indices, size))
        pointers = self.builder.inttoptr(at, ir.VectorType(element.as_pointer(), self.width))
        return self._masked("gather", ir.VectorType(element, self.width), pointers)

    def _masked(self, operation: str, vector: Any, pointers: Any) -> Any:
        bits = element_bytes(vector.element) * 8
        kind = "f" if isinstance(vector.element, ir.DoubleType) else "i"
        suffix = f"v{self.width}{kind}{bits}"
        pointed = f"v{self.width}p0" if operation == "gather" else "p0"
        called = ir.FunctionType(vector, [pointers.type, _INT, self.used.type, vector])
        name = f"llvm.masked.{operation}.{suffix}.{pointed}"
        function = cgutils.get_or_insert_function(self.builder.module, called, name)
        zeros = ir.Constant(vector, [0] * self.width)
        return self.builder.call(function, [pointers, _INT(bits // 8), self.used, zeros])

    def word(self, found: Any) -> Any:
        """A uint64 with a bit for each arc in use for which something was found."""
        bits = self.builder.bitcast(self.builder.and_(found, self.used), ir.IntType(self.width))
        return self.builder.zext(bits, _LONG)


def element_bytes(element: Any) -> int:
    """Size of an element of an array."""
    return 8 if isinstance(element, ir.DoubleType) else int(element.width) // 8


def _wide(builder: Any, integers: Any, width: int) -> Any:
    """Integers of 64 bits; none is negative."""
    is_wide = integers.type.element == _LONG
    return integers if is_wide else builder.zext(integers, ir.VectorType(_LONG, width))


def _compared(operator: str) -> Callable[..., Any]:
    def typing(
        typing_context: Any,  # noqa: ARG001
        distance: Any,
        arcs: Any,
        span: Any,
        at: Any,  # noqa: ARG001
    ) -> Any:
        targets, weights = arcs

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            columns = cgutils.unpack_tuple(builder, args[1])
            first, count = cgutils.unpack_tuple(builder, args[2])
            vector = _Vector(context, builder, NEARER_ARCS, count)
            vertices = _wide(builder, vector.load(targets, columns[0], first), NEARER_ARCS)
            lengths = vector.load(weights, columns[1], first)
            known = vector.gather(signature.args[0], args[0], vertices)
            reached = builder.fadd(vector.everywhere(args[3]), lengths)
            return vector.word(builder.fcmp_ordered(operator, reached, known))

        arrays, span = types.Tuple((targets, weights)), types.UniTuple(types.int64, 2)
        return types.uint64(distance, arrays, span, types.float64), generate

    return typing


nearer: Callable[..., Any] = instruction(_compared("<"))
"""``nearer(distance, (targets, weights), (first, count), at)``: which of these arcs shorten.

Bits of a uint64 for the first ``count``, at most `NEARER_ARCS`: whether ``at`` and the weight are
less than the distance of what an arc leads to.
"""
tight: Callable[..., Any] = instruction(_compared("=="))
"""As `nearer`: which of these arcs give what they lead to exactly its distance."""
