"""Components of a whole graph in one call per thread, after Afforest [1].

Threads join a union-find forest without locks. ``parent[v] <= v`` always, so there are no cycles,
and the root of a tree is its smallest id whatever the order of the links. Linking is Afforest's,
with an atomic minimum in place of its compare-and-swap: what the minimum displaces is linked again,
so no link is ever lost.

Rows ascend by id, hubs first: the first neighbour of a row is its smallest, so the forest begins
with it as parent where it is smaller than the row itself, without a link. On graphs with hubs most
rows are then in one component, elsewhere one more neighbour each is linked. Rows in the most common
component need not be looked at again: arcs out of it stand in the row of their other end too.

[1] M. Sutton, T. Ben-Nun, A. Barak, "Optimizing parallel graph connectivity computation via
subgraph sampling", IPDPS 2018.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common import team
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.components import SAMPLED


@subroutine
def link(parent: Any, u: int, v: int) -> None:
    """Bring ``u`` and ``v`` into one tree; any number of threads at once."""
    a, b = np.int64(parent[u]), np.int64(parent[v])
    while a != b:
        high, low = max(a, b), min(a, b)
        above = np.int64(parent[high])
        if above == low:
            return
        if above == high:
            above = np.int64(team.atomic_umin(parent, high, low))
            if above in (high, low):
                return
            # Another thread was first; its link is kept, this one continues from there.
            a, b = above, low
        else:
            a, b = np.int64(parent[above]), np.int64(parent[low])


@kernel
def link_all(parent: Any, one: Any, other: Any) -> None:
    """Link pair after pair, on one thread."""
    for index in range(len(one)):
        link(parent, np.int64(one[index]), np.int64(other[index]))


@kernel
def compress(parent: Any, begin: int, end: int) -> None:
    """Make every vertex of a range a child of its root.

    Threads may do ranges apart at once, but none may link.
    """
    for v in range(begin, end):
        above = np.int64(parent[v])
        root = np.int64(parent[above])
        if root != above:
            while root != above:
                above, root = root, np.int64(parent[root])
            parent[v] = root


SAMPLE = 256
"""Vertices looked at, evenly spaced, to find the most common component."""


@kernel
def most_common(parent: Any, sample: Any) -> tuple[Any, int]:
    """Root of the component that most of an even sample of a forest is in, and how many are.

    The forest is compressed and not empty; ``sample`` int64 (`SAMPLE`,) is scratch.
    """
    for index in range(SAMPLE):
        sample[index] = np.int64(parent[index * len(parent) // SAMPLE])
    best, most = sample[0], 0
    for index in range(SAMPLE):
        count = 0
        for other in range(SAMPLE):
            count += int(sample[other] == sample[index])
        if count > most:
            best, most = sample[index], count
    return best, most


@kernel
def first_positions(internal_of: Any, label: Any, first: Any) -> None:
    """Write where each component's smallest original id stands, at the component's label.

    ``internal_of`` has the row of each vertex by ascending original id, -1 for none; ``label`` the
    component of each row, named by one of its rows. ``first`` (rows,), -1 at entry, receives the
    first position that has the component, at the rows that name one.
    """
    for position in range(len(internal_of)):
        row = np.int64(internal_of[position])
        if row >= 0 and first[np.int64(label[row])] < 0:
            first[np.int64(label[row])] = position


SAMPLE_ARCS, REST_ARCS = team.FIRST_FREE, team.FIRST_FREE + team.LINE
"""The two phases; also the words of the control array that count the arcs examined in each."""
COMMON, COMMON_OF_SAMPLE = team.FIRST_FREE + 2 * team.LINE, team.FIRST_FREE + 3 * team.LINE
"""Words of the control array: the most common component, and how many of the sample it has."""
CHUNK_ROWS = 2048
"""Rows that a thread takes at once."""


@subroutine
def _begin_rows(out: Any, parent: Any, begin: int, end: int) -> int:
    """Each row's smallest neighbour as its parent, or the row itself where it is smaller."""
    examined = 0
    for row in range(begin, end):
        first, smallest = out.offsets[row], np.int64(row)
        if first < out.offsets[row + 1]:
            smallest = min(smallest, np.int64(out.neighbors[first]))
            examined += 1
        parent[row] = smallest
    return examined


