"""Load for a rank on a CUDA device the first arcs of its rows; all arcs stay in the store."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np

from ooc_graph.kernels.common.store.rows import FIRST_LOOK
from ooc_graph.memory.cuda.disk import WINDOW_ROWS
from ooc_graph.memory.cuda.disk_ranks import DiskRankPlan
from ooc_graph.shards.device_tiers import fill_side, load_side
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tiers import Tiered, TierSearch, bind_sides, known_of_rank, require_stored
from ooc_graph.types import Dealing


def load_disk_rank(
    graph: Graph,
    kernel: str,
    shard: int,
    plan: DiskRankPlan,
    device: Any,
    *,
    window: int = WINDOW_ROWS,
    look: int = FIRST_LOOK,
) -> TierSearch:
    """Bring the heads of a shard's rows to the device; the rank is the ``search`` of what returns.

    The store is read once, in order. ``plan`` is of all ranks of the worker. MemoryBudgetError if
    the device's memory is too small; CorruptStoreError names the chunk.
    """
    _, order = require_stored(graph, kernel)
    dealing = Dealing(graph.rows, graph.shards, shard)
    there: list[Any] = []

    def load(name: str, undo: ExitStack) -> Tiered:
        more: dict[str, Any] = {"shard": shard, "window": window, "look": look}
        side = load_side(graph, name, order, plan, undo, None, np.int32, **more)
        rows = device.store_rows(side.rows, plan.share.least, plan.share.shift)
        there.append(rows)
        return fill_side(side, plan.share, window, rows.fill)

    def bind(out: Tiered, _into: Tiered) -> Any:
        both = dealing, there[0], there[-1]
        if kernel == "bfs":
            return device.store_bfs_rank(*both)
        return device.store_sssp_rank(*both, known_of_rank(graph, out))

    return TierSearch(*bind_sides(graph.sides, load, bind), plan)
