"""Bring a stored graph into memory as grouped edges, chunk by chunk: no rows in addition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ooc_graph.kernels.common.dealt import dealt_of
from ooc_graph.kernels.cpu.edge_list import grouped as grouping
from ooc_graph.kernels.cpu.edge_list.grouped import GroupedEdges, segments_for
from ooc_graph.layout.names import HUB, LIGHT, OUT, rows_path
from ooc_graph.layout.stored import Cursor
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, Dealing

CELL_BYTES = 24
"""Three counts of each band of each group of edges while they are placed."""
PIECE_BYTES = 64
"""A piece in the table of pieces, and what that is made from."""
SAMPLED_WEIGHTS = 1 << 16
"""Weights that are looked at to choose where bands begin."""


def load_edges(graph: Graph, *, weighted: bool) -> GroupedEdges:
    """Read the out-arcs of all shards twice, to count and to group them, every chunk checked.

    The peak is the result, one shard's offsets and two chunks.
    """
    graph.require(LIGHT if weighted else HUB)
    return grouping.grouped(
        graph.rows,
        partial(_blocks, graph, weighted),
        _marks(graph, weighted),
        directed=graph.directed,
        weighted=weighted,
    )


def edge_list_bytes(graph: Graph, *, weighted: bool) -> int:
    """Bytes of the edges of a graph, grouped, without the table of pieces."""
    weight = graph.weight_dtype
    itemsize = weight.itemsize if weighted and weight is not None else 0
    return _edges(graph) * (np.dtype(np.uint32).itemsize + itemsize)


def grouping_bytes(graph: Graph, *, weighted: bool) -> int:
    """Bytes of the table of pieces and of what it is made from; grows with groups."""
    edges, segments = _edges(graph), segments_for(graph.rows)
    bands = grouping.bands_for(edges, segments, directed=graph.directed) if weighted else 1
    cells = segments * segments * bands
    return CELL_BYTES * cells + PIECE_BYTES * (min(cells, edges) + edges // grouping.PIECE_EDGES)


def _edges(graph: Graph) -> int:
    return graph.stored_arcs // 2


def _marks(graph: Graph, weighted: bool) -> AnyArray:
    """Where bands begin, from weights of whole rows at even distances in the first chunk."""
    if not weighted:
        return np.empty(0, np.float32)
    bands = grouping.bands_for(_edges(graph), segments_for(graph.rows), directed=graph.directed)
    paths = (f"{_group_path(graph, shard, weighted)}/weights" for shard in range(graph.shards))
    # The first rows of a directed graph may all be without out-arcs.
    spec = next(spec for spec in map(graph.stored.spec, paths) if spec.length)
    first = graph.stored.chunk(spec, 0)
    return grouping.band_marks(first[:: max(1, len(first) // SAMPLED_WEIGHTS)], bands)


def _group_path(graph: Graph, shard: int, weighted: bool) -> str:
    # Any order of a row will do; hub-first rows are there to be read without weights.
    hub = not weighted and HUB in graph.attributes["row_orders"]
    return rows_path(shard, OUT, HUB if hub else LIGHT)


def _blocks(graph: Graph, weighted: bool) -> Iterator[grouping.ArcBlock]:
    """All out-arcs, shard by shard, in blocks that lie in one chunk of every column."""
    stored, no_weights = graph.stored, np.empty(0, np.float32)
    for shard in range(graph.shards):
        group = _group_path(graph, shard, weighted)
        offsets = stored.read(f"{group}/offsets").view(np.int64)
        dealt = dealt_of(Dealing(graph.rows, graph.shards, shard))
        names = ("neighbors", "weights")[: 1 + weighted]
        specs = [stored.spec(f"{group}/{name}") for name in names]
        columns = [Cursor(stored.chunk, spec) for spec in specs]
        first, arcs = 0, int(offsets[-1])
        while first < arcs:
            stop = min(column.stop(first) for column in columns)
            taken = [*(column.take(first, stop) for column in columns), no_weights]
            yield grouping.ArcBlock(dealt, offsets, first, *taken[:2])
            first = stop
