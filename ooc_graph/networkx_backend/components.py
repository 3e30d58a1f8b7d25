"""networkx' functions on connected components, and on weakly connected ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ooc_graph.answers.result import ComponentsResult
from ooc_graph.api.components import components
from ooc_graph.networkx_backend.node_graph import NodeGraph
from ooc_graph.networkx_backend.searches import tree
from ooc_graph.types import AnyArray, IntArray


def connected_components(graph: NodeGraph) -> Iterator[set[Any]]:
    """Nodes of each component, in the order of its first node."""
    # A component is named by its first node. Whoever asks for components wants them all, and the
    # garbage collector is off only now.
    return iter(sets_by(graph.nodes, _found(graph).component))


def sets_by(nodes: AnyArray, names: IntArray) -> list[set[Any]]:
    """Nodes of each name, by names ascending."""
    order = np.argsort(names, kind="stable")
    bounds = np.flatnonzero(np.diff(names[order], prepend=-1, append=-1))
    listed, sets, done = nodes[order].tolist(), list[set[Any]](), 0
    for large in np.flatnonzero(np.diff(bounds) > 1):
        begin, end = bounds[large : large + 2].tolist()
        # Most are of one node, often.
        sets += [{node} for node in listed[done:begin]]
        sets.append(set(listed[begin:end]))
        done = end
    sets += [{node} for node in listed[done:]]
    return sets


def number_connected_components(graph: NodeGraph) -> int:
    """How many components there are."""
    return _found(graph).count


def is_connected(graph: NodeGraph) -> bool:
    """Whether there is one component."""
    return _found(graph).count == 1


def node_connected_component(graph: NodeGraph, n: Any) -> set[Any]:
    """Nodes of a node's component."""
    found = graph.find(n)
    if found is None:
        raise KeyError(n)
    return set(graph.nodes[tree(graph, found).reached].tolist())


weakly_connected_components = connected_components
number_weakly_connected_components = number_connected_components
is_weakly_connected = is_connected


def _found(graph: NodeGraph) -> ComponentsResult:
    return components(graph.graph)
