"""networkx' functions that search from one node."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from ooc_graph.networkx_backend.node_graph import NodeGraph
from ooc_graph.networkx_backend.searches import Measure, has_negative_cycle, last_level, tree
from ooc_graph.networkx_backend.trees import Tree

# networkx words a missing node differently from function to function.
_NOT_IN_G = "Source {} is not in G"
NOT_FOUND = "Node {} not found in graph"
_IS_NOT_FOUND = "Node {} is not found in the graph"
_SOURCE_NOT_IN = "Source {} not in G"


def signed(weight: str | None, *, exact: bool = True) -> Measure:
    """Distances by weights of any sign."""
    return Measure(weight, signed=True, exact=exact)


def path_between(graph: NodeGraph, found: Tree, target: Any, message: str) -> list[Any]:
    """Path to a node; NetworkXNoPath with a message if there is none."""
    position = graph.find(target)
    path = None if position is None else found.path(position)
    if path is None:
        raise nx.NetworkXNoPath(message)
    return path


def length_to(graph: NodeGraph, found: Tree, target: Any, message: str) -> Any:
    """Distance of a node; NetworkXNoPath with a message, as `path_between`."""
    position = graph.find(target)
    length = None if position is None else found.length(position)
    if length is None:
        raise nx.NetworkXNoPath(message)
    return length


def single_source_shortest_path_length(
    graph: NodeGraph, source: Any, cutoff: float | None = None
) -> dict[Any, int]:
    """Number of edges to each node that can be reached."""
    return tree(graph, graph.position(source, _NOT_IN_G)).lengths(last_level(cutoff))


def single_target_shortest_path_length(
    graph: NodeGraph, target: Any, cutoff: float | None = None
) -> dict[Any, int]:
    """Number of edges from each node that leads to the target."""
    position = graph.position(target, "Target {} is not in G")
    return tree(graph.reversed, position).lengths(last_level(cutoff))


def single_source_shortest_path(
    graph: NodeGraph, source: Any, cutoff: float | None = None
) -> dict[Any, list[Any]]:
    """A path of the fewest edges to each node that can be reached."""
    return tree(graph, graph.position(source, _SOURCE_NOT_IN)).paths(last_level(cutoff))


def single_target_shortest_path(
    graph: NodeGraph, target: Any, cutoff: float | None = None
) -> dict[Any, list[Any]]:
    """A path of the fewest edges from each node that leads to the target."""
    position = graph.position(target, "Target {} not in G")
    return tree(graph.reversed, position).paths(last_level(cutoff), backward=True)


def bidirectional_shortest_path(graph: NodeGraph, source: Any, target: Any) -> list[Any]:
    """A path of the fewest edges between two nodes."""
    start = graph.position(source, _NOT_IN_G)
    graph.position(target, "Target {} is not in G")
    message = f"No path between {source} and {target}."
    return path_between(graph, tree(graph, start), target, message)


def has_path(graph: NodeGraph, source: Any, target: Any) -> bool:
    """Whether a path leads from one node to another."""
    start = graph.position(source, _NOT_IN_G)
    end = graph.position(target, "Target {} is not in G")
    return bool(tree(graph, start).reached[end])


def descendants_at_distance(graph: NodeGraph, source: Any, distance: float) -> set[Any]:
    """Nodes that are so many edges away."""
    start = graph.find(source)
    if start is None:
        raise nx.NetworkXError(f"The node {source} is not in the graph.")
    found = tree(graph, start)
    return set(graph.nodes[np.flatnonzero(found.reached & (found.distances == distance))].tolist())


def single_source_dijkstra(
    graph: NodeGraph,
    source: Any,
    target: Any = None,
    cutoff: float | None = None,
    weight: str | None = "weight",
) -> tuple[Any, Any]:
    """Distances and paths to all nodes, or to one."""
    start = graph.position(source, NOT_FOUND)
    if target is not None and graph.find(target) == start:
        return 0, [target]
    return lengths_and_paths(graph, tree(graph, start, Measure(weight)), target, cutoff)


def lengths_and_paths(
    graph: NodeGraph, found: Tree, target: Any, cutoff: float | None
) -> tuple[Any, Any]:
    """Distances and paths to all nodes, or to one; NetworkXNoPath if it is not reached."""
    if target is None:
        return found.lengths(cutoff), found.paths(cutoff)
    message = f"No path to {target}."
    length = length_to(graph, found, target, message)
    if cutoff is not None and length > cutoff:
        raise nx.NetworkXNoPath(message)
    return length, path_between(graph, found, target, message)


def single_source_dijkstra_path_length(
    graph: NodeGraph, source: Any, cutoff: float | None = None, weight: str | None = "weight"
) -> dict[Any, Any]:
    """Distance of each node that can be reached."""
    return tree(graph, graph.position(source, NOT_FOUND), Measure(weight)).lengths(cutoff)


def single_source_dijkstra_path(
    graph: NodeGraph, source: Any, cutoff: float | None = None, weight: str | None = "weight"
) -> dict[Any, list[Any]]:
    """A shortest path to each node that can be reached."""
    return tree(graph, graph.position(source, NOT_FOUND), Measure(weight)).paths(cutoff)


def dijkstra_path(
    graph: NodeGraph, source: Any, target: Any, weight: str | None = "weight"
) -> list[Any]:
    """A shortest path between two nodes."""
    path: list[Any] = single_source_dijkstra(graph, source, target, weight=weight)[1]
    return path


def dijkstra_path_length(
    graph: NodeGraph, source: Any, target: Any, weight: str | None = "weight"
) -> Any:
    """Distance between two nodes."""
    found = tree(graph, graph.position(source, NOT_FOUND), Measure(weight))
    return length_to(graph, found, target, f"Node {target} not reachable from {source}")


def bidirectional_dijkstra(
    graph: NodeGraph, source: Any, target: Any, weight: str | None = "weight"
) -> tuple[Any, list[Any]]:
    """Distance and a shortest path between two nodes."""
    start = graph.position(source, _NOT_IN_G)
    graph.position(target, "Target {} is not in G")
    found = tree(graph, start, Measure(weight))
    message = f"No path between {source} and {target}."
    return length_to(graph, found, target, message), path_between(graph, found, target, message)


def single_source_bellman_ford(
    graph: NodeGraph, source: Any, target: Any = None, weight: str | None = "weight"
) -> tuple[Any, Any]:
    """Distances and paths to all nodes, or to one, by weights of any sign."""
    if target is not None and source == target:
        graph.position(source, _IS_NOT_FOUND)
        return 0, [source]
    found = tree(graph, graph.position(source, _SOURCE_NOT_IN), signed(weight))
    if target is None:
        return found.lengths(), found.paths()
    message = f"Target {target} cannot be reached from given sources"
    return length_to(graph, found, target, message), path_between(graph, found, target, message)


def single_source_bellman_ford_path_length(
    graph: NodeGraph, source: Any, weight: str | None = "weight"
) -> dict[Any, Any]:
    """Distance of each node that can be reached, by weights of any sign."""
    return tree(graph, graph.position(source, _SOURCE_NOT_IN), signed(weight)).lengths()


def single_source_bellman_ford_path(
    graph: NodeGraph, source: Any, weight: str | None = "weight"
) -> dict[Any, list[Any]]:
    """A shortest path to each node that can be reached, by weights of any sign."""
    measure = signed(weight, exact=False)
    return tree(graph, graph.position(source, _SOURCE_NOT_IN), measure).paths()


def bellman_ford_path(
    graph: NodeGraph, source: Any, target: Any, weight: str | None = "weight"
) -> list[Any]:
    """A shortest path between two nodes, by weights of any sign."""
    path: list[Any] = single_source_bellman_ford(graph, source, target, weight)[1]
    return path


def bellman_ford_path_length(
    graph: NodeGraph, source: Any, target: Any, weight: str | None = "weight"
) -> Any:
    """Distance between two nodes, by weights of any sign."""
    if source == target:
        graph.position(source, NOT_FOUND)
        return 0
    found = tree(graph, graph.position(source, _SOURCE_NOT_IN), signed(weight))
    return length_to(graph, found, target, f"node {target} not reachable from {source}")


def goldberg_radzik(
    graph: NodeGraph, source: Any, weight: str | None = "weight"
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Predecessor on a shortest path, and distance, of each node that can be reached."""
    found = tree(graph, graph.position(source, _IS_NOT_FOUND), signed(weight))
    return {source: None, **found.predecessors()}, found.lengths()


def negative_edge_cycle(graph: NodeGraph, weight: str | None = "weight") -> bool:
    """Whether the weights of some cycle sum to less than 0."""
    return has_negative_cycle(graph, weight)
