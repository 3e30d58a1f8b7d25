"""Vector instructions over the slots of a batch, which has one source a slot.

Written as LLVM vectors, since numba's loops keep neither a row of slots in registers nor take a
minimum over slots by vectors without fast math. A row of slots is a whole number of `CHUNK_BYTES`.
Floats: a slot that can never be reached is NaN, which no comparison finds smaller or larger.
Integers: it is twice the ``top`` of what is not reached yet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.kernels.common.compiled import instruction, subroutine
from ooc_graph.prefetch import prefetch_to_write

CHUNK_BYTES = 128
"""Bytes of slots that are in registers at once."""
LINE_BYTES = 64
"""Bytes of a cache line."""


def slots_for(dtype: np.dtype[Any], wanted: int) -> int:
    """Lanes of whole chunks, at least as many as wanted."""
    chunk = CHUNK_BYTES // dtype.itemsize
    return -(-wanted // chunk) * chunk


class _Vector:
    """Generates loads, stores and comparisons of one chunk of slots."""

    def __init__(self, context: Any, builder: Any, dtype: Any) -> None:
        self.builder, self.element = builder, context.get_value_type(dtype)
        self.is_float = isinstance(dtype, types.Float)
        self.bytes = context.get_abi_sizeof(self.element)
        self.count = CHUNK_BYTES // self.bytes
        self.vector = ir.VectorType(self.element, self.count)

    def load(self, pointer: Any, slot: Any) -> Any:
        return self.builder.load(self._chunk(pointer, slot), align=self.bytes)

    def store(self, value: Any, pointer: Any, slot: Any) -> None:
        self.builder.store(value, self._chunk(pointer, slot), align=self.bytes)

    def _chunk(self, pointer: Any, slot: Any) -> Any:
        start = self.builder.gep(pointer, [slot], inbounds=True)
        return self.builder.bitcast(start, self.vector.as_pointer())

    def widened(self, value: Any) -> Any:
        """An integer as wide as the slots; a float as it is."""
        if not self.is_float and value.type.width < self.element.width:
            return self.builder.sext(value, self.element)
        return value

    def everywhere(self, value: Any) -> Any:
        one = self.builder.insert_element(
            ir.Constant(self.vector, ir.Undefined), value, ir.IntType(32)(0)
        )
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.count), [0] * self.count)
        return self.builder.shuffle_vector(one, ir.Constant(self.vector, ir.Undefined), mask)

    def less(self, a: Any, b: Any) -> Any:
        compare = self.builder.fcmp_ordered if self.is_float else self.builder.icmp_signed
        return compare("<", a, b)

    def smaller(self, a: Any, b: Any) -> Any:
        """``a`` where it is smaller, else ``b``: also where one is no number."""
        return self.builder.select(self.less(a, b), a, b)

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b) if self.is_float else self.builder.add(a, b)

    def subtract(self, a: Any, b: Any) -> Any:
        return self.builder.fsub(a, b) if self.is_float else self.builder.sub(a, b)

    def fold(self, vector: Any, better: Any) -> Any:
        """One element by halving."""
        width = self.count
        while width > 1:
            width //= 2
            mask = ir.VectorType(ir.IntType(32), width)
            undefined = ir.Constant(vector.type, ir.Undefined)
            halves = [
                self.builder.shuffle_vector(
                    vector, undefined, ir.Constant(mask, list(range(first, first + width)))
                )
                for first in (0, width)
            ]
            vector = better(*halves)
        return self.builder.extract_element(vector, ir.IntType(32)(0))


@instruction
def push_arc(
    typing_context: Any,  # noqa: ARG001
    distance: Any,
    u: Any,  # noqa: ARG001
    v: Any,  # noqa: ARG001
    weight: Any,
    floor: Any,
    limits: Any,
) -> Any:
    """Lower ``distance`` (rows, slots) of row ``v`` along an arc from ``u``.

    Returns two differences from ``floor`` (slots,): the smallest of the improved distances,
    ``limits[0]`` if none is; and, only if one is, the largest of all distances but
    ``limits[1]``, those that can never be reached, at least 0.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        views = [
            context.make_array(signature.args[index])(context, builder, args[index])
            for index in (0, 4, 5)
        ]
        data, floor_data, limit_data = (view.data for view in views)
        slots = cgutils.unpack_tuple(builder, views[0].shape)[-1]
        near, far = (
            builder.gep(data, [builder.mul(row, slots)], inbounds=True) for row in args[1:3]
        )
        vector = _Vector(context, builder, distance.dtype)
        top, never = (
            builder.load(builder.gep(limit_data, [slots.type(index)], inbounds=True))
            for index in (0, 1)
        )
        added = vector.everywhere(vector.widened(args[3]))
        tops, nevers = vector.everywhere(top), vector.everywhere(never)
        zero = ir.Constant(vector.vector, [0] * vector.count)
        lowest, highest = (cgutils.alloca_once(builder, vector.vector) for _ in range(2))
        builder.store(tops, lowest)
        builder.store(zero, highest)
        step = ir.Constant(slots.type, vector.count)
        with cgutils.for_range_slice(builder, slots.type(0), slots, step) as (slot, _):
            candidate, old = vector.add(vector.load(near, slot), added), vector.load(far, slot)
            better = vector.less(candidate, old)
            at = builder.select(better, candidate, old)
            vector.store(at, far, slot)
            difference = vector.subtract(at, vector.load(floor_data, slot))
            low, high = builder.load(lowest), builder.load(highest)
            improved = builder.select(better, difference, tops)
            builder.store(vector.smaller(improved, low), lowest)
            if not vector.is_float:
                difference = builder.select(vector.less(at, nevers), difference, zero)
            builder.store(builder.select(vector.less(high, difference), difference, high), highest)

        def larger(a: Any, b: Any) -> Any:
            return builder.select(vector.less(a, b), b, a)

        low = vector.fold(builder.load(lowest), vector.smaller)
        most = cgutils.alloca_once_value(builder, vector.element(0))
        with builder.if_then(vector.less(low, top)):
            builder.store(vector.fold(builder.load(highest), larger), most)
        return context.make_tuple(builder, signature.return_type, [low, builder.load(most)])

    returned = types.UniTuple(distance.dtype, 2)
    return returned(distance, types.intp, types.intp, weight, floor, limits), generate


@subroutine
def fetch_row(distance: Any, row: int) -> None:
    """Fetch a row of ``distance`` (rows, slots) into cache, without waiting."""
    for slot in range(0, distance.shape[1], LINE_BYTES // distance.itemsize):
        prefetch_to_write(distance[row], slot)
