"""Load of a store's rows only what a plan keeps in memory; the rest stays where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.bitmap import whole_set
from ooc_graph.kernels.common.sssp.distances import largest_of
from ooc_graph.kernels.common.sssp.survey import Known, Survey, first_rows, sampled_rows, survey_of
from ooc_graph.kernels.common.store.rows import (
    ALIGNED_ARCS,
    FIRST_LOOK,
    WINDOW_ROWS,
    HeadRows,
    TierRows,
)
from ooc_graph.kernels.common.store.scans import copy_firsts, copy_heads
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import HUB, INTERNAL_OF, LIGHT, ORIGINAL_OF, OUT, id_dtype, rows_path
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.disk import DiskBlocks
from ooc_graph.memory.cpu.plan import Facts, Lengths, Plan
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.shards.lengths import MOST_SURVEYED, count_lengths, offsets_by_piece
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, Dealing, IntArray

GROUP = 64
_WHOLE = 1 << 30


def facts_of(graph: Graph, kernel: str) -> Facts:
    """What a plan for searches of a graph depends on; reads its offsets.

    MemoryBudgetError if its rows are in memory already, or in an order that the kernel lacks.
    """
    stored, order = require_stored(graph, kernel)
    offsets = graph.arrays_of(order, "offsets")
    sides = tuple(count_lengths(stored, arrays, graph.rows)[0] for arrays in offsets)
    return facts_about(graph, kernel, sides)


def facts_about(graph: Graph, kernel: str, sides: tuple[Lengths, ...]) -> Facts:
    """As `facts_of`, with the lengths of the rows given."""
    stored, order = require_stored(graph, kernel)
    weights = graph.weight_dtype if kernel == "sssp" else None
    distance = 4 if weights is None else weights.itemsize if weights.kind == "f" else 8
    tables = stored.spec(INTERNAL_OF), stored.spec(ORIGINAL_OF)
    gapped = 0 if graph.first_id is not None else 8 * graph.vertices
    return Facts(
        kernel,
        graph.vertices,
        graph.rows,
        graph.shards,
        id_dtype(graph.rows).itemsize,
        0 if weights is None else weights.itemsize,
        distance,
        gapped + sum(spec.length * spec.dtype.itemsize for spec in tables),
        sides,
        _packed_bits(graph, order, weighted=weights is not None),
    )


def _packed_bits(graph: Graph, order: str, *, weighted: bool) -> int:
    """Bits of an arc where its columns are packed, else 0."""
    columns = ["neighbors", *(["weights"] if weighted else [])]
    specs = [graph.stored.spec(f"{rows_path(0, OUT, order)}/{column}") for column in columns]
    if all(spec.packing is None for spec in specs):
        return 0
    return sum(
        8 * spec.dtype.itemsize if spec.packing is None else spec.packing.bits for spec in specs
    )


def require_stored(graph: Graph, kernel: str) -> tuple[Stored, str]:
    """The store that holds a graph's rows in the order that a kernel wants, and the order.

    MemoryBudgetError if there is none.
    """
    order = HUB if kernel == "bfs" else LIGHT
    if not isinstance(graph.stored, Stored):
        raise MemoryBudgetError(f"{graph.path}: is in memory, and has no arcs elsewhere")
    if order not in graph.attributes["row_orders"]:
        raise MemoryBudgetError(
            f"{graph.path}: {kernel} sorts its rows in memory, since it has none in the order "
            f"{order!r}; build it with --rows both"
        )
    return graph.stored, order


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
        for at, offsets in offsets_by_piece(stored, array):
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
    rows, heaviest = (
        TierRows(heads, blocks, window, limits=limits),
        np.zeros(1, heads.weights.dtype),
    )

    def scan(*part: Any) -> int:
        columns = part if len(blocks.dtypes) > 1 else (*part, heads.weights)
        return int(copy_heads(heads, heaviest, *columns))

    for waiting in rows.rows(whole_set(len(heads.lengths))):
        rows.scan(waiting, scan, rows.most_look)
    if len(blocks.dtypes) == 1:
        return 0
    return max(heaviest[0], heaviest_of_long(TierRows(heads, blocks, window), short))


def heaviest_of_long(rows: TierRows, short: int) -> Any:
    """Largest weight of the rows of more than ``short`` arcs: that of the last arc of one."""
    lengths = rows.heads.lengths
    long = np.flatnonzero(lengths > short)
    return arcs_at(rows, long, lengths[long].astype(np.int64) - 1).max(initial=0)


def arcs_at(rows: TierRows, which: IntArray, arcs: IntArray) -> AnyArray:
    """Weight of one arc of each of some ascending rows."""
    weights = np.empty(len(which), rows.heads.weights.dtype)
    most = len(rows.window.row)
    for begin in range(0, len(which), most):
        some = which[begin : begin + most]
        rows.window.row[: len(some)] = some
        rows.window.cursor[: len(some)] = arcs[begin : begin + most]
        target = weights[begin : begin + most]

        def scan(
            _: AnyArray,
            window: Any,
            first: int,
            end: int,
            kept: int,
            _neighbors: AnyArray,
            column: AnyArray,
            some: IntArray = some,
            target: AnyArray = target,
        ) -> int:
            at = np.searchsorted(some, window.row[first:end])
            target[at] = column[window.offset[1, first:end]]
            return kept

        rows.scan(len(some), scan, 1)
    return weights


def survey_tier(rows: TierRows, head_share: float) -> Survey:
    """Survey of light-first rows, from a few rows alone: each takes a block or two."""
    lengths, firsts = rows.heads.lengths, rows.heads.first
    last = max(0, sampled_rows(len(lengths)) - 1)
    sampled = np.unique(np.linspace(0, last, MOST_SURVEYED).astype(np.int64))
    sampled = sampled[: len(lengths)]
    sampled = sampled[lengths[sampled] > 0]
    middle = arcs_at(rows, sampled, lengths[sampled].astype(np.int64) // 2)
    lightest = firsts[sampled] if len(firsts) else arcs_at(rows, sampled, np.zeros_like(sampled))
    return survey_of(int(head_share * _WHOLE), _WHOLE, lightest, middle)


@dataclass(frozen=True)
class TierSearch:
    """A search of rows whose tails stay in the store.

    ``plan`` says what is where: `ooc_graph.memory.cpu.plan.Plan`, or a device's.
    """

    search: Any
    sides: tuple[Tiered, ...]
    plan: Any

    def run(self, root: int) -> Any:
        """Search from an internal id."""
        return self.search.run(root)

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


def load_tiers(
    graph: Graph, plan: Plan, device: CpuDevice, head_share: float, **sizes: int
) -> TierSearch:
    """Bring into memory what a plan keeps there, with buffers for its kernel.

    ``head_share`` is the share of the input tuples at the first 1 % of the rows; for SSSP.
    ``sizes`` are ``window`` and ``look`` of `ooc_graph.kernels.common.store.rows.TierRows`.
    """
    _, order = require_stored(graph, plan.facts.kernel)

    def load(name: str, undo: ExitStack) -> Tiered:
        return load_side(graph, name, order, plan, undo, **sizes)

    def bind(out: Tiered, into: Tiered) -> Any:
        if plan.facts.kernel == "bfs":
            return device.tier_bfs(out.rows, into.rows)
        heaviest = max(out.heaviest, into.heaviest)
        known = Known(survey_tier(out.rows, head_share), heaviest)
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


def known_of_rank(graph: Graph, out: Tiered) -> Known:
    """What a rank knows of a graph's weights when its own rows are loaded."""
    return Known(survey_tier(out.rows, graph.head_share(first_rows(graph.rows))), out.heaviest)
