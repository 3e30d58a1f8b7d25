"""Answers that stay on the CUDA device: columns by original id as CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Ids, unreached
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.rows import on_device
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
        by_row = tree.level if engine.kernel == "bfs" else tree.distance
        names = None if engine.original_parents else on_device(engine.ids.original_of)
        parent, measure = engine.order.wide_columns(tree.parent, by_row, names)
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
    if ids.originals is None:
        first = ids.first or 0
        vertex = cuda().arange(first, first + len(parent), dtype=np.int64)
    else:
        vertex = on_device(ids.originals)
    return {VERTEX: vertex, PARENT: parent, name: measure}
