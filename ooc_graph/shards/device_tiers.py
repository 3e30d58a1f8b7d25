"""Load of a store's rows for a CUDA device what a plan has there; the rest stays where it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.bitmap import whole_set
from ooc_graph.kernels.common.store.rows import FIRST_LOOK, HeadRows, TierRows, Window
from ooc_graph.kernels.common.store.scans import keep_flagged
from ooc_graph.kernels.cuda.runtime.pinned import PinnedArray
from ooc_graph.kernels.cuda.store.bfs import CudaDiskBfsSteps, DiskBfsShare
from ooc_graph.kernels.cuda.store.bfs_search import DiskBfsSearch
from ooc_graph.kernels.cuda.store.rows import NO_VERTEX
from ooc_graph.memory.cuda.disk import READERS, WINDOW_ROWS
from ooc_graph.memory.cuda.disk_bfs_plan import MOST_HUBS, DiskDevicePlan
from ooc_graph.memory.heads import HeadRule
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_facts import heaviest_of_long, require_stored
from ooc_graph.shards.tiers import Tiered, TierSearch, bind_sides, open_side
from ooc_graph.types import AnyArray


class PinningRefusedError(MemoryBudgetError):
    """The system gives no pinned memory: the search can do without."""


class HostAllocator:
    """Host memory that the device copies from and to: pinned if ``pins``, or ordinary."""

    def __init__(self, pins: bool, threads: int) -> None:
        self._pins, self._threads = pins, threads
        # Memory is pinned as long as these are there.
        self._given: list[PinnedArray] = []

    def array(self, count: int, dtype: Any) -> AnyArray:
        """An array of so many elements, one-dimensional; or PinningRefusedError."""
        if not self._pins:
            return np.empty(count, dtype)
        return self.pinned(count, dtype).host

    def buffer(self, bytes_: int) -> AnyArray:
        """As `array`, uint8."""
        return self.array(bytes_, np.uint8)

    def column(self, rows: int) -> Any:
        """The device's view of four neighbours of so many rows, none there yet."""
        made = self.pinned(4 * max(rows, 1), np.uint32)
        made.host.fill(NO_VERTEX)
        return made.device

    def pinned(self, count: int, dtype: Any) -> PinnedArray:
        """As `array`, pinned in any case."""
        try:
            made = PinnedArray(count, dtype, threads=self._threads)
        except MemoryBudgetError as error:
            raise PinningRefusedError(str(error)) from error
        self._given.append(made)
        return made


@dataclass(frozen=True)
class DeviceTierSearch(TierSearch):
    """As `TierSearch`, on a CUDA device; ``unpinned`` says why no host memory is pinned."""

    allocator: HostAllocator
    unpinned: str = ""

    def run_on_device(self, root: int) -> Any:
        """Search from an internal id; the answer stays on the device, until the next search."""
        return self.search.run_on_device(root)


def load_side(
    graph: Graph,
    side: str,
    order: str,
    plan: Any,
    undo: ExitStack,
    make: Callable[[int], AnyArray] | None,
    length: type[np.int32 | np.uint32],
    *,
    shard: int | None = None,
    window: int = WINDOW_ROWS,
    look: int = FIRST_LOOK,
) -> Tiered:
    """Rows of one side of a graph, or of a shard, in the store; only their lengths are in memory.

    Host memory is that of ``length``, the type of a length, and an eighth of a byte a row, and what
    blocks are staged in. Weights are fetched with rows in the order ``light``.
    """
    more: dict[str, Any] = {"readers": READERS, "make": make}
    narrow = np.dtype(length)
    lengths, positions, blocks = open_side(graph, side, order, narrow, plan, undo, shard, **more)
    none, last = (np.empty(0, blocks.dtypes[column]) for column in (0, -1))
    heads = HeadRows(np.empty(0, length), lengths, positions, none, last, last)
    return Tiered(TierRows(heads, blocks, window, look), blocks, 0)


def fill_side(side: Tiered, rule: HeadRule, window: int, fill: Callable[[TierRows], Any]) -> Tiered:
    """Have the heads of a side filled; the side with the largest weight of all, 0 without weights.

    ``fill`` fetches what the limits of the rows that it is given say, in the order of the store,
    and returns the largest weight of the rows that it has seen whole.
    """
    bare, blocks = side.rows.heads, side.blocks
    short = blocks.block_bytes // blocks.dtypes[0].itemsize
    limits = rule.of(bare.lengths)
    weighted = len(blocks.dtypes) > 1
    if weighted:
        # What is short is read to its end, where its heaviest arc is.
        np.copyto(limits, bare.lengths, where=bare.lengths <= short)
    heaviest = fill(TierRows(bare, blocks, window, limits=limits))
    if weighted:
        heaviest = max(heaviest, heaviest_of_long(TierRows(bare, blocks, window), short))
    blocks.keeping = True
    return replace(side, heaviest=heaviest if weighted else 0)


