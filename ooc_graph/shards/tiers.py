"""Load of a store's rows only what a plan keeps in memory; the rest stays where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import whole_set
from ooc_graph.kernels.common.sssp.distances import largest_of
from ooc_graph.kernels.common.store.rows import (
    ALIGNED_ARCS,
    FIRST_LOOK,
    WINDOW_ROWS,
    HeadRows,
    TierRows,
)
from ooc_graph.kernels.common.store.scans import copy_firsts, copy_heads
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import LIGHT
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.disk import DiskBlocks
from ooc_graph.memory.cpu.plan import Plan
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.shards import tier_facts
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, Dealing, IntArray

GROUP = 64
_WHOLE = 1 << 30


def read_lengths(
    stored: Stored, arrays: list[str], rows: int, dtype: np.dtype[Any]
) -> tuple[AnyArray, IntArray, IntArray]:
    """Lengths of all rows, in global order, from the offsets of all shards, a chunk at a time.

    Besides int64 (groups,), the position of the first arc of every 64 rows; and int64 (shards,),
    the position at which each shard begins.
    """
    shards = len(arrays)
    lengths = np.empty(rows, dtype)
    positions = np.zeros(-(-rows // GROUP), np.int64)
    first, begin = np.zeros(shards, np.int64), 0
    for shard, array in enumerate(arrays):
        dealing, first[shard], last = Dealing(rows, shards, shard), begin, 0
        for at, offsets in tier_facts.offsets_by_piece(stored, array):
            mine = dealing.internal_of(np.arange(at, at + len(offsets) - 1))
            lengths[mine] = np.diff(offsets)
            starts = np.flatnonzero(mine % GROUP == 0)
            positions[mine[starts] // GROUP] = offsets[starts] + begin
            last = int(offsets[-1])
        begin += -(-last // ALIGNED_ARCS) * ALIGNED_ARCS
    return lengths, positions, first


@dataclass(frozen=True)
class Tiered:
    """Rows of one side, heads in memory; ``heaviest`` is 0 of rows without weights."""

    rows: TierRows
    blocks: DiskBlocks
    heaviest: Any


def open_side(
    graph: Graph,
    side: str,
    order: str,
    length: np.dtype[Any],
    plan: Any,
    undo: ExitStack,
    shard: int | None = None,
    **more: Any,
) -> tuple[AnyArray, IntArray, DiskBlocks]:
    """Lengths of a side's rows, the position of every 64th row, and the blocks with their arcs.

    ``undo`` closes the blocks, if it is not popped.
    """
    stored = graph.stored
    assert isinstance(stored, Stored)
    rows = graph.rows if shard is None else Dealing(graph.rows, graph.shards, shard).rows
    at, shards = graph.sides.index(side), slice(shard, None if shard is None else shard + 1)
    names = "offsets", "neighbors", *(["weights"] if order == LIGHT else [])
    offsets, *columns = (graph.arrays_of(order, name)[at][shards] for name in names)
    lengths, positions, first = read_lengths(stored, offsets, rows, length)
    sizes = {"batch_blocks": plan.batch_blocks, "kept_bytes": plan.kept_bytes}
    blocks = DiskBlocks(stored, columns, first, **sizes, **more)
    undo.callback(blocks.close)
    return lengths, positions, blocks


def load_side(
    graph: Graph,
    side: str,
    order: str,
    plan: Plan,
    undo: ExitStack,
    *,
    shard: int | None = None,
    window: int = WINDOW_ROWS,
    look: int = FIRST_LOOK,
) -> Tiered:
    """Rows of one side, of a shard or in global order: heads in memory, the others in the store."""
    narrow = np.dtype(f"i{plan.facts.offset_bytes}")
    lengths, positions, blocks = open_side(graph, side, order, narrow, plan, undo, shard)
    starts = np.zeros(len(lengths) + 1, narrow)
    np.cumsum(plan.rule.of(lengths), dtype=narrow, out=starts[1:])
    neighbors = np.empty(int(starts[-1]), blocks.dtypes[0])
    weights = np.empty(len(neighbors) if order == LIGHT else 0, blocks.dtypes[-1])
    first_of_rows = np.empty(0, blocks.dtypes[-1])
    heads = HeadRows(starts, lengths, positions, neighbors, weights, first_of_rows)
    heaviest = _fill(heads, blocks, window)
    # A row without arcs has the largest first weight.
    column, none = (weights, largest_of(weights.dtype)) if order == LIGHT else (neighbors, 0)
    firsts = np.full(len(lengths), none, column.dtype)
    copy_firsts(starts, column, firsts)
    blocks.keeping = True
    return Tiered(TierRows(heads._replace(first=firsts), blocks, window, look), blocks, heaviest)


def _fill(heads: HeadRows, blocks: DiskBlocks, window: int) -> Any:
    """Bring the heads into memory, in the order of the store; the largest weight."""
    short = blocks.block_bytes // blocks.dtypes[0].itemsize
    limits = np.diff(heads.starts)
    np.copyto(limits, heads.lengths, where=heads.lengths <= short)
    rows = TierRows(heads, blocks, window, limits=limits)
    heaviest = np.zeros(1, heads.weights.dtype)

    def scan(*part: Any) -> int:
        columns = part if len(blocks.dtypes) > 1 else (*part, heads.weights)
        return int(copy_heads(heads, heaviest, *columns))

    for waiting in rows.rows(whole_set(len(heads.lengths))):
        rows.scan(waiting, scan, rows.most_look)
    if len(blocks.dtypes) == 1:
        return 0
    return max(heaviest[0], tier_facts.heaviest_of_long(TierRows(heads, blocks, window), short))


@dataclass(frozen=True)
class TierSearch:
    """A search of rows whose tails stay in the store.

    ``plan`` says what is where: `ooc_graph.memory.cpu.plan.Plan`, or a device's.
    """

    search: Any
    sides: tuple[Tiered, ...]
    plan: Any

    @property
    def ends_early(self) -> bool:
        """Whether the search does, if it is given what is wanted."""
        return getattr(self.search, "ends_early", False)

    def run(self, root: int, *wanted: Any) -> Any:
        """Search from an internal id."""
        return self.search.run(root, *wanted)

    @property
    def io_stats(self) -> IoStats:
        """What was read of the store, loading included."""
        total = IoStats()
        for side in self.sides:
            total = total.plus(side.blocks.io_stats).plus(IoStats(rows=side.rows.asked))
        return total

    def close(self) -> None:
        """End the threads that read."""
        for side in self.sides:
            side.blocks.close()


def load_tiers(graph: Graph, plan: Plan, device: CpuDevice, **sizes: int) -> TierSearch:
    """Bring into memory what a plan keeps there, with buffers for its kernel.

    ``sizes`` are ``window`` and ``look`` of `ooc_graph.kernels.common.store.rows.TierRows`.
    """
    _, order = tier_facts.require_stored(graph, plan.facts.kernel)

    def load(name: str, undo: ExitStack) -> Tiered:
        return load_side(graph, name, order, plan, undo, **sizes)

    def bind(out: Tiered, into: Tiered) -> Any:
        if plan.facts.kernel == "bfs":
            return device.tier_bfs(out.rows, into.rows)
        heaviest = max(out.heaviest, into.heaviest)
        known = tier_facts.known_weights(graph, out.rows, heaviest)
        return device.tier_sssp(out.rows, into.rows, known)

    return TierSearch(*bind_sides(graph.sides, load, bind), plan)


def bind_sides(
    names: Iterable[str],
    load: Callable[[str, ExitStack], Tiered],
    bind: Callable[[Tiered, Tiered], Any],
) -> tuple[Any, tuple[Tiered, ...]]:
    """Load sides and make a search of them; what is on the stack is undone if that fails.

    ``bind`` takes the rows of out- and in-arcs (the same object if undirected).
    """
    with ExitStack() as undo:
        sides = tuple(load(name, undo) for name in names)
        search = bind(sides[0], sides[-1])
        undo.pop_all()
    return search, sides
