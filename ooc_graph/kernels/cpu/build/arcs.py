"""Tuples of original ids -> arcs of internal ids, grouped by the bucket of their row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import inlined, kernel, subroutine
from ooc_graph.types import DEAL_BLOCK, DEAL_BLOCK_BITS, AnyArray, IntArray

_BLOCK_BITS = np.uint64(DEAL_BLOCK_BITS)
_IN_BLOCK = np.uint64(DEAL_BLOCK - 1)


@kernel
def translate_dense(ids: IntArray, first: int, internal_of: AnyArray, out: AnyArray) -> None:
    """``out[i] = internal_of[ids[i] - first]``; isolated vertices become the largest id."""
    for i in range(len(ids)):
        out[i] = internal_of[ids[i] - first]


@kernel
def translate_sorted(
    ids: IntArray, originals: IntArray, internal_of: AnyArray, out: AnyArray
) -> int:
    """As `translate_dense`, by binary search in the ascending ``originals``.

    Returns the index of the first id that is not among them, or -1.
    """
    missing = -1
    for i in range(len(ids)):
        position = np.searchsorted(originals, ids[i])
        if position < len(originals) and originals[position] == ids[i]:
            out[i] = internal_of[position]
        elif missing < 0:
            missing = i
    return missing


@inlined
def table_index(row: Any, base: Any) -> Any:
    """Index of a row in the bucket table: rows first, then blocks of 1,024 rows.

    With ``base = 1023 * j`` the first 1,024 j rows have indices of their own, and every later
    block has one; a minimum says which, so that no branch has to be predicted.
    """
    return min(np.uint64(row), base + (np.uint64(row) >> _BLOCK_BITS))


@inlined
def _local(internal: Any, shift: Any) -> Any:
    """Row number inside its shard, as `Dealing.local_of` has it for 2**shift shards."""
    block = np.uint64(internal) >> _BLOCK_BITS
    return ((block >> shift) << _BLOCK_BITS) | (np.uint64(internal) & _IN_BLOCK)


@kernel
def count_buckets(
    u: AnyArray, v: AnyArray, both: bool, table: AnyArray, base: Any, counts: IntArray
) -> None:
    """Add the bucket of each arc's row to ``counts``, self-loops left out.

    Arcs lead from internal ids ``u`` to ``v``, with row u, and back, with row v, if ``both``.
    ``table`` has the bucket by `table_index`; ``base`` is uint64. ``counts`` int64 (2, buckets) is
    apart for the two directions, so that additions need not wait.
    """
    for i in range(len(u)):
        # A vertex whose tuples are all self-loops has no row, hence no index in the table.
        if u[i] == v[i]:
            continue
        counts[0, table[table_index(u[i], base)]] += 1
        if both:
            counts[1, table[table_index(v[i], base)]] += 1


class Arcs(NamedTuple):
    """Columns of arcs: rows, neighbours, and weights or their keys; (0,) if there are none."""

    rows: AnyArray
    neighbors: AnyArray
    weights: AnyArray


@inlined
def part_of(arcs: Any, start: int, stop: int) -> Arcs:
    """Arcs from one position to before another.

    Inlined, as a subroutine that gives arrays back does not count their references.
    """
    return Arcs(arcs.rows[start:stop], arcs.neighbors[start:stop], arcs.weights[start:stop])


@subroutine
def move_arc(arcs: Any, index: int, out: Any, position: Any) -> None:
    """Copy an arc without its row."""
    out.neighbors[position] = arcs.neighbors[index]
    if len(arcs.weights) > 0:
        out.weights[position] = arcs.weights[index]


@kernel
def scatter_arcs(
    u: AnyArray, v: AnyArray, weight: AnyArray, both: bool, where: Any, cursor: IntArray, out: Any
) -> None:
    """Write the arcs that `count_buckets` counted to their buckets' next positions.

    ``weight`` has length 0 if there are none. ``where`` has the table and base; log2 (uint64) of
    the number of shards; and each bucket's first row inside its shard. ``cursor``, each bucket's
    next index, is advanced. ``out`` receives the arcs; rows are counted from their bucket's first.
    """
    table, base, shift, first = where
    weighted = len(weight) > 0
    for i in range(len(u)):
        row, neighbor = u[i], v[i]
        if row == neighbor:
            continue
        for _direction in range(2 if both else 1):
            bucket = table[table_index(row, base)]
            position = cursor[bucket]
            cursor[bucket] = position + 1
            out.rows[position] = np.int64(_local(row, shift)) - first[bucket]
            out.neighbors[position] = neighbor
            if weighted:
                out.weights[position] = weight[i]
            row, neighbor = neighbor, row
