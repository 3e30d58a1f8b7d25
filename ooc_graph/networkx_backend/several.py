"""networkx' functions that search from several nodes at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.networkx_backend.components import sets_by
from ooc_graph.networkx_backend.node_graph import NodeGraph
from ooc_graph.networkx_backend.searches import Measure, nearest
from ooc_graph.networkx_backend.single import NOT_FOUND, lengths_and_paths
from ooc_graph.networkx_backend.trees import Tree


def multi_source_dijkstra(
    graph: NodeGraph,
    sources: Any,
    target: Any = None,
    cutoff: float | None = None,
    weight: str | None = "weight",
) -> tuple[Any, Any]:
    """Distances and paths from the nearest source to all nodes, or to one."""
    found = _found(graph, sources, weight)
    if target in sources:
        return 0, [target]
    return lengths_and_paths(graph, found, target, cutoff)


def multi_source_dijkstra_path(
    graph: NodeGraph, sources: Any, cutoff: float | None = None, weight: str | None = "weight"
) -> dict[Any, list[Any]]:
    """A shortest path from the nearest source to each node that can be reached."""
    return _found(graph, sources, weight).paths(cutoff)


def multi_source_dijkstra_path_length(
    graph: NodeGraph, sources: Any, cutoff: float | None = None, weight: str | None = "weight"
) -> dict[Any, Any]:
    """Distance from the nearest source of each node that can be reached."""
    return _found(graph, sources, weight).lengths(cutoff)


def voronoi_cells(
    graph: NodeGraph, center_nodes: Any, weight: str | None = "weight"
) -> dict[Any, set[Any]]:
    """For each center the nodes that it is the nearest to; others by the key ``unreachable``."""
    found = _found(graph, center_nodes, weight)
    reached = found.reached
    cells = sets_by(graph.nodes[reached], found.origins()[reached])
    answer = dict(zip(graph.nodes[found.sources].tolist(), cells, strict=True))
    if not reached.all():
        answer["unreachable"] = set(graph.nodes[~reached].tolist())
    return answer


def _found(graph: NodeGraph, sources: Any, weight: str | None) -> Tree:
    if not sources:
        raise ValueError("sources must not be empty")
    starts = dict.fromkeys(graph.position(source, NOT_FOUND) for source in sources)
    return nearest(graph, np.array(list(starts)), Measure(weight))
