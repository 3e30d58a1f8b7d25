"""Ranks on a CUDA device that has the heads of their rows; the tails stay in the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from ooc_graph.kernels.common.sssp.rows import Known
from ooc_graph.memory.cuda.disk import WINDOW_ROWS
from ooc_graph.memory.cuda.disk_ranks import DiskRankPlan
from ooc_graph.shards.device_tiers import fill_side, load_side
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_facts import known_weights, require_stored
from ooc_graph.shards.tiers import Tiered, TierSearch, bind_sides
from ooc_graph.types import Dealing


def load_disk_rank(
    graph: Graph, kernel: str, shard: int, plan: DiskRankPlan, device: Any
) -> TierSearch:
    """Bring the heads of a shard's rows to the device; the rank is the ``search`` of what returns.

    The store is read once, in order. ``plan`` is of all ranks of the worker. MemoryBudgetError if
    the device's memory is too small; CorruptStoreError names the chunk.
    """

    def bind(known: Known | None, dealing: Dealing, *sides: Any) -> Any:
        if known is None:
            return device.store_bfs_rank(dealing, *sides)
        return device.store_sssp_rank(dealing, *sides, known)

    return _load_steps(graph, kernel, shard, plan, device, graph.sides, bind)


def load_disk_owner(graph: Graph, shard: int, plan: DiskRankPlan, device: Any) -> TierSearch:
    """As `load_disk_rank`, an SSSP rank that has the distances of its own rows alone."""

    def bind(known: Known | None, dealing: Dealing, out: Any, _into: Any) -> Any:
        return device.store_owned_sssp_rank(dealing, out, known, directed=graph.directed)

    return _load_steps(graph, "sssp", shard, plan, device, graph.sides[:1], bind)


def _load_steps(
    graph: Graph,
    kernel: str,
    shard: int,
    plan: DiskRankPlan,
    device: Any,
    sides: Sequence[str],
    make: Callable[..., Any],
) -> TierSearch:
    """What ``make`` makes of weights that are known, and of both sides on the device."""
    _, order = require_stored(graph, kernel)
    dealing = Dealing(graph.rows, graph.shards, shard)
    there: list[Any] = []

    def load(name: str, undo: ExitStack) -> Tiered:
        side = load_side(graph, name, order, plan, undo, None, np.int32, shard=shard)
        rows = device.store_rows(side.rows, plan.share.least, plan.share.shift)
        there.append(rows)
        return fill_side(side, plan.share, WINDOW_ROWS, rows.fill)

    def bind(out: Tiered, _into: Tiered) -> Any:
        known = None if kernel == "bfs" else known_weights(graph, out.rows, out.heaviest)
        return make(known, dealing, there[0], there[-1])

    return TierSearch(*bind_sides(sides, load, bind), plan)
