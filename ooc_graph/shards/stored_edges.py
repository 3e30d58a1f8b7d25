"""The rows of a built graph as a source of edges, by which stored answers are validated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ooc_graph.edges.interface import Unit, ranges, units_of
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.layout.stored import Cursor
from ooc_graph.shards.load import Graph
from ooc_graph.types import Dealing, EdgeBlock, IntArray


@dataclass(frozen=True)
class StoredEdges:
    """Arcs of a directed graph; each edge of an undirected one once, from its lower internal id.

    By original ids, with weights if they are asked for; read as an `EdgeSource` is. Memory: an id a
    row, 8 bytes, and for each thread the offsets of a shard. CorruptStoreError names a chunk.
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
        return self.graph.arcs // 2

    def memory_bytes(self, threads: int) -> int:
        """Host memory without the blocks that threads are given."""
        largest = Dealing(self.graph.rows, self.graph.shards).rows
        return 8 * (self.graph.rows + 2 * threads * largest)

    def units(self, edges_per_unit: int) -> list[Unit]:
        """Ranges of the arcs of each shard."""
        stored, arrays = self.graph.stored, self._arrays("neighbors")
        lengths = [stored.spec(array).length for array in arrays]
        spans = ((shard, ranges(0, length, edges_per_unit)) for shard, length in enumerate(lengths))
        return units_of((*span, str(shard)) for shard, parts in spans for span in parts)

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        """Yield the tuples among a range of arcs."""
        graph, stored, shard = self.graph, self.graph.stored, int(unit.path or 0)
        offsets = stored.read(self._arrays("offsets")[shard]).astype(np.int64)
        dealing = Dealing(graph.rows, graph.shards, shard)
        names = ["neighbors", "weights"][: 1 + self.weighted]
        specs = [stored.spec(self._arrays(name)[shard]) for name in names]
        columns = [Cursor(stored.chunk, spec) for spec in specs]
        for start, stop in ranges(unit.start, unit.stop, block_edges):
            first = int(np.searchsorted(offsets, start, side="right")) - 1
            last = int(np.searchsorted(offsets, stop, side="left"))
            bounds = np.clip(offsets[first : last + 1], start, stop)
            lengths = bounds[1:] - bounds[:-1]
            source = dealing.internal_of(np.repeat(np.arange(first, last), lengths))
            target, *weight = (column.read(start, stop) for column in columns)
            keep = slice(None) if self.directed else source < target.astype(np.int64)
            ends = self._ids[source[keep]], self._ids[target[keep]]
            yield EdgeBlock(*ends, *(one[keep] for one in weight))

    @cached_property
    def _ids(self) -> IntArray:
        return self.graph.original_of().astype(np.int64, copy=False)

    def _arrays(self, column: str) -> list[str]:
        return self.graph.arrays_of(LIGHT if self.weighted else HUB, column)[0]
