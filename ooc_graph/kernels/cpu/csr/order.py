"""Breadth-first order of a sparse matrix, with the predecessors that a queue would give.

Narrow levels are searched by one thread; the others are in `ooc_graph.kernels.cpu.csr.levels`, and
`ooc_graph.kernels.cpu.csr.wide` looks ahead in those of many vertices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.bits import count_bits
from ooc_graph.kernels.common.bitmap import WORD_BITS, drop, mark_only, put, words_for
from ooc_graph.kernels.common.compiled import kernel, subroutine, varying
from ooc_graph.kernels.common.team import Team, barrier, new_control
from ooc_graph.kernels.cpu.csr.arcs import Arcs, share_rows
from ooc_graph.kernels.cpu.csr.levels import (
    ALIVE,
    BEGIN,
    END,
    IN_LEVEL,
    IS_WIDE,
    KEPT,
    LAST,
    LEVEL,
    LISTED,
    OWN,
    ROW,
    UNSEEN,
    Answers,
    Scratch,
    join_parts,
    list_level,
    list_part,
    part_of,
)
from ooc_graph.kernels.cpu.csr.lookout import BLOCK
from ooc_graph.kernels.cpu.csr.wide import CHUNK_WORDS, WORD_LISTS, look_ahead
from ooc_graph.types import AnyArray

NONE = -9999
"""Predecessor of what has none."""
FEW_ROWS, FEW_SHARE = 512, 256
"""One thread searches a level that has fewer vertices than `FEW_ROWS`, or fewer than one in
`FEW_SHARE` of all: more threads would each copy a bitmap of all vertices."""
WIDE_SHARE = 16
"""A level is wide if its rows that are still to be looked at are at least this share of all
vertices: one in 16."""


@subroutine
def _write(answers: Any, begin: int, end: int, level: int) -> None:
    """Write what is known of ``order[begin:end]``, a level's, by vertex."""
    for index in range(begin, end):
        vertex = answers.order[index]
        answers.predecessor[vertex] = answers.above[index]
        if len(answers.steps):
            answers.steps[vertex] = level


@subroutine
def _search_narrow(sides: Any, answers: Any, scratch: Any, begin: int, end: int, level: int) -> Any:
    """Search up to a level of many vertices: where it begins and ends, and its number."""
    order, unseen, thread = answers.order, scratch.bitmaps[UNSEEN], varying(0)
    few = max(FEW_ROWS, len(answers.predecessor) // FEW_SHARE)
    while begin < end and end - begin < few:
        _write(answers, begin, end, level)
        part, lists = (order, begin, end), (order, answers.above)
        length = list_level(sides, scratch, thread, part, unseen, lists, end)
        begin, end, level = end, length, level + 1
    return begin, end, level


@subroutine
def _plan(control: Any, sides: Any, answers: Any, scratch: Any) -> None:
    """Say whether a level is wide, and bound the threads' parts of it."""
    begin, end, unlooked, threads = control[BEGIN], control[END], varying(0), len(scratch.counts)
    level, alive, listed = (
        scratch.bitmaps[IN_LEVEL],
        scratch.bitmaps[ALIVE],
        scratch.bitmaps[LISTED],
    )
    for word in range(len(level)):
        unlooked += count_bits(level[word] & alive[word] & ~listed[word])
    control[IS_WIDE], control[ROW] = unlooked * WIDE_SHARE >= len(answers.predecessor), 0
    if unlooked == end - begin and not control[IS_WIDE]:
        share_rows(sides, answers.order, begin, end, scratch.counts[:, LAST])
    else:
        for part in range(threads):
            scratch.counts[part, LAST] = part_of(begin, end, part, threads)[1]


@kernel
def _search(
    thread: int, threads: int, control: Any, sides: Any, answers: Any, scratch: Any
) -> None:
    """Search from ``order[0]``; when all return, ``control[END]`` says how many were found."""
    begin, end, level = varying(0), varying(1), varying(0)
    if thread == 0:
        drop(scratch.bitmaps[UNSEEN], np.int64(answers.order[0]))
        put(scratch.bitmaps[IN_LEVEL], np.int64(answers.order[0]))
    while True:
        if thread == 0:
            before = begin
            begin, end, level = _search_narrow(sides, answers, scratch, begin, end, level)
            control[BEGIN], control[END], control[LEVEL] = begin, end, level
            if begin != end:
                if begin != before:
                    mark_only(scratch.bitmaps[IN_LEVEL], answers.order[begin:end])
                _plan(control, sides, answers, scratch)
        if not barrier(control, threads):
            return
        begin, end, level = control[BEGIN], control[END], control[LEVEL]
        if begin == end:
            return
        first, last = part_of(begin, end, thread, threads)
        _write(answers, first, last, level)
        if control[IS_WIDE] and not look_ahead(thread, threads, control, sides, scratch):
            return
        if not list_part(thread, threads, control, sides, answers, scratch):
            return
        begin, end, level = end, join_parts(thread, threads, control, answers, scratch), level + 1
        if end < 0:
            return


def breadth_first(
    sides: tuple[Arcs, Arcs], start: int, team: Team, steps: AnyArray | None = None
) -> tuple[AnyArray, AnyArray]:
    """Order and predecessors, int32, of a search along arcs of both ``sides``.

    ``steps`` float64 (vertices,) receives the number of arcs from ``start`` to what is reached.
    """
    vertices, threads = len(sides[0].offsets) - 1, team.threads
    words, chunk = words_for(vertices), CHUNK_WORDS * WORD_BITS
    order, above = np.empty((2, vertices + 1), np.int32)
    predecessor = np.full(vertices, NONE, np.int32)
    order[0], above[0] = start, NONE
    answers = Answers(order, above, predecessor, np.empty(0) if steps is None else steps)
    # Rows of a chunk are looked at as long as all that they lead to has room.
    ends = np.append(np.arange(0, vertices, chunk), vertices)
    most = sum(int(np.diff(side.offsets[ends]).max()) for side in sides if len(side.targets))
    bitmaps = np.full((OWN + threads, words), ~np.uint64(0))
    bitmaps[LISTED : IN_LEVEL + 1] = 0
    scratch = Scratch(
        bitmaps,
        np.empty((2, threads - 1, vertices + 1), np.int32),
        np.empty((threads, KEPT + threads), np.int64),
        np.empty((2, threads, BLOCK + 1), np.int64),
        np.empty((threads, chunk, 2), np.int64),
        np.empty(words, np.int64),
        np.empty(words * WORD_LISTS, np.int64),
        np.empty(vertices + threads * most, np.int32),
    )
    control = new_control()
    team.launch(_search, control, sides, answers, scratch)
    return order[: int(control[END])], predecessor
