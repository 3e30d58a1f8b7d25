"""BFS from many sources at once: every vertex has a bit for each source (CPU).

A row of `WORDS` words says which of `SLOTS` sources have reached a vertex, another which of them
did so in the last level, so that one look at an arc serves all of them. A level is pushed along the
arcs of the rows that it found, or pulled by the rows that some source has not reached, until
nothing is missing there.

How many vertices each source found is counted in planes: word k of plane p holds, for each of its
sources, bit p of the count, and a row of words is added to all counts at once as in paper sums.

Source: M. Then et al., "The More the Merrier: Efficient Multi-Source Graph Traversal",
PVLDB 8 (2014).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import team
from ooc_graph.kernels.common.bitmap import LOW, ONE, WORD_BITS, Words, lowest_bit, put
from ooc_graph.kernels.common.compiled import kernel, subroutine, varying
from ooc_graph.kernels.common.tuning import FEW_SOURCES
from ooc_graph.kernels.cpu.bfs.push import OutRows
from ooc_graph.kernels.cpu.many.bfs_settle import FOUND, NONE, VISITS, WORDS, settle, tally
from ooc_graph.types import AnyArray, IntArray

PULL_ABOVE = 4
"""Pull where the frontier holds more than one in so many of the arcs into rows not yet full."""
MOST, WIDTH, PATIENCE, WORTH = range(4)
"""Indices in ``options``: last level, width of a bin, and when to abandon batches: after so many
visits to every row, if fewer sources than that were found in a visit."""
ABANDONED = team.FIRST_FREE
"""Word of the control array: some batch was not worth it."""


@subroutine
def _pull(into: Any, batch: Any) -> None:
    """Every row that is not full asks its neighbours until nothing is missing."""
    own, frontier, full = batch.own, batch.frontier, batch.full
    for index in range(len(batch.open)):
        word = batch.open[index]
        while word != 0:
            row = np.uint64(index * WORD_BITS + lowest_bit(word))
            word &= word - ONE
            w0, w1 = full[0] & ~own[row, 0], full[1] & ~own[row, 1]
            w2, w3 = full[2] & ~own[row, 2], full[3] & ~own[row, 3]
            f0, f1, f2, f3 = NONE, NONE, NONE, NONE
            for position in range(into.offsets[row], into.offsets[row + ONE]):
                u = np.uint64(into.neighbors[position])
                f0 |= frontier[u, 0]
                f1 |= frontier[u, 1]
                f2 |= frontier[u, 2]
                f3 |= frontier[u, 3]
                if (w0 & ~f0) | (w1 & ~f1) | (w2 & ~f2) | (w3 & ~f3) == NONE:
                    break
            f0, f1, f2, f3 = f0 & w0, f1 & w1, f2 & w2, f3 & w3
            if f0 | f1 | f2 | f3 != NONE:
                own[row, 4], own[row, 5], own[row, 6], own[row, 7] = f0, f1, f2, f3
                put(batch.touched, row)


@subroutine
def _push(out: Any, batch: Any) -> None:
    """Every row of the frontier tells its neighbours."""
    own, frontier = batch.own, batch.frontier
    for index in range(len(batch.active)):
        word = batch.active[index]
        while word != 0:
            row = np.uint64(index * WORD_BITS + lowest_bit(word))
            word &= word - ONE
            f0, f1, f2, f3 = frontier[row, 0], frontier[row, 1], frontier[row, 2], frontier[row, 3]
            for position in range(out.offsets[row], out.offsets[row + ONE]):
                v = np.uint64(out.neighbors[position])
                n0, n1 = f0 & ~own[v, 0], f1 & ~own[v, 1]
                n2, n3 = f2 & ~own[v, 2], f3 & ~own[v, 3]
                if n0 | n1 | n2 | n3 != NONE:
                    own[v, 4] |= n0
                    own[v, 5] |= n1
                    own[v, 6] |= n2
                    own[v, 7] |= n3
                    put(batch.touched, v)


@subroutine
def _begin(batch: Any, sources: Any) -> None:
    """Reset a batch, and let every source be touched by itself."""
    rows = len(batch.own)
    batch.own[:] = NONE
    batch.frontier[:] = NONE
    batch.active[:] = NONE
    batch.touched[:] = NONE
    batch.full[:] = NONE
    batch.planes[:] = NONE
    batch.counts[:] = NONE
    for index in range(len(batch.open)):
        batch.open[index] = ~NONE
    if rows & 63:
        batch.open[len(batch.open) - 1] = (ONE << np.uint64(rows & 63)) - ONE
    for slot in range(len(sources)):
        row, bit = np.uint64(sources[slot]), ONE << (np.uint64(slot) & LOW)
        batch.full[slot >> 6] |= bit
        batch.own[row, WORDS + (slot >> 6)] |= bit
        put(batch.touched, row)


@subroutine
def _search(control: Any, batch: Any, task: Any, sources: int, answer: Any, tallies: Any) -> bool:
    """Go from level to level until nothing is found, or the last one that is wanted.

    Returns whether it came to the end; else some batch was not worth it, or the launch was
    cancelled, and nothing that was found may be used.
    """
    out, into, options, has_answer = task.out, task.into, task.options, len(answer) > 0
    depth, open_arcs = varying(0), len(into.neighbors)
    while True:
        if team.atomic_load(control, team.ABORT) != 0:
            return False
        arcs, filled, planes = settle(out, into, batch, task.wanted, depth, answer, has_answer)
        open_arcs -= filled
        if not has_answer:
            tally(batch, planes, depth, options[WIDTH], tallies)
        visits, found = np.int64(batch.counts[VISITS]), np.int64(batch.counts[FOUND])
        is_over = visits > options[PATIENCE] * len(batch.own)
        # Of few sources so many are never found.
        if is_over and sources >= FEW_SOURCES and found < options[WORTH] * visits:
            team.atomic_store(control, ABANDONED, 1)
        if team.atomic_load(control, ABANDONED) != 0:
            return False
        if arcs == 0 or open_arcs == 0 or depth >= options[MOST]:
            break
        depth += 1
        if arcs * PULL_ABOVE > open_arcs:
            _pull(into, batch)
        else:
            _push(out, batch)
    return True


class Task(NamedTuple):
    """What batches search, and where their levels go.

    ``wanted`` is the bitmap of the rows that are counted; ``options`` int64 (4,): see `MOST` to
    `WORTH`; ``far`` (1,): level of what is not reached; ``begins`` int64 (batches + 1,): index of
    each batch's first source, and how many there are; ``answer`` int32 (sources, rows), levels, or
    (0, rows) if the tallies are wanted; ``tallies`` int64 (sources, 3 + bins), zeros, or (0, 3);
    ``finished`` bool (batches,), false: set if a batch came to its end.
    """

    out: OutRows
    into: OutRows
    wanted: Words
    options: IntArray
    far: AnyArray
    sources: IntArray
    begins: IntArray
    answer: AnyArray
    tallies: IntArray
    finished: AnyArray


@kernel
def search_batch(control: Any, batch: Any, task: Any) -> Any:
    """Search the next batch of a `Task` on the calling thread.

    Returns its number; -1 if no batch is left, one was not worth it, or the launch was cancelled.
    """
    if team.atomic_load(control, team.ABORT) != 0 or team.atomic_load(control, ABANDONED) != 0:
        return -1
    number = team.atomic_add(control, team.CHUNK, 1)
    if number + 1 >= len(task.begins):
        return -1
    first, end = task.begins[number], task.begins[number + 1]
    answer, tallies = task.answer[first:end], task.tallies[first:end]
    for slot in range(len(answer)):
        answer[slot, :] = task.far[0]
    _begin(batch, task.sources[first:end])
    if not _search(control, batch, task, end - first, answer, tallies):
        return -1
    task.finished[number] = True
    return number
