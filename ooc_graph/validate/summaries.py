"""Answers of a batch, summed up: a line of memory says of most tuples that they are right.

*Planes* of levels: a vertex has a word for each bit of its levels, with a bit for each answer, and
as many words with bits of its parents (`_has`). 64 levels below 15 and their parents are 64 bytes,
and are compared with those of another vertex at once.

*Brackets* of distances: shortest paths from many roots share most of their arcs, so that distances
from one root are often those from another and a constant. Less such an offset for each answer, the
distances of a vertex are close together, and the smallest and the largest of them stand for all.
What they do not rule out is looked at in the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernel_cache import compiled, subroutine
from ooc_graph.types import AnyArray
from ooc_graph.validate.edge_loops import ARC_DOWN, ARC_UP, DOWN, OUTSIDE, UP, Marks, ask_ahead

_U = np.uint64
_HASH = _U(0x9E3779B97F4A7C15)
_NONE, _ONE = _U(0), _U(1)
_SAMPLE = 1024  # vertices by which offsets are chosen
_ROUNDINGS = 16  # more than there are on the way to a comparison, of sums and differences


@subroutine
def _turned(word: Any) -> Any:
    """Eight bytes as a matrix of bits, transposed: byte i has bit i of each byte."""
    apart, swapped = _U(0xAA55AA55AA55AA55), _U(0x00AA00AA00AA00AA)
    word = word & apart | (word & swapped) << _U(7) | word >> _U(7) & swapped
    apart, swapped = _U(0xCCCC3333CCCC3333), _U(0x0000CCCC0000CCCC)
    word = word & apart | (word & swapped) << _U(14) | word >> _U(14) & swapped
    apart, swapped = _U(0xF0F0F0F00F0F0F0F), _U(0x00000000F0F0F0F0)
    return word & apart | (word & swapped) << _U(28) | word >> _U(28) & swapped


@subroutine
def _bits_of(lines: AnyArray, planes: int, position: Any) -> Any:
    """Words and places of the two bits that stand for a parent: word, bit, word, bit."""
    words, bits = _U(planes - 1), _U(8 * lines.itemsize - 1)
    mixed = _U(position) * _HASH
    return (
        planes + np.int64(mixed >> _U(32) & words),
        mixed >> _U(40) & bits,
        planes + np.int64(mixed >> _U(48) & words),
        mixed >> _U(56) & bits,
    )


@subroutine
def _has(lines: AnyArray, planes: int, child: Any, parent: Any) -> Any:
    """Whether a vertex may have another one as its parent: 1, or 0 if it surely has not."""
    word, bit, other_word, other_bit = _bits_of(lines, planes, parent)
    return lines[child, word] >> bit & lines[child, other_word] >> other_bit & _ONE


@compiled
def slice_levels(
    levels: NDArray[np.uint64], parent: AnyArray, start: int, stop: int, lines: AnyArray
) -> None:
    """Write lines ``start`` to ``stop - 1`` of a batch, as `look_at_planes` reads them.

    ``levels`` (V, n) are rows of bytes, 8 in a word, and ``parent`` (V, k) positions, negative if
    there is none. ``lines`` (V, 2 p) have words of as many bits as a row has bytes, and p planes:
    4 if unreached is 15, 8 if it is 255.
    """
    planes = lines.shape[1] >> 1
    for v in range(start, stop):
        for word in range(2 * planes):
            lines[v, word] = 0
        for eight in range(levels.shape[1]):
            turned, shift = _turned(levels[v, eight]), _U(8 * eight)
            for plane in range(planes):
                lines[v, plane] |= (turned >> _U(8 * plane) & _U(255)) << shift
        last = parent[v, 0] - parent[v, 0] - 1
        for answer in range(parent.shape[1]):
            if parent[v, answer] >= 0 and parent[v, answer] != last:
                last = parent[v, answer]
                word, bit, other_word, other_bit = _bits_of(lines, planes, last)
                lines[v, word] |= _ONE << bit
                lines[v, other_word] |= _ONE << other_bit


@compiled
def look_at_planes(
    source: AnyArray, target: AnyArray, lines: AnyArray, planes: tuple[int, ...], marks: Marks
) -> None:
    """Mark the tuples of a block, as `edge_loops.look` does, by levels in planes (`slice_levels`).

    Levels are subtracted in all answers at once, a bit after the other. Where they differ by one,
    the difference is 1, or -1, of which all bits are set. ``planes`` has as many entries as there
    are: the loop is compiled for each number of them.
    """
    for e in range(len(source)):
        ask_ahead(lines, source, target, e)
        u, v = source[e], target[e]
        a, b = _U(lines[u, 0]), _U(lines[v, 0])
        odd, borrow, no_u, no_v = a ^ b, ~a & b, a, b
        deeper, above_one = odd, _NONE
        for plane in range(1, len(planes)):
            a, b = _U(lines[u, plane]), _U(lines[v, plane])
            no_u, no_v = no_u & a, no_v & b
            unlike = a ^ b
            bit = unlike ^ borrow
            borrow = ~a & b | ~unlike & borrow
            deeper, above_one = deeper & bit, above_one | bit
        outside = no_u | no_v
        far, higher = above_one & ~deeper & ~outside, odd & ~above_one
        mark = (far & borrow != _NONE) * DOWN | (far & ~borrow != _NONE) * UP
        mark |= (outside != _NONE) * OUTSIDE
        mark |= ((deeper != _NONE) & (_has(lines, len(planes), v, u) != _NONE)) * ARC_DOWN
        mark |= ((higher != _NONE) & (_has(lines, len(planes), u, v) != _NONE)) * ARC_UP
        marks[e] = mark


def bracket_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What brackets of distances are in; not exactly, for which there is a margin."""
    return dtype if dtype == np.float32 else np.dtype(np.float64)