def load_device_bfs(
    graph: Graph,
    plan: DiskDevicePlan,
    *,
    threads: int,
    window: int = WINDOW_ROWS,
    look: int = FIRST_LOOK,
) -> DeviceTierSearch:
    """Bring to the device and into host memory what a plan has there, with buffers for BFS.

    So many ``threads`` touch pages which are pinned. If the system refuses that, it raises
    PinningRefusedError; MemoryBudgetError if the device's memory is too small.
    """
    _, order = require_stored(graph, "bfs")
    allocator = HostAllocator(plan.pins, threads)

    def load(name: str, undo: ExitStack) -> Tiered:
        given = plan, undo, allocator.buffer, np.int32
        return load_side(graph, name, order, *given, window=window, look=look)

    def bind(out: Tiered, into: Tiered) -> DiskBfsSearch:
        steps = _steps_of(plan, allocator, out, into)
        _fill(into, steps)
        whole = TierRows(out.rows.heads, out.blocks, len(out.rows.window.row))
        _bring(whole, steps.hubs, steps.take_whole)
        del whole
        # Not before: what loading takes is gone now.
        steps.copied_to = (
            allocator.array(graph.rows, np.uint32),
            allocator.array(graph.rows, np.int32),
        )
        out.blocks.keeping = into.blocks.keeping = True
        return DiskBfsSearch(steps, out.rows, into.rows)

    return DeviceTierSearch(*bind_sides(graph.sides, load, bind), plan, allocator)


def _steps_of(
    plan: DiskDevicePlan, allocator: HostAllocator, out: Tiered, into: Tiered
) -> CudaDiskBfsSteps:
    lengths = into.rows.heads.lengths
    far = [allocator.column(count) for count in plan.far_rows]
    near_hubs, far_hubs, arcs = _hubs_of(plan, out.rows.heads.lengths)
    hub_arcs = allocator.pinned(arcs, np.uint32) if far_hubs else None
    return CudaDiskBfsSteps(
        out.rows.heads.lengths,
        lengths,
        DiskBfsShare(plan.near_rows, far, near_hubs, far_hubs, hub_arcs),
        window=len(into.rows.window.row),
        blocks=into.blocks.batch_blocks * into.blocks.block_bytes // into.blocks.dtypes[0].itemsize,
    )


def _hubs_of(plan: DiskDevicePlan, lengths: AnyArray) -> tuple[int, int, int]:
    """Rows whole on the device, and behind them in pinned memory; and the arcs of the latter."""
    ends = np.cumsum(lengths[:MOST_HUBS], dtype=np.int64)
    near = int(np.searchsorted(ends, plan.near_hub_arcs, "right")) if plan.near_hub_arcs else 0
    before = int(ends[near - 1]) if near else 0
    both = int(np.searchsorted(ends, before + plan.far_hub_arcs, "right"))
    far = both - near if plan.far_hub_arcs else 0
    return near, far, int(ends[both - 1]) - before if far else 0


def _fill(into: Tiered, steps: CudaDiskBfsSteps) -> None:
    """Bring the first arcs of the in-rows to their places."""
    heads = into.rows.heads
    limits = np.minimum(heads.lengths, np.int32(steps.loaded))
    rows = TierRows(heads, into.blocks, len(into.rows.window.row), limits=limits)
    if steps.loaded > rows.most_look:
        raise ValueError(f"{steps.loaded} arcs of a row do not fit a batch of {rows.most_look}")
    _bring(rows, len(limits), steps.take_heads)


def _bring(rows: TierRows, count: int, take: Callable[[Window, int, int, AnyArray], None]) -> None:
    """Have what is fetched of the first rows taken, in the order of the store."""

    def scan(
        limits: AnyArray, window: Any, begin: int, end: int, kept: int, blocks: AnyArray
    ) -> int:
        take(window, begin, end, blocks)
        flags = np.ones(end - begin, np.uint8)
        return int(keep_flagged(limits, window, begin, end, kept, flags))

    for waiting in rows.rows(whole_set(count)):
        rows.scan(waiting, scan, rows.most_look)
