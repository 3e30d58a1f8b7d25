"""Arcs of a sparse matrix, their transposition, and how threads share a list of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, small_part, subroutine
from ooc_graph.kernels.common.team import Team, barrier, new_control
from ooc_graph.prefetch import prefetch
from ooc_graph.types import AnyArray, IntArray


class Arcs(NamedTuple):
    """Rows of arcs: ``offsets`` int32 or int64 (rows + 1,), ``targets`` int32 (arcs,).

    ``weights`` are float64 (arcs,), or of no length where they do not matter. What `no_arcs`
    makes has no offsets either.
    """

    offsets: IntArray
    targets: AnyArray
    weights: AnyArray


MOST_COUNTING = 8
"""Threads that transpose together: each has a count of every column."""


@kernel
def _transpose(thread: int, threads: int, control: Any, arcs: Any, cursor: Any, into: Any) -> None:
    """Write arcs backwards; ``cursor`` int64 (threads, rows) of zeros is scratch."""
    rows, weighted = len(arcs.offsets) - 1, len(into.weights) > 0
    begin = even_rows(arcs.offsets, thread, threads)
    end = even_rows(arcs.offsets, thread + 1, threads)
    mine = cursor[thread]
    for arc in range(arcs.offsets[begin], arcs.offsets[end]):
        mine[np.int64(arcs.targets[arc])] += 1
    if not barrier(control, threads):
        return
    if thread == 0:
        total = np.int64(0)
        for row in range(rows):
            into.offsets[row] = total
            for one in range(threads):
                count = cursor[one, row]
                cursor[one, row] = total
                total += count
        into.offsets[rows] = total
    if not barrier(control, threads):
        return
    for row in range(begin, end):
        for arc in range(arcs.offsets[row], arcs.offsets[row + 1]):
            target = np.int64(arcs.targets[arc])
            at = mine[target]
            mine[target] = at + 1
            into.targets[at] = row
            if weighted:
                into.weights[at] = arcs.weights[arc]


@subroutine
def even_rows(offsets: Any, part: int, parts: int) -> int:
    """Row at which a part begins, of parts of about as many arcs."""
    wanted = offsets[len(offsets) - 1] * part // parts
    low, high = 0, len(offsets) - 1
    if part == parts:
        return high
    while low < high:
        middle = (low + high) // 2
        if offsets[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def transposed(arcs: Arcs, team: Team) -> Arcs:
    """The same arcs backwards: rows of sources, ascending."""
    into = Arcs(*(np.empty_like(column) for column in arcs))
    if team.threads > MOST_COUNTING:
        team = Team(MOST_COUNTING)
    cursor = np.zeros((team.threads, len(arcs.offsets) - 1), np.int64)
    team.launch(_transpose, new_control(), arcs, cursor, into)
    return into


@kernel
def _count_negative(thread: int, threads: int, _control: Any, weights: Any, counts: Any) -> None:
    count, arcs = np.int64(0), len(weights)
    part = weights[arcs * thread // threads : arcs * (thread + 1) // threads]
    for arc in range(len(part)):
        count += np.int64(part[arc] < 0)
    counts[thread] = count


def any_negative(weights: AnyArray, team: Team) -> bool:
    """Whether any of the weights is below 0; NaN is not."""
    counts = np.empty(team.threads, np.int64)
    team.launch(_count_negative, new_control(), weights, counts)
    return bool(counts.any())


def no_arcs(arcs: Arcs) -> Arcs:
    """Arcs of the same types, and none."""
    return Arcs(arcs.offsets[:0], arcs.targets[:0], arcs.weights[:0])


FAR_AHEAD, AHEAD = 16, 6
"""Rows ahead whose offsets and whose arcs are fetched."""


@small_part
def _fetch(arcs: Any, rows: Any, index: int, end: int) -> None:
    if index + FAR_AHEAD < end:
        prefetch(arcs.offsets, np.int64(rows[index + FAR_AHEAD]))
    if index + AHEAD < end:
        row = np.int64(rows[index + AHEAD])
        begin, stop = arcs.offsets[row], arcs.offsets[row + 1]
        prefetch(arcs.targets, begin)
        if len(arcs.weights):
            prefetch(arcs.weights, begin)
            prefetch(arcs.weights, begin + 8)
        # Most rows are short.
        if stop > begin + 16:
            for arc in range(begin + 16, min(stop, begin + 64), 16):
                prefetch(arcs.targets, arc)
                if len(arcs.weights):
                    prefetch(arcs.weights, arc)
                    prefetch(arcs.weights, arc + 8)


@small_part
def side_of(sides: Any, side: int) -> Any:
    """One of both sides: what is done with it is compiled once."""
    return sides[0] if side == 0 else sides[1]


@small_part
def fetch_rows(sides: Any, rows: Any, index: int, end: int) -> None:
    """Fetch what rows after ``rows[index]`` need: rows that do not follow each other come late."""
    _fetch(sides[0], rows, index, end)
    if len(sides[1].targets):
        _fetch(sides[1], rows, index, end)


@small_part
def arcs_between(sides: Any, begin: int, end: int) -> Any:
    """Number of arcs of the rows [begin, end), on both sides."""
    arcs = sides[0].offsets[end] - sides[0].offsets[begin]
    if len(sides[1].targets):
        arcs += sides[1].offsets[end] - sides[1].offsets[begin]
    return arcs


@small_part
def length_of(sides: Any, row: int) -> Any:
    """Arcs of a row, on both sides."""
    return arcs_between(sides, row, row + 1)


@subroutine
def share_rows(sides: Any, rows: Any, begin: int, end: int, ends: Any) -> None:
    """Divide ``rows[begin:end]`` by arcs: part i ends at ``ends[i]``; the parts keep the order."""
    total, parts = np.int64(0), len(ends)
    for part in range(parts):
        ends[part] = end
    for index in range(begin, end):
        row = np.int64(rows[index])
        total += length_of(sides, row)
    seen, part = np.int64(0), 0
    for index in range(begin, end):
        row = np.int64(rows[index])
        seen += length_of(sides, row)
        while part < parts and seen * parts >= total * (part + 1):
            # What follows may be rows without arcs: they are the last part's.
            ends[part] = index + 1 if part < parts - 1 else end
            part += 1
