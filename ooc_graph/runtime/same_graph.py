"""The graph that a search was asked for, and not another that stands under its path by now."""

from __future__ import annotations

from ooc_graph.layout.manifest import load_same, refuse_other
from ooc_graph.layout.stored import Stored
from ooc_graph.shards.load import Graph
from ooc_graph.shards.memory_graph import find_graph


def open_same(path: str, identity: str) -> Graph:
    """The graph that a search was asked for; StoreReplacedError if another stands there by now."""
    graph = find_graph(path)
    if graph is None:
        return Graph(Stored.open(path, "graph", identity))
    refuse_other(graph.path, graph.identity, identity)
    return graph


def require_same(graph: Graph) -> None:
    """Refuse a store that is not the one that was opened; reads the manifest alone, if it must."""
    stored = graph.stored
    if isinstance(stored, Stored) and not stored.manifest.stands_at(stored.path):
        load_same(stored.path, stored.identity)
