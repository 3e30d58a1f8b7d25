"""Tuples in memory -> arcs grouped by the bucket of their row, by several threads at once.

Each thread collects arcs in a short queue of its own for every bucket, small enough for its cache,
and writes a queue out when it is full: so memory sees whole cache lines, no arc is counted before,
and threads share the buckets with one atomic addition for every queue (software write combining:
C. Balkesen et al., "Main-memory hash joins on multi-core CPUs", ICDE 2013).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import allocating_kernel, subroutine
from ooc_graph.kernels.common.team import atomic_add
from ooc_graph.kernels.cpu.build.arcs import table_index
from ooc_graph.kernels.cpu.build.degrees import add_one
from ooc_graph.types import AnyArray, IntArray

QUEUE_ARCS = 64
"""Arcs of a queue: 256 bytes a column, so that few lines are written in part."""


class Queues(NamedTuple):
    """One thread's queues, one for each bucket.

    Row, neighbour and key of an arc stand side by side, so that an arc meets one cache line.
    """

    filled: AnyArray  # uint32 (buckets,): arcs in each queue
    arcs: AnyArray  # (buckets, QUEUE_ARCS * columns)


@allocating_kernel
def id_extent(source: IntArray, target: IntArray) -> tuple[int, int]:
    """Smallest and largest id of at least one tuple."""
    low = high = source[0]
    for i in range(len(source)):
        low = min(low, source[i], target[i])
        high = max(high, source[i], target[i])
    return low, high


@allocating_kernel
def count_spanned(
    source: IntArray,
    target: IntArray,
    first: int,
    low: AnyArray,
    degree: AnyArray,
    looped: AnyArray,
) -> int:
    """As `ooc_graph.kernels.cpu.build.degrees.count_dense`, for ids that may lie outside.

    ``looped`` uint8 (n,), or length 0, becomes 1 where a self-loop is. Returns -1 - i if tuple i is
    the first with an id outside ``first`` to ``first + n - 1``.
    """
    loops = 0
    count = len(low)
    for i in range(len(source)):
        u, v = source[i] - first, target[i] - first
        if u < 0 or v < 0 or u >= count or v >= count:
            return -1 - i
        if u == v:
            loops += 1
            if len(looped) > 0:
                looped[u] = 1
        else:
            add_one(low, degree, u)
            add_one(low, degree, v)
    return loops


@subroutine
def _write_queue(queue: AnyArray, count: Any, position: Any, out: Any) -> None:
    """Take a queue's arcs apart into columns."""
    if len(out.weights) > 0:
        for k in range(count):
            out.rows[position + k] = queue[3 * k]
            out.neighbors[position + k] = queue[3 * k + 1]
            out.weights[position + k] = queue[3 * k + 2]
    else:
        for k in range(count):
            out.rows[position + k] = queue[2 * k]
            out.neighbors[position + k] = queue[2 * k + 1]


@allocating_kernel
def queue_arcs(
    u: AnyArray,
    v: AnyArray,
    key: AnyArray,
    both: bool,
    table: AnyArray,
    base: Any,
    first: AnyArray,
    queues: Queues,
    cursor: IntArray,
    out: Any,
) -> None:
    """Queue the arcs u -> v, and v -> u if ``both``, for their buckets; self-loops are dropped.

    ``key`` has weights as unsigned keys, or length 0. ``table`` and ``base`` give the bucket of a
    row (see `ooc_graph.kernels.cpu.build.arcs`); ``first``, each bucket's first row, is unsigned so
    that no index has to be tested for being negative. ``cursor`` int64 (buckets,), the next
    position of each bucket, is shared by all threads. ``out`` receives arcs, with rows counted from
    their bucket's first.
    """
    filled, waiting = queues
    weighted = len(key) > 0
    one, two, full = np.uint32(1), np.uint32(2), np.uint32(QUEUE_ARCS)
    columns = np.uint32(3 if weighted else 2)
    for i in range(len(u)):
        row, neighbor = u[i], v[i]
        if row == neighbor:
            continue
        for _direction in range(2 if both else 1):
            bucket = table[table_index(row, base)]
            k = filled[bucket]
            at = k * columns
            waiting[bucket, at] = row - first[bucket]
            waiting[bucket, at + one] = neighbor
            if weighted:
                waiting[bucket, at + two] = key[i]
            k = np.uint32(k + one)
            if k == full:
                position = atomic_add(cursor, np.int64(bucket), QUEUE_ARCS)
                _write_queue(waiting[bucket], QUEUE_ARCS, position, out)
                k = np.uint32(0)
            filled[bucket] = k
            row, neighbor = neighbor, row


@allocating_kernel
def write_queues(queues: Queues, cursor: IntArray, out: Any) -> None:
    """Write out what is left in a thread's queues."""
    filled, waiting = queues
    for bucket in range(len(filled)):
        count = np.int64(filled[bucket])
        position = atomic_add(cursor, bucket, count)
        _write_queue(waiting[bucket], count, position, out)
        filled[bucket] = 0
