"""Distances of all pairs at once, by blocked Floyd-Warshall (CPU).

The matrix of all pairs lies in squares, `TILE` by `TILE` int32. Those of `TILE` vertices at a time
become ones that paths may lead through: first the square on the diagonal is closed, then squares
beside and above it are lowered through it, then all others through these [1]. To lower a square is
``c[i, j] = min(c[i, j], a[i, k] + b[k, j])``, a block in registers, written as LLVM vectors, since
numba's loops store a row for every k.

It serves integer weights >= 0 alone. Of floats a distance is the minimum of sums rounded from the
source outward, and here sums are rounded in another order. All is done in 32 bits: `TOP` stands
where there is no path, or one that long, and twice as much still fits.

[1] G. Venkataraman, S. Sahni, S. Mukhopadhyaya, "A blocked all-pairs shortest-paths algorithm", ACM
J. Exp. Algorithmics 8 (2003).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ooc_graph.kernels.common.compiled import instruction, kernel, subroutine
from ooc_graph.kernels.common.sssp.distances import TOP, holds_all, may_be_longer
from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.kernels.common.team import CHUNK, FIRST_FREE, Team, barrier, new_control, take_chunk
from ooc_graph.kernels.cpu.many.batch import Wanted
from ooc_graph.types import AnyArray

TILE = 128
"""Rows, and columns, of a square: three of them fit the cache next to a core. Half as large
ones are a little faster in matrices that fit a cache, and much slower in others."""
SQUARE = TILE * TILE
_ROWS, _COLUMNS = 4, 16
# Registers for sums fit 16 vectors of 32 bytes: 4 rows of 2 vectors, 2 of a row of b, one of a.


@instruction
def _lower(
    typing_context: Any,  # noqa: ARG001
    numbers: Any,
    c: Any,  # noqa: ARG001
    a: Any,  # noqa: ARG001
    b: Any,  # noqa: ARG001
    depth: Any,  # noqa: ARG001
) -> Any:
    """Lower `_ROWS` by `_COLUMNS` numbers at ``c`` by ``depth`` columns of a and rows of b."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        element = context.get_value_type(signature.args[0].dtype)
        size, index = context.get_abi_sizeof(element), args[1].type
        vector, lane = ir.VectorType(element, _COLUMNS), ir.IntType(32)
        everywhere = ir.Constant(ir.VectorType(lane, _COLUMNS), [0] * _COLUMNS)
        undefined = ir.Constant(vector, ir.Undefined)

        def at(start: Any, row: Any, column: Any) -> Any:
            down = builder.mul(row, index(TILE))
            return builder.gep(array.data, [builder.add(builder.add(start, down), column)])

        def vector_at(start: Any, row: Any) -> Any:
            return builder.bitcast(at(start, row, index(0)), vector.as_pointer())

        sums = [cgutils.alloca_once(builder, vector) for _ in range(_ROWS)]
        for row, one in enumerate(sums):
            builder.store(builder.load(vector_at(args[1], index(row)), align=size), one)
        with cgutils.for_range_slice(builder, index(0), args[4], index(1)) as (k, _):
            right = builder.load(vector_at(args[3], k), align=size)
            for row, one in enumerate(sums):
                left = builder.load(at(args[2], index(row), k), align=size)
                first = builder.insert_element(undefined, left, lane(0))
                total = builder.add(builder.shuffle_vector(first, undefined, everywhere), right)
                old = builder.load(one)
                smaller = builder.icmp_signed("<", total, old)
                builder.store(builder.select(smaller, total, old), one)
        for row, one in enumerate(sums):
            builder.store(builder.load(one), vector_at(args[1], index(row)), align=size)
        return context.get_dummy_value()

    return types.void(numbers, *[types.intp] * 4), generate


@subroutine
def lower_square(numbers: Any, c: int, a: int, b: int) -> None:
    """Lower the square at ``c`` by the min-plus product of those at ``a`` and ``b``.

    ``c`` may be one of these if the other one is closed: a sum that was lowered before it is taken
    is that of a path, too.
    """
    for column in range(0, TILE, _COLUMNS):
        for row in range(0, TILE, _ROWS):
            _lower(numbers, c + row * TILE + column, a + row * TILE, b + column, TILE)


@subroutine
def close_square(numbers: Any, c: int) -> None:
    """Floyd-Warshall on the square at ``c``."""
    for k in range(TILE):
        for row in range(0, TILE, _ROWS):
            for column in range(0, TILE, _COLUMNS):
                at = c + row * TILE
                _lower(numbers, at + column, at + k, c + k * TILE + column, 1)


FEWEST_ROWS = 256
"""Smaller graphs take no time anyway."""
SURE_ROWS, SURE_SHARE = 1024, 0.25
"""Up to so many rows the matrix is closed at once if so many of all pairs have an arc."""
FEW_ROWS = 512
"""Up to so many rows it is closed at once anyway."""
SOME_SHARE = 1 / 256
"""The matrix of a graph with fewer of them is never closed."""
MINIMA_A_LENGTH = 8
"""Minima of sums that take less time than one length that a batch relaxes."""


