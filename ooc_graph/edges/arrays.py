"""NumPy arrays as sources of edges: in memory, ``.npy`` and ``.npz``; and checks of columns.

Columns that are numbers already are checked, and brought to the types of an edge block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ooc_graph.edges import npyfiles
from ooc_graph.edges.bytestream import refuse_compressed
from ooc_graph.edges.interface import SourceDefaults, Unit, ranges, units_of
from ooc_graph.edges.options import ReadOptions
from ooc_graph.errors import InputError
from ooc_graph.types import AnyArray, EdgeBlock, IntArray

INT64_MAX = np.iinfo(np.int64).max
NO_INTEGERS = (
    "ids are integers: name other columns, or number the vertices, as pandas.factorize does"
)
"""Advice where ids are words or floats."""


def checked_ids(values: AnyArray, what: str, path: str | None, row: int) -> IntArray:
    """One-dimensional ids in host memory as int64; ``row`` is that of the first of them."""
    if values.dtype.kind not in "iu":
        raise InputError(f"{what} ids have dtype {values.dtype}", path=path, advice=NO_INTEGERS)
    wrong = values < 0 if values.dtype.kind == "i" else values > np.uint64(INT64_MAX)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"{what} id {int(values[at])} in row {row + at:,}",
            path=path,
            advice="ids are integers from 0 to 2^63-1",
        )
    return np.ascontiguousarray(values, dtype=np.int64)


def weight_dtype_of(given: np.dtype[Any], asked: np.dtype[Any] | None) -> np.dtype[Any]:
    """Type of the weights in blocks: as asked, else int64, float32 or float64."""
    if given.kind not in "iuf":
        raise InputError(f"weights have dtype {given}", advice="weights are integers or floats")
    if asked is not None:
        return asked
    if given.kind in "iu":
        return np.dtype(np.int64)
    return np.dtype(np.float32 if given.itemsize <= 4 else np.float64)


def checked_weights(values: AnyArray, dtype: np.dtype[Any], path: str | None, row: int) -> AnyArray:
    """Weights as ``dtype``; InputError if one is not finite, or does not fit."""
    with np.errstate(over="ignore", invalid="ignore"):
        exact = dtype.kind == "i"
        wrong = _not_integral(values) if exact else ~np.isfinite(values.astype(dtype))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"weight {values[at]!s} in row {row + at:,} is not a finite {dtype}",
            path=path,
            advice="remove the edge, or choose another weight type",
        )
    return np.ascontiguousarray(values, dtype=dtype)


def _not_integral(values: AnyArray) -> AnyArray:
    if values.dtype.kind == "i":
        return np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "u":
        return values > np.uint64(INT64_MAX)
    inside = (values >= -(2.0**63)) & (values < 2.0**63)
    wrong: AnyArray = ~(inside & (values == np.floor(values)))
    return wrong


def checked_block(
    columns: Sequence[AnyArray], weight_dtype: np.dtype[Any] | None, path: str | None, row: int
) -> EdgeBlock:
    """A block of edges from columns as they were read; the third is the weights, if wanted."""
    weight = None if weight_dtype is None else checked_weights(columns[2], weight_dtype, path, row)
    source = checked_ids(columns[0], "source", path, row)
    return EdgeBlock(source, checked_ids(columns[1], "target", path, row), weight)


@dataclass(frozen=True)
class NpySource(SourceDefaults):
    """Edges from ``.npy`` or ``.npz`` files, each with its columns; see ``EdgeSource``."""

    format: str
    columns: tuple[tuple[npyfiles.NpyColumn, ...], ...]
    directed: bool
    weight_dtype: np.dtype[Any] | None
    rereadable: bool

    @property
    def edges(self) -> int:
        """Number of rows in all files."""
        return sum(file[0].length for file in self.columns)

    def units(self, edges_per_unit: int) -> Sequence[Unit]:
        """Row ranges of each file."""
        return units_of(
            (*span, file[0].part.path)
            for file in self.columns
            for span in ranges(0, file[0].length, edges_per_unit)
        )

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        """Yield rows ``unit.start`` to ``unit.stop`` of the file."""
        columns = next(file for file in self.columns if file[0].part.path == unit.path)
        wanted = columns if self.weighted else columns[:2]
        row = unit.start
        pieces = [
            npyfiles.read_column(column, unit.start, unit.stop, block_edges) for column in wanted
        ]
        for parts in zip(*pieces, strict=True):
            yield checked_block(parts, self.weight_dtype, unit.path, row)
            row += len(parts[0])

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are read."""
        return tuple(file[0].part.path for file in self.columns)

    def describe(self) -> dict[str, Any]:
        """Format and name, size and SHA-256 of each file."""
        return self.describe_files(self.format)


