"""Compile a graph's kernels on a graph of two vertices, so that no search's time has it in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.device import search_of
from ooc_graph.kernels.common.tuning import FEW_SOURCES
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import APSP, MULTI_SOURCE_BFS, id_dtype
from ooc_graph.runtime import process
from ooc_graph.runtime.compile_ahead import compile_ahead
from ooc_graph.runtime.first_use import Part, turn
from ooc_graph.shards.load import Graph
from ooc_graph.types import Dealing, Rows, Shard

NEAR_FAR, RANKS, TIERS, TIER_RANKS = "near-far", "ranks", "tiers", "tier-ranks"

_COMPILED = ("bfs", "sssp", "components", APSP, MULTI_SOURCE_BFS)

_done: set[Part] = set()


def warm(kernel: str, graph: Graph, device: CpuDevice, *, variant: str = "") -> None:
    """Run a search of the same types, once in a process; on a machine, one process compiles it."""
    if kernel not in _COMPILED:
        return
    weights = None if graph.weight_dtype is None else graph.weight_dtype.name
    part = Part(kernel, graph.directed, id_dtype(graph.rows).name, weights, variant)
    if part not in _done:
        worker = process.dask_worker()
        watched = worker is not None and worker.memory_manager.memory_limit
        # The compiler takes more memory than may be left.
        if variant in (TIERS, TIER_RANKS) or watched:
            compile_ahead([part], least=1)
        with turn(part):
            warm_part(part, device)
        _done.add(part)


def warm_part(part: Part, device: Any) -> None:
    """Run the search on two vertices that are neighbours of each other."""
    if part.variant in (RANKS, TIERS, TIER_RANKS):
        from ooc_graph.runtime import warm_ranks  # noqa: PLC0415 (one rank in memory needs none)

        if part.variant == RANKS:
            warm_ranks.in_memory(part.job, part.weights, pair_of(part), device)
        else:
            types = part.job, part.directed, np.dtype(part.ids), part.weights, device
            warm_ranks.on_ring(*types, of_rank=part.variant == TIER_RANKS)
        return
    sources = np.zeros(FEW_SOURCES * device.threads, np.int64)
    roots: dict[str, Any] = {
        "components": (),
        APSP: (sources[:1],),
        # So many that they are searched from by batches.
        MULTI_SOURCE_BFS: (sources,),
    }
    search_of(device, part.job)(pair_of(part)).run(*roots.get(part.job, (0,)))


def pair_of(part: Part) -> Shard:
    """Two vertices that are neighbours of each other, in the types of a graph."""
    offsets = np.array([0, 1, 2], np.uint64)
    neighbors = np.array([1, 0], part.ids)
    hub = Rows(offsets, neighbors)
    light = None
    if part.weights is not None:
        # Near-far takes no weights of zero.
        weights = np.full(2, part.variant == NEAR_FAR, part.weights)
        light = Rows(offsets, neighbors, weights)
    # Nor floats where the first rows hold much.
    tuples = np.array([part.variant != NEAR_FAR, 1], np.uint32)
    return Shard(Dealing(2), part.directed, tuples, hub, hub, light, light)