def offsets(value: AnyArray, unreached: Any, answers: list[int]) -> AnyArray:
    """What is taken from the distances of each answer (k,); NaN if it has no right ones.

    Any number will do: the median of how far it is from the first right answer leaves most
    brackets narrow.
    """
    dtype = bracket_dtype(value.dtype)
    rows = value[:: max(1, len(value) // _SAMPLE)]
    sample = np.where(rows == unreached, np.nan, rows.astype(np.float64))
    found = np.full(value.shape[1], np.nan, dtype)
    for answer in answers:
        apart = sample[:, answer] - sample[:, answers[0]]
        both = apart[~np.isnan(apart)]
        found[answer] = np.median(both) if len(both) else 0
    return found


def margin(offset: AnyArray, largest: float) -> Any:
    """What brackets must be apart beyond a weight, by their largest end: roundings are less."""
    most = largest + 2 * float(np.max(np.abs(offset), initial=0, where=~np.isnan(offset)))
    return offset.dtype.type(_ROUNDINGS * float(np.finfo(offset.dtype).eps) * most)


@compiled
def bracket(
    value: AnyArray,
    unreached: Any,
    offset: AnyArray,
    start: int,
    stop: int,
    ends: AnyArray,
) -> float:
    """Write brackets ``start`` to ``stop - 1``; the largest finite end of them.

    ``value`` (V, at least k) are distances, ``offset`` (k,) and ``ends`` (V, 2) float32 or float64.
    Unreached in some answer: the upper end is infinite.
    """
    most = 0.0
    for v in range(start, stop):
        low, high = offset.dtype.type(np.inf), offset.dtype.type(-np.inf)
        outside = False
        for answer in range(len(offset)):
            far = value[v, answer]
            reduced = offset.dtype.type(far - offset[answer])
            outside |= far == unreached
            low = reduced if far != unreached and reduced < low else low
            high = max(high, reduced)
        high = offset.dtype.type(np.inf) if outside else high
        ends[v, 0], ends[v, 1] = low, high
        for end in (abs(low), abs(high)):
            most = end if most < end < np.inf else most
    return most


@compiled
def look_at_brackets(
    source: AnyArray,
    target: AnyArray,
    weight: AnyArray,
    ends: AnyArray,
    margin: Any,
    marks: Marks,
) -> None:
    """Mark the tuples of a block, as `edge_loops.look` does, by brackets of their distances.

    A tuple without a mark is shorter, in no answer, than its ends are apart, nor exactly as long.
    """
    for e in range(len(source)):
        ask_ahead(ends, source, target, e)
        u, v, short = source[e], target[e], ends.dtype.type(weight[e]) - margin
        mark = (not ends[v, 1] - ends[u, 0] < short) * (DOWN | ARC_DOWN)
        mark |= (not ends[u, 1] - ends[v, 0] < short) * (UP | ARC_UP)
        marks[e] = mark | (max(ends[u, 1], ends[v, 1]) == np.inf) * OUTSIDE
