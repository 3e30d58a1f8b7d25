"""Parquet files as a source of edges (pyarrow, by row groups)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

import numpy as np

from ooc_graph.edges.arrays import checked_block, weight_dtype_of
from ooc_graph.edges.bytestream import refuse_compressed
from ooc_graph.edges.interface import SourceDefaults, Unit, units_of
from ooc_graph.edges.options import ReadOptions, choose_columns
from ooc_graph.errors import InputError, MissingFileError, MissingLibraryError
from ooc_graph.types import AnyArray, EdgeBlock


@dataclass(frozen=True)
class ParquetFile:
    """One file: rows in each row group."""

    path: str
    group_rows: tuple[int, ...]


@dataclass(frozen=True)
class ParquetSource(SourceDefaults):
    """Edges from Parquet files, of columns with these names; see ``EdgeSource``.

    Units are the rows of some row groups of a file.
    """

    files: tuple[ParquetFile, ...]
    names: tuple[str, ...]
    directed: bool
    weight_dtype: np.dtype[Any] | None
    rereadable: bool = field(default=True, init=False)

    @property
    def edges(self) -> int:
        """Number of rows in all files."""
        return sum(sum(file.group_rows) for file in self.files)

    def units(self, edges_per_unit: int) -> Sequence[Unit]:
        """Rows of each file, of as many row groups as make a unit."""
        return units_of(
            (start, stop, file.path)
            for file in self.files
            for start, stop in _runs(file.group_rows, edges_per_unit)
        )

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        """Yield the rows ``unit.start`` to ``unit.stop``, which are those of whole row groups."""
        arrow, parquet = _parquet()
        file = next(file for file in self.files if file.path == unit.path)
        begins, row = _begins(file.group_rows), unit.start
        try:
            with parquet.ParquetFile(unit.path) as opened:
                groups = range(begins.index(unit.start), begins.index(unit.stop))
                # One at a time: of several, pyarrow compares the types of the first alone.
                for batch in chain.from_iterable(
                    opened.iter_batches(block_edges, [group], columns=list(self.names))
                    for group in groups
                ):
                    if len(batch):
                        columns = [
                            arrow_column(batch.column(n), n, unit.path, row) for n in self.names
                        ]
                        yield checked_block(columns, self.weight_dtype, unit.path, row)
                    row += len(batch)
        except _unreadable(arrow) as error:
            raise InputError(f"cannot be read: {error}", path=unit.path) from error

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are read."""
        return tuple(file.path for file in self.files)

    def describe(self) -> dict[str, Any]:
        """Columns and name, size and SHA-256 of each file."""
        return self.describe_files("parquet", columns=list(self.names))


def open_parquet(paths: Sequence[str], options: ReadOptions) -> ParquetSource:
    """Open Parquet files with the same columns."""
    read = [_open_file(path) for path in paths]
    schema = read[0][1]
    chosen = choose_columns(options, schema.names, len(schema.names), paths[0])
    positions = [chosen.source, chosen.target]
    if chosen.weight is not None:
        positions.append(chosen.weight)
    names = tuple(schema.names[position] for position in positions)
    if doubled := [name for name in names if schema.names.count(name) > 1]:
        raise InputError(f"several columns are called {doubled[0]!r}", path=paths[0])
    for file, other in read:
        if any(
            other.names.count(name) != 1 or other.field(name).type != schema.field(name).type
            for name in names
        ):
            raise InputError(
                "differs from the first file in the columns " + ", ".join(names), path=file.path
            )
    dtype = None
    if chosen.weight is not None:
        dtype = weight_dtype_of(_numpy_type(schema, names[2], paths[0]), options.weight_dtype)
    for name in names[:2]:
        if _numpy_type(schema, name, paths[0]).kind not in "iu":
            raise InputError(
                f"column {name!r} has type {schema.field(name).type}",
                path=paths[0],
                advice="ids are integers; name the columns",
            )
    files = tuple(file for file, _ in read if sum(file.group_rows))
    if not files:
        raise InputError("no edges in the file", path=paths[0], advice="the table has no rows")
    return ParquetSource(files, names, options.is_directed(), dtype)


def pyarrow(what: str) -> Any:
    """The library; UsageError, which says ``what`` needs it, if it is missing."""
    try:
        import pyarrow as arrow  # noqa: PLC0415 (optional)
    except ImportError:
        raise MissingLibraryError(f"{what}: pip install 'ooc-graph[tables]'") from None
    return arrow


def _parquet() -> tuple[Any, Any]:
    arrow = pyarrow("Parquet needs pyarrow")
    from pyarrow import parquet  # noqa: PLC0415 (optional)

    return arrow, parquet


def _unreadable(arrow: Any) -> tuple[type[Exception], ...]:
    """What pyarrow raises for bytes that are no table."""
    return arrow.ArrowException, OSError, UnicodeDecodeError


def _open_file(path: str) -> tuple[ParquetFile, Any]:
    arrow, parquet = _parquet()
    refuse_compressed(path)
    try:
        with parquet.ParquetFile(path) as opened:
            meta = opened.metadata
            rows = tuple(meta.row_group(group).num_rows for group in range(meta.num_row_groups))
            return ParquetFile(path, rows), opened.schema_arrow
    except FileNotFoundError:
        raise MissingFileError("no such file", path=path) from None
    except _unreadable(arrow) as error:
        raise InputError(f"is no Parquet file: {error}", path=path) from error


def _numpy_type(schema: Any, name: str, path: str) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(schema.field(name).type.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        raise InputError(f"column {name!r} holds {schema.field(name).type}", path=path) from None
    return dtype


def arrow_column(column: Any, name: str, path: str | None, row: int) -> AnyArray:
    """An Arrow array in NumPy's memory; InputError: a value is missing, ``row`` is its first."""
    if column.null_count:
        at = row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"column {name!r} has no value in row {at:,}", path=path)
    values: AnyArray = column.to_numpy(zero_copy_only=False)
    return values


def _begins(group_rows: Sequence[int]) -> list[int]:
    """The first row of each row group, and their number."""
    return [0, *accumulate(group_rows)]


def _runs(group_rows: Sequence[int], edges_per_unit: int) -> list[tuple[int, int]]:
    """Ranges of rows, of whole row groups, with about ``edges_per_unit`` rows each."""
    spans, start, rows = [], 0, sum(group_rows)
    for stop in _begins(group_rows)[1:]:
        if stop - start >= edges_per_unit or stop == rows > start:
            spans.append((start, stop))
            start = stop
    return spans
