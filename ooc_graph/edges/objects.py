"""Edges in objects of other libraries: frames, sparse matrices, graphs, vectors, lists.

This is the only module that recognises them. They are told apart by what they can do or by the
name of their library, which is never imported unless an object of it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from ooc_graph.edges.arrays import (
    NO_INTEGERS,
    ArraySource,
    checked_ids,
    open_arrays,
    weight_dtype_of,
)
from ooc_graph.edges.options import ReadOptions, choose_columns
from ooc_graph.edges.tables import arrow_column, pyarrow
from ooc_graph.errors import InputError, UsageError
from ooc_graph.types import AnyArray, IntArray

Opener = Callable[[Any, ReadOptions], ArraySource]


def opener_of(given: Any) -> Opener | None:
    """What opens an object as a source of edges; None: it is none of the known kinds."""
    kinds = _libraries(given)
    openers: list[tuple[bool, Opener]] = [
        (isinstance(given, np.ndarray), open_arrays),
        ("networkx" in kinds and hasattr(given, "is_multigraph"), open_networkx),
        ("igraph" in kinds and hasattr(given, "get_edgelist"), open_igraph),
        (hasattr(given, "tocsr") and hasattr(given, "nnz"), open_sparse),
        (hasattr(given, "iloc") and hasattr(given, "columns"), open_frame),
        (any(hasattr(given, name) for name in _ARROW) and not is_vector(given), open_table),
        (hasattr(given, "__cuda_array_interface__"), _open_device_array),
    ]
    if isinstance(given, (list, tuple)) and given:
        rows = isinstance(given[0], (list, tuple))
        openers += [(is_vector(given[0]), open_vectors), (rows, open_list)]
    return next((opener for fits, opener in openers if fits), None)


def _libraries(given: Any) -> set[str]:
    """Libraries that the class of an object, or one that it derives from, is of."""
    return {kind.__module__.partition(".")[0] for kind in type(given).__mro__}


_ARROW = ("__arrow_c_stream__", "__arrow_c_array__", "to_arrow")


def is_vector(given: Any) -> bool:
    """Whether an object is one column: an array, a pandas or cuDF Series, an Arrow array."""
    is_table = hasattr(given, "columns") or hasattr(given, "column_names")
    arrays = ("__array__", "__cuda_array_interface__")
    return not is_table and any(hasattr(given, name) for name in arrays)


def host_vector(column: Any, name: str = "the vector") -> AnyArray:
    """A column of any library in host memory; InputError: a value of it is missing."""
    if isinstance(column, np.ndarray):
        return column
    if "pyarrow" in _libraries(column):
        return arrow_column(column, name, None, 0)
    if hasattr(column, "isna"):
        # Columns of integers that NumPy has can lack nothing.
        if getattr(column.dtype, "kind", "O") not in "iu" or not isinstance(column.dtype, np.dtype):
            missing = column.isna().to_numpy()
            if missing.any():
                raise InputError(f"column {name!r} has no value in row {int(missing.argmax()):,}")
        return column.to_numpy()  # type: ignore[no-any-return]
    if hasattr(column, "__cuda_array_interface__") and hasattr(column, "get"):
        return column.get()  # type: ignore[no-any-return]
    return np.asarray(column)


def open_vectors(given: Sequence[Any], options: ReadOptions) -> ArraySource:
    """Vectors (source, target[, weight]) of any library."""
    return open_arrays([host_vector(column) for column in given], options)


def _open_device_array(given: Any, options: ReadOptions) -> ArraySource:
    return open_arrays(host_vector(given), options)


def open_list(given: Sequence[Any], options: ReadOptions) -> ArraySource:
    """Pairs (source, target), or triples with a weight, of Python's numbers."""
    widths = {len(row) if isinstance(row, (list, tuple)) else 0 for row in given}
    if widths not in ({2}, {3}) or not isinstance(given[0][0], Number):
        raise InputError(
            "the list does not hold edges",
            advice="expected pairs (source, target) or triples (source, target, weight) of "
            "numbers; vectors are arrays",
        )
    # Of all at once, NumPy would make ids floats where weights are.
    return open_arrays([_column_of(column) for column in zip(*given, strict=True)], options)


def _column_of(values: Iterable[Any]) -> AnyArray:
    values = list(values)
    return np.array(values) if values else np.empty(0, np.int64)


def open_frame(frame: Any, options: ReadOptions) -> ArraySource:
    """A pandas or cuDF DataFrame, or another that has ``iloc``."""
    return _of_columns(frame, list(frame.columns), lambda at: frame.iloc[:, at], options)


def open_table(given: Any, options: ReadOptions) -> ArraySource:
    """A table that Arrow can read: Table, RecordBatch, or a frame of a library that exports it."""
    arrow = pyarrow("Arrow tables need pyarrow")
    table = given.to_arrow() if hasattr(given, "to_arrow") else arrow.table(given)
    return _of_columns(given, table.column_names, table.column, options)