def matrix_bytes(rows: int) -> int:
    """Memory of the matrix."""
    return (-(-rows // TILE) * TILE) ** 2 * 4


def may_close(rows: int, arcs: int, sources: int) -> bool:
    """Whether closing the matrix may be faster than searches from so many sources."""
    return rows >= FEWEST_ROWS and 2 * sources >= rows and arcs >= SOME_SHARE * rows**2


def is_sure(rows: int, arcs: int) -> bool:
    """Whether it is, without a look at searches."""
    return rows <= FEW_ROWS or (rows <= SURE_ROWS and arcs >= SURE_SHARE * rows**2)


def pays(rows: int, lengths: float) -> bool:
    """Whether it is faster than batches that would relax so many lengths."""
    return rows**3 < MINIMA_A_LENGTH * lengths


@kernel
def close_squares(
    thread: int, threads: int, control: Any, out: Any, squares: Any, count: int
) -> None:
    """Fill the matrix from rows of out-arcs with int32 weights below `TOP`, and close it.

    ``squares`` int32 (count * count * SQUARE,) is written: square after square, row after row.
    """
    while True:
        i, stop = take_chunk(control, 1, count)
        if i >= stop:
            break
        squares[i * count * SQUARE : (i + 1) * count * SQUARE] = TOP
        for row in range(i * TILE, min((i + 1) * TILE, len(out.offsets) - 1)):
            inside = (row - i * TILE) * TILE
            squares[(i * count + i) * SQUARE + inside + row - i * TILE] = 0
            for arc in range(out.offsets[row], out.offsets[row + 1]):
                to = np.int64(out.neighbors[arc])
                at = (i * count + to // TILE) * SQUARE + inside + to % TILE
                squares[at] = min(squares[at], out.weights[arc])
    if not barrier(control, threads):
        return
    for k in range(count):
        pivots = (k * count + k) * SQUARE
        if thread == 0:
            close_square(squares, pivots)
            control[CHUNK] = control[FIRST_FREE] = 0
        if not barrier(control, threads):
            return
        while True:
            taken, stop = take_chunk(control, 1, 2 * count)
            if taken >= stop:
                break
            other = taken >> 1
            if other == k:
                continue
            beside, above = (other * count + k) * SQUARE, (k * count + other) * SQUARE
            if taken & 1:
                lower_square(squares, above, pivots, above)
            else:
                lower_square(squares, beside, beside, pivots)
        if not barrier(control, threads):
            return
        while True:
            taken, stop = take_chunk(control, 1, count * count, word=FIRST_FREE)
            if taken >= stop:
                break
            i, j = taken // count, taken % count
            if i != k and j != k:
                lower_square(
                    squares, taken * SQUARE, (i * count + k) * SQUARE, (k * count + j) * SQUARE
                )
        if not barrier(control, threads):
            return


@kernel
def take_rows(
    _thread: int, _threads: int, control: Any, squares: Any, count: int, wanted: Any
) -> None:
    """Write distances of sources, as `ooc_graph.kernels.cpu.many.batch.Wanted` has it."""
    sources, columns, potential = wanted.sources, wanted.columns, wanted.potential
    is_reweighted, far, most = len(potential) > 0, wanted.ends[0], wanted.ends[1]
    while True:
        position, stop = take_chunk(control, 1, len(sources))
        if position >= stop:
            break
        source = sources[position]
        mine = potential[source] if is_reweighted else 0
        first = (source // TILE * count) * SQUARE + source % TILE * TILE
        row = wanted.answer[wanted.at[position]]
        for column in range(len(columns)):
            v, found = columns[column], far
            if v >= 0:
                distance = np.int64(squares[first + v // TILE * SQUARE + v % TILE])
                if distance != TOP:
                    found = distance - mine + potential[v] if is_reweighted else distance
            row[column] = found if found <= most else far


class DistanceMatrix(NamedTuple):
    """Distances of all pairs of a graph, int32 as `close_squares` has them, ``width`` in a row."""

    squares: AnyArray
    width: int
    team: Team

    def run(self, wanted: Wanted) -> None:
        """Write distances, int64."""
        self.team.launch(take_rows, new_control(), self.squares, self.width, wanted)


def close(out: LightRows, team: Team) -> DistanceMatrix | None:
    """Distances of all pairs, weights being integers >= 0; None if paths may exceed 32 bits."""
    rows, heaviest = len(out.offsets) - 1, int(out.weights.max(initial=0))
    if heaviest >= TOP:
        return None
    count = -(-rows // TILE)
    squares: AnyArray = np.empty(count * count * SQUARE, np.int32)
    narrow = LightRows(
        out.offsets, out.neighbors, out.weights.astype(np.int32, copy=False), np.empty(0, np.int32)
    )
    team.launch(close_squares, new_control(), narrow, squares, count)
    if not holds_all(heaviest, rows) and may_be_longer(squares, heaviest, count * SQUARE):
        return None
    return DistanceMatrix(squares, count, team)
