"""The graph that a search was asked for, not another under its path; and what is known of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ooc_graph.forked import free_in_child
from ooc_graph.layout.manifest import load_same, refuse_other
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime.machine import give_back_freed_memory
from ooc_graph.shards.load import Graph
from ooc_graph.shards.memory_graph import find_graph

Known = TypeVar("Known")

_MOST = 16


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


class Remembered(Generic[Known]):
    """Finds something of a graph once, for a kernel; for any number of threads."""

    def __init__(self, find: Callable[[Graph, str], Known]) -> None:
        self._find = find
        self._lock = free_in_child(threading.Lock())
        self._known: dict[tuple[str, str, str], Known] = {}

    def forget(self) -> None:
        """Forget all of it."""
        with self._lock:
            self._known.clear()

    def __call__(self, graph: Graph, kernel: str) -> Known:
        """What is found, or was."""
        key = str(graph.path), graph.identity, kernel
        with self._lock:
            if key not in self._known:
                found = self._find(graph, kernel)
                # Arrays came and went; what of them stays would be beyond a plan.
                give_back_freed_memory()
                while len(self._known) >= _MOST:
                    del self._known[next(iter(self._known))]
                self._known[key] = found
            return self._known[key]
