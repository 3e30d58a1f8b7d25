"""Ranks whose arcs are streamed from the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.kernels.common.store.rows import ALIGNED_ARCS
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout import names
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.disk import DiskBlocks
from ooc_graph.memory.cpu.stream import ArcStream
from ooc_graph.memory.cpu.stream_plan import StreamFacts, StreamPlan
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.shards.load import Graph
from ooc_graph.types import Dealing, IntArray


@dataclass(frozen=True)
class Streamed:
    """The steps of ranks in one process, and the blocks that their arcs are read from."""

    ranks: dict[int, Any]
    blocks: DiskBlocks

    @property
    def search(self) -> Any:
        """The steps of the only rank."""
        (rank,) = self.ranks.values()
        return rank

    @property
    def io_stats(self) -> IoStats:
        """What was read of the store."""
        return self.blocks.io_stats

    def close(self) -> None:
        """End the threads that read."""
        self.blocks.close()


def facts_of_streams(graph: Graph, kernel: str, shards: Sequence[int], streams: int) -> StreamFacts:
    """What a plan depends on for a process that has these shards; reads no more than metadata."""
    order, weights = names.ORDER_OF[kernel], None
    if order == names.LIGHT:
        weights = graph.weight_dtype
    into = graph.arrays_of(order, "neighbors")[-1]
    specs = [graph.stored.spec(into[shard]) for shard in shards]
    tables = graph.stored.spec(names.INTERNAL_OF), graph.stored.spec(names.ORIGINAL_OF)
    gapped = 0 if graph.first_id is not None else 8 * graph.vertices
    return StreamFacts(
        kernel,
        graph.vertices,
        graph.rows,
        sum(Dealing(graph.rows, graph.shards, shard).rows for shard in shards),
        sum(spec.length for spec in specs),
        specs[0].dtype.itemsize,
        0 if weights is None else weights.itemsize,
        streams,
        gapped + sum(spec.length * spec.dtype.itemsize for spec in tables),
        any(spec.packing is not None for spec in specs),
    )


def load_streams(
    graph: Graph, kernel: str, shards: Sequence[int], plan: StreamPlan, device: CpuDevice
) -> Streamed:
    """The ranks of some shards, which take turns at reading; only offsets are read.

    With weights the out-arcs are read once, too. ``plan`` is of as many streams as there will be.
    """
    order = names.ORDER_OF[kernel]
    kept_bytes = plan.kept_bytes // plan.facts.streams
    with ExitStack() as undo:
        into, blocks = _side(graph, -1, order, shards, plan.batch_blocks, kept_bytes)
        undo.callback(blocks.close)
        blocks.keeping = True
        out = into
        if graph.directed:
            out, others = _side(graph, 0, order, shards, plan.batch_blocks)
            with ExitStack() as done:
                done.callback(others.close)
                weighs = [device.out_weights(arcs) for arcs in out]
        else:
            weighs = [device.out_weights(arcs) for arcs in out]
        ranks = {}
        for shard, arcs, weigh in zip(shards, into, weighs, strict=True):
            dealing = Dealing(graph.rows, graph.shards, shard)
            ranks[shard] = device.streamed_pagerank_rank(dealing, arcs, weigh)
        undo.pop_all()
    return Streamed(ranks, blocks)


def _side(
    graph: Graph, side: int, order: str, shards: Sequence[int], batch: int, kept_bytes: int = 0
) -> tuple[list[ArcStream], DiskBlocks]:
    """Streams of the arcs of some shards, and the blocks that they share."""
    stored = graph.stored
    assert isinstance(stored, Stored)
    columns = "neighbors", *(["weights"] if order == names.LIGHT else [])
    offsets = [
        stored.read(graph.arrays_of(order, "offsets")[side][shard]).view(np.int64)
        for shard in shards
    ]
    first = _begins(offsets)
    arrays = [[graph.arrays_of(order, name)[side][shard] for shard in shards] for name in columns]
    blocks = DiskBlocks(stored, arrays, first, batch_blocks=batch, kept_bytes=kept_bytes)
    begins = zip(offsets, first.tolist(), strict=True)
    return [ArcStream(one, blocks, begin) for one, begin in begins], blocks


def _begins(offsets: Sequence[IntArray]) -> IntArray:
    """Positions at which shards begin that follow one another in whole blocks."""
    ends = [-(-int(one[-1]) // ALIGNED_ARCS) * ALIGNED_ARCS for one in offsets]
    return np.cumsum([0, *ends[:-1]])
