"""networkx' PageRank."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from ooc_graph.api import pagerank as own
from ooc_graph.errors import ConvergenceError
from ooc_graph.model.defaults import ALPHA, MAX_ITER, TOL
from ooc_graph.networkx_backend.node_graph import NodeGraph
from ooc_graph.networkx_backend.searches import Measure, carried_out


def pagerank(
    graph: NodeGraph,
    alpha: float = ALPHA,
    personalization: Any = None,
    max_iter: int = MAX_ITER,
    tol: float = TOL,
    weight: str | None = "weight",
    dangling: Any = None,
) -> dict[Any, float]:
    """Score of each node; PowerIterationFailedConvergence if iterations are not enough."""
    if graph.has_loops:
        raise NotImplementedError("networkx counts self-loops")
    Measure(weight).is_negative(graph)
    jump, landing = _by_id(graph, personalization), _by_id(graph, dangling)
    if jump is not None and sum(jump.values()) == 0:
        raise ZeroDivisionError
    if not range(max_iter):
        raise nx.PowerIterationFailedConvergence(max_iter)
    try:
        found = carried_out(
            lambda: own.pagerank(
                graph.graph,
                alpha=alpha,
                personalization=jump,
                dangling=landing,
                weight=graph.weighs(weight),
                tol=tol,
                max_iter=max_iter,
            )
        )
    except ConvergenceError as error:
        raise nx.PowerIterationFailedConvergence(max_iter) from error
    return dict(zip(graph.nodes.tolist(), found.pagerank.tolist(), strict=True))


def _by_id(graph: NodeGraph, weights: Any) -> dict[int, Any] | None:
    """Weights of nodes by the ids of those that the graph has; None of None."""
    if weights is None:
        return None
    found = {at: weight for node, weight in weights.items() if (at := graph.find(node)) is not None}
    ids = graph.ids_at(np.array(list(found), np.int64))
    return dict(zip(ids.tolist(), found.values(), strict=True))
