"""BFS and SSSP, whose answers are trees; and weakly connected components, which have no root."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ooc_graph.answers.component_columns import ComponentColumns
from ooc_graph.answers.result import BfsResult, ComponentsResult, SsspResult
from ooc_graph.answers.scatter import Ids, Tree, TreeColumns
from ooc_graph.layout.names import PAGERANK, WEIGHTED_PAGERANK, id_dtype
from ooc_graph.model.engine import Engine
from ooc_graph.model.task import SearchTask, Trace, trace_of
from ooc_graph.search import pagerank
from ooc_graph.search.algorithm import Algorithm
from ooc_graph.search.steps import Arrays
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.single import measure_dtype


def start(
    task: SearchTask,
    graph: Graph,
    ranks: dict[int, Any],
    device: Any,
    states: Callable[[int], Any],
) -> tuple[dict[int, Any], Any]:
    """The coroutines of a worker's ranks, which write their ``states``, and what they share."""
    from ooc_graph.traverse.bfs import bfs  # noqa: PLC0415 (one rank does without)
    from ooc_graph.traverse.components import components  # noqa: PLC0415
    from ooc_graph.traverse.sssp import sssp  # noqa: PLC0415

    if task.kernel == "components":
        shared = device.components_shared(graph.rows)
        return {s: components(rank, shared, states(s)) for s, rank in ranks.items()}, shared
    assert task.root is not None
    root = graph.internal(task.root)
    if task.kernel == "bfs":
        shared = device.bfs_shared(graph.rows, graph.shards)
        return {s: bfs(rank, root, shared, states(s)) for s, rank in ranks.items()}, shared
    if task.reserved.messages_bytes:
        from ooc_graph.strategies.owned_lists import most_listed  # noqa: PLC0415
        from ooc_graph.traverse.sssp_owned import sssp_owned  # noqa: PLC0415

        dtype = measure_dtype(graph, task.kernel)
        shared = device.owned_sssp_shared(graph.rows, graph.shards, dtype)
        coroutines: dict[int, Any] = {}
        for s, rank in ranks.items():
            most = most_listed(task.reserved, graph, rank.ranks)
            coroutines[s] = sssp_owned(rank, root, shared, most, states(s))
        return coroutines, shared
    shared = device.sssp_shared(graph.rows, measure_dtype(graph, task.kernel))
    return {s: sssp(rank, root, shared, states(s)) for s, rank in ranks.items()}, shared


def nothing(task: SearchTask, graph: Graph) -> Arrays:
    """Parents and measures of no row: nothing but the root is reached."""
    return np.empty(0, id_dtype(graph.rows)), np.empty(0, measure_dtype(graph, task.kernel))


def columns(task: SearchTask, graph: Graph, arrays: Arrays, ids: Ids) -> TreeColumns:
    """Columns of a tree."""
    assert task.root is not None
    tree = Tree(task.kernel, task.root, graph.position_of(task.root), *arrays)
    return TreeColumns(tree, ids, task.request.within)


def run_search(engine: Engine, root: int) -> tuple[Tree, Trace]:
    """Search a loaded graph from an original id; the tree is valid until the next search."""
    position = engine.graph.position_of(root)
    found = engine.search.run(int(engine.ids.internal_of[position]))
    measure = found.level if engine.kernel == "bfs" else found.distance
    tree = Tree(engine.kernel, root, position, found.parent, measure)
    return tree, trace_of(engine.kernel, found)


def no_labels(_: SearchTask, __: Graph) -> Arrays:
    """Labels of no rows: every vertex is its own component."""
    return (np.empty(0, id_dtype(0)),)


def component_columns(_: SearchTask, __: Graph, arrays: Arrays, ids: Ids) -> ComponentColumns:
    """Columns of labels."""
    (label,) = arrays
    return ComponentColumns(label, ids)


ALGORITHMS = {
    "bfs": Algorithm(BfsResult, start, ("parent", "level"), nothing, columns),
    "sssp": Algorithm(SsspResult, start, ("parent", "distance"), nothing, columns),
    "components": Algorithm(ComponentsResult, start, ("label",), no_labels, component_columns),
    PAGERANK: pagerank.ALGORITHM,
    WEIGHTED_PAGERANK: pagerank.ALGORITHM,
}
"""By kernel."""
