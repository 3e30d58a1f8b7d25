"""Columns of rows in a store, read by blocks into buffers that are used again.

Threads read the blocks of the next batch while the caller works on one. Blocks that were read are
kept as long as there is memory for them, and are not read again; the first ones stay, since a pass
in order over more than is kept would find nothing in what it read last.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from ooc_graph.layout import names
from ooc_graph.layout.blocks import byte_view
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.columns import Column, LastFile
from ooc_graph.memory.io_stats import IoStats, Meter, current_watch
from ooc_graph.threads import Members
from ooc_graph.types import AnyArray, IntArray

READERS = 4
"""Threads that read; a disk wants several requests at once, a page cache two."""
LOOK_EVERY_S = 1.0
"""Between looks at how reading goes, while the search waits for it."""


class DiskBlocks:
    """Columns of the rows of one side of a graph, in a store; names of arrays by shard.

    ``first``, int64 (shards,), are positions at which each shard's rows begin, multiples of whole
    blocks. A batch has ``batch_blocks`` of the first column, two are in memory at a time;
    ``kept_bytes`` are for blocks that are kept. ``make`` allocates a uint8 buffer that batches are
    staged in; None: ordinary memory.
    """

    def __init__(
        self,
        stored: Stored,
        columns: Sequence[Sequence[str]],
        first: IntArray,
        *,
        batch_blocks: int,
        kept_bytes: int = 0,
        readers: int = READERS,
        meter: Meter | None = None,
        make: Callable[[int], AnyArray] | None = None,
    ) -> None:
        self.block_bytes, self.batch_blocks = names.SIDECAR_BYTES, max(2, batch_blocks)
        self._stored = stored
        self._columns = [Column(stored, arrays, first) for arrays in columns]
        self.dtypes = tuple(column.dtype for column in self._columns)
        self._given, self._meter = IoStats(), meter or Meter()
        make = make or partial(np.empty, dtype=np.uint8)
        first_bytes = self.dtypes[0].itemsize
        blocks = [self.batch_blocks * max(1, one.itemsize // first_bytes) for one in self.dtypes]
        self._buffers = [[make(most * self.block_bytes) for most in blocks] for _ in range(2)]
        self._kept = np.empty(kept_bytes // self.block_bytes * self.block_bytes, np.uint8)
        self._used = 0
        self.keeping = False
        """Whether blocks that are read are kept; those of a first pass over all do not pay."""
        self._slots = [np.full(column.blocks, -1, np.int32) for column in self._columns]
        self._threads = readers
        self._readers = Members(readers, "ooc-graph-reader")
        self._got: list[int] = []

    @property
    def io_stats(self) -> IoStats:
        """What was given so far."""
        return self._meter.added_to(self._given)

    def stage(
        self, batches: Iterator[Sequence[IntArray]]
    ) -> Generator[tuple[AnyArray, ...], None, None]:
        """Give batch after batch of blocks; see `ooc_graph.kernels.common.store.rows.Blocks`."""
        turn = 0
        try:
            blocks = next(batches, None)
            if blocks is not None:
                self._begin(blocks, turn)
            while blocks is not None:
                self._finish(blocks, turn)
                staged = tuple(
                    buffer[: len(wanted) * self.block_bytes].view(dtype)
                    for buffer, wanted, dtype in zip(
                        self._buffers[turn], blocks, self.dtypes, strict=True
                    )
                )
                turn = 1 - turn
                blocks = next(batches, None)
                if blocks is not None:
                    self._begin(blocks, turn)
                yield staged
        finally:
            # Nothing may be reading into the buffers when they are used again.
            with self._meter.waiting():
                self._readers.settle()

    def _begin(self, batch: Sequence[IntArray], turn: int) -> None:
        """Have the batch's blocks read; `_finish` copies what is kept."""
        if (watching := current_watch()) is not None:
            watching.begin(self._meter)
        reads: list[tuple[Column, int, memoryview]] = []
        for column, blocks, slots, buffer in zip(
            self._columns, batch, self._slots, self._buffers[turn], strict=True
        ):
            view = byte_view(buffer)
            wanted = slots[blocks] < 0
            self._given.kept_blocks += len(blocks) - int(np.count_nonzero(wanted))
            for begin, end in column.runs(blocks, wanted):
                data = view[begin * self.block_bytes : end * self.block_bytes]
                reads.append((column, int(blocks[begin]), data))
                self._given.blocks += end - begin
        self._given.requests += len(reads)
        shares = min(self._threads, len(reads))
        bounds = [len(reads) * share // shares for share in range(shares + 1)] if reads else []
        self._got = [0] * shares
        for share, (begin, end) in enumerate(pairwise(bounds)):
            self._readers.give(share, partial(self._read, share, reads[begin:end]))

    def _finish(self, batch: Sequence[IntArray], turn: int) -> None:
        look = None if (watching := current_watch()) is None else watching.look
        with self._meter.waiting():
            self._readers.wait(meanwhile=look, every_s=LOOK_EVERY_S)
            if look is not None:
                look()
        self._given.bytes += sum(self._got)
        for blocks, slots, buffer in zip(batch, self._slots, self._buffers[turn], strict=True):
            staged = buffer.reshape(-1, self.block_bytes)
            kept = self._kept.reshape(-1, self.block_bytes)
            kept_at = slots[blocks]
            again = np.flatnonzero(kept_at >= 0)
            # The next batch was begun before this one's blocks were kept: both read some of them.
            for index in again.tolist():
                staged[index] = kept[kept_at[index]]
            if not self.keeping:
                continue
            new = np.flatnonzero(kept_at < 0)[: len(kept) - self._used]
            # An interrupt may come in between: a slot that is recorded is full.
            begin = self._used
            for slot, index in enumerate(new.tolist(), begin):
                kept[slot] = staged[index]
            self._used = begin + len(new)
            slots[blocks[new]] = np.arange(begin, begin + len(new))

    def _read(self, share: int, reads: Sequence[tuple[Column, int, memoryview]]) -> None:
        """Read runs of blocks one after the other, and note their bytes."""
        with self._stored.reading(), LastFile() as last:
            for column, block, data in reads:
                with self._meter.reading(len(data) // self.block_bytes):
                    size = column.read(block, data, last)
                    self._got[share] += size
                    self._meter.count(size)

    def close(self) -> None:
        """End the threads."""
        self._readers.close()
