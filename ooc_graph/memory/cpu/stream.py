"""Arcs of rows in a store, read from the first to the last as often as is asked, a batch at a time.

For algorithms that look at every arc in every pass. No arc is worth more than another, so what
memory there is keeps the first blocks that are read (`DiskBlocks`), and not the heads of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np

from ooc_graph.memory.cpu.disk import DiskBlocks
from ooc_graph.types import AnyArray, IntArray


class ArcStream:
    """Arcs of the rows of one shard, whose ``offsets`` are int64 (rows + 1,).

    ``blocks`` have the neighbours, and the weights if there are any; ``first`` is the position of
    the first arc in them. Several shards may have the same blocks, if no two are read at once.
    """

    def __init__(self, offsets: IntArray, blocks: DiskBlocks, first: int) -> None:
        self.offsets, self.is_weighted = offsets, len(blocks.dtypes) > 1
        self._blocks, self._first = blocks, first
        self._arcs = blocks.batch_blocks * blocks.block_bytes // blocks.dtypes[0].itemsize

    def parts(self) -> Iterator[tuple[int, AnyArray, AnyArray | None]]:
        """All arcs in order; see `ooc_graph.kernels.cpu.pagerank.rank.InArcs`.

        The next batch is read meanwhile. CorruptStoreError: names the block that is damaged.
        """
        begin, end = 0, int(self.offsets[-1])
        with closing(self._blocks.stage(self._batches(end))) as staged:
            for columns in staged:
                count = min(self._arcs, end - begin)
                neighbors, *weights = (column[:count] for column in columns)
                yield begin, neighbors, weights[0] if weights else None
                begin += self._arcs

    def _batches(self, end: int) -> Iterator[Sequence[IntArray]]:
        """Numbers of the blocks of each column, batch after batch."""
        for begin in range(0, end, self._arcs):
            span = begin + self._first, min(begin + self._arcs, end) + self._first
            yield [self._numbers(span, dtype.itemsize) for dtype in self._blocks.dtypes]

    def _numbers(self, span: tuple[int, int], itemsize: int) -> IntArray:
        elements = self._blocks.block_bytes // itemsize
        return np.arange(span[0] // elements, -(-span[1] // elements))
