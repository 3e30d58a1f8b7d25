"""Edges in memory -> a searchable graph in memory, of the same arrays as a store would give.

Rows are made in place. The arcs wait for their sorting in the very arrays that will hold the rows:
neighbours where hub rows will be, row numbers where light rows will be, weights where weights will
be. A bucket is sorted in the cache of a thread and then written to its final position, which never
lies behind those that it was read from, because duplicates only make rows shorter.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import UsageError
from ooc_graph.kernels.cpu.build.arcs import Arcs, count_buckets
from ooc_graph.kernels.cpu.build.partition import QUEUE_ARCS, Queues, queue_arcs, write_queues
from ooc_graph.kernels.cpu.build.rows import as_keys
from ooc_graph.layout import names
from ooc_graph.layout.names import HUB, IN, LIGHT
from ooc_graph.shards.memory_graph import MemoryArrays, MemoryGraph, registered
from ooc_graph.shards.memory_sort import Arrays, Plan, Sorting
from ooc_graph.shards.memory_vertices import (
    BLOCK_EDGES,
    InThreads,
    SharedBlocks,
    Vertices,
    number_vertices,
)
from ooc_graph.shards.plan import plan_buckets
from ooc_graph.shards.tally import graph_attributes, stored_weight_dtype
from ooc_graph.threads import Threads
from ooc_graph.types import IntArray, Rows


def make_rows(plan: Plan, side: str) -> dict[str, Rows]:
    """Rows of one side in every order that is wanted."""
    counts = _counts(plan, side)
    starts = np.concatenate([[0], np.cumsum(counts)])
    arrays = _allocate(plan, int(starts[-1]))
    _partition(plan, side, starts[:-1].copy(), arrays)
    return Sorting(plan, starts, arrays).run()


def _allocate(plan: Plan, arcs: int) -> Arrays:
    hub = np.empty(arcs, plan.id_dtype) if HUB in plan.orders else None
    light = np.empty(arcs, plan.id_dtype) if LIGHT in plan.orders else None
    keys = np.empty(arcs if light is not None else 0, plan.key_dtype)
    apart = hub is None or light is None
    rows = np.empty(arcs, plan.buckets.row_dtype) if apart else light
    assert rows is not None
    return Arrays(hub, light, keys, rows)


class _Translated:
    """A thread's blocks as internal ids and keys, each block in the memory of the last one."""

    def __init__(self, plan: Plan, side: str, blocks: SharedBlocks) -> None:
        self._plan, self._blocks, self._swap = plan, blocks, side == IN
        self._ends = np.empty((2, BLOCK_EDGES), plan.id_dtype)
        self._keys = np.empty(BLOCK_EDGES if plan.weight_dtype else 0, plan.key_dtype)

    def __iter__(self) -> Any:
        dtype, tables = self._plan.weight_dtype, self._plan.vertices.tables
        for _, block in self._blocks:
            u, v = self._ends[:, : len(block)]
            tables.translate(block.source, u)
            tables.translate(block.target, v)
            keys = self._keys[: len(block)]
            if dtype is not None and block.weight is not None:
                weights = keys.view(dtype)
                # Adding zero makes minus zero plus zero: equal weights get equal keys.
                zero = block.weight.dtype.type(0)
                np.add(block.weight, zero, out=weights, casting="same_kind")
                keys = as_keys(weights)
            yield (v, u, keys) if self._swap else (u, v, keys)


def _counts(plan: Plan, side: str) -> IntArray:
    """Arcs of every bucket, duplicates included."""
    buckets = plan.buckets
    if not plan.source.directed:
        # A tuple is an arc at both of its ends, so the sums of the plan are exact.
        return buckets.arcs
    blocks = SharedBlocks(plan.source)

    def count() -> IntArray:
        counts = np.zeros((2, len(buckets)), np.int64)
        for u, v, _ in _Translated(plan, side, blocks):
            count_buckets(u, v, False, buckets.table, buckets.base, counts)
        summed: IntArray = counts.sum(axis=0)
        return summed

    total: IntArray = np.sum(plan.in_threads(count), axis=0)
    return total


def _partition(plan: Plan, side: str, cursor: IntArray, arrays: Arrays) -> None:
    """Bring all arcs to their buckets."""
    if not len(arrays.neighbors):
        return
    buckets, blocks = plan.buckets, SharedBlocks(plan.source)
    both = not plan.source.directed
    table = buckets.table.astype(np.min_scalar_type(len(buckets)))
    where = (table, buckets.base, buckets.first.astype(plan.id_dtype))
    arcs = Arcs(arrays.rows, arrays.neighbors, arrays.keys)

    def work() -> None:
        used = [column for column in arcs if len(column)]
        queues = Queues(
            np.zeros(len(buckets), np.uint32),
            np.empty((len(buckets), QUEUE_ARCS * len(used)), np.result_type(*used)),
        )
        for u, v, keys in _Translated(plan, side, blocks):
            queue_arcs(u, v, keys, both, *where, queues, cursor, arcs)
        write_queues(queues, cursor, arcs)

    plan.in_threads(work)


# Queues for all buckets stay in a core's cache, and a bucket in the cache that cores share.
BUCKET_ARCS = 1 << 19
MOST_BUCKETS = 1 << 9


def build_in_memory(source: EdgeSource, orders: tuple[str, ...], threads: int) -> MemoryGraph:
    """Sort edges into rows by threads of this process; nothing is written."""
    with Threads(threads, thread_name_prefix="ooc-graph") as executor:

        def in_threads(work: Callable[[], Any]) -> list[Any]:
            return list(executor.map(lambda _: work(), range(threads)))

        plan = _plan(source, number_vertices(source, in_threads), orders, in_threads)
        sides = (names.OUT, names.IN) if source.directed else (names.OUT,)
        rows = {side: make_rows(plan, side) for side in sides}
    return _graph(plan, rows)


def _plan(
    source: EdgeSource, vertices: Vertices, orders: tuple[str, ...], in_threads: InThreads
) -> Plan:
    kept, arcs = len(vertices.tuples), int(vertices.tuples.sum(dtype=np.int64))
    buckets = plan_buckets(vertices.tuples, 1, max(BUCKET_ARCS, arcs // MOST_BUCKETS))
    if int(vertices.tuples.max(initial=0)) >= 1 << 32:
        raise UsageError("a vertex has 2^32 edges or more; make a store of them with build()")
    ids = names.id_dtype(kept)
    dtype = stored_weight_dtype(source, vertices.total) if names.LIGHT in orders else None
    return Plan(source, vertices, buckets, ids, dtype, orders, in_threads)


def _graph(plan: Plan, rows: dict[str, dict[str, Rows]]) -> MemoryGraph:
    vertices = plan.vertices
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
        directed=plan.source.directed,
        weight_dtype=plan.weight_dtype,
        vertices=len(vertices.internal_of),
        rows=plan.kept,
        first_id=vertices.first_id,
        arcs=arcs,
        shards=1,
        orders=plan.orders,
    )
    return registered(MemoryGraph(MemoryArrays(path, attributes, arrays)))
