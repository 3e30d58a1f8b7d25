"""Load for a rank on a CUDA device the first arcs of its rows; all arcs stay in the store."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from ooc_graph.kernels.common.sssp.survey import Known, first_rows
from ooc_graph.kernels.common.store.rows import FIRST_LOOK
from ooc_graph.memory.cuda.disk import WINDOW_ROWS
from ooc_graph.memory.cuda.disk_ranks import DiskRankPlan
from ooc_graph.shards.device_tiers import fill_side, load_side
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tiers import Tiered, TierSearch, require_stored, survey_tier
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

    The store is read once, in order. ``plan`` is of all ranks of the worker.

    Raises
    ------
    MemoryBudgetError
        The device's memory is too small.
    CorruptStoreError
        Names the chunk.
    """
    _, order = require_stored(graph, kernel)
    dealing = Dealing(graph.rows, graph.shards, shard)
    sides: list[Tiered] = []
    there: list[Any] = []
    with ExitStack() as undo:
        for name in graph.sides:
            more: dict[str, Any] = {"shard": shard, "window": window, "look": look}
            side = load_side(graph, name, order, plan, None, np.int32, **more)
            undo.callback(side.blocks.close)
            rows = device.store_rows(side.rows, plan.share.least, plan.share.shift)
            heaviest = fill_side(side, plan.share, window, rows.fill)
            side.blocks.keeping = True
            sides.append(replace(side, heaviest=heaviest))
            there.append(rows)
        both = dealing, there[0], there[-1]
        if kernel == "bfs":
            rank = device.store_bfs_rank(*both)
        else:
            survey = survey_tier(sides[0].rows, graph.head_share(first_rows(graph.rows)))
            rank = device.store_sssp_rank(*both, Known(survey, sides[0].heaviest))
        undo.pop_all()
    return TierSearch(rank, tuple(sides), plan)
