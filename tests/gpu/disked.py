"""Graphs in host memory bound to a tiny tier, for SSSP on a device that has only their heads."""

from __future__ import annotations

import numpy as np

from ooc_graph.kernels.common.sssp.rows import Known, survey
from ooc_graph.kernels.common.store.rows import HeadRows, TierRows
from ooc_graph.kernels.cuda.pinned.sssp import SsspShare
from ooc_graph.kernels.cuda.store.heads import DeviceHeads, DiskSide
from ooc_graph.kernels.cuda.store.sssp import CudaDiskSsspSearch
from ooc_graph.memory.heads import HeadRule
from ooc_graph.shards.tiny_tiers import bind_rows
from ooc_graph.types import Rows, Shard
from tests.gpu.comparison import light_sides


def bare(heads: HeadRows) -> HeadRows:
    """What host memory has of rows whose heads are on a device."""
    none, weights = np.empty(0, np.uint32), np.empty(0, np.float32)
    return HeadRows(none, heads.lengths, heads.positions, none, weights, weights)


def disk_side(
    rows: Rows, hold: SsspShare, device_arcs: int | None = None, look: int = 1024, **sizes: int
) -> DiskSide:
    """Rows whose heads are on the device, and whose other arcs come from a tier in memory."""
    bound = bind_rows(rows, HeadRule(1), narrow="uint32", **sizes)
    blocks, window, known = bound._blocks, len(bound.window.row), bare(bound.heads)
    heads = DeviceHeads(known.lengths, hold, device_arcs)
    limits = HeadRule(hold.least, hold.shift).of(known.lengths)
    heads.fill(TierRows(known, blocks, window, limits=limits))
    return DiskSide(TierRows(known, blocks, window, look), heads)


def disk_search(
    shard: Shard, hold: SsspShare, device_arcs: int | None = None, **sizes: int
) -> CudaDiskSsspSearch:
    """Search of a graph with so much of its rows within the device's reach."""
    out, into, tuples = light_sides(shard)
    assert out.weights is not None
    there = disk_side(out, hold, device_arcs, **sizes)
    other = there if into is out else disk_side(into, hold, device_arcs, **sizes)
    known = Known(survey(out, tuples), out.weights.max(initial=0))
    return CudaDiskSsspSearch(there, other, known)
