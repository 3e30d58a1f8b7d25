"""Compiled passes over the edges: the rules that join two vertices, for all answers of a batch.

Ends of tuples are positions in the answers, none unknown. State is laid out [vertex][answer], so
that one edge touches two short rows. A first pass over a block reads those rows, or what sums them
up (`brackets`, `planes`), and writes a mark for each tuple: it has no branches, so that many tuples
wait for memory at once. `settle` then looks at what is marked, which is little in right answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernel_cache import compiled, small_part
from ooc_graph.prefetch import prefetch, prefetch_row
from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate.tree_loops import Arcs, ask_for_arcs, confirm, find_arc, pending_in

Marks = NDArray[np.uint8]
State = tuple[AnyArray, AnyArray]
"""Values of answers (n, at least k), and the row of each vertex, or none: its own number."""

LEAVES, SPAN, LEVEL = 0, 1, 2  # rows of ``broken``
_NONE = np.uint64(0)

# Bits of a mark, if they may hold in any answer: the target is too far from the source, the source
# from the target; there is a tree arc to the target, to the source; an end is unreached.
DOWN, UP, ARC_DOWN, ARC_UP, OUTSIDE = 1, 2, 4, 8, 16
MARK_BITS = 5

AHEAD = 32
"""Tuples whose rows memory is asked for before they are looked at."""


@small_part
def row_of(state: State, v: Any) -> Any:
    """Row of a vertex' values."""
    rows = state[1]
    return np.int64(v) if len(rows) == 0 else np.int64(rows[v])


@small_part
def _sum(value: AnyArray, near: int, answer: int, weight: Any, unreached: Any) -> Any:
    """Sum in the distances' own dtype; integers end at ``unreached`` instead of wrapping."""
    return value.dtype.type(min(value[near, answer], unreached - weight) + weight)


@small_part
def ask_ahead(lines: AnyArray, source: AnyArray, target: AnyArray, e: int) -> None:
    """Ask memory for the lines of a tuple that is looked at soon."""
    soon = min(e + AHEAD, len(source) - 1)
    prefetch_row(lines, source[soon])
    prefetch_row(lines, target[soon])


@small_part
def _ask_for_row(state: State, v: Any, is_near: bool) -> None:
    """Ask memory for the values of a vertex that is looked at soon; first for where they are."""
    value, rows = state
    if is_near:
        prefetch_row(value, row_of(state, v))
    elif len(rows):
        prefetch(rows, v)


@small_part
def _mark(value: AnyArray, near: int, far: int, weight: Any, unreached: Any) -> Any:
    down, up, outside = np.uint32(0), np.uint32(0), np.uint32(0)
    for j in range(value.shape[1]):
        a, b = value[near, j], value[far, j]
        down |= np.uint32(b >= _sum(value, near, j, weight, unreached))
        up |= np.uint32(a >= _sum(value, far, j, weight, unreached))
        outside |= np.uint32((a == unreached) | (b == unreached))
    return down * (DOWN | ARC_DOWN) | up * (UP | ARC_UP) | outside * OUTSIDE


@compiled
def look(
    source: AnyArray,
    target: AnyArray,
    weight: AnyArray,
    state: State,
    unreached: Any,
    marks: Marks,
) -> None:
    """Mark the tuples of a block.

    ``source`` and ``target``, uint32 or int64 (m,), are positions. ``state`` are distances, or
    levels as uint32 with a ``weight`` of 1; ``weight`` (m,), finite and non-negative, and
    ``unreached``, the largest value, are of the same dtype. ``marks`` (m,) are written.
    """
    for e in range(len(source)):
        for ahead in (AHEAD, 2 * AHEAD):
            soon = min(e + ahead, len(source) - 1)
            _ask_for_row(state, source[soon], ahead == AHEAD)
            _ask_for_row(state, target[soon], ahead == AHEAD)
        near, far = row_of(state, source[e]), row_of(state, target[e])
        marks[e] = _mark(state[0], near, far, weight[e], unreached)


@small_part
def record_all(broken: IntArray, rule: int, bits: Any, start: Any, end: Any) -> None:
    """Keep the smallest (start, end) for a rule and the answers whose bits are set."""
    for answer in range(broken.shape[1] if bits else 0):
        first, last = broken[rule, answer, 0], broken[rule, answer, 1]
        is_less = start < first or (start == first and end < last)
        if is_less and bits >> np.uint64(answer) & np.uint64(1):
            broken[rule, answer, 0], broken[rule, answer, 1] = start, end


@small_part
def _count(
    state: State,
    unreached: Any,
    u: int,
    v: int,
    directed: bool,
    counts: IntArray,
    broken: IntArray,
) -> None:
    """Count the tuple for the answers that reach both ends; record those that it leaves."""
    value, from_u, from_v = state[0], row_of(state, u), row_of(state, v)
    out, back = _NONE, _NONE
    for answer in range(broken.shape[1]):
        near, far = value[from_u, answer] != unreached, value[from_v, answer] != unreached
        counts[answer] += near and far
        out |= np.uint64(near and not far) << np.uint64(answer)
        back |= np.uint64(far and not near) << np.uint64(answer)
    record_all(broken, LEAVES, out, u, v)
    if not directed:
        record_all(broken, LEAVES, back, v, u)


