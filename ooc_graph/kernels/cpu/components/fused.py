"""Components of a whole graph in one call per thread, after Afforest (`components.forest`).

Rows ascend by id, hubs first: the first neighbour of a row is its smallest, so the forest begins
with it as parent where it is smaller than the row itself, without a link. On graphs with hubs most
rows are then in one component, elsewhere one more neighbour each is linked. Rows in the most common
component need not be looked at again: arcs out of it stand in the row of their other end too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.components import SAMPLED
from ooc_graph.kernels.common.team import CHUNK, FIRST_FREE, LINE, atomic_add, barrier, take_chunk
from ooc_graph.kernels.cpu.components.forest import SAMPLE, compress, link, most_common

SAMPLE_ARCS, REST_ARCS = FIRST_FREE, FIRST_FREE + LINE
"""The two phases; also the words of the control array that count the arcs examined in each."""
COMMON, COMMON_OF_SAMPLE = FIRST_FREE + 2 * LINE, FIRST_FREE + 3 * LINE
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
        begin, end = take_chunk(control, CHUNK_ROWS, rows)
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
    if not barrier(control, threads):
        return False
    compress(parent, begin, end)
    if not barrier(control, threads):
        return False
    if thread == 0:
        control[CHUNK] = 0
        control[COMMON], control[COMMON_OF_SAMPLE] = most_common(parent, sample)
    return bool(barrier(control, threads))


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
    atomic_add(control, SAMPLE_ARCS, examined)
    while True:
        if not _prepare(thread, threads, control, parent, sample, begin, end):
            return
        if phase == SAMPLE_ARCS and control[COMMON_OF_SAMPLE] * 2 >= SAMPLE:
            # The smallest neighbours were enough to bring most rows together.
            phase, first = REST_ARCS, 0
        examined = _phase(control, out, into, directed, parent, phase, first)
        atomic_add(control, phase, examined)
        if phase == REST_ARCS:
            break
        phase = REST_ARCS
    if barrier(control, threads):
        compress(parent, begin, end)
