"""Edges in memory -> rows in memory, in place: second and third pass of `in_memory`.

The arcs wait for their sorting in the very arrays that will hold the rows: neighbours where hub
rows will be, row numbers where light rows will be, weights where weights will be. A bucket is
sorted in the cache of a thread and then written to its final position, which never lies behind
those that it was read from, because duplicates only make rows shorter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.cpu.build.arcs import Arcs, count_buckets
from ooc_graph.kernels.cpu.build.partition import QUEUE_ARCS, Queues, queue_arcs, write_queues
from ooc_graph.kernels.cpu.build.rows import as_keys
from ooc_graph.layout.names import HUB, IN, LIGHT
from ooc_graph.shards.memory_sort import Arrays, Plan, Sorting
from ooc_graph.shards.memory_vertices import BLOCK_EDGES, SharedBlocks
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
        dtype = self._plan.weight_dtype
        for _, block in self._blocks:
            u, v = self._ends[:, : len(block)]
            self._plan.tables.translate(block.source, u)
            self._plan.tables.translate(block.target, v)
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
