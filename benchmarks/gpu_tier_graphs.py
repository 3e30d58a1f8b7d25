"""Graph500's graphs in pinned host memory, made on a device by parts, for `gpu_tiers.py`.

A range of rows at a time: all edges are made again, the range's arcs are taken, sorted and copied
to pinned memory. The device keeps them all too, for validation, where it has the room.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap
from typing import Any

import cupy
import numpy as np
from harness.device import edge_blocks

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.cuda.build.gather import DeviceBlock
from ooc_graph.kernels.cuda.build.rows import DeviceGraph
from ooc_graph.kernels.cuda.build.store_rows import (
    RowMaker,
    TupleCount,
    number_vertices,
    ranges_of,
)
from ooc_graph.kernels.cuda.runtime.pinned import PinnedArray
from ooc_graph.types import Rows

BLOCK_EDGES = 1 << 27
BOTH_ENDS = 3
THREADS = 16


@dataclass(frozen=True)
class PinnedGraph:
    """A graph twice: for validation on the device, and for searches in pinned memory.

    Parameters
    ----------
    whole
        All of it on the device.
    neighbors, weights
        Its rows in pinned memory; weights, or None.
    """

    whole: DeviceGraph
    neighbors: PinnedArray
    weights: PinnedArray | None

    @property
    def rows(self) -> Rows:
        """Rows as a search within a budget gets them: offsets on the device, for it to copy."""
        held = self.whole.out_hub if self.weights is None else self.whole.out_light
        assert held is not None
        arcs = len(held.neighbors)
        weights = None if self.weights is None else self.weights.device[:arcs].view(np.float32)
        return Rows(held.offsets, self.neighbors.device[:arcs], weights)


def build(kronecker: Kronecker, weighted: bool, range_arcs: int) -> PinnedGraph:
    """Make all rows, and pin them."""
    count = TupleCount(kronecker.vertices)
    for block in edge_blocks(kronecker, False, BLOCK_EDGES):
        count.add(DeviceBlock(*block))
    degree, loops = count.finish()
    del count
    numbering, starts = number_vertices([degree]), cupy.zeros(1, np.uint32)
    del degree
    order, tuples = numbering.order, numbering.tuples
    rows, most = len(order), numbering.arcs
    ranges = ranges_of(numbering, starts, range_arcs)
    float32 = np.dtype(np.float32) if weighted else None
    maker = RowMaker(numbering.internal_of, None, starts, float32, float32)
    offsets = cupy.zeros(rows + 1, np.uint64)
    names = ["light", "weights"] if weighted else ["hub"]
    device = [cupy.empty(most, np.uint32) for _ in names]
    pinned = [PinnedArray(most, np.uint32, threads=THREADS) for _ in names]
    kept = 0
    for low, high, arcs in ranges:
        blocks = starmap(DeviceBlock, edge_blocks(kronecker, weighted, BLOCK_EDGES))
        made = maker.rows(blocks, BOTH_ENDS, low, high, arcs)
        end = kept + int(made.offsets[-1])
        offsets[low : high + 1] = made.offsets + np.uint64(kept)
        for name, all_there, all_pinned in zip(names, device, pinned, strict=True):
            column = getattr(made, name).view(np.uint32)
            all_there[kept:end] = column
            copy(all_pinned.device[kept:end], column)
        kept = end
        del made, column
        cupy.get_default_memory_pool().free_all_blocks()
    arrays = [array[:kept] for array in device]
    rows_there = Rows(offsets, arrays[0], arrays[1].view(np.float32) if weighted else None)
    hub, light = (None, rows_there) if weighted else (rows_there, None)
    names = order.astype(np.int64), numbering.internal_of.view(np.int32)
    counts = tuples, kronecker.edges, loops
    whole = DeviceGraph(False, *names, *counts, hub, hub, light, light)
    return PinnedGraph(whole, pinned[0], pinned[1] if weighted else None)


def copy(target: Any, source: Any) -> None:
    """Bytes from one array to the other, of whichever memory."""
    runtime = cupy.cuda.runtime
    ends = target.data.ptr, source.data.ptr
    runtime.memcpy(*ends, source.nbytes, runtime.memcpyDefault)
