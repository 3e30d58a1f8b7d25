"""Answers that stay on the CUDA device: columns by original id as CuPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ooc_graph.kernels.cuda_modules import cuda, within_memory
from ooc_graph.layout.names import DISTANCE, LEVEL, PARENT, VERTEX
from ooc_graph.session.ways import Course, Written
from ooc_graph.types import INT64_UNREACHED

if TYPE_CHECKING:
    from ooc_graph.session.resident import Searcher


def search(held: Searcher, root: int) -> Written:
    """Search a graph that the device holds from an original id; all columns on the device.

    Raises
    ------
    MemoryBudgetError
        If the columns do not fit beside the graph.
    """
    position = held.graph.position_of(root)
    internal = int(held.ids.internal_of[position])
    with within_memory("the answer"):
        columns = _vertex_columns(held)
        if internal < 0:
            measure = _unreached(held, len(held.ids.internal_of))
            parent = cuda().full(len(measure), -1, np.int64)
            measure[position], parent[position] = 0, root
            elapsed_s = 0.0
        else:
            tree = held.search.run_on_device(internal)
            parent, measure = _by_original(held, tree)
            elapsed_s = tree.elapsed_s
    columns[PARENT], columns[_name(held)] = parent, measure
    return Written(Course(elapsed_s, ()), columns=columns)


def _name(held: Searcher) -> str:
    return LEVEL if held.kernel == "bfs" else DISTANCE


def _vertex_columns(held: Searcher) -> dict[str, Any]:
    size = len(held.ids.internal_of)
    if held.ids.originals is not None:
        return {VERTEX: cuda().asarray(held.ids.originals)}
    return {VERTEX: cuda().arange(size, dtype=np.int64) + (held.ids.first or 0)}


def _unreached(held: Searcher, size: int) -> Any:
    """Measures of vertices that were not reached."""
    cupy = cuda()
    if held.kernel == "bfs":
        return cupy.full(size, -1, np.int32)
    dtype = held.graph.weight_dtype
    if dtype is not None and dtype.kind == "f":
        return cupy.full(size, np.inf, dtype)
    return cupy.full(size, INT64_UNREACHED, np.int64)


def _by_original(held: Searcher, tree: Any) -> tuple[Any, Any]:
    """Parents as original ids, and levels or distances, for every vertex."""
    cupy = cuda()
    internal_of = cupy.asarray(held.ids.internal_of)
    has_row = internal_of >= 0
    rows = internal_of[has_row]
    found = tree.parent[rows]
    reached = found != np.iinfo(found.dtype).max
    parents = found[reached]
    mine = cupy.full(len(rows), -1, np.int64)
    mine[reached] = parents if held.named else cupy.asarray(held.ids.original_of)[parents]
    parent = cupy.full(len(internal_of), -1, np.int64)
    parent[has_row] = mine
    measure = _unreached(held, len(internal_of))
    by_row = tree.level if held.kernel == "bfs" else tree.distance
    # Levels of a byte have another value for what is not reached.
    kept = _unreached(held, len(rows))
    kept[reached] = by_row[rows][reached].astype(kept.dtype)
    measure[has_row] = kept
    return parent, measure
