"""Graphs to search whose vertices stand for networkx' nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.networkx_backend.conversion import networkx_graph
from ooc_graph.networkx_backend.info import NAME
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, IntArray

WEIGHT = "weight"
"""Attribute that the weights of a `Graph` are for networkx."""


class NodeGraph(ABC):
    """A graph, and its nodes in networkx' order; positions count from 0 in that order.

    ``weight`` names the attribute that the weights are; None: all edges weigh 1.
    """

    __networkx_backend__: ClassVar[str] = NAME
    weight: str | None

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """What is searched."""

    @property
    @abstractmethod
    def nodes(self) -> AnyArray:
        """Nodes by position: (nodes,), objects or integers."""

    @property
    @abstractmethod
    def ids(self) -> IntArray | None:
        """Original id in ``graph`` of each position, ascending; None: the position."""

    @property
    @abstractmethod
    def reversed(self) -> NodeGraph:
        """The graph with its arcs the other way round; NotImplementedError if it is not made."""

    @property
    @abstractmethod
    def has_loops(self) -> bool:
        """Whether edges lead from a node to itself, as far as they are kept."""

    @abstractmethod
    def joined(self, positions: IntArray) -> NodeGraph | None:
        """The graph with one node more, and edges of weight 0 from it; None if it is not made."""

    @abstractmethod
    def is_directed(self) -> bool:
        """Whether edges have a direction."""

    @abstractmethod
    def find(self, node: Any) -> int | None:
        """Position of a node; None if there is none."""

    @abstractmethod
    def to_networkx(self) -> Any:
        """A networkx graph with the same nodes, edges and weights."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of nodes."""

    def is_multigraph(self) -> bool:
        """Never: of parallel edges the lightest is kept."""
        return False

    def weighs(self, attribute: str | None) -> bool:
        """Whether distances by an attribute differ from numbers of edges."""
        return attribute is not None and attribute == self.weight

    def position(self, node: Any, message: str) -> int:
        """Position of a node; NodeNotFound with a message, in which {} is the node."""
        found = self.find(node)
        if found is None:
            raise nx.NodeNotFound(message.format(node))
        return found

    def node_at(self, position: int) -> Any:
        """The node at a position, as networkx has it."""
        return self.nodes[position : position + 1].tolist()[0]

    def ids_at(self, positions: IntArray) -> IntArray:
        """Original ids, in ``graph``, of positions."""
        return positions if self.ids is None else self.ids[positions]

    def positions_at(self, ids: IntArray) -> IntArray:
        """Positions of original ids; what is below 0 stays so."""
        return ids if self.ids is None else np.where(ids < 0, ids, np.searchsorted(self.ids, ids))


class OwnGraph(NodeGraph):
    """A built graph, or one of `from_edges`, whose nodes are its original ids."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.weight = WEIGHT if graph.weighted else None

    @property
    def graph(self) -> Graph:
        """The graph itself."""
        return self._graph

    @cached_property
    def nodes(self) -> AnyArray:
        """Original ids, ascending: int64 (nodes,)."""
        return self.graph.original_ids()

    @cached_property
    def ids(self) -> IntArray | None:
        """Original id of each position, ascending; None: the position."""
        return None if self.graph.first_id == 0 else self.nodes

    @property
    def reversed(self) -> NodeGraph:
        """The graph itself; NotImplementedError if it is directed."""
        if self.is_directed():
            raise NotImplementedError("a directed graph of ooc_graph is searched along its arcs")
        return self

    @property
    def has_loops(self) -> bool:
        """They are not kept."""
        return False

    def joined(self, positions: IntArray) -> NodeGraph | None:  # noqa: ARG002
        """None: what is stored is not changed."""
        return None

    def is_directed(self) -> bool:
        """Whether edges have a direction."""
        return self.graph.directed

    def find(self, node: Any) -> int | None:
        """Position of a node; None if there is none."""
        if not isinstance(node, (int, np.integer)):
            return None
        try:
            return self.graph.position_of(int(node))
        except InputError:
            return None

    def to_networkx(self) -> Any:
        """A networkx graph with the same nodes, edges and weights; without self-loops."""
        light = self.weight is not None
        shard = self.graph.load("light" if light else "hub", signed=True)
        rows = shard.out_light if light else shard.out_hub
        assert rows is not None
        ids = self.graph.original_of()
        source = np.repeat(ids, (rows.offsets[1:] - rows.offsets[:-1]).astype(np.int64))
        columns = [source, ids[rows.neighbors]]
        if rows.weights is not None:
            columns.append(rows.weights)
        return networkx_graph(self.nodes, columns, self.weight, directed=self.is_directed())

    def __len__(self) -> int:
        """Number of vertices."""
        return self.graph.vertices