def open_npy(name: str, paths: Sequence[str], options: ReadOptions) -> NpySource:
    """``.npy`` files with an (m, 2), (m, 3) or (2, m) array, or ``.npz`` files with vectors.

    These have the names source, target and perhaps weight.
    """
    for path in paths:
        refuse_compressed(path)
    if name == "npz":
        files = [npyfiles.npz_columns(path) for path in paths]
    else:
        files = [npyfiles.columns_of(npyfiles.read_header(path)) for path in paths]
    widths = {len(file) for file in files}
    if len(widths) > 1:
        raise InputError("some files have weights, others not", path=files[0][0].part.path)
    if options.needs_weight and widths == {2}:
        raise InputError("there are no weights", path=files[0][0].part.path)
    dtype = None
    if widths == {3} and not options.no_weight:
        dtype = weight_dtype_of(files[0][2].part.dtype, options.weight_dtype)
    columns = tuple(tuple(file) for file in files)
    return NpySource(name, columns, options.is_directed(), dtype, name == "npy")


@dataclass(frozen=True, eq=False)
class ArraySource(SourceDefaults):
    """Edges from vectors in host memory; see ``EdgeSource``. Travels with its data when pickled.

    ``in_memory`` tells a build whose tasks travel to stage it first. Reading does not check that
    ids are in the ``id_range``, if that was said. ``listed`` are all vertices, if others are known
    than those that edges name.
    """

    source: AnyArray
    target: AnyArray
    weight: AnyArray | None
    directed: bool
    weight_dtype: np.dtype[Any] | None
    rereadable: bool = field(default=True, init=False)
    in_memory: bool = field(default=True, init=False)
    id_range: tuple[int, int] | None = None
    listed: IntArray | None = None

    @property
    def edges(self) -> int:
        """Number of edges."""
        return len(self.source)

    def units(self, edges_per_unit: int) -> Sequence[Unit]:
        """Ranges of edges."""
        return units_of(ranges(0, len(self.source), edges_per_unit))

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        """Yield the edges of the unit."""
        columns = [c for c in (self.source, self.target, self.weight) if c is not None]
        for start in range(unit.start, unit.stop, block_edges):
            part = slice(start, min(start + block_edges, unit.stop))
            yield checked_block(
                [column[part] for column in columns], self.weight_dtype, None, start
            )

    @property
    def vertices_alone(self) -> ArraySource:
        """The vertices that are listed, without edges."""
        none = np.empty(0, np.int64)
        return replace(self, source=none, target=none, weight=None)

    def vertex_blocks(self) -> Iterator[IntArray]:
        """The vertices, if they were listed."""
        if self.listed is not None:
            yield checked_ids(self.listed, "vertex", None, 0)

    def describe(self) -> dict[str, Any]:
        """Length, types and SHA-256 of the arrays' bytes."""
        digest = hashlib.sha256()
        for array in (self.source, self.target, self.weight, self.listed):
            if array is not None:
                digest.update(str(array.dtype).encode())
                for start in range(0, len(array), 1 << 20):
                    digest.update(np.ascontiguousarray(array[start : start + (1 << 20)]).data)
        return {
            "format": "array",
            "directed": self.directed,
            "edges": self.edges,
            "weight_type": self.weight_type,
            "sha256": digest.hexdigest(),
        }


def open_arrays(given: AnyArray | Sequence[AnyArray], options: ReadOptions) -> ArraySource:
    """An (m, 2), (m, 3) or (2, m) array, or vectors source, target and perhaps weight."""
    if isinstance(given, np.ndarray):
        in_rows = npyfiles.are_rows(given.shape, None, "give vectors (source, target[, weight])")
        given = list(given.T if in_rows else given)
    for column in given:
        if np.ma.is_masked(column):
            row = int(np.ma.getmaskarray(column).argmax())
            raise InputError(f"the arrays have no value in row {row:,}")
    columns = [np.asarray(column) for column in given]
    if len(columns) not in {2, 3} or any(c.shape != columns[0].shape for c in columns):
        raise InputError(
            "arrays of shapes " + ", ".join(str(c.shape) for c in columns),
            advice="expected source, target and perhaps weight, vectors of one length",
        )
    if columns[0].ndim != 1:
        raise InputError(f"arrays of {columns[0].ndim} dimensions", advice="expected vectors")
    if len(columns[0]) == 0:
        raise InputError("no edges in the arrays")
    if len(columns) == 2 and options.needs_weight:
        raise InputError("there are no weights", advice="give (source, target, weight)")
    weight = columns[2] if len(columns) == 3 and not options.no_weight else None
    dtype = None if weight is None else weight_dtype_of(weight.dtype, options.weight_dtype)
    return ArraySource(columns[0], columns[1], weight, options.is_directed(), dtype)
