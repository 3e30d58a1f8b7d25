"""Compile the kernels of ranks, and of searches with arcs in the store; see `warmup`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.exchange.ranks import run_in_process
from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import APSP
from ooc_graph.shards.tiny_tiers import ring_rank, ring_search
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.components import components
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import Shard


def in_memory(kernel: str, weights: str | None, tiny: Shard, device: Any) -> None:
    """Run the one rank that holds all rows of a tiny graph."""
    coroutine: Any
    if kernel == "bfs":
        shared = device.bfs_shared(2, 1)
        coroutine = bfs(device.bfs_rank(tiny), 0, shared)
    elif kernel == "components":
        shared = device.components_shared(2)
        coroutine = components(device.components_rank(tiny), shared)
    else:
        shared = device.sssp_shared(2, distances_of(np.dtype(weights or np.float32)))
        coroutine = sssp(device.sssp_rank(tiny), 0, shared)
    run_in_process({0: coroutine}, shared)


def on_ring(
    kernel: str,
    directed: bool,
    ids: np.dtype[Any],
    weights: str | None,
    device: CpuDevice,
    *,
    of_rank: bool,
) -> None:
    """Search a ring whose arcs are in a tier, whole or by its only rank."""
    if not of_rank:
        ring = ring_search(kernel, directed, ids, weights, device)
        ring.run(np.zeros(1, np.int64) if kernel == APSP else 0)
        return
    rank, shared = ring_rank(kernel, directed, ids, weights, device)
    algorithm: Any = bfs if kernel == "bfs" else sssp
    run_in_process({0: algorithm(rank, 0, shared)}, shared)
    if kernel == "sssp":
        # Steps that so small a graph does not take.
        rank.push_within(shared, shared.unreached)
        rank.offer_within(shared, shared.unreached)
