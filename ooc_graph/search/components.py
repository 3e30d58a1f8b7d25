"""Weakly connected components, which have no root."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ooc_graph.answers.component_columns import ComponentColumns
from ooc_graph.answers.result import ComponentsResult
from ooc_graph.answers.scatter import Ids
from ooc_graph.layout.names import id_dtype
from ooc_graph.model.task import SearchTask
from ooc_graph.search.algorithm import Algorithm, Arrays, steps_of
from ooc_graph.shards.load import Graph


def start(
    task: SearchTask,  # noqa: ARG001
    graph: Graph,
    ranks: dict[int, Any],
    device: Any,
) -> tuple[dict[int, Any], Any]:
    """The coroutines of a worker's ranks, and what they share."""
    from ooc_graph.traverse.components import components  # noqa: PLC0415 (one rank does without)

    shared = device.components_shared(graph.rows)
    return {shard: components(rank, shared) for shard, rank in ranks.items()}, shared


def nothing(task: SearchTask, graph: Graph) -> Arrays:  # noqa: ARG001
    """Labels of no rows: every vertex is its own component."""
    return (np.empty(0, id_dtype(0)),)


def columns(
    task: SearchTask,  # noqa: ARG001
    graph: Graph,  # noqa: ARG001
    arrays: Arrays,
    ids: Ids,
) -> ComponentColumns:
    """Columns of labels."""
    (label,) = arrays
    return ComponentColumns(label, ids)


components_rank = partial(steps_of, "components")
COMPONENTS = Algorithm(ComponentsResult, components_rank, start, ("label",), nothing, columns)
