"""How much of the budget each step of a build may hold, computed before bytes move."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout.spilled import arrays_in
from ooc_graph.types import DEAL_BLOCK, AnyArray, IntArray

# Interpreter, Dask's own work on tasks, thread stacks and allocator slack that grow with a build.
RESERVE_BYTES = 48 << 20
LEAST_SLOT_BYTES = 2 << 20
MOST_SLOT_BYTES = 96 << 20
# A bucket that fits the cache sorts fastest; many buckets make scattered writes slow.
CACHED_ARCS = 1 << 20
MOST_BUCKETS = 512
# Rows of a bucket are numbered in 16 bits, unless so many buckets would be needed for that.
NARROW_ROWS = 1 << 16
# Renumbering holds 24.4 bytes a vertex at its peak (measured): six tables of 4 bytes, and some.
RENUMBER_BYTES = 24
# A task of the first pass counts in a table of 4 bytes and one of 1 byte a vertex.
COUNTED_BYTES = 5
# Offsets, counts, cursor and lengths of a row while its bucket is merged.
ROW_BYTES = 40
# The length of a row that waits in memory for the offsets.
LENGTH_BYTES = 4
# Ids with gaps: an id and its count, once as they are and once merged, and what is merged in.
COUNTED_ID_BYTES = 50
BLOCK_EDGES = 1 << 16
# Neighbouring buckets are merged by one task, up to so many arcs, but in so many tasks at least.
GROUP_ARCS = 4 << 20
GROUPS_PER_SLOT = 8
# Arcs that wait in memory for their chunks; a buffer for them may be filled to a quarter only.
WAITING_ARCS = 32 << 20
BUFFER_SLACK = 4


@dataclass(frozen=True)
class BuildBudget:
    """Memory of one build: ``limit_bytes`` for all processes that work on it together.

    ``slots`` tasks run at the same time in all ``processes`` together, each of which holds the
    tables of size O(V) once.
    """

    limit_bytes: int
    processes: int
    slots: int

    def slot_bytes(self, table_bytes: int) -> int:
        """Bytes that one running task may hold in addition to tables of ``table_bytes`` a process.

        MemoryBudgetError if less than a useful minimum is left.
        """
        fixed = self.processes * (table_bytes + RESERVE_BYTES)
        left = (self.limit_bytes - fixed) // self.slots
        if left < LEAST_SLOT_BYTES:
            least = fixed + self.slots * LEAST_SLOT_BYTES
            raise MemoryBudgetError(
                f"memory limit of {self.limit_bytes:,} bytes is too small: the build of this "
                f"graph on {self.processes} worker(s) needs at least {least:,} bytes; raise "
                "--memory-limit or use fewer workers"
            )
        return min(left, MOST_SLOT_BYTES)

    def pieces_fit(
        self, slot_bytes: int, piece_bytes: int, longest_row: int, lasting_bytes: int
    ) -> bool:
        """Whether merged buckets may wait in memory for their chunks.

        Each slot merges with ``slot_bytes``. An arc has ``piece_bytes`` in all row orders, a row
        may have ``longest_row`` arcs, and ``lasting_bytes`` wait until the end.
        """
        left = self.limit_bytes - RESERVE_BYTES - self.slots * slot_bytes - lasting_bytes
        waiting = max(WAITING_ARCS, longest_row)
        return self.processes == 1 and left >= BUFFER_SLACK * waiting * piece_bytes


def run_edges(slot_bytes: int, arc_bytes: int, weight_bytes: int) -> int:
    """Tuples of one run: they are in memory translated, and as arcs in both directions.

    ``arc_bytes`` are those of a row number and a neighbour.
    """
    block = BLOCK_EDGES * (16 + 2 * weight_bytes)
    each = (arc_bytes + weight_bytes) + 2 * (arc_bytes + weight_bytes)
    return max(BLOCK_EDGES, (slot_bytes - block) // each)


def bucket_arcs(slot_bytes: int, arc_bytes: int, weight_bytes: int, arcs: int) -> int:
    """Arcs of one bucket: they are in memory as read, and once more in row order.

    ``arcs`` are those of a side in all.
    """
    id_bytes = arc_bytes // 2
    # A row has at least one arc.
    each = (arc_bytes + weight_bytes) + (id_bytes + weight_bytes) + ROW_BYTES
    return max(DEAL_BLOCK, min(slot_bytes // each, max(CACHED_ARCS, arcs // MOST_BUCKETS)))


@dataclass(frozen=True)
class Buckets:
    """Ranges of rows in store order (shard by shard), each small enough to be sorted in memory.

    ``shard``, ``first``, ``rows`` and ``arcs``, int64 (buckets,), are the shard of each bucket, its
    first row in it, its rows, and an upper bound of the arcs of a side, duplicates included.
    ``table``, uint32, and ``base`` are for `ooc_graph.kernels.cpu.build.arcs`: the bucket of each
    of the first rows, whose blocks are cut row by row, then of each dealing block; and where they
    part. ``shift`` is log2 of the number of shards.
    """

    shard: IntArray
    first: IntArray
    rows: IntArray
    arcs: IntArray
    table: AnyArray
    base: np.uint64
    shift: np.uint64

    def __len__(self) -> int:
        return len(self.shard)

    @property
    def row_dtype(self) -> np.dtype[Any]:
        """Type of row numbers that count from a bucket's first row."""
        most = int(self.rows.max(initial=1)) - 1
        return np.dtype(np.uint16) if most < NARROW_ROWS else np.min_scalar_type(most)

    def save(self, path: Path) -> str:
        """Write them where every task finds them."""
        np.savez(path, **{field.name: getattr(self, field.name) for field in fields(self)})
        return str(path)

    @classmethod
    def load(cls, path: str) -> Buckets:
        """Read back what `save` wrote."""
        with arrays_in(path) as stored:
            columns = {field.name: stored[field.name] for field in fields(cls)}
        scalars = {name: np.uint64(columns[name]) for name in ("base", "shift")}
        return cls(**{**columns, **scalars})


