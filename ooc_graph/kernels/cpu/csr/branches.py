"""The arcs of a tree of predecessors, as rows of a sparse matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.team import Team, barrier, new_control
from ooc_graph.kernels.cpu.csr.arcs import Arcs, even_rows
from ooc_graph.types import AnyArray


class Branches(NamedTuple):
    """A tree's ``indptr`` int32 (vertices + 1,), ``indices`` int32 and ``data`` float64 (arcs,).

    By vertex, ``first`` int32 is where those that it is above begin in the order, and ``weights``
    float64 (2, vertices) of zeros are those of the arc to it, forwards and backwards. Parallel arcs
    are added up, as SciPy does.
    """

    indptr: AnyArray
    indices: AnyArray
    data: AnyArray
    first: AnyArray
    weights: AnyArray


@subroutine
def _weight(tree: Any, vertex: int, is_directed: bool) -> float:
    """Of a vertex' arc; infinite if neither direction has one that is not 0, as SciPy has it."""
    forwards, backwards = tree.weights[0, vertex], tree.weights[1, vertex]
    if is_directed:
        return float(forwards)
    return float(np.minimum(forwards or np.inf, backwards or np.inf))


@kernel
def _collect(
    thread: int,
    threads: int,
    control: Any,
    arcs: Any,
    order: Any,
    predecessor: Any,
    is_directed: bool,
    tree: Any,
) -> None:
    if thread == 0:
        for index in range(1, len(order)):
            above = np.int64(predecessor[order[index]])
            if tree.indptr[above + 1] == 0:
                tree.first[above] = index
            tree.indptr[above + 1] += 1
        for row in range(len(predecessor)):
            tree.indptr[row + 1] += tree.indptr[row]
    if not barrier(control, threads):
        return
    first = even_rows(arcs.offsets, thread, threads)
    end = even_rows(arcs.offsets, thread + 1, threads)
    for row in range(first, end):
        above = predecessor[row]
        if is_directed and tree.indptr[row] == tree.indptr[row + 1]:
            continue
        for arc in range(arcs.offsets[row], arcs.offsets[row + 1]):
            target = np.int64(arcs.targets[arc])
            if predecessor[target] == row:
                tree.weights[0, target] += arcs.weights[arc]
            if target == above:
                tree.weights[1, row] += arcs.weights[arc]
    if not barrier(control, threads):
        return
    # The vertices of a row follow each other in the order.
    for row in range(first, end):
        at, last = np.int64(tree.indptr[row]), np.int64(tree.indptr[row + 1])
        for index in range(at, last):
            vertex = order[tree.first[row] + index - at]
            tree.indices[index] = vertex
            tree.data[index] = _weight(tree, vertex, is_directed)


def branches(
    arcs: Arcs, order: AnyArray, predecessor: AnyArray, team: Team, *, directed: bool
) -> Branches:
    """The arcs from the predecessors to what a breadth-first search has found.

    Those backwards count as well if the graph is not ``directed``: the shorter ones are taken.
    """
    vertices, found = len(predecessor), len(order) - 1
    tree = Branches(
        np.zeros(vertices + 1, np.int32),
        np.empty(found, np.int32),
        np.empty(found),
        np.empty(vertices, np.int32),
        np.zeros((2, vertices)),
    )
    team.launch(_collect, new_control(), arcs, order, predecessor, directed, tree)
    return tree
