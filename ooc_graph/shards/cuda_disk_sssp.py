"""Load for SSSP on a CUDA device what a plan has of a store's rows within its reach."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import numpy as np

from ooc_graph.kernels.common.sssp.rows import Known, first_rows
from ooc_graph.kernels.common.store.rows import FIRST_LOOK
from ooc_graph.kernels.cuda.pinned.sssp import SsspShare
from ooc_graph.kernels.cuda.runtime.modules import within_memory
from ooc_graph.kernels.cuda.store.heads import DeviceHeads, DiskBuffers, DiskSide
from ooc_graph.kernels.cuda.store.sssp import CudaDiskSsspSearch, require_columns
from ooc_graph.memory.cuda.disk import WINDOW_ROWS
from ooc_graph.memory.cuda.disk_sssp_plan import DiskSsspPlan
from ooc_graph.memory.heads import HeadRule
from ooc_graph.shards.device_tiers import DeviceTierSearch, HostAllocator, fill_side, load_side
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_facts import require_stored, survey_tier
from ooc_graph.shards.tiers import Tiered, bind_sides


def load_device_sssp(
    graph: Graph,
    plan: DiskSsspPlan,
    *,
    threads: int,
    window: int = WINDOW_ROWS,
    look: int = FIRST_LOOK,
) -> DeviceTierSearch:
    """As `ooc_graph.shards.device_tiers.load_device_bfs`, for SSSP.

    The store is read once, in order. Host memory of a side meanwhile is 9 bytes a row, and what is
    staged; 4 bytes a row stay. Loading takes nothing more: what the device writes is there before.
    """
    _, order = require_stored(graph, "sssp")
    allocator, head_share = (
        HostAllocator(plan.pins, threads),
        graph.head_share(first_rows(graph.rows)),
    )
    share = SsspShare(plan.share.least, plan.share.shift)
    heads: list[DeviceHeads] = []
    buffers: DiskBuffers | None = None

    def load(name: str, undo: ExitStack) -> Tiered:
        nonlocal buffers
        given = plan, undo, allocator.buffer, np.uint32
        side = load_side(graph, name, order, *given, window=window, look=look)
        require_columns(side.rows.dtypes)
        if buffers is None:  # the other side's windows and batches are as large
            with within_memory("SSSP on this graph"):
                buffers = DiskBuffers(side.rows, pins=plan.pins)
        wanted = side.rows.heads.lengths, share, plan.near_arcs
        heads.append(DeviceHeads(*wanted, buffers=buffers, pinned=allocator.pinned))
        fill = partial(heads[-1].fill, buffers=buffers)
        return fill_side(side, HeadRule(share.least, share.shift), window, fill)

    def bind(out: Tiered, into: Tiered) -> CudaDiskSsspSearch:
        known = Known(survey_tier(out.rows, head_share), max(out.heaviest, into.heaviest))
        both = list(map(DiskSide, (out.rows, into.rows), heads))
        return CudaDiskSsspSearch(both[0], both[-1], known, pins=plan.pins, buffers=buffers)

    return DeviceTierSearch(*bind_sides(graph.sides, load, bind), plan, allocator)
