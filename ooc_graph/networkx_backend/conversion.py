"""networkx graphs as arrays of arcs, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, compress
from operator import itemgetter
from typing import Any

import networkx as nx
import numpy as np

from ooc_graph.types import AnyArray, IntArray

# From here on a float64 may be another integer, rounded; a graph with both kinds has floats.
_EXACT = 1 << 53


@dataclass(frozen=True)
class Arcs:
    """Edges by the positions of their nodes in the graph's order; each undirected one once.

    ``weight`` is int64 or float64, ``attribute`` its name; both are None if every edge weighs 1.
    """

    source: IntArray
    target: IntArray
    weight: AnyArray | None
    attribute: str | None

    @property
    def reversed(self) -> Arcs:
        """The same edges, the other way round."""
        return replace(self, source=self.target, target=self.source)

    def joined(self, node: int, to: IntArray) -> Arcs:
        """These edges, and one of weight 0 from a node to each of some."""
        weight = self.weight
        return Arcs(
            np.append(self.source, np.full(len(to), node)),
            np.append(self.target, to),
            None if weight is None else np.append(weight, np.zeros(len(to), weight.dtype)),
            self.attribute,
        )


def positions_by_node(nodes: list[Any]) -> Mapping[Any, int]:
    """Position of each node."""
    return dict(zip(nodes, range(len(nodes)), strict=True))


def arcs_of(graph: Any, index: Mapping[Any, int], attributes: Mapping[str, Any]) -> Arcs:
    """The edges of a networkx graph; NotImplementedError if weights are no finite numbers.

    Parallel edges are one, with the least weight. ``attributes`` has the name of the weights, and
    what an edge without it weighs; it is empty if there are to be no weights.
    """
    rows: Iterable[Mapping[Any, Any]] = graph._adj.values()
    if _is_view(graph):
        # Views of multigraphs count neighbours that they do not have.
        rows = list(map(dict, rows))
        _refuse_directed_weights(graph, attributes)
    degrees = np.fromiter(map(len, rows), np.int64, len(index))
    count = int(degrees.sum())
    source = np.repeat(np.arange(len(index)), degrees)
    neighbours: Iterable[Any] = chain.from_iterable(rows)
    if any(type(node) is not int or node != position for node, position in index.items()):
        neighbours = map(index.__getitem__, neighbours)
    target = np.fromiter(neighbours, np.int64, count)
    edges: Iterable[Any] = chain.from_iterable(row.values() for row in rows)
    if not graph.is_directed():
        once = source <= target
        source, target = source[once], target[once]
        edges = compress(edges, once.tobytes())
    if len(attributes) > 1:
        raise NotImplementedError("several attributes are asked for")
    for name, default in attributes.items():
        weight = _weights(list(edges), name, default, multiple=graph.is_multigraph())
        if weight is not None:
            return Arcs(source, target, weight, name)
    return Arcs(source, target, None, None)


def _is_view(graph: Any) -> bool:
    return hasattr(graph, "_graph")


def _refuse_directed_weights(graph: Any, attributes: Mapping[str, Any]) -> None:
    """Refuse the undirected view of a directed graph: weights may differ by direction."""
    if attributes and not graph.is_directed():
        while _is_view(graph):
            graph = graph._graph
        if graph.is_directed():
            raise NotImplementedError("an undirected view has the weights of a directed graph")


def _weights(edges: list[Any], name: str, default: Any, *, multiple: bool) -> AnyArray | None:
    if multiple:
        try:
            found = [min(data.get(name, default) for data in keys.values()) for keys in edges]
        except TypeError:
            raise NotImplementedError(f"weights {name!r} cannot be compared") from None
    else:
        try:
            found = list(map(itemgetter(name), edges))
        except KeyError:
            found = [data.get(name, default) for data in edges]
    weights = _numbers(found, name)
    is_one = weights.dtype.kind == "i" and bool((weights == 1).all())
    return None if is_one else weights


def _numbers(found: list[Any], name: str) -> AnyArray:
    """Weights as int64 if all are integers, else as float64."""
    kinds = set(map(type, found))
    try:
        if all(issubclass(kind, (int, np.integer)) for kind in kinds):
            return np.array(found, np.int64)
        # networkx would add float32 with float32's rounding.
        if not all(issubclass(kind, (int, float, np.integer)) for kind in kinds):
            raise NotImplementedError(f"weights {name!r} are not all integers or float64")
        weights = np.array(found, np.float64)
    except OverflowError:
        raise NotImplementedError(f"weights {name!r} need more than 64 bits") from None
    if not np.isfinite(weights).all():
        raise NotImplementedError(f"weights {name!r} are not all finite")
    if not all(issubclass(kind, float) for kind in kinds) and np.abs(weights).max() >= _EXACT:
        raise NotImplementedError(f"weights {name!r} are not exact as float64")
    return weights


def networkx_graph(
    nodes: AnyArray, columns: Iterable[AnyArray], weight: str | None, *, directed: bool
) -> Any:
    """A networkx graph of nodes and edges, columns source and target, and weight if it has one."""
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(nodes.tolist())
    edges = zip(*(column.tolist() for column in columns), strict=True)
    if weight is None:
        graph.add_edges_from(edges)
    else:
        graph.add_weighted_edges_from(edges, weight=weight)
    return graph
