"""A graph whose arrays are in memory, and the table of all those of this process."""

from __future__ import annotations

import hashlib
import json
import weakref
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, Rows

_graphs: weakref.WeakValueDictionary[str, MemoryGraph] = weakref.WeakValueDictionary()


@dataclass(frozen=True, eq=False)
class MemoryArrays:
    """The arrays of a graph, by the names that they have in a store."""

    path: Path
    attributes: dict[str, Any]
    arrays: dict[str, AnyArray] = field(repr=False)

    @property
    def identity(self) -> str:
        """Name of this graph among all that this process ever had."""
        return self.path.name

    @cached_property
    def content_sha256(self) -> str:
        """SHA-256 over attributes and arrays."""
        digest = hashlib.sha256(json.dumps(self.attributes, sort_keys=True).encode())
        for name, array in sorted(self.arrays.items()):
            digest.update(f"{name} {array.dtype.name} {len(array)}\n".encode())
            digest.update(array.data)
        return digest.hexdigest()

    def spec(self, array: str) -> ArraySpec:
        """Length and type of an array."""
        found = self.arrays[array]
        return ArraySpec(array, len(found), found.dtype)

    def chunk(self, spec: ArraySpec, index: int) -> AnyArray:
        """Elements of what would be a chunk; no copy."""
        return self.arrays[spec.path][slice(*spec.bounds(index))]

    def read(self, array: str) -> AnyArray:
        """The array itself; no copy."""
        return self.arrays[array]


@dataclass(frozen=True, eq=False, repr=False)
class MemoryGraph(Graph):
    """A graph whose arrays are in this process's memory."""

    @property
    def where(self) -> str:
        """Memory: its path is known in this process alone."""
        return "in memory"

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"the graph in memory with {self.vertices:,} vertices and {self.edges:,} edges"

    def _by_id(self, rows: Rows) -> Rows:
        # What was "loaded" are the graph's own arrays: a copy of them is put in order.
        return super()._by_id(Rows(rows.offsets, rows.neighbors.copy()))


def find_graph(path: str | Path) -> MemoryGraph | None:
    """The graph in memory that a path names, if it names one."""
    return _graphs.get(str(path))


def registered(graph: MemoryGraph) -> MemoryGraph:
    """The graph, which `find_graph` finds from now on, for as long as somebody has it."""
    _graphs[str(graph.path)] = graph
    return graph
