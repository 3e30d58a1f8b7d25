"""Compiled passes over the edges: the rules that join two vertices, for all answers of a batch.

Ends of tuples are positions in the answers, none unknown. State is laid out [vertex][answer], so
that one edge touches two short rows whatever the number of answers. A first pass over a block only
reads those rows and writes a mark for each tuple: it has no branches, so that many tuples wait for
memory at once. `settle` then looks at what the marks are about, which is little if answers are
right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernel_cache import compiled, subroutine
from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate.prefetch import prefetch_row

Marks = NDArray[np.uint8]
Words = NDArray[np.uint64]

LEAVES, SPAN, LEVEL = 0, 1, 2  # rows of ``broken``
CONFIRMED = -2  # less a parent: the tree arc is a tuple, or the root's own

# Bits of a mark, if they may hold in any answer: the target is too far from the source, the source
# from the target; there is a tree arc to the target, to the source; an end is unreached.
_DOWN, _UP, _ARC_DOWN, _ARC_UP, _OUTSIDE = 1, 2, 4, 8, 16
_MARK_BITS = 5

_AHEAD = 32  # tuples whose rows memory is asked for before they are looked at
_HASH = np.uint64(0x9E3779B97F4A7C15)
_ONE, _NOTHING = np.uint64(1), np.uint64(0)


@subroutine
def _sum(distance: Any, weight: Any, unreached: Any) -> Any:
    """Sum in the distances' own dtype; integers end at ``unreached`` instead of wrapping."""
    return min(distance, unreached - weight) + weight


@subroutine
def _ask_ahead(rows: AnyArray, source: AnyArray, target: AnyArray, e: int) -> None:
    """Ask memory for the rows of a tuple that is looked at soon."""
    soon = min(e + _AHEAD, len(source) - 1)
    prefetch_row(rows, source[soon])
    prefetch_row(rows, target[soon])


@subroutine
def _mark(value: AnyArray, u: int, v: int, weight: Any, unreached: Any) -> int:
    near, mark = unreached - weight, 0
    for j in range(value.shape[1]):
        a, b = value[u, j], value[v, j]
        down, up = min(a, near) + weight, min(b, near) + weight
        mark |= (b >= down) * (_DOWN | _ARC_DOWN) | (a >= up) * (_UP | _ARC_UP)
        mark |= ((a == unreached) | (b == unreached)) * _OUTSIDE
    return mark


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
        _ask_ahead(value, source, target, e)
        marks[e] = _mark(value, source[e], target[e], weight[e], unreached)


@subroutine
def hashed(position: Any) -> Any:
    """Two bits of 64 for a position."""
    mixed = np.uint64(position) * _HASH
    return _ONE << (mixed >> np.uint64(58)) | _ONE << (mixed >> np.uint64(52) & np.uint64(63))


@compiled
def look_at_bytes(source: AnyArray, target: AnyArray, words: Words, marks: Marks) -> None:
    """Mark the tuples of a block, as `look` does, by levels of one byte.

    ``words``, uint64 (V, n), are 8 levels each, 0 to 126 for unreached, reached ones below 125. The
    last has the bits of the vertex's parents (`hashed`). One subtraction compares all levels of a
    word: with 126 added to each, the top bit of a byte says that one is larger by two or more.
    """
    slack, top = np.uint64(0x7E7E7E7E7E7E7E7E), np.uint64(0x8080808080808080)
    two = np.uint64(0x0202020202020202)
    last_word = words.shape[1] - 1
    for e in range(len(source)):
        _ask_ahead(words, source, target, e)
        u, v = source[e], target[e]
        down, up, outside = _NOTHING, _NOTHING, _NOTHING
        for j in range(last_word):
            a, b = words[u, j], words[v, j]
            down |= b + slack - a
            up |= a + slack - b
            outside |= (a + two) | (b + two)
        source_bits, target_bits = hashed(u), hashed(v)
        mark = (down & top != _NOTHING) * _DOWN | (up & top != _NOTHING) * _UP
        mark |= (words[v, last_word] & source_bits == source_bits) * _ARC_DOWN
        mark |= (words[u, last_word] & target_bits == target_bits) * _ARC_UP
        marks[e] = mark | (outside & top != _NOTHING) * _OUTSIDE


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
def _judge(value: AnyArray, unreached: Any, weight: Any, u: int, v: int, broken: IntArray) -> None:
    """Record the answers that reach both ends and in which v is too far from u."""
    for answer in range(broken.shape[1]):
        far = value[v, answer]
        if far != unreached and far > _sum(value[u, answer], weight, unreached):
            _record(broken, SPAN, answer, u, v)


@subroutine
def _confirm(
    value: AnyArray,
    unreached: Any,
    weight: Any,
    parent: AnyArray,
    u: int,
    v: int,
    broken: IntArray,
) -> None:
    """Confirm tree arc (u, v) for the answers in which the value of v is exactly the sum."""
    for answer in range(parent.shape[1]):
        if parent[v, answer] == u:
            near, far = value[u, answer], value[v, answer]
            if far == _sum(near, weight, unreached):
                parent[v, answer] = CONFIRMED - np.int64(u)
                if near == far:
                    _record(broken, LEVEL, answer, u, v)


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
        inside += is_edge and mark & _OUTSIDE == 0
        listed[found] = e << _MARK_BITS | mark
        found += is_edge and mark != 0
    counts[-1] += inside
    return found


@subroutine
def _ask_for_parents(
    parent: AnyArray, source: AnyArray, target: AnyArray, listed: IntArray, i: int
) -> None:
    soon = listed[min(i + _AHEAD, len(listed) - 1)]
    if soon & _ARC_DOWN:
        prefetch_row(parent, target[soon >> _MARK_BITS])
    if soon & _ARC_UP:
        prefetch_row(parent, source[soon >> _MARK_BITS])


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
    counts: IntArray,
    broken: IntArray,
) -> None:
    """Do what marks ask for (`list_marked`): confirm tree arcs, count tuples, record faults.

    ``value``, ``unreached`` and ``weight`` are as for `look`; for levels of one byte ``value`` are
    the bytes, ``unreached`` is 126. ``parent``, int32 or int64 (V, k), are positions, -1 if there
    is none; those of tree arcs that are tuples of the right weight become `CONFIRMED` less the
    position, also by several threads at once. ``counts``, int64 (k + 1,), are tuples inside each
    answer without self-loops, less those inside all (last entry). ``broken``, int64 (3, k, 2), has
    the smallest arc that breaks each rule, and the smallest of the tree between equal distances.
    """
    for i in range(len(listed)):
        _ask_for_parents(parent, source, target, listed, i)
        e, mark = listed[i] >> _MARK_BITS, listed[i]
        u, v, length = source[e], target[e], weight[e]
        if mark & _OUTSIDE:
            _count(value, unreached, u, v, directed, counts, broken)
        if mark & _ARC_DOWN:
            _confirm(value, unreached, length, parent, u, v, broken)
        if mark & _ARC_UP and not directed:
            _confirm(value, unreached, length, parent, v, u, broken)
        if mark & _DOWN:
            _judge(value, unreached, length, u, v, broken)
        if mark & _UP and not directed:
            _judge(value, unreached, length, v, u, broken)
