"""The one way in: whatever holds edges becomes an ``EdgeSource``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from ooc_graph.boundary import public
from ooc_graph.edges.adjacency import open_adjacency, open_metis
from ooc_graph.edges.arrays import open_npy
from ooc_graph.edges.counted import open_algs4, open_counted, open_dimacs, open_matrix_market
from ooc_graph.edges.delimited import open_delimited
from ooc_graph.edges.detect import format_of
from ooc_graph.edges.graphalytics import open_graphalytics
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.edges.objects import open_frame, open_table, opener_of
from ooc_graph.edges.options import Column, ReadOptions
from ooc_graph.edges.parts import local_paths, parts_among
from ooc_graph.edges.tables import open_parquet
from ooc_graph.errors import InputError, MissingFileError, UsageError
from ooc_graph.remote.urls import is_url
from ooc_graph.types import FileFormat, WeightType

FORMATS: dict[str, Callable[[Sequence[str], ReadOptions], EdgeSource]] = {
    "edgelist": partial(open_delimited, "edgelist", ""),
    "csv": partial(open_delimited, "csv", None),
    "tsv": partial(open_delimited, "tsv", "\t"),
    "mtx": open_matrix_market,
    "gr": open_dimacs,
    "graphalytics": open_graphalytics,
    "metis": open_metis,
    "algs4": open_algs4,
    "counted": open_counted,
    "adjacency": open_adjacency,
    "npy": partial(open_npy, "npy"),
    "npz": partial(open_npy, "npz"),
    "parquet": open_parquet,
}

_TABLE_OPTIONS = ("columns", "delimiter", "header")
# Options that a format has no use for; those not listed have no use for any of them.
_UNUSED = {"edgelist": (), "csv": (), "tsv": (), "parquet": ("delimiter", "header")}


@public
def open_source(
    edges: Any,
    /,
    *,
    format: FileFormat | None = None,  # noqa: A002 (the option's name)
    directed: bool | None = None,
    source: Column | None = None,
    target: Column | None = None,
    weight: Column | bool | None = None,
    columns: Sequence[Column] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    weight_type: WeightType | None = None,
) -> EdgeSource:
    """Open edges for reading in blocks. Only headers and first lines are read here.

    Parameters
    ----------
    edges
        One of these:

        - a path, several paths (one edge list in parts), a folder of Parquet or text parts or of
          one LDBC data set;
        - URLs of such files and folders (``s3://``, ``gs://``, ``az://``, ``https://``), which are
          copied to the cache folder;
        - a pandas or cuDF DataFrame, an Arrow Table or RecordBatch, or a frame of another library
          that exports Arrow data (polars, DuckDB);
        - a square sparse matrix or array of SciPy or CuPy: its entries are the edges, a stored 0 is
          an edge of weight 0, entries stored twice are summed, and every row is a vertex;
        - a networkx graph whose nodes are integers, or an igraph graph;
        - a list of pairs (source, target) or of triples (source, target, weight) of numbers;
        - an array (m, 2), (m, 3) or (2, m), or vectors (source, target[, weight]): arrays of NumPy
          or CuPy, Series, Arrow arrays;
        - a Dask DataFrame or array;
        - an ``EdgeSource``, which is returned as it is.
    format
        One of ``FORMATS``; None: by name and content.
    directed
        Whether (u, v) leads from u to v only. None: what the file or graph says; undirected if it
        says nothing.
    source, target
        Columns of a table, by name or position from 0. None: usual names (source, src, from, …;
        target, dst, to, …), or the first two columns.
    weight
        Column of the weights by name or position from 0; of a networkx or igraph graph, the
        attribute of the edges. None: what the format says; a third numeric column of an edge list,
        a usual name (weight, distance, cost, …) in a header, the attribute ``weight``. False or
        ``"none"``: no weights.
    columns
        Source and target as a pair.
    delimiter
        For separated values: one character, ``"tab"`` or ``"space"`` (runs of blanks).
    header
        Whether the first line of separated values names the columns.
    weight_type
        ``int``, ``float32`` or ``float64``; None: int64 if every weight is an integer, otherwise
        float64 (float32 weights are rounded to float64 first).

    Raises
    ------
    InputError
        The input cannot be read as what it should be; with path, line, and what to do.
    UsageError
        The options do not fit together, there is no format of this name, or a URL needs a missing
        library.
    NetworkError, DiskFullError, OutputBusyError
        A file at a URL cannot be fetched now; worth trying again.
    """
    given = locals()
    options = ReadOptions(**{option.name: given[option.name] for option in fields(ReadOptions)})
    if (opened := _in_memory(edges, options)) is not None:
        _refuse_unused(options, "edges that are in memory", ("delimiter", "header"))
        if format is not None:
            raise UsageError("format: only files have one")
        return opened
    paths = _paths(edges)
    if format is not None and format not in FORMATS:
        raise UsageError(f"format {format!r}; there are " + ", ".join(FORMATS))
    if any(map(is_url, paths)):
        paths = local_paths(paths, format)
    if format != "graphalytics":
        paths = [part for path in paths for part in _parts(path)]
    name = format or _common_format(paths)
    _refuse_unused(options, f"format {name}", _UNUSED.get(name, _TABLE_OPTIONS))
    return FORMATS[name](paths, options)


def _refuse_unused(options: ReadOptions, where: str, names: Sequence[str]) -> None:
    """Refuse options that would be ignored."""
    for name in names:
        if getattr(options, name) is not None:
            raise UsageError(f"{name}: {where} does not have it")


def _in_memory(edges: Any, options: ReadOptions) -> EdgeSource | None:
    """Sources that are objects: an ``EdgeSource``, Dask collections, objects of other libraries."""
    if hasattr(edges, "__dask_graph__"):
        from ooc_graph.edges.dask_parts import (  # noqa: PLC0415 (imports Dask)
            open_dask_array,
            open_dask_frame,
        )

        # A Delayed has attributes of every name.
        if not isinstance(getattr(edges, "ndim", None), int):
            raise UsageError(
                f"cannot read edges from {type(edges).__name__}; of Dask's collections give a "
                "DataFrame or an array"
            )
        return (open_dask_frame if hasattr(edges, "columns") else open_dask_array)(edges, options)
    if all(hasattr(edges, name) for name in ("units", "read", "describe", "vertex_blocks")):
        opened: EdgeSource = edges
        _refuse_unused(options, "an EdgeSource", [option.name for option in fields(options)])
        return opened
    opener = opener_of(edges)
    if opener is None:
        return None
    if opener not in (open_frame, open_table):
        _refuse_unused(options, f"a {type(edges).__name__}", ("columns",))
    return opener(edges, options)


def _paths(edges: Any) -> list[str]:
    given = [edges] if isinstance(edges, (str, os.PathLike)) else edges
    is_list = isinstance(given, Sequence) and bool(given)
    if isinstance(given, (list, tuple)) and not given:
        raise InputError("no edges in the list")
    if not is_list or not all(isinstance(path, (str, os.PathLike)) for path in given):
        raise UsageError(
            f"cannot read edges from {type(edges).__name__}; give paths, a frame, a sparse matrix, "
            "a networkx or igraph graph, arrays, a list of pairs or a Dask collection"
        )
    # The system would take it for the folder we are in.
    if not all(map(os.fspath, given)):
        raise UsageError("an empty word is no path: name a file or a folder")
    paths = [_absolute(path) for path in given]
    for path in paths:
        if not is_url(path) and set("*?") & set(path) and not Path(path).exists():
            advice = "patterns are not expanded: give a list of files, or their folder"
            raise MissingFileError("no such file", path=path, advice=advice)
    if len(set(paths)) < len(paths):
        raise UsageError("a file is named twice")
    return paths


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(path) if is_url(path) else os.path.abspath(path)  # noqa: PTH100 (no links followed)


def _parts(path: str) -> list[str]:
    """The files of a folder in the order of their names, or the path itself."""
    if not Path(path).is_dir():
        if Path(path).exists() and not Path(path).is_file():
            raise InputError(
                "is a pipe or a device",
                path=path,
                advice="edges are read more than once: give a file",
            )
        return [path]
    inside = [p.name for p in Path(path).iterdir() if p.is_file()]
    return [str(Path(path, name)) for name in parts_among(inside, path)]


def _common_format(paths: Sequence[str]) -> str:
    names = {path: format_of(path) for path in paths}
    if len(set(names.values())) > 1:
        raise InputError(
            "the files have different formats: "
            + ", ".join(f"{Path(path).name} {name}" for path, name in list(names.items())[:5]),
            path=str(Path(paths[0]).parent),
            advice="name the format with --format, or build them apart",
        )
    return names[paths[0]]
