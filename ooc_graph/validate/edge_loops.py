"""Compiled passes over the edges: the rules that join two vertices, for all answers of a batch.

Ends of tuples are positions in the answers, none unknown. State is laid out [vertex][answer], so
that one edge touches two short rows whatever the number of answers. A first pass over a block only
reads those rows, or what sums them up (`summaries`), and writes a mark for each tuple: it
has no branches, so that many tuples wait for memory at once. `settle` then looks at what the marks
are about, which is little if answers are right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernel_cache import compiled, subroutine
from ooc_graph.prefetch import prefetch_row
from ooc_graph.types import AnyArray, IntArray

Marks = NDArray[np.uint8]

LEAVES, SPAN, LEVEL = 0, 1, 2  # rows of ``broken``
CONFIRMED = -2  # less a parent: the tree arc is a tuple, or the root's own

# Bits of a mark, if they may hold in any answer: the target is too far from the source, the source
# from the target; there is a tree arc to the target, to the source; an end is unreached.
DOWN, UP, ARC_DOWN, ARC_UP, OUTSIDE = 1, 2, 4, 8, 16
_MARK_BITS = 5

_AHEAD = 32  # tuples whose rows memory is asked for before they are looked at


@subroutine
def _sum(value: AnyArray, u: int, answer: int, weight: Any, unreached: Any) -> Any:
    """Sum in the distances' own dtype; integers end at ``unreached`` instead of wrapping."""
    return value.dtype.type(min(value[u, answer], unreached - weight) + weight)


@subroutine
def ask_ahead(rows: AnyArray, source: AnyArray, target: AnyArray, e: int) -> None:
    """Ask memory for the rows of a tuple that is looked at soon."""
    soon = min(e + _AHEAD, len(source) - 1)
    prefetch_row(rows, source[soon])
    prefetch_row(rows, target[soon])


@subroutine
def _mark(value: AnyArray, u: int, v: int, weight: Any, unreached: Any) -> Any:
    down, up, outside = np.uint32(0), np.uint32(0), np.uint32(0)
    for j in range(value.shape[1]):
        a, b = value[u, j], value[v, j]
        down |= np.uint32(b >= _sum(value, u, j, weight, unreached))
        up |= np.uint32(a >= _sum(value, v, j, weight, unreached))
        outside |= np.uint32((a == unreached) | (b == unreached))
    return down * (DOWN | ARC_DOWN) | up * (UP | ARC_UP) | outside * OUTSIDE


@compiled
def look(
    source: AnyArray,
    target: AnyArray,
    weight: AnyArray,
    value: AnyArray,
    unreached: Any,
    marks: Marks,
) -> None:
    """Mark the tuples of a block.

    ``source`` and ``target``, uint32 or int64 (m,), are positions. ``value`` (V, k) are distances,
    or levels as uint32 with a ``weight`` of 1; ``weight`` (m,), finite and non-negative, and
    ``unreached``, the largest value, are of the same dtype. ``marks`` (m,) are written.
    """
    for e in range(len(source)):
        ask_ahead(value, source, target, e)
        marks[e] = _mark(value, source[e], target[e], weight[e], unreached)


@subroutine
def _record(broken: IntArray, rule: int, answer: int, start: int, end: int) -> None:
    """Keep the smallest (start, end) for each rule and answer."""
    seen = broken[rule, answer, 0]
    if start < seen or (start == seen and end < broken[rule, answer, 1]):
        broken[rule, answer, 0] = start
        broken[rule, answer, 1] = end


@subroutine
def _count(
    value: AnyArray,
    unreached: Any,
    u: int,
    v: int,
    directed: bool,
    counts: IntArray,
    broken: IntArray,
) -> None:
    """Count the tuple for the answers that reach both ends; record those that it leaves."""
    for answer in range(broken.shape[1]):
        near, far = value[u, answer] != unreached, value[v, answer] != unreached
        counts[answer] += near and far
        if near and not far:
            _record(broken, LEAVES, answer, u, v)
        if far and not near and not directed:
            _record(broken, LEAVES, answer, v, u)


@subroutine
def _is_too_far(value: AnyArray, unreached: Any, weight: Any, u: int, v: int, answer: int) -> Any:
    far = value[v, answer]
    return (far != unreached) & (far > _sum(value, u, answer, weight, unreached))


