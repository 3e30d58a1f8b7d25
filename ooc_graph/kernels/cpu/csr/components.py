"""Weakly connected components of a sparse matrix: threads link the ends of all arcs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.team import CHUNK, FIRST_FREE, Team, barrier, new_control, take_chunk
from ooc_graph.kernels.cpu.components.fused import CHUNK_ROWS, compress, link
from ooc_graph.kernels.cpu.csr.arcs import Arcs
from ooc_graph.types import AnyArray

SAMPLED = 2
"""Arcs of each row that are linked first: then most of the others have nothing left to join."""


@kernel
def _link_arcs(thread: int, threads: int, control: Any, arcs: Any, parent: Any) -> None:
    """Make ``parent``, uint32 of each vertex itself, the smallest of its component."""
    rows = len(parent)
    first, last = rows * thread // threads, rows * (thread + 1) // threads
    for is_rest in range(2):
        while True:
            begin, end = take_chunk(
                control, CHUNK_ROWS, rows, word=FIRST_FREE if is_rest else CHUNK
            )
            if begin >= end:
                break
            for row in range(begin, end):
                start, stop = arcs.offsets[row], arcs.offsets[row + 1]
                middle = min(start + SAMPLED, stop)
                for arc in range(middle if is_rest else start, stop if is_rest else middle):
                    target = np.int64(arcs.targets[arc])
                    if parent[target] != parent[row]:
                        link(parent, row, target)
        if not barrier(control, threads):
            return
        compress(parent, first, last)
        if not barrier(control, threads):
            return


@kernel
def _number(parent: Any, label: Any) -> int:
    """Number components by their smallest vertices, ascending; returns how many there are."""
    count = 0
    for vertex in range(len(parent)):
        if np.int64(parent[vertex]) == vertex:
            label[vertex] = count
            count += 1
        else:
            label[vertex] = label[np.int64(parent[vertex])]
    return count


def weak_components(arcs: Arcs, team: Team) -> tuple[int, AnyArray]:
    """Number of components, and of each vertex the number of its own, int32 (vertices,)."""
    vertices = len(arcs.offsets) - 1
    parent = np.arange(vertices, dtype=np.uint32)
    label = np.empty(vertices, np.int32)
    team.launch(_link_arcs, new_control(), arcs, parent)
    return int(_number(parent, label)), label
