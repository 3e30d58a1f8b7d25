"""Write the columns of a stored result as Parquet, CSV, TSV or NumPy files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ooc_graph.answers.frames import flat_columns
from ooc_graph.answers.matrix import PairsResult
from ooc_graph.answers.result import Result
from ooc_graph.boundary import public
from ooc_graph.errors import MissingLibraryError, OutputExistsError, UsageError
from ooc_graph.layout.outputs import refuse_file
from ooc_graph.layout.stored import Cursor, Stored
from ooc_graph.layout.whole_file import whole_file
from ooc_graph.remote.urls import file_path
from ooc_graph.types import AnyArray

_ROWS = 1 << 18
NPZ = "npz"
"""Ending of files that have whole columns."""
Table: TypeAlias = dict[str, AnyArray]
"""Columns by name, of the same length."""


@public
def export(result: Result, path: str | Path, *, overwrite: bool = False) -> None:
    """Write ``vertex``, ``distance`` and ``predecessor`` to one file, as in `Result.to_frame`.

    Components have ``vertex`` and ``labels``, reductions a row for each source.

    Parameters
    ----------
    path
        Its suffix chooses the format: .parquet, .csv, .tsv or .npz.

    Raises
    ------
    UsageError
        If the suffix is none of these, pyarrow is needed and not installed, or the result has
        distances of many sources.
    OutputExistsError
        If the file exists and ``overwrite`` is not given.
    DiskFullError
        If the disk fills up; a file that was there before is kept.
    """
    path = file_path(path, "path")
    check_target(path, overwrite=overwrite)
    if not isinstance(result, Result):
        raise UsageError(f"give an opened answer, not {type(result).__name__}; see Result.open")
    if isinstance(result, PairsResult) and result.reduced is None:
        raise UsageError(
            "distances of many sources are not exported: read the store with zarr, or use "
            "to_frame() in Python"
        )
    if path.suffix == f".{NPZ}":
        with whole_file(path) as partial:
            _write_npz(result, partial)
    else:
        write_tables(_tables(result), path)


def write_tables(tables: Iterator[Table], path: Path) -> None:
    """Write tables of the same columns, one below the other, to a .parquet, .csv or .tsv file.

    There is one table at least. Masked values are null in Parquet, and empty in text.
    """
    with whole_file(path) as partial:
        _WRITERS[path.suffix.removeprefix(".")](tables, partial)


def check_target(path: Path, *, overwrite: bool, more: tuple[str, ...] = ()) -> None:
    """Refuse a file that cannot be written, as `export` does before it reads anything.

    The caller writes files with ``more`` endings than `export`.
    """
    name = path.suffix.removeprefix(".")
    endings = [*_WRITERS, NPZ, *more]
    if name not in endings:
        raise UsageError(f"{path}: give a file ending in .{', .'.join(endings)}")
    refuse_file(path)
    if path.exists() and not overwrite:
        raise OutputExistsError(f"{path}: exists already; give --overwrite to replace it")


def _columns_of(result: Result) -> dict[str, str]:
    """Columns by their names in the file; those of many sources keep their own."""
    return result.frame_columns() or {name: name for name in result.names}


def _tables(result: Result) -> Iterator[Table]:
    """Blocks of rows of all columns."""
    names = _columns_of(result)
    if isinstance(result.columns, Stored):
        stored = result.columns
        # Columns of 8 and of 4 bytes have chunks of different length.
        cursors = [Cursor(stored.chunk, stored.spec(name)) for name in names.values()]
        rows = cursors[0].spec.length
        # One block at least, though without rows: a Parquet file has its columns from it.
        for start in range(0, max(1, rows), _ROWS):
            block = (cursor.read(start, min(start + _ROWS, rows)) for cursor in cursors)
            yield flat_columns(dict(zip(names, block, strict=True)))
    else:
        yield flat_columns({name: result.columns[column] for name, column in names.items()})


def _write_text(tables: Iterator[Table], path: Path, separator: str) -> None:
    with path.open("w", newline="\n") as file:
        for index, table in enumerate(tables):
            if index == 0:
                file.write(separator.join(table) + "\n")
            file.writelines(text_lines(table, separator))


def text_lines(table: Table, separator: str) -> Iterator[str]:
    """Rows of a table as lines of text."""
    texts = (_texts(column) for column in table.values())
    return (separator.join(row) + "\n" for row in zip(*texts, strict=True))


def _texts(column: AnyArray) -> list[str]:
    # repr of a Python float reads back to the same bits; float32 has its own shortest form.
    texts = column if column.dtype.kind != "f" else column.astype(str)
    if isinstance(texts, np.ma.MaskedArray):
        return ["" if text is None else str(text) for text in texts.tolist()]
    return list(map(str, texts.tolist()))


def _write_npz(result: Result, path: Path) -> None:
    columns: dict[str, Any] = {
        name: result.read(column) for name, column in _columns_of(result).items()
    }
    np.savez(path, **columns)


def _write_parquet(tables: Iterator[Table], path: Path) -> None:
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingLibraryError(
            "writing Parquet needs pyarrow: pip install 'ooc-graph[tables]'"
        ) from None
    writer = None
    try:
        for table in tables:
            batch = pa.table({name: pa.array(column) for name, column in table.items()})
            writer = writer or pq.ParquetWriter(path, batch.schema)
            writer.write_table(batch)
    finally:
        if writer is not None:
            writer.close()


_WRITERS: dict[str, Callable[[Iterator[Table], Path], None]] = {
    "parquet": _write_parquet,
    "csv": lambda tables, path: _write_text(tables, path, ","),
    "tsv": lambda tables, path: _write_text(tables, path, "\t"),
}
"""By ending of the file."""
