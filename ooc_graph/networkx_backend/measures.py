"""networkx' distance measures and centralities that follow from distances between all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import networkx as nx
import numpy as np

from ooc_graph.networkx_backend.node_graph import NodeGraph
from ooc_graph.networkx_backend.searches import Measure, reduced, tree, trees
from ooc_graph.types import AnyArray, IntArray


def eccentricity(graph: NodeGraph, v: Any = None, *, weight: str | None = None) -> Any:
    """Largest distance of all nodes, some or one; NetworkXError if some are not reached."""
    found = _chosen(graph, v)
    if not len(found):
        return {}
    farthest = _eccentricities(graph, found, Measure(weight)).tolist()
    if v is not None and graph.find(v) is not None:
        return farthest[0]
    return dict(zip(graph.nodes[found].tolist(), farthest, strict=True))


def _eccentricities(graph: NodeGraph, sources: Any, measure: Measure) -> AnyArray:
    # As in `_sums`.
    measure.is_negative(graph)
    # A graph that is not connected shows it at once, most often.
    reached = np.array([np.count_nonzero(tree(graph, int(sources[0])).reached)])
    if reached[0] == len(graph):
        farthest, reached = reduced(graph, sources, measure, "eccentricity")
    if (reached < len(graph)).any():
        kind = (
            "digraph is not strongly connected" if graph.is_directed() else "graph is not connected"
        )
        raise nx.NetworkXError(f"Found infinite path length because the {kind}")
    return farthest


def diameter(graph: NodeGraph, *, weight: str | None = None) -> Any:
    """Largest eccentricity."""
    return max(eccentricity(graph, weight=weight).values())


def radius(graph: NodeGraph, *, weight: str | None = None) -> Any:
    """Smallest eccentricity."""
    return min(eccentricity(graph, weight=weight).values())


def periphery(graph: NodeGraph, *, weight: str | None = None) -> list[Any]:
    """Nodes of the largest eccentricity."""
    found = eccentricity(graph, weight=weight)
    largest = max(found.values())
    return [node for node, own in found.items() if own == largest]


def center(graph: NodeGraph, *, weight: str | None = None) -> list[Any]:
    """Nodes of the smallest eccentricity."""
    found = eccentricity(graph, weight=weight)
    smallest = min(found.values())
    return [node for node, own in found.items() if own == smallest]


def average_shortest_path_length(
    graph: NodeGraph, weight: str | None = None, method: str | None = None
) -> float:
    """Mean distance between two nodes; NetworkXError if some are not reached."""
    if method is None:
        method = "unweighted" if weight is None else "dijkstra"
    if method not in _METHODS:
        raise ValueError(f"method not supported: {method}")
    count = len(graph)
    if count == 1:
        return 0
    measure = Measure(None if method == "unweighted" else weight, signed=method == "bellman-ford")
    sums = _sums(graph, measure)
    if sums is None:
        strongly = "strongly " if graph.is_directed() else ""
        raise nx.NetworkXError(f"Graph is not {strongly}connected.")
    return sum(sums.tolist()) / (count * (count - 1))  # type: ignore[no-any-return]


_METHODS = ("unweighted", "dijkstra", "bellman-ford", "floyd-warshall", "floyd-warshall-numpy")


def _sums(graph: NodeGraph, measure: Measure) -> AnyArray | None:
    """Sum of the distances from each node; None if some are not reached."""
    # networkx may come upon negative weights before it finds that a node is not reached.
    measure.is_negative(graph)
    # A graph that is not connected shows it at once, most often.
    if not tree(graph, 0).reached.all():
        return None
    sums, reached = reduced(graph, np.arange(len(graph)), measure, "sum")
    return sums if (reached == len(graph)).all() else None


def barycenter(graph: NodeGraph, weight: str | None = None) -> list[Any]:
    """Nodes of the smallest sum of distances; NetworkXNoPath if some are not reached."""
    if weight is None and not graph.is_directed() and graph.graph.arcs == 2 * (len(graph) - 1):
        raise NotImplementedError("of a tree networkx finds the centroid, without distances")
    measure = Measure(weight)
    sums = _sums(graph, measure)
    if sums is None:
        raise nx.NetworkXNoPath(
            "Input graph is disconnected, so every induced subgraph has infinite barycentricity."
        )
    if sums.dtype.kind != "f":
        return graph.nodes[sums == sums.min()].tolist()  # type: ignore[no-any-return]
    # Which of equal sums are rounded to the smallest depends on the order: networkx adds the
    # distances ascending.
    near = np.flatnonzero(sums <= sums.min() * (1 + _ROUNDED))
    exact = [sum(np.sort(one.distances).tolist()) for one in trees(graph, near, measure)]
    return graph.nodes[near[np.array(exact) == min(exact)]].tolist()  # type: ignore[no-any-return]


_ROUNDED = 1e-9
"""By so much, relatively, sums may differ that are added in other orders."""


def closeness_centrality(
    graph: NodeGraph, u: Any = None, distance: str | None = None, wf_improved: bool = True
) -> Any:
    """Nodes that reach a node, by the sum of their distances: of one node or of all."""
    graph, measure = graph.reversed, Measure(distance)
    if u is not None:
        message = "Source {} is not in G" if distance is None else "Node {} not found in graph"
        lengths = tree(graph, graph.position(u, message), measure).lengths()
        return _closeness(sum(lengths.values()), len(lengths), len(graph), wf_improved)
    sums, reached = reduced(graph, np.arange(len(graph)), measure, "sum")
    found = zip(graph.nodes.tolist(), sums.tolist(), reached.tolist(), strict=True)
    return {node: _closeness(total, reach, len(graph), wf_improved) for node, total, reach in found}


def _closeness(total: float, reached: int, count: int, wf_improved: bool) -> float:
    if not (total > 0.0 and count > 1):
        return 0.0
    closeness = (reached - 1.0) / total
    return closeness * ((reached - 1.0) / (count - 1)) if wf_improved else closeness


def harmonic_centrality(
    graph: NodeGraph, nbunch: Any = None, distance: str | None = None, sources: Any = None
) -> dict[Any, Any]:
    """Sum of the reciprocals of the distances of each node from all others, or from some."""
    wanted, starts = _chosen(graph, nbunch), _chosen(graph, sources)
    backward = len(wanted) < len(starts)
    if backward:
        graph, starts, wanted = graph.reversed, wanted, starts
    sums: AnyArray = np.zeros(len(starts) if backward else len(wanted))
    found = trees(graph, starts, Measure(distance)) if len(starts) else ()
    for row, one in enumerate(found):
        far = one.distances[wanted]
        near = one.reached[wanted] & (far != 0)
        reciprocals = np.divide(1.0, far, out=np.zeros(len(far)), where=near)
        if backward:
            sums[row] = reciprocals.sum()
        else:
            sums += reciprocals
    nodes = graph.nodes[starts if backward else wanted].tolist()
    # Where networkx adds nothing, it has the integer 0.
    return dict(zip(nodes, (total or 0 for total in sums.tolist()), strict=True))


def _chosen(graph: NodeGraph, nodes: Any) -> IntArray:
    """Positions of some nodes, as networkx' ``nbunch`` has them: all, one, or those it has."""
    if nodes is None:
        return np.arange(len(graph))
    single = graph.find(nodes)
    if single is not None:
        return np.array([single])
    if not isinstance(nodes, Iterable):
        raise nx.NetworkXError(f"Node {nodes} is not in the graph.")
    found: Iterator[int | None] = map(graph.find, nodes)
    return np.array(list(dict.fromkeys(one for one in found if one is not None)), np.int64)
