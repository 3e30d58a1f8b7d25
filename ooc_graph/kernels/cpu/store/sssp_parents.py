"""Parents from final distances, along loaded arcs (CPU).

The rules are those of `ooc_graph.kernels.cpu.sssp.parents`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import WORD_BITS, put
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.dealt import internal_of
from ooc_graph.kernels.common.sssp import plateaus
from ooc_graph.kernels.common.sssp.distances import path_sum
from ooc_graph.kernels.common.store.scans import scanner
from ooc_graph.kernels.common.team import atomic_add, take_chunk
from ooc_graph.kernels.cpu.sssp.parents import CHUNK_ROWS
from ooc_graph.kernels.cpu.store.sssp import EXAMINED, LOOKED, beyond_head


@subroutine
def _find_parent(field: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """Find a row's parent among its neighbours; whether arcs after these may hold a better one."""
    parent, none = field.parent, field.parent.dtype.type(-1)
    before = np.int64(-1) if parent[row] == none else np.int64(parent[row])
    at = field.distance[internal_of(row, field.dealt)]
    found, looked = plateaus.best_parent(
        field.distance, at, neighbors, weights, before, field.bound, field.top
    )
    if found >= 0:
        parent[row] = found
    field.counts[LOOKED] += looked
    return bool(looked == len(neighbors))


parent_tails = scanner(_find_parent)
find_beside_tails = scanner(plateaus.find_beside)


@kernel
def parent_heads(_thread: int, _threads: int, control: Any, heads: Any, field: Any) -> None:
    """Find parents along the heads of reached rows that have none; all threads call it.

    ``field.marks`` becomes the bitmap of the rows whose arcs beyond their heads may hold a better
    one. ``field.bound`` is a lower bound of the distances of all that no row was offered yet.
    """
    distance, parent, floor, top = field.distance, field.parent, field.bound, field.top
    rows, examined, none = len(parent), 0, parent.dtype.type(-1)
    while True:
        base, end = take_chunk(control, CHUNK_ROWS, rows)
        if base >= end:
            break
        for index in range(base >> 6, (end + WORD_BITS - 1) >> 6):
            field.marks[index] = 0
        shift = internal_of(base, field.dealt) - base
        for row in range(base, end):
            at = distance[row + shift]
            if at == top or parent[row] != none or path_sum(floor, heads.first[row], top) > at:
                continue
            start, stop = np.int64(heads.starts[row]), np.int64(heads.starts[row + 1])
            columns = heads.neighbors[start:stop], heads.weights[start:stop]
            found, looked = plateaus.best_parent(distance, at, *columns, np.int64(-1), floor, top)
            if found >= 0:
                parent[row] = found
            examined += looked
            more = looked == stop - start and looked < heads.lengths[row]
            if more and beyond_head(heads, row, floor, top) <= at:
                put(field.marks, row)
    atomic_add(control, EXAMINED, examined)


@scanner
@subroutine
def offer_arcs(field: Any, u: int, neighbors: Any, weights: Any) -> bool:
    """Offer a row as parent along all of its arcs."""
    for arc in range(len(neighbors)):
        v = np.int64(neighbors[arc])
        plateaus.offer_parent(field.distance, field.parent, v, u, weights[arc], field.top)
    field.counts[LOOKED] += len(neighbors)
    return True


@scanner
@subroutine
def spread_tails(state: Any, u: int, neighbors: Any, weights: Any) -> bool:
    """Offer a row on a plateau as parent; ``state`` is the plateau, and the end of its queue."""
    plateau, end = state
    end[0], on = plateaus.spread_row(plateau, u, neighbors, weights, end[0])
    return bool(on)
