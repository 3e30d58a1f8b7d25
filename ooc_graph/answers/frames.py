"""Columns of results as pandas frames and Dask arrays."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from ooc_graph.answers.late import LateColumns
from ooc_graph.answers.unread import Unread
from ooc_graph.errors import MissingLibraryError, UsageError
from ooc_graph.layout.stored import Stored
from ooc_graph.types import AnyArray

if TYPE_CHECKING:
    import pandas as pd


Arrays: TypeAlias = Mapping[str, AnyArray] | Stored
"""By name; in memory, or in the store from which they are read."""


class Exports:
    """A result in the forms of other libraries: Zarr, Dask and pandas."""

    columns: Arrays
    measure: ClassVar[str]
    # Columns by the names that cuGraph gives them, in frames and exported files.
    frame_names: ClassVar[dict[str, str]] = {}

    def frame_columns(self) -> dict[str, str]:
        """Columns of this result by their names in frames."""
        return self.frame_names

    def read(self, name: str) -> AnyArray:
        """One column, in host memory unless the search left it on the device as CuPy arrays.

        Its name may be the one in stores or the one in frames.
        """
        name = self.frame_names.get(name, name)
        return self.columns.read(name) if isinstance(self.columns, Stored) else self.columns[name]

    def to_zarr(self) -> Any:
        """The stored result as a read-only Zarr group."""
        if not isinstance(self.columns, Stored):
            raise UsageError("this result was not written; search with out=PATH to get a store")
        return import_module("zarr").open_group(str(self.columns.path), mode="r")

    def to_dask_array(self, name: str | None = None) -> Any:
        """One column as a Dask array: levels, distances or components unless another is named.

        A stored result is read lazily, and checked. If the result is on a worker, the chunks are
        made there when a client of that cluster computes them. Dtypes are those of the columns.
        """
        name = self.measure if name is None else self.frame_names.get(name, name)
        if isinstance(self.columns, Stored):
            return lazy_column(self.columns, name)
        if (unread := self.unread) is not None:
            return unread.to_dask_array(name)
        return import_module("dask.array").from_array(self.columns[name])

    @property
    def unread(self) -> Unread | None:
        """The columns if they are still on the worker that found them."""
        return self.columns.unread if isinstance(self.columns, LateColumns) else None

    def to_dask_dataframe(self) -> Any:
        """All columns as a Dask DataFrame with the column names of `to_frame`."""
        frame_of({})
        dd = import_module("dask.dataframe")
        series = [
            dd.from_dask_array(self.to_dask_array(column), columns=name)
            for name, column in self.frame_columns().items()
        ]
        return dd.concat(series, axis=1)

    def to_frame(self) -> pd.DataFrame:
        """Pandas frame with cuGraph's names of columns.

        Searches: ``vertex, distance, predecessor``. For BFS ``distance`` is the level. Unreached
        vertices have predecessor -1, and the distance that this package stores (level -1, +inf, or
        the largest int64). Components: ``vertex, labels``.
        """
        columns = {name: self.on_host(column) for name, column in self.frame_columns().items()}
        return frame_of(columns)

    def on_host(self, name: str) -> AnyArray:
        """One column in host memory, copied from the device if it is there."""
        column: Any = self.read(name)
        return column.get() if hasattr(column, "__cuda_array_interface__") else np.asarray(column)


def flat_columns(table: dict[str, AnyArray]) -> dict[str, AnyArray]:
    """Columns of one dimension: those of bins become one each, with the bin's number at the end."""
    flat: dict[str, AnyArray] = {}
    for name, column in table.items():
        if column.ndim == 1:
            flat[name] = column
        else:
            flat |= {f"{name}_{index}": part for index, part in enumerate(column.T)}
    return flat


def frame_of(data: Any, **axes: Any) -> pd.DataFrame:
    """A pandas frame; UsageError if pandas is not installed."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise MissingLibraryError("frames need pandas: pip install 'ooc-graph[tables]'") from None
    frame: pd.DataFrame = pandas.DataFrame(data, **axes)
    return frame


def lazy_column(stored: Stored, name: str) -> Any:
    """A column as a Dask array, a chunk of the store in each of its chunks."""
    da, spec = import_module("dask.array"), stored.spec(name)
    read = import_module("dask").delayed(_chunk, pure=True)
    parts = [
        da.from_delayed(
            read(str(stored.path), stored.identity, name, index),
            spec.shape(int(np.ptp(spec.bounds(index)))),
            spec.dtype,
        )
        for index in range(spec.chunks)
    ]
    return da.concatenate(parts) if parts else da.empty(spec.shape(0), dtype=spec.dtype)


def _chunk(path: str, identity: str, name: str, index: int) -> AnyArray:
    stored = Stored.open(path, "result", identity)
    return stored.chunk(stored.spec(name), index)
