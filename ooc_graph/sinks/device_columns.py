"""Answers that stay on the CUDA device: columns by original id as CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Ids, unreached
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.rows import on_device
from ooc_graph.kernels.cuda.runtime.scatter import scatter
from ooc_graph.layout.names import DISTANCE, LEVEL, PARENT, VERTEX
from ooc_graph.model.engine import Engine
from ooc_graph.model.task import SearchTask, Trace, Written
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.single import measure_dtype


def search(engine: Engine, root: int) -> Written:
    """Search a graph that the device holds from an original id; all columns on the device.

    MemoryBudgetError: if the columns do not fit beside the graph.
    """
    internal = int(engine.ids.internal_of[engine.graph.position_of(root)])
    with within_memory("the answer"):
        tree = engine.search.run_on_device(internal)
        parent, measure = _by_original(engine, tree)
        columns = _columns(engine.kernel, engine.ids, parent, measure)
    return Written(Trace(tree.elapsed_s, ()), columns=columns)


def without_arcs(graph: Graph, ids: Ids, task: SearchTask) -> Written:
    """Columns on the device if the root has no arc: nothing but the root is reached."""
    assert task.root is not None
    size, position = len(ids.internal_of), graph.position_of(task.root)
    with within_memory("the answer"):
        dtype = measure_dtype(graph, task.kernel)
        measure = cuda().full(size, unreached(task.kernel, dtype), dtype)
        parent = cuda().full(size, -1, np.int64)
        measure[position], parent[position] = 0, task.root
        columns = _columns(task.kernel, ids, parent, measure)
    return Written(Trace(0.0, ()), columns=columns)


def _columns(kernel: str, ids: Ids, parent: Any, measure: Any) -> dict[str, Any]:
    name = LEVEL if kernel == "bfs" else DISTANCE
    vertex = on_device(ids.original_ids(0, len(parent)))
    return {VERTEX: vertex, PARENT: parent, name: measure}


def _by_original(engine: Engine, tree: Any) -> tuple[Any, Any]:
    """Parents as original ids, and levels or distances, for every vertex."""
    cupy = cuda()
    by_row = tree.level if engine.kernel == "bfs" else tree.distance
    by_vertex, measure = scatter(on_device(engine.ids.internal_of), tree.parent, by_row)
    reached = by_vertex != np.iinfo(by_vertex.dtype).max
    found = by_vertex[reached]
    parent = cupy.full(len(by_vertex), -1, np.int64)
    parent[reached] = found if engine.original_parents else on_device(engine.ids.original_of)[found]
    if engine.kernel == "bfs":
        # Levels of a byte have another value for what is not reached.
        measure = measure.astype(np.int32)
        measure[~reached] = -1
    return parent, measure