def plan_buckets(tuples: AnyArray, shards: int, capacity: int) -> Buckets:
    """Cut the rows of every shard into buckets of at most ``capacity`` arcs.

    ``tuples`` are at least as many as arcs of one side, for each row. Only the blocks of the
    largest rows, first by construction, are cut row by row; a row above the capacity is a bucket.
    """
    blocks = -(-len(tuples) // DEAL_BLOCK)
    starts = np.arange(0, len(tuples), DEAL_BLOCK)
    sums = np.add.reduceat(tuples, starts, dtype=np.int64) if blocks else starts
    hub_blocks = int(np.count_nonzero(sums * 4 > capacity))
    of_hub = np.zeros(hub_blocks * DEAL_BLOCK, np.uint32)
    of_block = np.zeros(blocks, np.uint32)
    found: list[tuple[int, int, int, int]] = []
    few = len(tuples) <= NARROW_ROWS * MOST_BUCKETS // 2
    most = np.array([capacity, NARROW_ROWS if few else len(tuples)])
    for shard in range(shards):
        mine = np.arange(shard, blocks, shards)
        atoms, lengths, sizes = _atoms(tuples, sums, mine, hub_blocks)
        ends = np.cumsum([sizes, lengths], axis=1)
        before, start = np.zeros(2, np.int64), 0
        while start < len(atoms):
            stops = [
                np.searchsorted(column, bound, "right")
                for column, bound in zip(ends, before + most, strict=True)
            ]
            stop = max(start + 1, int(min(stops)))
            taken = atoms[start:stop]
            of_hub[taken[taken >= 0]] = len(found)
            of_block[-taken[taken < 0] - 1] = len(found)
            arcs, rows = ends[:, stop - 1] - before
            found.append((shard, int(before[1]), int(rows), int(arcs)))
            before, start = ends[:, stop - 1], stop
    owner, first, rows, arcs = np.array(found, np.int64).reshape(-1, 4).T.copy()
    table = np.concatenate([of_hub, of_block[hub_blocks:]])
    base = np.uint64(hub_blocks * (DEAL_BLOCK - 1))
    return Buckets(owner, first, rows, arcs, table, base, np.uint64(shards.bit_length() - 1))


def _atoms(
    tuples: AnyArray, sums: IntArray, mine: IntArray, hub_blocks: int
) -> tuple[IntArray, IntArray, IntArray]:
    """What may not be cut: (row id of a hub, or minus block - 1; rows; arcs), in store order."""
    hubs = mine[mine < hub_blocks]
    rows = (hubs[:, None] * DEAL_BLOCK + np.arange(DEAL_BLOCK)).ravel()
    rows = rows[rows < len(tuples)]
    rest = mine[mine >= hub_blocks]
    lengths = np.minimum(DEAL_BLOCK, len(tuples) - rest * DEAL_BLOCK)
    return (
        np.concatenate([rows, -rest - 1]),
        np.concatenate([np.ones(len(rows), np.int64), lengths]),
        np.concatenate([tuples[rows].astype(np.int64), sums[rest]]),
    )
