"""How much of the budget each step of a build may hold, computed before bytes move."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.types import DEAL_BLOCK, AnyArray, IntArray

# Interpreter, Dask's own work on tasks, thread stacks and allocator slack that grow with a build.
RESERVE_BYTES = 48 << 20
LEAST_SLOT_BYTES = 2 << 20
MOST_SLOT_BYTES = 96 << 20
# A bucket that fits the cache sorts fastest; many buckets make scattered writes slow.
CACHED_ARCS = 1 << 20
MOST_BUCKETS = 512
# Renumbering holds 24.4 bytes a vertex at its peak (measured): six tables of 4 bytes, and some.
RENUMBER_TABLES = 6
# Offsets, counts, cursor and lengths of a row while its bucket is merged.
ROW_BYTES = 40
# Ids with gaps: an id and its count, once as they are and once merged, and what is merged in.
COUNTED_ID_BYTES = 50
BLOCK_EDGES = 1 << 16


@dataclass(frozen=True)
class BuildBudget:
    """Memory of one build.

    Parameters
    ----------
    limit_bytes
        For all processes that work on the build together.
    processes
        Worker processes; each holds the tables of size O(V) once.
    slots
        Tasks that run at the same time in all processes together.
    """

    limit_bytes: int
    processes: int
    slots: int

    def slot_bytes(self, table_bytes: int) -> int:
        """Bytes that one running task may hold beside tables of ``table_bytes`` a process.

        Raises
        ------
        MemoryBudgetError
            If less than a useful minimum is left.
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


def run_edges(slot_bytes: int, arc_bytes: int, weight_bytes: int) -> int:
    """Tuples of one run: they are held translated, and as arcs in both directions.

    Parameters
    ----------
    arc_bytes
        Bytes of a row number and a neighbour.
    """
    block = BLOCK_EDGES * (16 + 2 * weight_bytes)
    each = (arc_bytes + weight_bytes) + 2 * (arc_bytes + weight_bytes)
    return max(BLOCK_EDGES, (slot_bytes - block) // each)


def bucket_arcs(slot_bytes: int, arc_bytes: int, weight_bytes: int, arcs: int) -> int:
    """Arcs of one bucket: they are held as read, and once more in row order.

    Parameters
    ----------
    arcs
        Arcs of a side in all.
    """
    id_bytes = arc_bytes // 2
    # A row has at least one arc.
    each = (arc_bytes + weight_bytes) + (id_bytes + weight_bytes) + ROW_BYTES
    return max(DEAL_BLOCK, min(slot_bytes // each, max(CACHED_ARCS, arcs // MOST_BUCKETS)))


@dataclass(frozen=True)
class Buckets:
    """Ranges of rows in store order (shard by shard), each small enough to be sorted in memory.

    Parameters
    ----------
    shard, first, rows
        int64 (buckets,): the shard, first row inside it, and number of rows of each bucket.
    arcs
        int64 (buckets,): upper bound of the arcs of a side, duplicates included.
    table, base
        Bucket of every row, for `ooc_graph.kernels.arcs`: uint32, of each of the first rows,
        whose blocks are cut row by row, and then of each dealing block; and where they part.
    """

    shard: IntArray
    first: IntArray
    rows: IntArray
    arcs: IntArray
    table: AnyArray
    base: np.uint64

    def __len__(self) -> int:
        return len(self.shard)

    def save(self, path: Path) -> str:
        """Write them where every task finds them."""
        np.savez(path, **{field.name: getattr(self, field.name) for field in fields(self)})
        return str(path)

    @classmethod
    def load(cls, path: str) -> Buckets:
        """Read back what `save` wrote."""
        with np.load(path) as stored:
            columns = {field.name: stored[field.name] for field in fields(cls)}
        return cls(**{**columns, "base": np.uint64(columns["base"])})


def plan_buckets(tuples: AnyArray, shards: int, capacity: int) -> Buckets:
    """Cut the rows of every shard into buckets of at most ``capacity`` arcs.

    Parameters
    ----------
    tuples
        Unsigned (n,): tuples at each row; at least as many as arcs of one side.

    Notes
    -----
    Whole dealing blocks go into a bucket, so that a table by block finds it; only the blocks of
    the largest rows, first by construction, are cut row by row. A single row above the capacity
    has a bucket of its own.
    """
    blocks = -(-len(tuples) // DEAL_BLOCK)
    starts = np.arange(0, len(tuples), DEAL_BLOCK)
    sums = np.add.reduceat(tuples, starts, dtype=np.int64) if blocks else starts
    hub_blocks = int(np.count_nonzero(sums * 4 > capacity))
    of_hub = np.zeros(hub_blocks * DEAL_BLOCK, np.uint32)
    of_block = np.zeros(blocks, np.uint32)
    found: list[tuple[int, int, int, int]] = []
    for shard in range(shards):
        mine = np.arange(shard, blocks, shards)
        atoms, lengths, sizes = _atoms(tuples, sums, mine, hub_blocks)
        _cut(found, shard, atoms, lengths, sizes, capacity, of_hub, of_block)
    owner, first, rows, arcs = np.array(found, np.int64).reshape(-1, 4).T.copy()
    table = np.concatenate([of_hub, of_block[hub_blocks:]])
    return Buckets(owner, first, rows, arcs, table, np.uint64(hub_blocks * (DEAL_BLOCK - 1)))


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


def _cut(
    found: list[tuple[int, int, int, int]],
    shard: int,
    atoms: IntArray,
    lengths: IntArray,
    sizes: IntArray,
    capacity: int,
    of_hub: AnyArray,
    of_block: AnyArray,
) -> None:
    arcs, first, start = np.cumsum(sizes), 0, 0
    while start < len(atoms):
        before = int(arcs[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(arcs, before + capacity, "right")))
        taken = atoms[start:stop]
        of_hub[taken[taken >= 0]] = len(found)
        of_block[-taken[taken < 0] - 1] = len(found)
        rows = int(lengths[start:stop].sum())
        found.append((shard, first, rows, int(arcs[stop - 1]) - before))
        first, start = first + rows, stop
