"""networkx' functions for shortest paths of any kind, by which nodes and weights are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ooc_graph.networkx_backend import all_nodes, single
from ooc_graph.networkx_backend.node_graph import NodeGraph

DIJKSTRA, BELLMAN_FORD = "dijkstra", "bellman-ford"


@dataclass(frozen=True)
class _Functions:
    """Functions between all nodes, from one node, and between two."""

    of_all: Callable[..., Any]
    from_one: Callable[..., Any]
    of_two: Callable[..., Any]

    def call(self, graph: NodeGraph, source: Any, target: Any, weight: str | None) -> Any:
        """What the function for the nodes that are given has; to one node, with arcs reversed."""
        options = {} if weight is None else {"weight": weight}
        if source is None and target is None:
            return self.of_all(graph, **options)
        if source is None:
            return self.from_one(graph.reversed, target, **options)
        if target is None:
            return self.from_one(graph, source, **options)
        return self.of_two(graph, source, target, **options)


_PATHS = {
    None: _Functions(
        all_nodes.all_pairs_shortest_path,
        single.single_source_shortest_path,
        single.bidirectional_shortest_path,
    ),
    DIJKSTRA: _Functions(
        all_nodes.all_pairs_dijkstra_path,
        single.single_source_dijkstra_path,
        lambda graph, source, target, weight: single.bidirectional_dijkstra(
            graph, source, target, weight
        )[1],
    ),
    BELLMAN_FORD: _Functions(
        all_nodes.all_pairs_bellman_ford_path,
        single.single_source_bellman_ford_path,
        single.bellman_ford_path,
    ),
}
_LENGTHS = {
    None: _Functions(
        all_nodes.all_pairs_shortest_path_length,
        single.single_source_shortest_path_length,
        lambda *nodes: len(single.bidirectional_shortest_path(*nodes)) - 1,
    ),
    DIJKSTRA: _Functions(
        all_nodes.all_pairs_dijkstra_path_length,
        single.single_source_dijkstra_path_length,
        single.dijkstra_path_length,
    ),
    BELLMAN_FORD: _Functions(
        all_nodes.all_pairs_bellman_ford_path_length,
        single.single_source_bellman_ford_path_length,
        single.bellman_ford_path_length,
    ),
}


def shortest_path(
    graph: NodeGraph,
    source: Any = None,
    target: Any = None,
    weight: str | None = None,
    method: str = DIJKSTRA,
) -> Any:
    """Shortest paths between two nodes, from one, to one, or between all."""
    found = _PATHS[_kind(weight, method)].call(graph, source, target, weight)
    if source is None and target is not None:
        return {node: path[::-1] for node, path in found.items()}
    return found


def shortest_path_length(
    graph: NodeGraph,
    source: Any = None,
    target: Any = None,
    weight: str | None = None,
    method: str = DIJKSTRA,
) -> Any:
    """Distances between two nodes, from one, to one, or between all."""
    return _LENGTHS[_kind(weight, method)].call(graph, source, target, weight)


def _kind(weight: str | None, method: str) -> str | None:
    if method not in (DIJKSTRA, BELLMAN_FORD):
        raise ValueError(f"method not supported: {method}")
    return None if weight is None else method