@small_part
def _judge(state: State, unreached: Any, weight: Any, u: int, v: int, broken: IntArray) -> None:
    """Record the answers that reach both ends and in which v is too far from u."""
    value, near, far, found = state[0], row_of(state, u), row_of(state, v), _NONE
    for answer in range(broken.shape[1]):
        is_far = value[far, answer] > _sum(value, near, answer, weight, unreached)
        is_far = is_far & (value[far, answer] != unreached)
        found |= np.uint64(is_far) << np.uint64(answer)
    record_all(broken, SPAN, found, u, v)


@small_part
def _confirm(
    state: State,
    unreached: Any,
    weight: Any,
    arcs: Arcs,
    u: Any,
    v: Any,
    broken: IntArray,
    equal: Marks,
) -> None:
    """Confirm tree arc (u, v) for the answers in which the value of v is exactly the sum."""
    at = find_arc(arcs, u, v)
    bits = pending_in(arcs, v, at) if at >= 0 else _NONE
    value, near, far, fitting, level = state[0], row_of(state, u), row_of(state, v), _NONE, _NONE
    for answer in range(broken.shape[1] if bits else 0):
        fits = np.uint64(value[far, answer] == _sum(value, near, answer, weight, unreached))
        is_level = np.uint64(value[near, answer] == value[far, answer])
        fitting |= fits << np.uint64(answer)
        level |= (fits & is_level) << np.uint64(answer)
    fitting, level = fitting & bits, level & bits
    if level:
        equal[v >> 3] |= 1 << (v & 7)
        record_all(broken, LEVEL, level, u, v)
    if fitting:
        confirm(arcs, u, v, at, fitting)


@compiled
def list_marked(
    source: AnyArray, target: AnyArray, marks: Marks, counts: IntArray, listed: AnyArray
) -> int:
    """Write the numbers of marked tuples, with their marks, to ``listed``; how many they are.

    ``listed`` is int64 (m,). Self-loops are left out. Tuples inside all answers are added to the
    last entry of ``counts``.
    """
    inside, found = 0, 0
    for e in range(len(marks)):
        is_edge, mark = source[e] != target[e], marks[e]
        inside += is_edge and mark & OUTSIDE == 0
        listed[found] = e << MARK_BITS | mark
        found += is_edge and mark != 0
    counts[-1] += inside
    return found


@small_part
def ask_for_arcs_of(mark: Any, arcs: Arcs, u: Any, v: Any, is_near: bool) -> None:
    """Ask memory for the tree arcs that a marked tuple may be."""
    if mark & ARC_DOWN:
        ask_for_arcs(arcs, v, is_near)
    if mark & ARC_UP:
        ask_for_arcs(arcs, u, is_near)


@small_part
def listed_soon(source: AnyArray, target: AnyArray, listed: IntArray, i: int, ahead: int) -> Any:
    """Mark and ends of the tuple that is listed so much further on, or of the last one."""
    soon = listed[min(i + ahead, len(listed) - 1)]
    return soon, source[soon >> MARK_BITS], target[soon >> MARK_BITS]


@compiled
def settle(
    source: AnyArray,
    target: AnyArray,
    weight: AnyArray,
    directed: bool,
    state: State,
    unreached: Any,
    arcs: Arcs,
    listed: IntArray,
    found: tuple[IntArray, IntArray, Marks],
) -> None:
    """Do what marks ask for (`list_marked`): confirm tree arcs, count tuples, record faults.

    ``state``, ``unreached`` and ``weight`` are as for `look`, ``arcs`` those of a
    `tree_arcs.TreeArcs`: several threads may confirm them at once. ``found`` are three arrays of a
    `tally.Tally`: its counts, arcs that break rules, and bits of vertices.
    """
    counts, broken, equal = found
    for i in range(len(listed)):
        for ahead in (AHEAD, 2 * AHEAD):
            mark, u, v = listed_soon(source, target, listed, i, ahead)
            _ask_for_row(state, u, ahead == AHEAD)
            _ask_for_row(state, v, ahead == AHEAD)
            ask_for_arcs_of(mark, arcs, u, v, ahead == AHEAD)
        e, mark = listed[i] >> MARK_BITS, listed[i]
        u, v, length = source[e], target[e], weight[e]
        if mark & OUTSIDE:
            _count(state, unreached, u, v, directed, counts, broken)
        if mark & ARC_DOWN:
            _confirm(state, unreached, length, arcs, u, v, broken, equal)
        if mark & ARC_UP and not directed:
            _confirm(state, unreached, length, arcs, v, u, broken, equal)
        if mark & DOWN:
            _judge(state, unreached, length, u, v, broken)
        if mark & UP and not directed:
            _judge(state, unreached, length, v, u, broken)
