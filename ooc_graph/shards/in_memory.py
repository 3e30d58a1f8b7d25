"""Edges in memory -> a searchable graph in memory, of the same arrays as a store would give."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import UsageError
from ooc_graph.layout import names
from ooc_graph.shards.memory_graph import MemoryArrays, MemoryGraph, registered
from ooc_graph.shards.memory_rows import make_rows
from ooc_graph.shards.memory_sort import Plan
from ooc_graph.shards.memory_vertices import InThreads, Vertices, number_vertices
from ooc_graph.shards.plan import plan_buckets
from ooc_graph.shards.tally import graph_attributes, stored_weight_dtype
from ooc_graph.threads import Threads
from ooc_graph.types import Rows

# Queues for all buckets stay in a core's cache, and a bucket in the cache that cores share.
BUCKET_ARCS = 1 << 19
MOST_BUCKETS = 1 << 9


def build_in_memory(source: EdgeSource, orders: tuple[str, ...], threads: int) -> MemoryGraph:
    """Sort edges into rows by threads of this process; nothing is written."""
    with Threads(threads, thread_name_prefix="ooc-graph") as executor:

        def in_threads(work: Callable[[], Any]) -> list[Any]:
            return list(executor.map(lambda _: work(), range(threads)))

        vertices = number_vertices(source, in_threads)
        plan = _plan(source, vertices, orders, in_threads)
        sides = (names.OUT, names.IN) if source.directed else (names.OUT,)
        rows = {side: make_rows(plan, side) for side in sides}
    return _graph(source, vertices, plan, rows)


def _plan(
    source: EdgeSource, vertices: Vertices, orders: tuple[str, ...], in_threads: InThreads
) -> Plan:
    kept, arcs = len(vertices.tuples), int(vertices.tuples.sum(dtype=np.int64))
    buckets = plan_buckets(vertices.tuples, 1, max(BUCKET_ARCS, arcs // MOST_BUCKETS))
    if int(vertices.tuples.max(initial=0)) >= 1 << 32:
        raise UsageError("a vertex has 2^32 edges or more; make a store of them with build()")
    ids = names.id_dtype(kept)
    dtype = stored_weight_dtype(source, vertices.total) if names.LIGHT in orders else None
    known = vertices.tables, vertices.tuples, buckets
    return Plan(source, *known, ids, dtype, orders, in_threads)


def _graph(
    source: EdgeSource, vertices: Vertices, plan: Plan, rows: dict[str, dict[str, Rows]]
) -> MemoryGraph:
    arrays = {
        names.ORIGINAL_OF: vertices.original_of,
        names.INTERNAL_OF: vertices.internal_of,
        names.TUPLES: vertices.tuples,
    }
    if vertices.originals is not None:
        arrays[names.ORIGINALS] = vertices.originals
    for side, orders in rows.items():
        for order, found in orders.items():
            group = names.rows_path(0, side, order)
            arrays[f"{group}/offsets"] = found.offsets
            arrays[f"{group}/neighbors"] = found.neighbors
            if found.weights is not None:
                arrays[f"{group}/weights"] = found.weights
    arcs = {side: int(next(iter(orders.values())).offsets[-1]) for side, orders in rows.items()}
    path = Path("in memory") / uuid.uuid4().hex
    attributes = graph_attributes(
        vertices.total,
        directed=source.directed,
        weight_dtype=plan.weight_dtype,
        vertices=len(vertices.internal_of),
        rows=plan.kept,
        first_id=vertices.first_id,
        arcs=arcs,
        shards=1,
        orders=plan.orders,
    )
    return registered(MemoryGraph(MemoryArrays(path, attributes, arrays)))
