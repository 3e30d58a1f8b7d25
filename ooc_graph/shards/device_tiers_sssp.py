"""Load for SSSP on a CUDA device what a plan has of a store's rows within its reach."""

from __future__ import annotations

from ooc_graph.kernels.common.sssp.survey import first_rows
from ooc_graph.kernels.common.store.rows import FIRST_LOOK
from ooc_graph.kernels.cuda.pinned.sssp import SsspHold
from ooc_graph.memory.cuda.disk import READERS, WINDOW_ROWS
from ooc_graph.memory.cuda.disk_sssp_plan import DiskSsspPlan
from ooc_graph.shards.cuda_disk_sssp import DiskHold, load_disk_sssp
from ooc_graph.shards.device_tiers import DeviceTierSearch, HostRoom
from ooc_graph.shards.load import Graph


def load_device_sssp(
    graph: Graph,
    plan: DiskSsspPlan,
    *,
    threads: int,
    window: int = WINDOW_ROWS,
    look: int = FIRST_LOOK,
) -> DeviceTierSearch:
    """Bring to the device and into host memory what a plan has there, with buffers for SSSP.

    Parameters
    ----------
    threads
        That touch pages which are pinned.
    window, look
        See `ooc_graph.kernels.common.store.rows.TierRows`.

    Raises
    ------
    CorruptStoreError
        Names the chunk.
    UsageError
        Ids have 64 bits, or weights are no float32.
    PinningRefusedError
        The system gives no pinned memory.
    MemoryBudgetError
        The device's memory is too small.
    """
    room = HostRoom(plan.pins, threads)
    held = DiskHold(
        SsspHold(plan.share.least, plan.share.shift),
        plan.batch_units,
        plan.near_arcs,
        plan.kept_bytes,
        plan.pins,
        READERS,
    )
    share, within = graph.head_share(first_rows(graph.rows)), {"window": window, "look": look}
    found = load_disk_sssp(graph, held, share, pinned=room.pinned, room=room.buffer, **within)
    return DeviceTierSearch(found.search, found.sides, plan, room)
