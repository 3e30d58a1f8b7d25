"""Breadth-first order of a sparse matrix, with the predecessors that a queue would give.

Narrow levels are searched by one thread; `ooc_graph.kernels.cpu.csr.levels` are the others, and
`ooc_graph.kernels.cpu.csr.wide` those of many vertices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import WORD_BITS, drop, mark_only, words_for
from ooc_graph.kernels.common.compiled import kernel, subroutine, varying
from ooc_graph.kernels.common.team import Team, barrier, new_control
from ooc_graph.kernels.cpu.csr.arcs import Arcs, share_rows
from ooc_graph.kernels.cpu.csr.levels import (
    BEGIN,
    END,
    IS_WIDE,
    LEVEL,
    ROW,
    Answers,
    Scratch,
    join_parts,
    list_level,
    list_part,
    part_of,
)
from ooc_graph.kernels.cpu.csr.lookout import BLOCK
from ooc_graph.kernels.cpu.csr.wide import CHUNK_WORDS, join_in_order, list_in_memory_order
from ooc_graph.types import AnyArray

NONE = -9999
"""Predecessor of what has none."""
FEW_ROWS = 512
"""Levels of fewer vertices are searched by one thread."""
WIDE_SHARE = 16
"""A level with at least one in this many vertices is scanned in the order of memory."""


@subroutine
def _write(answers: Any, begin: int, end: int, level: int) -> None:
    """Write what is known of ``order[begin:end]``, a level's, by vertex."""
    for index in range(begin, end):
        vertex = answers.order[index]
        answers.predecessor[vertex] = answers.above[index]
        if len(answers.steps):
            answers.steps[vertex] = level


@kernel
def _search(
    thread: int, threads: int, control: Any, sides: Any, answers: Any, scratch: Any
) -> None:
    """Search from ``order[0]``; when all return, ``control[END]`` says how many were found."""
    unseen, order, level = scratch.unseen[0], answers.order, varying(0)
    begin, end = 0, 1
    if thread == 0:
        drop(unseen, order[0])
    while True:
        if thread == 0:
            while begin < end and end - begin < FEW_ROWS:
                _write(answers, begin, end, level)
                lists = order, answers.above, scratch.block[0]
                found = list_level(sides, order, begin, end, unseen, lists, end)
                begin, end, level = end, found, level + 1
            control[BEGIN], control[END], control[LEVEL] = begin, end, level
            control[IS_WIDE], control[ROW] = (end - begin) * WIDE_SHARE >= len(order), 0
            if control[IS_WIDE]:
                mark_only(scratch.level, order[begin:end])
            else:
                share_rows(sides, order, begin, end, scratch.ends)
        if not barrier(control, threads):
            return
        if control[BEGIN] == control[END]:
            return
        first, last = part_of(control[BEGIN], control[END], thread, threads)
        _write(answers, first, last, control[LEVEL])
        if control[IS_WIDE]:
            if not list_in_memory_order(thread, threads, control, sides, scratch):
                return
        elif not list_part(thread, threads, control, sides, answers, scratch):
            return
        if thread == 0:
            if control[IS_WIDE]:
                begin, end = end, join_in_order(sides, answers, scratch, begin, end)
            else:
                begin, end = end, join_parts(answers, scratch)
            level += 1


def breadth_first(
    sides: tuple[Arcs, Arcs], start: int, team: Team, steps: AnyArray | None = None
) -> tuple[AnyArray, AnyArray]:
    """Order and predecessors, int32, of a search along arcs of both ``sides``.

    ``steps`` float64 (vertices,) receives the number of arcs from ``start`` to what is reached.
    """
    vertices, threads = len(sides[0].offsets) - 1, team.threads
    words = words_for(vertices)
    order, above = np.empty((2, vertices), np.int32)
    predecessor = np.full(vertices, NONE, np.int32)
    order[0], above[0] = start, NONE
    answers = Answers(order, above, predecessor, np.empty(0) if steps is None else steps)
    # Lists of wide levels end with those of a whole word.
    room = vertices + sum(int(np.diff(side.offsets[::WORD_BITS]).max(initial=0)) for side in sides)
    vertices_found, above_found = np.empty((2, threads, room + 1), np.int32)
    counts, ends = np.zeros((2, threads), np.int64)
    scratch = Scratch(
        np.full((1 + threads, words), ~np.uint64(0)),
        vertices_found,
        above_found,
        counts,
        ends,
        np.empty((threads + 1, BLOCK + 1), np.int64),
        np.empty(words, np.uint64),
        np.empty((threads, CHUNK_WORDS * WORD_BITS), np.int32),
        *np.empty((2, words), np.int64),
    )
    control = new_control()
    team.launch(_search, control, sides, answers, scratch)
    return order[: int(control[END])], predecessor
