"""Graphs of networkx, converted to be searched."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ooc_graph.api.in_memory import from_edges
from ooc_graph.errors import InputError
from ooc_graph.networkx_backend.conversion import (
    Arcs,
    arcs_of,
    networkx_graph,
    positions_by_node,
)
from ooc_graph.networkx_backend.node_graph import NodeGraph
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, IntArray


class ConvertedGraph(NodeGraph):
    """A networkx graph, converted. What is searched is made when it is first needed."""

    ids = None

    def __init__(
        self, nodes: AnyArray, index: Mapping[Any, int], arcs: Arcs, *, directed: bool
    ) -> None:
        self._nodes, self._index, self._arcs, self._is_directed = nodes, index, arcs, directed
        self.weight = arcs.attribute

    @cached_property
    def graph(self) -> Graph:
        """The graph in memory; the id of a vertex is its position."""
        source, target, weight = self._arcs.source, self._arcs.target, self._arcs.weight
        if not len(source):
            # No graph is made of no edges, and a self-loop changes no answer.
            source = target = np.zeros(1, np.int64)
            weight = None
        try:
            return from_edges(
                source, target, weight, vertices=len(self), directed=self._is_directed
            )
        except InputError as error:
            raise NotImplementedError(str(error)) from error

    @property
    def nodes(self) -> AnyArray:
        """Nodes by position: (nodes,), objects."""
        return self._nodes

    @cached_property
    def reversed(self) -> NodeGraph:
        """The graph with its arcs the other way round."""
        if not self._is_directed:
            return self
        return ConvertedGraph(self._nodes, self._index, self._arcs.reversed, directed=True)

    @property
    def has_loops(self) -> bool:
        """Whether edges lead from a node to itself."""
        return bool((self._arcs.source == self._arcs.target).any())

    def joined(self, positions: IntArray) -> NodeGraph:
        """The graph with one node more, the last, and edges of weight 0 from it."""
        nodes = np.append(self._nodes, np.array([None]))
        arcs = self._arcs.joined(len(self), positions)
        return ConvertedGraph(nodes, self._index, arcs, directed=self._is_directed)

    def is_directed(self) -> bool:
        """Whether edges have a direction."""
        return self._is_directed

    def find(self, node: Any) -> int | None:
        """Position of a node; None if there is none."""
        try:
            return self._index.get(node)
        except TypeError:
            return None

    def to_networkx(self) -> Any:
        """A networkx graph with the same nodes, edges and weights."""
        columns = [self._nodes[self._arcs.source], self._nodes[self._arcs.target]]
        if self._arcs.weight is not None:
            columns.append(self._arcs.weight)
        return networkx_graph(self._nodes, columns, self.weight, directed=self._is_directed)

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self._nodes)


def converted(graph: Any, attributes: Mapping[str, Any] | None) -> ConvertedGraph:
    """A networkx graph for searches; NotImplementedError if it cannot be searched.

    ``attributes`` has the name of the weights, if they are needed, and their default.
    """
    if not len(graph):
        raise NotImplementedError("the graph has no nodes")
    listed = list(graph)
    nodes = np.fromiter(listed, object, len(listed))
    index = positions_by_node(listed)
    arcs = arcs_of(graph, index, attributes or {})
    return ConvertedGraph(nodes, index, arcs, directed=graph.is_directed())
