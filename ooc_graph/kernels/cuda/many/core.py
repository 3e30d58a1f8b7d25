"""What many searches have in common on a CUDA device: rows that paths lead through, in tiles.

A *leaf* has one in-arc, and no out-arc but one to the same neighbour, so no shortest path leads
through it: its distance is its neighbour's and one weight more. All other rows are the *core*, and
numbered anew in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.common.compiled import kernel as compiled
from ooc_graph.kernels.cuda.many.prune import constants
from ooc_graph.kernels.cuda.runtime.modules import cuda, launch
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows
from ooc_graph.types import AnyArray

NONE = np.uint32(0xFFFFFFFF)
TILE_ARCS = 32
SHARED_ROW = np.uint32(1 << 31)
MOST_ARCS = (1 << 31) - 1
"""Arcs of the core are numbered in 31 bits."""


@dataclass(frozen=True)
class Core:
    """A graph as batches search it; CuPy arrays."""

    rows: int  # of the core
    tile: Any  # uint32 (tiles + 1,): first arcs; `SHARED_ROW` if the row has other tiles, too
    # uint32 (arcs,): both ends of each in-arc of the core; its weight is of the distances' type.
    neighbor: Any
    row: Any
    weight: Any
    # (all rows,): the distance of a row is that of this row of the core, and so much more.
    entry_row: Any
    entry_add: Any
    # (all rows,): a search from a row begins at this row of the core, at that distance; `NONE` if
    # it leads nowhere.
    start_row: Any
    start_add: Any
    of: Any  # int64 (rows of the core,): the row that it is among all


@dataclass(frozen=True)
class Columns:
    """What is asked of every source, on the device."""

    row: Any  # (columns,): of the core
    add: Any  # (columns,): to the distance of that row
    potential: Any  # (columns,), or None
    most: Any  # largest distance that counts as reached


@compiled
def cut_tiles(counts: Any, tile: Any) -> int:
    """Cut the arcs of consecutive rows, int64 (rows,), into tiles; how many there are.

    ``tile``, uint32 with room for rows + arcs / 16, becomes the first arc of each, and the end of
    the last.
    """
    tiles, begin, arc = 0, 0, 0
    for row in range(len(counts)):
        end = arc + counts[row]
        if end - begin > TILE_ARCS and arc > begin:
            tile[tiles] = begin
            tiles += 1
            begin = arc
        if counts[row] > TILE_ARCS:
            while begin < end:
                tile[tiles] = np.uint32(begin) | SHARED_ROW
                tiles += 1
                begin += TILE_ARCS
            begin = end
        arc = end
    if arc > begin:
        tile[tiles] = begin
        tiles += 1
    tile[tiles] = arc
    return tiles


def tiles_of(counts: AnyArray) -> AnyArray:
    """Tiles of rows with so many arcs each: uint32 (tiles + 1,)."""
    tile: AnyArray = np.empty(len(counts) + int(counts.sum()) // (TILE_ARCS // 2) + 2, np.uint32)
    return tile[: cut_tiles(counts, tile) + 1]


def rows_of_arcs(rows: DeviceRows) -> Any:
    """The row of each arc: uint32 (arcs,), on the device."""
    row = cuda().empty(rows.arcs, np.uint32)
    arguments, chosen = (np.uint32(rows.rows), rows.offsets, row), constants(rows.weights.dtype)
    count = rows.rows * 32
    launch("many_prune.cu", "name_rows", count, *arguments, constants=chosen, most=4096)
    return row


def core_of(into: DeviceRows) -> Core:
    """The core of a graph given by its in-arcs, `MOST_ARCS` at most (else `UsageError`)."""
    cupy, rows = cuda(), into.rows
    if into.arcs > MOST_ARCS:
        raise UsageError(
            f"many sources on a CUDA device take {MOST_ARCS:,} needed arcs at most, and the graph "
            f"has {into.arcs:,}: use --device cpu"
        )
    row = rows_of_arcs(into)
    out_arcs, neighbor, out_weight = _outward(into, row)
    leaf = _leaves(into, out_arcs, neighbor)
    number = (cupy.cumsum(~leaf, dtype=np.uint32) - np.uint32(1)).astype(np.uint32)
    first = _first(into)
    near = number[into.neighbors[first]] if into.arcs else number
    weight = into.weights[first] if into.arcs else cupy.zeros(rows, into.weights.dtype)
    zero = weight.dtype.type(0)
    entry_row = cupy.where(leaf, near, number).astype(np.uint32)
    entry_add = cupy.where(leaf, weight, zero)
    start_row = cupy.where(leaf & (out_arcs == 0), NONE, entry_row).astype(np.uint32)
    start_add = cupy.where(leaf, out_weight, zero)
    inner = ~(leaf[row] | leaf[into.neighbors])
    kept = number[row[inner]]
    core_rows = int(rows - leaf.sum())
    counts = cupy.bincount(kept, minlength=max(core_rows, 1)).get().astype(np.int64)
    arcs = number[into.neighbors[inner]], kept, into.weights[inner]
    ends = entry_row, entry_add, start_row, start_add
    return Core(core_rows, cupy.asarray(tiles_of(counts)), *arcs, *ends, cupy.flatnonzero(~leaf))


def _outward(into: DeviceRows, row: Any) -> tuple[Any, Any, Any]:
    """Out-arcs of each row: how many, and of single ones where they lead and the weight."""
    cupy = cuda()
    arcs = cupy.bincount(into.neighbors, minlength=into.rows)
    single = arcs[into.neighbors] == 1
    from_ = into.neighbors[single]
    neighbor = cupy.full(into.rows, NONE, np.uint32)
    weight = cupy.zeros(into.rows, into.weights.dtype)
    neighbor[from_] = row[single]
    weight[from_] = into.weights[single]
    return arcs, neighbor, weight


def _first(into: DeviceRows) -> Any:
    """Places of the rows' first arcs; of rows without arcs any place."""
    return cuda().minimum(into.offsets[:-1], np.uint64(max(into.arcs - 1, 0))).astype(np.int64)


def _leaves(into: DeviceRows, out_arcs: Any, neighbor: Any) -> Any:
    """Which rows are leaves; of two that are joined by nothing but each other the second."""
    cupy = cuda()
    if not into.arcs:
        return cupy.zeros(into.rows, np.bool_)
    near = into.neighbors[_first(into)]
    back = (out_arcs == 1) & (neighbor == near)
    leaf = (cupy.diff(into.offsets) == 1) & ((out_arcs == 0) | back)
    return leaf & ~(leaf[near] & (cupy.arange(into.rows) < near))
