"""networkx' functions that search from all nodes, or between any two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import numpy as np

from ooc_graph.garbage import uncollected
from ooc_graph.networkx_backend import single
from ooc_graph.networkx_backend.node_graph import NodeGraph
from ooc_graph.networkx_backend.searches import HOPS, Measure, last_level, trees
from ooc_graph.networkx_backend.trees import Tree

Found = Iterator[tuple[Any, Any]]


def _all_trees(graph: NodeGraph, measure: Measure, *, parents: bool = False) -> Iterator[Tree]:
    return trees(graph, np.arange(len(graph)), measure, parents=parents)


def _of_each(
    graph: NodeGraph, measure: Measure, what: Callable[[Tree], Any], *, parents: bool = False
) -> Found:
    found = _all_trees(graph, measure, parents=parents)

    def answers() -> Found:
        for one in found:
            with uncollected():
                answer = what(one)
            yield graph.node_at(one.source), answer

    return answers()


def all_pairs_shortest_path_length(graph: NodeGraph, cutoff: float | None = None) -> Found:
    """Each node, and the number of edges from it to each that it reaches."""
    return _of_each(graph, HOPS, lambda one: one.lengths(last_level(cutoff)))


def all_pairs_shortest_path(graph: NodeGraph, cutoff: float | None = None) -> Found:
    """Each node, and a path of the fewest edges from it to each that it reaches."""
    return _of_each(graph, HOPS, lambda one: one.paths(last_level(cutoff)), parents=True)


def all_pairs_dijkstra_path_length(
    graph: NodeGraph, cutoff: float | None = None, weight: str | None = "weight"
) -> Found:
    """Each node, and the distance from it to each that it reaches."""
    return _of_each(graph, Measure(weight), lambda one: one.lengths(cutoff))


def all_pairs_dijkstra_path(
    graph: NodeGraph, cutoff: float | None = None, weight: str | None = "weight"
) -> Found:
    """Each node, and a shortest path from it to each that it reaches."""
    return _of_each(graph, Measure(weight), lambda one: one.paths(cutoff), parents=True)


def all_pairs_dijkstra(
    graph: NodeGraph, cutoff: float | None = None, weight: str | None = "weight"
) -> Found:
    """Each node, and distances and paths from it."""
    return _of_each(
        graph,
        Measure(weight),
        lambda one: (one.lengths(cutoff), one.paths(cutoff)),
        parents=True,
    )


def all_pairs_bellman_ford_path_length(graph: NodeGraph, weight: str | None = "weight") -> Found:
    """Each node, and the distance from it to each that it reaches, by weights of any sign."""
    return _of_each(graph, single.signed(weight), Tree.lengths)


def all_pairs_bellman_ford_path(graph: NodeGraph, weight: str | None = "weight") -> Found:
    """Each node, and a shortest path from it to each, by weights of any sign."""
    return _of_each(graph, single.signed(weight, exact=False), Tree.paths, parents=True)


def johnson(graph: NodeGraph, weight: str | None = "weight") -> dict[Any, dict[Any, list[Any]]]:
    """For each node a shortest path to each that it reaches, by weights of any sign."""
    return dict(_of_each(graph, single.signed(weight, exact=False), Tree.paths, parents=True))


def floyd_warshall(graph: NodeGraph, weight: str | None = "weight") -> dict[Any, dict[Any, Any]]:
    """Distance from each node to each, infinite if there is no path."""
    return {graph.node_at(one.source): _row(one) for one in _bounded_trees(graph, weight)}


def floyd_warshall_predecessor_and_distance(
    graph: NodeGraph, weight: str | None = "weight"
) -> tuple[dict[Any, dict[Any, Any]], dict[Any, dict[Any, Any]]]:
    """Predecessors on shortest paths from each node to each, and the distances."""
    if graph.has_loops:
        raise NotImplementedError("networkx has nodes with self-loops as their own predecessors")
    predecessors, distances = {}, {}
    for one in _bounded_trees(graph, weight, parents=True):
        node = graph.node_at(one.source)
        distances[node] = _row(one)
        if before := one.predecessors():
            predecessors[node] = before
    return predecessors, distances


def _row(found: Tree) -> dict[Any, Any]:
    distances = np.where(found.reached, found.distances.astype(object), np.inf)
    distances[found.source] = 0
    return dict(zip(found.graph.nodes.tolist(), distances.tolist(), strict=True))


def floyd_warshall_numpy(
    graph: NodeGraph, nodelist: list[Any] | None = None, weight: str | None = "weight"
) -> Any:
    """Distance from each node to each, infinite if there is no path: float64 (nodes, nodes)."""
    rows = _bounded_trees(graph, weight)
    matrix = np.array([np.where(one.reached, one.distances, np.inf) for one in rows], np.float64)
    if nodelist is None:
        return matrix
    order = [position for node in nodelist if (position := graph.find(node)) is not None]
    if not len(nodelist) == len(graph) == len(set(order)):
        raise nx.NetworkXError(
            "nodelist must contain every node in G with no repeats."
            "If you wanted a subgraph of G use G.subgraph(nodelist)"
        )
    return matrix[order][:, order]


def _bounded_trees(
    graph: NodeGraph, weight: str | None, *, parents: bool = False
) -> Iterator[Tree]:
    try:
        return _all_trees(graph, single.signed(weight), parents=parents)
    except nx.NetworkXUnbounded as error:
        # What networkx gives then depends on the order of its loops.
        raise NotImplementedError("a cycle is negative") from error
