"""Vector instructions over the lanes of a batch: one source a lane.

Written as LLVM vectors, since numba's loops keep neither a row of lanes in registers nor take a
minimum over lanes by vectors without fast math. A row of lanes is a whole number of `CHUNK_BYTES`.
Floats: a lane that can never be reached holds NaN, which no comparison finds smaller or larger.
Integers: it holds twice the ``top`` of what is not reached yet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.kernels.compiled import instruction

CHUNK_BYTES = 128
"""Bytes of lanes that are held in registers at once."""


def lanes_for(dtype: np.dtype[Any], wanted: int) -> int:
    """Lanes of whole chunks, at least as many as wanted."""
    chunk = CHUNK_BYTES // dtype.itemsize
    return -(-wanted // chunk) * chunk


class _Lanes:
    """Generates loads, stores and comparisons of one chunk of lanes."""

    def __init__(self, context: Any, builder: Any, dtype: Any) -> None:
        self.builder, self.element = builder, context.get_value_type(dtype)
        self.is_float = isinstance(dtype, types.Float)
        self.bytes = context.get_abi_sizeof(self.element)
        self.count = CHUNK_BYTES // self.bytes
        self.vector = ir.VectorType(self.element, self.count)

    def load(self, pointer: Any, lane: Any) -> Any:
        return self.builder.load(self._chunk(pointer, lane), align=self.bytes)

    def store(self, value: Any, pointer: Any, lane: Any) -> None:
        self.builder.store(value, self._chunk(pointer, lane), align=self.bytes)

    def _chunk(self, pointer: Any, lane: Any) -> Any:
        place = self.builder.gep(pointer, [lane], inbounds=True)
        return self.builder.bitcast(place, self.vector.as_pointer())

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
            places = ir.VectorType(ir.IntType(32), width)
            undefined = ir.Constant(vector.type, ir.Undefined)
            halves = [
                self.builder.shuffle_vector(
                    vector, undefined, ir.Constant(places, list(range(first, first + width)))
                )
                for first in (0, width)
            ]
            vector = better(*halves)
        return self.builder.extract_element(vector, ir.IntType(32)(0))


def _length(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    return cgutils.unpack_tuple(
        builder, context.make_array(array_type)(context, builder, array).shape
    )[-1]


def _data(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    return context.make_array(array_type)(context, builder, array).data


@instruction
def relax_arcs(
    typing_context: Any,  # noqa: ARG001
    best: Any,
    distance: Any,
    neighbors: Any,
    weights: Any,
    start: Any,  # noqa: ARG001
    stop: Any,  # noqa: ARG001
) -> Any:
    """Lower ``best`` (lanes,) along arcs ``start`` to ``stop``, by ``distance`` (rows, lanes)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = list(zip(signature.args[:4], args[:4], strict=True))
        best_data, data, ids, values = (_data(context, builder, *pair) for pair in arrays)
        lanes = _length(context, builder, *arrays[0])
        vector = _Lanes(context, builder, signature.args[0].dtype)
        held = cgutils.alloca_once(builder, vector.vector)
        step = ir.Constant(lanes.type, vector.count)
        with cgutils.for_range_slice(builder, lanes.type(0), lanes, step) as (lane, _):
            builder.store(vector.load(best_data, lane), held)
            with cgutils.for_range_slice(builder, args[4], args[5], lanes.type(1)) as (arc, _):
                near = builder.load(builder.gep(ids, [arc], inbounds=True))
                if near.type.width < lanes.type.width:
                    near = builder.zext(near, lanes.type)
                row = builder.gep(data, [builder.mul(near, lanes)], inbounds=True)
                weight = builder.load(builder.gep(values, [arc], inbounds=True))
                if not vector.is_float and weight.type.width < vector.element.width:
                    weight = builder.sext(weight, vector.element)
                candidate = vector.add(vector.load(row, lane), vector.everywhere(weight))
                builder.store(vector.smaller(candidate, builder.load(held)), held)
            vector.store(builder.load(held), best_data, lane)
        return context.get_dummy_value()

    return types.void(best, distance, neighbors, weights, types.intp, types.intp), generate


@instruction
def widest(typing_context: Any, best: Any, floor: Any, never: Any) -> Any:  # noqa: ARG001
    """Largest of ``best - floor`` (lanes,) over lanes that can be reached; at least 0.

    ``never`` is the distance of those that cannot.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = list(zip(signature.args[:2], args[:2], strict=True))
        best_data, floor_data = (_data(context, builder, *pair) for pair in arrays)
        lanes = _length(context, builder, *arrays[0])
        vector = _Lanes(context, builder, best.dtype)
        held = cgutils.alloca_once(builder, vector.vector)
        zero = ir.Constant(vector.vector, [0] * vector.count)
        builder.store(zero, held)
        never_here = vector.everywhere(args[2])
        step = ir.Constant(lanes.type, vector.count)
        with cgutils.for_range_slice(builder, lanes.type(0), lanes, step) as (lane, _):
            at = vector.load(best_data, lane)
            difference = vector.subtract(at, vector.load(floor_data, lane))
            if not vector.is_float:
                difference = builder.select(vector.less(at, never_here), difference, zero)
            most = builder.load(held)
            builder.store(builder.select(vector.less(most, difference), difference, most), held)

        def larger(a: Any, b: Any) -> Any:
            return builder.select(vector.less(a, b), b, a)

        return vector.fold(builder.load(held), larger)

    return best.dtype(best, floor, best.dtype), generate


@instruction
def take_improved(
    typing_context: Any,  # noqa: ARG001
    best: Any,
    distance: Any,
    row: Any,  # noqa: ARG001
    floor: Any,
    top: Any,  # noqa: ARG001
) -> Any:
    """Store ``best`` as the distances of ``row``; the smallest improved one, above its floor.

    ``top`` if none is improved.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        best_data = _data(context, builder, signature.args[0], args[0])
        data = _data(context, builder, signature.args[1], args[1])
        floor_data = _data(context, builder, signature.args[3], args[3])
        lanes = _length(context, builder, signature.args[0], args[0])
        old_data = builder.gep(data, [builder.mul(args[2], lanes)], inbounds=True)
        vector = _Lanes(context, builder, best.dtype)
        held = cgutils.alloca_once(builder, vector.vector)
        tops = vector.everywhere(args[4])
        builder.store(tops, held)
        step = ir.Constant(lanes.type, vector.count)
        with cgutils.for_range_slice(builder, lanes.type(0), lanes, step) as (lane, _):
            at, old = vector.load(best_data, lane), vector.load(old_data, lane)
            difference = vector.subtract(at, vector.load(floor_data, lane))
            difference = builder.select(vector.less(at, old), difference, tops)
            builder.store(vector.smaller(difference, builder.load(held)), held)
            vector.store(at, old_data, lane)
        return vector.fold(builder.load(held), vector.smaller)

    return best.dtype(best, distance, types.intp, floor, best.dtype), generate