@subroutine
def _link_rows(rows: Any, parent: Any, begin: int, end: int, first: int, last: int) -> Any:
    """Link rows ``begin:end`` with their neighbours ``first:last``."""
    examined = 0
    for row in range(begin, end):
        start = rows.offsets[row]
        stop = min(rows.offsets[row + 1], start + last)
        for position in range(start + first, stop):
            link(parent, row, np.int64(rows.neighbors[position]))
        examined += max(np.int64(0), stop - start - first)
    return examined


@subroutine
def _link_sampled(out: Any, parent: Any, begin: int, end: int) -> Any:
    """Link rows with their next neighbours, and with the first where `_begin_rows` did not."""
    for row in range(begin, end):
        first = out.offsets[row]
        if first < out.offsets[row + 1] and np.int64(out.neighbors[first]) > row:
            link(parent, row, np.int64(out.neighbors[first]))
    return _link_rows(out, parent, begin, end, 1, SAMPLED)


@subroutine
def _phase(
    control: Any, out: Any, into: Any, directed: bool, parent: Any, phase: int, first: int
) -> int:
    """Take chunk after chunk of the rows until none is left; return the arcs examined.

    What is not sampled are neighbours from ``first`` on, of rows outside the most common component.
    """
    rows, common, examined = len(parent), control[COMMON], 0
    while True:
        begin, end = team.take_chunk(control, CHUNK_ROWS, rows)
        if begin >= end:
            break
        if phase == SAMPLE_ARCS:
            examined += _link_sampled(out, parent, begin, end)
            continue
        for row in range(begin, end):
            above = np.int64(parent[row])
            # Rows that came to it only now are done in vain, no more.
            if common in (above, np.int64(parent[above])):
                continue
            examined += _link_rows(out, parent, row, row + 1, first, len(out.neighbors))
            if directed:
                examined += _link_rows(into, parent, row, row + 1, 0, len(into.neighbors))
    return examined


@subroutine
def _prepare(
    thread: int, threads: int, control: Any, parent: Any, sample: Any, begin: int, end: int
) -> bool:
    """Compress the forest and look for the most common component; False when cancelled."""
    if not team.barrier(control, threads):
        return False
    compress(parent, begin, end)
    if not team.barrier(control, threads):
        return False
    if thread == 0:
        control[team.CHUNK] = 0
        control[COMMON], control[COMMON_OF_SAMPLE] = most_common(parent, sample)
    return bool(team.barrier(control, threads))


@kernel
def search(
    thread: int,
    threads: int,
    control: Any,
    out: Any,
    into: Any,
    directed: bool,
    parent: Any,
    sample: Any,
) -> None:
    """Label every row with the smallest id of its component, in ``parent``; all threads call it.

    ``into`` is looked at if ``directed``; ``sample`` int64 (SAMPLE,) is scratch.
    """
    rows = len(parent)
    begin, end = rows * thread // threads, rows * (thread + 1) // threads
    examined, phase, first = _begin_rows(out, parent, begin, end), SAMPLE_ARCS, SAMPLED
    team.atomic_add(control, SAMPLE_ARCS, examined)
    while True:
        if not _prepare(thread, threads, control, parent, sample, begin, end):
            return
        if phase == SAMPLE_ARCS and control[COMMON_OF_SAMPLE] * 2 >= SAMPLE:
            # The smallest neighbours were enough to bring most rows together.
            phase, first = REST_ARCS, 0
        examined = _phase(control, out, into, directed, parent, phase, first)
        team.atomic_add(control, phase, examined)
        if phase == REST_ARCS:
            break
        phase = REST_ARCS
    if team.barrier(control, threads):
        compress(parent, begin, end)