@subroutine
def _judge(value: AnyArray, unreached: Any, weight: Any, u: int, v: int, broken: IntArray) -> None:
    """Record the answers that reach both ends and in which v is too far from u."""
    found = np.uint32(0)
    for answer in range(broken.shape[1]):
        found |= np.uint32(_is_too_far(value, unreached, weight, u, v, answer))
    for answer in range(broken.shape[1] if found else 0):
        if _is_too_far(value, unreached, weight, u, v, answer):
            _record(broken, SPAN, answer, u, v)


@subroutine
def _is_arc(
    value: AnyArray, unreached: Any, weight: Any, parent: AnyArray, u: int, v: int, answer: int
) -> Any:
    """Whether (u, v) is a tree arc without a tuple so far, and the value of v exactly the sum."""
    fits = value[v, answer] == _sum(value, u, answer, weight, unreached)
    return (parent[v, answer] == parent.dtype.type(u)) & fits


@subroutine
def _confirm(
    value: AnyArray,
    unreached: Any,
    weight: Any,
    parent: AnyArray,
    u: int,
    v: int,
    broken: IntArray,
    equal: Marks,
) -> None:
    """Confirm tree arc (u, v) for the answers in which the value of v is exactly the sum."""
    found, level = np.uint32(0), np.uint32(0)
    for answer in range(parent.shape[1]):
        is_arc = _is_arc(value, unreached, weight, parent, u, v, answer)
        found |= np.uint32(is_arc)
        level |= np.uint32(is_arc & (value[u, answer] == value[v, answer]))
    if level:
        equal[v >> 3] |= 1 << (v & 7)
    for answer in range(parent.shape[1] if level else 0):
        is_arc = _is_arc(value, unreached, weight, parent, u, v, answer)
        if is_arc and value[u, answer] == value[v, answer]:
            _record(broken, LEVEL, answer, u, v)
    for answer in range(parent.shape[1] if found else 0):
        if _is_arc(value, unreached, weight, parent, u, v, answer):
            parent[v, answer] = CONFIRMED - parent.dtype.type(u)


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
        listed[found] = e << _MARK_BITS | mark
        found += is_edge and mark != 0
    counts[-1] += inside
    return found


@subroutine
def _ask_for_rows(
    value: AnyArray,
    parent: AnyArray,
    source: AnyArray,
    target: AnyArray,
    listed: IntArray,
    i: int,
) -> None:
    soon = listed[min(i + _AHEAD, len(listed) - 1)]
    u, v = source[soon >> _MARK_BITS], target[soon >> _MARK_BITS]
    prefetch_row(value, u)
    prefetch_row(value, v)
    if soon & ARC_DOWN:
        prefetch_row(parent, v)
    if soon & ARC_UP:
        prefetch_row(parent, u)


@compiled
def settle(
    source: AnyArray,
    target: AnyArray,
    weight: AnyArray,
    directed: bool,
    value: AnyArray,
    unreached: Any,
    parent: AnyArray,
    listed: IntArray,
    tally: tuple[IntArray, IntArray, Marks],
) -> None:
    """Do what marks ask for (`list_marked`): confirm tree arcs, count tuples, record faults.

    ``value``, ``unreached`` and ``weight`` are as for `look`, or levels of a byte. ``parent``,
    int32 or int64 (V, k), are positions, -1 if there is none; those of tree arcs that are tuples of
    the right weight become `CONFIRMED` less the position, also by several threads at once. The
    ``tally`` has three arrays of a `tally.Tally`: its counts, arcs that break rules, and bits of
    vertices.
    """
    counts, broken, equal = tally
    for i in range(len(listed)):
        _ask_for_rows(value, parent, source, target, listed, i)
        e, mark = listed[i] >> _MARK_BITS, listed[i]
        u, v, length = source[e], target[e], weight[e]
        if mark & OUTSIDE:
            _count(value, unreached, u, v, directed, counts, broken)
        if mark & ARC_DOWN:
            _confirm(value, unreached, length, parent, u, v, broken, equal)
        if mark & ARC_UP and not directed:
            _confirm(value, unreached, length, parent, v, u, broken, equal)
        if mark & DOWN:
            _judge(value, unreached, length, u, v, broken)
        if mark & UP and not directed:
            _judge(value, unreached, length, v, u, broken)
