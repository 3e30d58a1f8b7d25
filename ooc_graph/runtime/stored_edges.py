"""The edges of a built graph, read from its rows as validation reads those of any source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ooc_graph.edges.interface import Unit, ranges, units_of
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.layout.stored import Cursor
from ooc_graph.shards.load import Graph
from ooc_graph.types import Dealing, EdgeBlock, IntArray


@dataclass(frozen=True)
class StoredEdges:
    """Arcs of a directed graph; each edge of an undirected one once, from its lower internal id.

    By original ids, with weights if they are asked for; read as an `EdgeSource` is, by threads once
    `units` has returned. Memory: an id and an offset a row, 8 bytes each, and for each thread a
    chunk of each column. CorruptStoreError names a chunk.
    """

    graph: Graph
    weighted: bool

    @property
    def directed(self) -> bool:
        """Whether an arc goes one way only."""
        return self.graph.directed

    @property
    def edges(self) -> int:
        """Number of tuples."""
        return self.graph.stored_arcs // 2

    def memory_bytes(self, threads: int) -> int:
        """Host memory without the blocks that threads are given."""
        chunks = [max(one.chunk * one.item_bytes for one in specs) for specs in self._columns]
        return 8 * (2 * self.graph.rows + self.graph.shards) + threads * sum(chunks)

    def units(self, edges_per_unit: int) -> list[Unit]:
        """Ranges of the arcs of each shard; reads ids and offsets, which all threads share."""
        _, offsets = self._tables
        lengths = [int(bounds[-1]) for bounds in offsets]
        spans = ((shard, ranges(0, length, edges_per_unit)) for shard, length in enumerate(lengths))
        return units_of((*span, str(shard)) for shard, parts in spans for span in parts)

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        """Yield the tuples among a range of arcs."""
        graph, shard = self.graph, int(unit.path or 0)
        dealing, (ids, all_offsets) = Dealing(graph.rows, graph.shards, shard), self._tables
        offsets = all_offsets[shard]
        columns = [Cursor(graph.stored.chunk, specs[shard]) for specs in self._columns]
        for start, stop in ranges(unit.start, unit.stop, block_edges):
            first = int(np.searchsorted(offsets, start, side="right")) - 1
            last = int(np.searchsorted(offsets, stop, side="left"))
            bounds = np.clip(offsets[first : last + 1], start, stop)
            lengths = bounds[1:] - bounds[:-1]
            source = dealing.internal_of(np.repeat(np.arange(first, last), lengths))
            target, *weight = (column.read(start, stop) for column in columns)
            keep = slice(None) if self.directed else source < target.astype(np.int64)
            ends = ids[source[keep]], ids[target[keep]]
            yield EdgeBlock(*ends, *(one[keep] for one in weight))

    @cached_property
    def _tables(self) -> tuple[IntArray, list[IntArray]]:
        """Original ids by internal id, and the offsets of each shard's rows."""
        graph = self.graph
        ids = graph.original_of().astype(np.int64, copy=False)
        return ids, [graph.stored.read(one).view(np.int64) for one in self._arrays("offsets")]

    @cached_property
    def _columns(self) -> list[list[ArraySpec]]:
        """Neighbours, and weights, of each shard."""
        names, spec = ["neighbors", "weights"][: 1 + self.weighted], self.graph.stored.spec
        return [[spec(array) for array in self._arrays(name)] for name in names]

    def _arrays(self, column: str) -> list[str]:
        return self.graph.arrays_of(LIGHT if self.weighted else HUB, column)[0]
