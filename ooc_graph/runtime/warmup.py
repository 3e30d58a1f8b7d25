"""Compile a graph's kernels on a graph of two vertices, so that no search's time has it in it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ooc_graph.kernels.common.device import search_of
from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.kernels.common.tuning import FEW_AT_HUBS
from ooc_graph.layout.names import (
    APSP,
    FROM_ONE,
    MULTI_SOURCE_BFS,
    PAGERANK,
    WEIGHTED_PAGERANK,
    id_dtype,
)
from ooc_graph.runtime import process
from ooc_graph.runtime.compile_ahead import Part, compile_ahead, turn
from ooc_graph.shards.load import Graph
from ooc_graph.types import Dealing, Rows, Shard

NEAR_FAR, RANKS, OWNED_RANKS = "near-far", "ranks", "owned-ranks"
TIERS, TIER_RANKS, OWNED_TIER_RANKS = "tiers", "tier-ranks", "owned-tier-ranks"
STREAMS = "streams"

_BY_STEPS = (PAGERANK, WEIGHTED_PAGERANK)
"""Kernels that ranks alone have: one has the whole graph."""
_COMPILED = ("bfs", "sssp", "components", APSP, MULTI_SOURCE_BFS, *_BY_STEPS)

_OF_STORES = TIERS, TIER_RANKS, OWNED_TIER_RANKS, STREAMS
_OF_RANKS = RANKS, OWNED_RANKS, TIER_RANKS, OWNED_TIER_RANKS

_done: set[Part] = set()


def warm(kernel: str, graph: Graph, device: Any, *, variant: str = "") -> None:
    """Run a search of the same types, once in a process; on a machine, one process compiles it."""
    if kernel not in _COMPILED:
        return
    weights = None if graph.weight_dtype is None else graph.weight_dtype.name
    part = Part(kernel, graph.directed, id_dtype(graph.rows).name, weights, variant)
    if part not in _done:
        worker = process.dask_worker()
        watched = worker is not None and worker.memory_manager.memory_limit
        # The compiler takes more memory than may be left.
        if variant in _OF_STORES or watched:
            compile_ahead([part], least=1)
        with turn(part):
            warm_part(part, device)
        _done.add(part)


def warm_part(part: Part, device: Any) -> None:
    """Run the search on two vertices that are neighbours of each other."""
    if part.variant in _OF_RANKS or part.job in _BY_STEPS:
        _search_by_rank(part, device)
        return
    if part.variant == TIERS:
        from ooc_graph.shards.tiny_tiers import ring_search  # noqa: PLC0415 (memory needs none)

        ring = ring_search(part.job, part.directed, np.dtype(part.ids), part.weights, device)
        ring.run(np.zeros(1, np.int64) if part.job == APSP else 0)
        return
    sources = np.zeros(FEW_AT_HUBS * device.threads, np.int64)
    roots: dict[str, Any] = {
        "components": (),
        APSP: (sources[:1],),
        # So many that they are searched from by batches.
        MULTI_SOURCE_BFS: (sources,),
    }
    search_of(device, part.job)(pair_of(part)).run(*roots.get(part.job, (0,)))


def _search_by_rank(part: Part, device: Any) -> None:
    """Search by the one rank of two vertices, or of a ring whose arcs are in a tier."""
    # One rank in memory needs none of these.
    from ooc_graph.exchange import codec, routing  # noqa: PLC0415
    from ooc_graph.exchange.interface import Route  # noqa: PLC0415
    from ooc_graph.exchange.ranks import run_in_process  # noqa: PLC0415

    rank, shared, algorithm = _rank_of(part, device)
    is_rooted = part.job in FROM_ONE
    run_in_process({0: algorithm(rank, *((0,) if is_rooted else ()), shared)}, shared)
    if part.variant == RANKS and part.job == "bfs":
        rank.rehearse()
    if part.variant not in _OF_RANKS:
        return  # one rank, which sends nothing
    codec.rehearse()
    routing.sort_by_seat(Route(np.zeros(1, part.ids)), routing.seat_of_rank([0]))
    # Steps that so small a graph does not take.
    is_owner = part.variant in (OWNED_RANKS, OWNED_TIER_RANKS)
    if is_owner or (part.variant == RANKS and part.job == "sssp"):
        rank.rehearse(shared)
    if part.variant == TIER_RANKS and part.job == "sssp":
        rank.push_within(shared, shared.unreached)
        rank.offer_within(shared, shared.unreached)


def _rank_of(part: Part, device: Any) -> tuple[Any, Any, Any]:
    """The rank, what ranks share, and their algorithm."""
    from ooc_graph.shards.tiny_tiers import ring_owner, ring_rank  # noqa: PLC0415
    from ooc_graph.traverse.bfs import bfs  # noqa: PLC0415
    from ooc_graph.traverse.components import components  # noqa: PLC0415
    from ooc_graph.traverse.pagerank import warming  # noqa: PLC0415
    from ooc_graph.traverse.sssp import sssp  # noqa: PLC0415
    from ooc_graph.traverse.sssp_owned import sssp_owned  # noqa: PLC0415

    pair = pair_of(part)
    if part.job in _BY_STEPS:
        steps = getattr(device, f"{part.job}_rank")(pair)
        return steps, device.pagerank_shared(2), warming
    types = np.dtype(part.ids), part.weights
    distances = distances_of(np.dtype(part.weights or np.float32))
    if part.variant in (OWNED_RANKS, OWNED_TIER_RANKS):
        owner = partial(sssp_owned, most_listed=1)
        if part.variant == OWNED_TIER_RANKS:
            return *ring_owner(*types, device), owner
        return device.owned_sssp_rank(pair), device.owned_sssp_shared(2, 1, distances), owner
    algorithm: Any = {"bfs": bfs, "sssp": sssp, "components": components}[part.job]
    if part.variant == TIER_RANKS:
        return *ring_rank(part.job, part.directed, *types, device), algorithm
    shared: dict[str, tuple[Any, ...]] = {"bfs": (2, 1), "sssp": (2, distances), "components": (2,)}
    made = getattr(device, f"{part.job}_shared")(*shared[part.job])
    return getattr(device, f"{part.job}_rank")(pair), made, algorithm


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