def _of_columns(
    frame: Any, labels: Sequence[Any], column_at: Callable[[int], Any], options: ReadOptions
) -> ArraySource:
    """Edges of the columns that were chosen, or that have usual names."""
    where = type(frame).__name__
    # Labels that are no names, as pandas numbers columns without any, say nothing.
    names = labels if all(isinstance(label, str) for label in labels) else None
    chosen = choose_columns(options, names, len(labels), where, third_is_weight=True)
    columns = []
    for at in (chosen.source, chosen.target, chosen.weight):
        if at is None:
            continue
        values = host_vector(column_at(at), str(labels[at]))
        if at != chosen.weight and len(values) and values.dtype.kind not in "iu":
            raise InputError(
                f"column {str(labels[at])!r} has dtype {values.dtype}",
                path=where,
                advice=NO_INTEGERS,
            )
        columns.append(values)
    return open_arrays(columns, options)


def open_sparse(matrix: Any, options: ReadOptions) -> ArraySource:
    """A square sparse matrix of SciPy or CuPy: entry (u, v), also a stored 0, is an edge.

    Entries that are stored twice are summed, as SciPy does. All rows are vertices. A matrix of
    truth values has no weights.
    """
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"a sparse matrix of shape {matrix.shape}", advice="expected a square one")
    _refuse_column(options, "of a sparse matrix the entries are the weights")
    if {"cupy", "cupyx"} & _libraries(matrix):
        matrix = matrix.get()
    rows = matrix.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    entries = rows.tocoo(copy=False)
    weights = None if entries.data.dtype.kind == "b" else entries.data
    directed = options.is_directed()
    return _whole(
        (entries.row, entries.col, weights), options, directed, id_range=(0, matrix.shape[0])
    )


def open_networkx(graph: Any, options: ReadOptions) -> ArraySource:
    """A networkx graph of any class, whose nodes are integers.

    Weights are the attribute ``weight`` of its edges, or the one that is chosen; 1 where an edge
    has none, as networkx has it.
    """
    nodes = list(graph)
    for node in nodes:
        if not isinstance(node, (int, np.integer)) or isinstance(node, bool):
            raise InputError(
                f"node {node!r} is no integer",
                advice="number the nodes: networkx.convert_node_labels_to_integers(graph)",
            )
    said = (data for _, _, data in graph.edges(data=True))
    name = _attribute(options, lambda wanted: any(wanted in data for data in said))
    edges = list(graph.edges(data=name, default=1) if name else graph.edges(data=False))
    source, target, *rest = map(_column_of, zip(*edges, strict=True)) if edges else _no_edges(name)
    directed = _direction(graph.is_directed(), options)
    vertices = checked_ids(np.sort(_column_of(nodes)), "vertex", None, 0)
    columns = source, target, rest[0] if rest else None
    if nodes and int(vertices[-1]) - int(vertices[0]) == len(nodes) - 1:
        return _whole(columns, options, directed, id_range=(int(vertices[0]), len(nodes)))
    return _whole(columns, options, directed, listed=vertices)


def open_igraph(graph: Any, options: ReadOptions) -> ArraySource:
    """An igraph graph, whose vertices are called by their indices; weights as of networkx."""
    attributes = graph.es.attributes()
    name = _attribute(options, lambda wanted: wanted in attributes)
    ends = np.array(graph.get_edgelist(), np.int64).reshape(-1, 2)
    given = [] if name is None else graph.es[name]
    # As networkx has it: an edge without the attribute has weight 1.
    weights = None if name is None else _column_of(1 if one is None else one for one in given)
    directed = _direction(graph.is_directed(), options)
    return _whole((*ends.T, weights), options, directed, id_range=(0, graph.vcount()))


def _no_edges(name: str | None) -> list[IntArray]:
    return [np.empty(0, np.int64)] * (2 if name is None else 3)


def _attribute(options: ReadOptions, has: Callable[[str], bool]) -> str | None:
    """Name of the edges' attribute that has the weights; None: they have none."""
    if options.no_weight:
        return None
    wanted = options.weight_column
    if isinstance(wanted, int):
        raise UsageError("weight: name an attribute of the edges")
    if has(wanted or "weight"):
        return wanted or "weight"
    if options.needs_weight:
        raise UsageError(f"weight: no edge has the attribute {wanted or 'weight'!r}")
    return None


def _direction(directed: bool, options: ReadOptions) -> bool:
    """Whether the graph that is made is directed; one that is undirected stays so."""
    if options.directed and not directed:
        raise UsageError("directed: the graph is undirected; make it a directed one first")
    return options.is_directed(directed)


def _refuse_column(options: ReadOptions, why: str) -> None:
    if options.weight_column is not None:
        raise UsageError(f"weight: {why}")


def _whole(
    columns: tuple[AnyArray, AnyArray, AnyArray | None],
    options: ReadOptions,
    directed: bool,
    *,
    id_range: tuple[int, int] | None = None,
    listed: IntArray | None = None,
) -> ArraySource:
    """Edges of an object that says which vertices there are; it may have no edges."""
    source, target, weight = columns
    if options.needs_weight and weight is None:
        raise InputError("there are no weights")
    if not id_range and (listed is None or not len(listed)):
        raise InputError("a graph without vertices")
    weight = None if options.no_weight else weight
    dtype = None if weight is None else weight_dtype_of(weight.dtype, options.weight_dtype)
    return ArraySource(source, target, weight, directed, dtype, id_range, listed)
