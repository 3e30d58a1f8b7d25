"""Load what SSSP on a CUDA device keeps of a store's rows within its reach."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.sssp.survey import Known
from ooc_graph.kernels.common.store.rows import FIRST_LOOK, WINDOW_ROWS, HeadRows, TierRows
from ooc_graph.kernels.cuda.pinned.sssp import SsspHold
from ooc_graph.kernels.cuda.runtime.modules import within_memory
from ooc_graph.kernels.cuda.runtime.pinned import PinnedArray
from ooc_graph.kernels.cuda.store.heads import DeviceHeads, DiskBuffers, DiskSide
from ooc_graph.kernels.cuda.store.sssp import CudaDiskSsspSearch, require_columns
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.disk import READERS, DiskUnits
from ooc_graph.memory.cpu.plan import HeadRule
from ooc_graph.memory.moved import Moved
from ooc_graph.shards.device_sides import bare_side
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tiers import (
    Tiered,
    arrays_of,
    columns_of,
    heaviest_of_long,
    moved_of,
    require_stored,
    side_names,
    survey_tier,
)
from ooc_graph.types import AnyArray

_LENGTH = np.dtype(np.uint32)


@dataclass(frozen=True)
class DiskHold:
    """What is where, of each side of a graph.

    Parameters
    ----------
    hold
        Arcs of each row that are within the device's reach.
    batch_units
        Units of neighbours that are fetched at a time.
    device_arcs
        Most of those arcs that stand on the device; the others stand in pinned host memory. None:
        all of them.
    kept_bytes
        Host memory for units that were read.
    pins
        Whether host memory may be pinned for what is copied.
    readers
        Threads that read.
    """

    hold: SsspHold
    batch_units: int
    device_arcs: int | None = None
    kept_bytes: int = 0
    pins: bool = True
    readers: int = READERS


@dataclass(frozen=True)
class CudaDiskSssp:
    """SSSP searches of a store on a CUDA device.

    Parameters
    ----------
    search
        The device's search.
    sides
        What host memory has of the rows: lengths, places and staged units alone.
    heads
        What the device has of them, by side.
    """

    search: CudaDiskSsspSearch
    sides: tuple[Tiered, ...]
    heads: tuple[DeviceHeads, ...]

    def run(self, root: int) -> SsspTree:
        """Search from an internal id; see `CudaDiskSsspSearch`."""
        return self.search.run(root)

    @property
    def moved(self) -> Moved:
        """What was read of the store, loading included."""
        return moved_of(self.sides)

    def close(self) -> None:
        """End the threads that read."""
        for side in self.sides:
            side.units.close()


def load_disk_sssp(
    graph: Graph,
    held: DiskHold,
    head_share: float,
    *,
    pinned: Callable[[int, Any], PinnedArray] = PinnedArray,
    room: Callable[[int], AnyArray] | None = None,
    window: int = WINDOW_ROWS,
    look: int = FIRST_LOOK,
) -> CudaDiskSssp:
    """Read the store once, in order, and keep what searches want within the device's reach.

    Host memory of a side meanwhile is 9 bytes a row, and what is staged; 4 bytes a row stay. What
    the device writes is allocated before its heads: loading takes nothing besides.

    Parameters
    ----------
    graph
        Opened from a store with light-first rows, ids of 32 bits and weights of float32.
    held
        What is kept where.
    head_share
        Share of the input tuples at the first 1 % of the rows.
    pinned
        Makes an array of so many elements, of a type, in pinned memory, for heads.
    room
        As of `ooc_graph.memory.cpu.disk.DiskUnits`.
    window, look
        See `ooc_graph.kernels.common.store.rows.TierRows`.

    Raises
    ------
    MemoryBudgetError
        Memory of the device, or pinned memory, is too small; or there is no such store.
    UsageError
        Ids or weights are of other types.
    CorruptStoreError
        Names the chunk.
    """
    stored, order = require_stored(graph, "sssp")
    sides: list[Tiered] = []
    heads: list[DeviceHeads] = []
    buffers: DiskBuffers | None = None
    with ExitStack() as undo:
        for name in side_names(graph):
            require_columns(_dtypes(stored, graph, name, order))
            bare, units = bare_side(
                graph,
                name,
                order,
                _LENGTH,
                batch_units=held.batch_units,
                kept_bytes=held.kept_bytes,
                readers=held.readers,
                room=room,
            )
            undo.callback(units.close)
            rows = TierRows(bare, units, window, look)
            if buffers is None:  # the other side's windows and batches are as large
                with within_memory("SSSP on this graph"):
                    buffers = DiskBuffers(rows, pins=held.pins)
            wanted = bare.lengths, held.hold, held.device_arcs
            heads.append(DeviceHeads(*wanted, buffers=buffers, pinned=pinned))
            sides.append(Tiered(rows, units, _fill(heads[-1], bare, units, window, buffers)))
            units.keeping = True
        known = Known(survey_tier(sides[0].rows, head_share), max(side.heaviest for side in sides))
        both = [DiskSide(s.rows, h) for s, h in zip(sides, heads, strict=True)]
        search = CudaDiskSsspSearch(both[0], both[-1], known, pins=held.pins, buffers=buffers)
        undo.pop_all()
    return CudaDiskSssp(search, tuple(sides), tuple(heads))


def _dtypes(stored: Stored, graph: Graph, side: str, order: str) -> tuple[np.dtype[Any], ...]:
    """Types of the columns of one side."""
    first = (arrays_of(graph, side, order, column)[0] for column in columns_of(order))
    return tuple(stored.spec(array).dtype for array in first)


def _fill(
    heads: DeviceHeads, bare: HeadRows, units: DiskUnits, window: int, buffers: DiskBuffers
) -> np.float32:
    """Bring the heads to where they are kept; the largest weight of all."""
    short = units.unit_bytes // units.dtypes[0].itemsize
    limits = HeadRule(heads.hold.least, heads.hold.shift).of(bare.lengths)
    # What is short is read to its end, where its heaviest arc is.
    np.copyto(limits, bare.lengths, where=bare.lengths <= short)
    seen = heads.fill(TierRows(bare, units, window, limits=limits), buffers=buffers)
    return max(seen, np.float32(heaviest_of_long(TierRows(bare, units, window), short)))
