"""Compiled loops over levels in planes of bits (`planes.Planes`).

A vertex has a word for each bit of its levels, with a bit for each answer, and as many words with
bits of its parents (`_has`). 64 levels below 15 and their parents are 64 bytes, a line of memory,
and are subtracted from those of another vertex by a few instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernel_cache import compiled, small_part
from ooc_graph.prefetch import prefetch_row
from ooc_graph.types import AnyArray, IntArray
from ooc_graph.validate.edge_loops import (
    AHEAD,
    ARC_DOWN,
    ARC_UP,
    DOWN,
    LEAVES,
    MARK_BITS,
    OUTSIDE,
    SPAN,
    UP,
    Marks,
    ask_ahead,
    ask_for_arcs_of,
    listed_soon,
    record_all,
)
from ooc_graph.validate.tree_loops import (
    RANGE_BITS,
    Arcs,
    confirm,
    find_arc,
    first_arc,
    pending_in,
)

_U = np.uint64
_HASH = _U(0x9E3779B97F4A7C15)
_NONE, _ONE, _BYTE = _U(0), _U(1), _U(255)
_BYTE_BITS = 8


@small_part
def _turned(word: Any) -> Any:
    """Eight bytes as a matrix of bits, transposed: byte i has bit i of each byte."""
    apart, swapped = _U(0xAA55AA55AA55AA55), _U(0x00AA00AA00AA00AA)
    word = word & apart | (word & swapped) << _U(7) | word >> _U(7) & swapped
    apart, swapped = _U(0xCCCC3333CCCC3333), _U(0x0000CCCC0000CCCC)
    word = word & apart | (word & swapped) << _U(14) | word >> _U(14) & swapped
    apart, swapped = _U(0xF0F0F0F00F0F0F0F), _U(0x00000000F0F0F0F0)
    return word & apart | (word & swapped) << _U(28) | word >> _U(28) & swapped


@compiled
def slice_levels(levels: AnyArray, answer: int, start: int, stop: int, lines: AnyArray) -> None:
    """Write the levels, uint8 (n, V), of answers ``answer``, ... to planes; n is 8 at most.

    ``start`` and ``stop`` are vertices. The planes need not have been cleared.
    """
    planes, shift = lines.shape[1] >> 1, _U(answer)
    for v in range(start, stop):
        word = _NONE
        for i in range(len(levels)):
            word |= _U(levels[i, v]) << _U(_BYTE_BITS * i)
        word = _turned(word)
        for plane in range(planes):
            before = _U(lines[v, plane]) if answer else _NONE
            bits = word >> _U(_BYTE_BITS * plane) & _BYTE
            lines[v, plane] = lines.dtype.type(before | bits << shift)


@small_part
def _bits_of(lines: AnyArray, planes: int, position: Any) -> Any:
    """Which word of a line stands for a parent, and the bits, two at most, that are set in it."""
    in_word = _U(_BYTE_BITS * lines.itemsize - 1)
    mixed = _U(position) * _HASH
    word = _U(planes) + (mixed >> _U(32) & _U(planes - 1))
    return word, _ONE << (mixed >> _U(40) & in_word) | _ONE << (mixed >> _U(48) & in_word)


@small_part
def _may_have(lines: AnyArray, planes: int, child: Any, parent: Any) -> Any:
    """Whether a vertex may have another one as its parent; if not, it surely has not."""
    word, bits = _bits_of(lines, planes, parent)
    return _U(lines[child, word]) & bits == bits


@compiled
def note_parents(arcs: Arcs, start: int, stop: int, lines: AnyArray) -> None:
    """Write the bits of the parents of vertices ``start`` to ``stop - 1``."""
    ends, parent, _, _ = arcs
    planes = lines.shape[1] >> 1
    for v in range(start, stop):
        for word in range(planes, 2 * planes):
            lines[v, word] = 0
        for e in range(first_arc(ends, v), ends[v]):
            word, bits = _bits_of(lines, planes, parent[v >> RANGE_BITS, e])
            lines[v, word] |= lines.dtype.type(bits)


@small_part
def _compare(lines: AnyArray, planes: tuple[int, ...], u: Any, v: Any) -> Any:
    """Bits of answers: v is too deep, is too high; u, v is unreached.

    Levels are subtracted in all answers at once, a bit after the other. If they differ by one, the
    difference is 1, or -1, of which all bits are set. Too deep and too high are only those that
    reach both.
    """
    a, b = _U(lines[u, 0]), _U(lines[v, 0])
    minus_one, borrow, no_u, no_v = a ^ b, ~a & b, a, b
    above_one = _NONE
    for plane in range(1, len(planes)):
        a, b = _U(lines[u, plane]), _U(lines[v, plane])
        no_u, no_v = no_u & a, no_v & b
        unlike = a ^ b
        bit = unlike ^ borrow
        borrow = ~a & b | ~unlike & borrow
        minus_one, above_one = minus_one & bit, above_one | bit
    far = above_one & ~minus_one & ~(no_u | no_v)
    return far & borrow, far & ~borrow, no_u, no_v


@small_part
def _one_deeper(lines: AnyArray, planes: tuple[int, ...], u: Any, v: Any) -> Any:
    """Bits of answers in which u is reached, and the level of v is one more."""
    carry, alike = ~_NONE, ~_NONE
    for plane in range(len(planes)):
        a, b = _U(lines[u, plane]), _U(lines[v, plane])
        alike &= ~(a ^ carry ^ b)
        carry &= a
    return alike & ~carry


@compiled
def look_at_planes(
    source: AnyArray, target: AnyArray, lines: AnyArray, planes: tuple[int, ...], marks: Marks
) -> None:
    """Mark the tuples of a block, as `edge_loops.look` does, by levels in planes.

    An end that is too far from the other is marked as if both were.
    """
    for e in range(len(source)):
        ask_ahead(lines, source, target, e)
        u, v = source[e], target[e]
        too_deep, too_high, no_u, no_v = _compare(lines, planes, u, v)
        mark = (too_deep | too_high != _NONE) * (DOWN | UP) | (no_u | no_v != _NONE) * OUTSIDE
        mark |= _may_have(lines, len(planes), v, u) * ARC_DOWN
        marks[e] = mark | _may_have(lines, len(planes), u, v) * ARC_UP


@small_part
def _confirm(arcs: Arcs, lines: AnyArray, planes: tuple[int, ...], u: Any, v: Any) -> None:
    """Confirm tree arc (u, v) in the answers that have it, if levels fit."""
    at = find_arc(arcs, u, v)
    if at >= 0:
        bits = pending_in(arcs, v, at)
        if bits:
            bits &= _one_deeper(lines, planes, u, v)
        if bits:
            confirm(arcs, u, v, at, bits)


@compiled
def settle_planes(
    source: AnyArray,
    target: AnyArray,
    directed: bool,
    lines: AnyArray,
    planes: tuple[int, ...],
    arcs: Arcs,
    listed: IntArray,
    found: tuple[IntArray, IntArray],
) -> None:
    """Do what marks ask for (`edge_loops.list_marked`), as `edge_loops.settle` does.

    ``found`` are the counts of a `tally.Tally`, and the arcs that break rules.
    """
    counts, broken = found
    for i in range(len(listed)):
        soon, u, v = listed_soon(source, target, listed, i, AHEAD)
        prefetch_row(lines, u)
        prefetch_row(lines, v)
        ask_for_arcs_of(soon, arcs, u, v, True)
        soon, u, v = listed_soon(source, target, listed, i, 2 * AHEAD)
        ask_for_arcs_of(soon, arcs, u, v, False)
        e, mark = listed[i] >> MARK_BITS, listed[i]
        u, v = source[e], target[e]
        if mark & ARC_DOWN:
            _confirm(arcs, lines, planes, u, v)
        if mark & ARC_UP and not directed:
            _confirm(arcs, lines, planes, v, u)
        if mark & (DOWN | UP | OUTSIDE):
            too_deep, too_high, no_u, no_v = _compare(lines, planes, u, v)
            outside = no_u | no_v
            for answer in range(broken.shape[1] if outside else 0):
                counts[answer] += np.int64(~outside >> _U(answer) & _ONE)
            record_all(broken, LEAVES, no_v & ~no_u, u, v)
            record_all(broken, SPAN, too_deep, u, v)
            if not directed:
                record_all(broken, LEAVES, no_u & ~no_v, v, u)
                record_all(broken, SPAN, too_high, v, u)
