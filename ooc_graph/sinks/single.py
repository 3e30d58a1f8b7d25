"""Where the answer of one search goes: into a store, or to columns in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.answers.late import LateColumns, late_columns
from ooc_graph.answers.narrow import narrowed
from ooc_graph.answers.scatter import Columns, parent_id_dtype, tree_dtypes
from ooc_graph.answers.unread import Described, Kept, OnOne, Unread
from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import FROM_ONE
from ooc_graph.layout.stored import Stored
from ooc_graph.model.request import Request
from ooc_graph.model.task import Trace, Written
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray

NUMPY, CUPY, DASK = "numpy", "cupy", "dask"
"""Where an answer that is not written lies: in host memory, on the CUDA device, or on a worker."""


def measure_dtype(graph: Graph, kernel: str) -> np.dtype[Any]:
    """Type of levels, or of distances."""
    if kernel == "bfs":
        return np.dtype(np.int32)
    return distances_of(graph.weight_dtype)


def tree_specs(graph: Graph, kernel: str) -> dict[str, ArraySpec]:
    """The columns of a tree by name."""
    dtypes = tree_dtypes(kernel, measure_dtype(graph, kernel))
    return {name: ArraySpec(name, graph.vertices, dtype) for name, dtype in dtypes.items()}


def answer_bytes(graph: Graph, kernel: str, arrays: str) -> int:
    """Host memory of an answer that is not written: vertices, parents, and levels or distances.

    While parents are put in order, there are also those by row. Components and PageRank have one
    column besides the vertices. If the answer stays on a device, it is the vertices alone, on their
    way there.
    """
    if arrays == CUPY:
        return graph.vertices * 8
    if kernel not in FROM_ONE:
        return graph.vertices * 16
    # The largest id of those with gaps is not known before they are read.
    first = np.iinfo(np.int64).max if graph.first_id is None else graph.first_id
    by_row = graph.rows * parent_id_dtype(first + graph.vertices).itemsize
    return graph.vertices * (16 + measure_dtype(graph, kernel).itemsize) + by_row


def deliver(
    columns: Columns, folder: str | None, trace: Trace, like: Stored | None = None
) -> Written:
    """The answer by original id: in a partial store, or as columns if there is none.

    ``like`` is an answer of the same graph on the same disk, if there is one (`Columns.write`).
    Those of a Dask worker's task are ready to travel.
    """
    begun = perf_counter()
    if folder is None:
        threads = process.thread_count()
        arrays: Mapping[str, AnyArray]
        if process.dask_worker() is None:
            arrays = columns.in_memory(threads)
        else:
            arrays = LateColumns(narrowed(columns, threads), threads)
        written = _said(columns, Written(trace, columns=arrays))
    else:
        specs, entries = columns.write(Path(folder), like)
        written = Written(trace, tuple(specs), tuple(entries), attributes=columns.attributes)
    return replace(written, order_s=perf_counter() - begun)


def deliver_late(columns: Columns, trace: Trace) -> tuple[Written, LateColumns]:
    """The answer as columns that are put in order when they are read, or settled."""
    late = LateColumns(columns, process.thread_count())
    return _said(columns, Written(trace, columns=late)), late


def _said(columns: Columns, written: Written) -> Written:
    return replace(written, attributes=columns.attributes, others=columns.others)


def spare_bytes(graph: Graph, request: Request) -> int:
    """What a search on a worker has reserved for its answer beyond what the answer takes there.

    See `answer_bytes`: columns are reserved as they are read, and are kept with narrow ids.
    """
    given_bytes = answer_bytes(graph, request.kernel, NUMPY) - request.answer_bytes
    is_dense = graph.first_id is not None
    largest = (graph.first_id or 0) + graph.vertices if is_dense else np.iinfo(np.int64).max
    saved = 8 - parent_id_dtype(largest).itemsize
    return max(0, graph.vertices * (saved + (8 if is_dense else saved)) - given_bytes)


def describe(key: str, dask_worker: Any) -> tuple[Written, Described] | None:
    """What a worker keeps of a search, without its columns; None if they are not narrow.

    For the worker's event loop, which is asked while its threads search.
    """
    written = dask_worker.data.get(key)
    columns = None if written is None else written.columns
    narrow = columns.narrow if isinstance(columns, LateColumns) else None
    if narrow is None:
        return None
    facts = narrow.size, narrow.dtypes, narrow.ids.first, narrow.nbytes, written.attributes
    return replace(written, columns=None), Described(*facts)


def left_there(
    said: tuple[Written, Described], graph: Graph, cluster: Any, there: tuple[Any, str]
) -> Written:
    """An answer of which `describe` said this; ``there`` are Dask's future and its worker."""
    written, described = said
    sizes = [described.nbytes]
    return replace(
        written, columns=unread_columns(described, graph, OnOne(), cluster, [there], sizes)
    )


def unread_columns(
    described: Described,
    graph: Graph,
    kept: Kept,
    cluster: Any,
    there: Sequence[tuple[Any, str]],
    sizes: Sequence[int],
) -> LateColumns:
    """Columns that are on workers; ``there`` and ``sizes`` are of their parts (`Left`)."""
    from ooc_graph.exchange.left import Left  # noqa: PLC0415 (imports Dask)

    left = Left(cluster, there, sizes, kept.narrow)
    return late_columns(Unread(described, graph.content_sha256, kept, left))
