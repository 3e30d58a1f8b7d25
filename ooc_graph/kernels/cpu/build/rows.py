"""Group arcs by row, order each row, drop duplicates: the merge step of the external sort."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import allocating_kernel, kernel, subroutine
from ooc_graph.kernels.cpu.build.arcs import move_arc
from ooc_graph.types import AnyArray, IntArray

_INSERTION = 32
# Digits of a radix pass: wide ones save passes where a row is long enough to pay for its counts.
_NARROW_BITS, _WIDE_BITS, _WIDE_ROW = np.uint64(8), np.uint64(11), 1 << 11


@kernel
def count_rows(rows: AnyArray, counts: IntArray) -> None:
    """Add each arc to ``counts[row]``."""
    for i in range(len(rows)):
        counts[rows[i]] += 1


@kernel
def scatter_rows(arcs: Any, cursor: IntArray, out: Any) -> None:
    """Bring arcs into row order; ``cursor`` holds each row's next position and is advanced."""
    for i in range(len(arcs.rows)):
        row = arcs.rows[i]
        position = cursor[row]
        cursor[row] = position + 1
        move_arc(arcs, i, out, position)


@subroutine
def insertion(keys: AnyArray, payload: AnyArray, most: int) -> bool:
    """Sort a row, stably; False, with some of it sorted, if that takes more than ``most`` moves."""
    carry, moves = len(payload) > 0, 0
    for i in range(1, len(keys)):
        key = keys[i]
        j = i - 1
        if keys[j] <= key:
            continue
        companion = payload[i] if carry else payload.dtype.type(0)
        while j >= 0 and keys[j] > key:
            keys[j + 1] = keys[j]
            if carry:
                payload[j + 1] = payload[j]
            j -= 1
        keys[j + 1] = key
        if carry:
            payload[j + 1] = companion
        moves += i - j
        if moves > most:
            return False
    return True


@subroutine
def _digit_pass(
    keys: AnyArray,
    payload: AnyArray,
    shift: Any,
    histogram: IntArray,
    keys_out: AnyArray,
    payload_out: AnyArray,
) -> None:
    """One stable counting pass on the bits above ``shift``, as many as ``histogram`` has."""
    histogram[:] = 0
    mask = np.uint64(len(histogram) - 1)
    for i in range(len(keys)):
        histogram[(np.uint64(keys[i]) >> shift) & mask] += 1
    position = 0
    for digit in range(len(histogram)):
        count = histogram[digit]
        histogram[digit] = position
        position += count
    carry = len(payload) > 0
    for i in range(len(keys)):
        digit = (np.uint64(keys[i]) >> shift) & mask
        target = histogram[digit]
        histogram[digit] = target + 1
        keys_out[target] = keys[i]
        if carry:
            payload_out[target] = payload[i]


@subroutine
def radix_sort(
    keys: AnyArray,
    payload: AnyArray,
    spare_keys: AnyArray,
    spare_payload: AnyArray,
    histogram: IntArray,
) -> None:
    """Stable least-significant-digit radix sort that skips digits which do not differ."""
    bits = _WIDE_BITS if len(keys) > _WIDE_ROW else _NARROW_BITS
    digits = np.uint64(1) << bits
    counts = histogram[: np.int64(digits)]
    differ = np.uint64(0)
    for i in range(1, len(keys)):
        differ |= np.uint64(keys[i]) ^ np.uint64(keys[0])
    in_spare = False
    shift = np.uint64(0)
    while differ >> shift != 0:
        if (differ >> shift) & (digits - np.uint64(1)) != 0:
            if in_spare:
                _digit_pass(spare_keys, spare_payload, shift, counts, keys, payload)
            else:
                _digit_pass(keys, payload, shift, counts, spare_keys, spare_payload)
            in_spare = not in_spare
        shift += bits
        if shift >= np.uint64(64):
            break
    if in_spare:
        for i in range(len(keys)):
            keys[i] = spare_keys[i]
        for i in range(len(payload)):
            payload[i] = spare_payload[i]


@allocating_kernel
def sort_rows(offsets: IntArray, keys: AnyArray, payload: AnyArray) -> None:
    """Sort each row's unsigned keys ascending, stably; ``payload`` (or length 0) travels along.

    Scratch memory: the longest row's keys and payload once more.
    """
    carry = len(payload) > 0
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    spare_keys = np.empty(longest, keys.dtype)
    spare_payload = np.empty(longest if carry else 0, payload.dtype)
    histogram = np.empty(1 << _WIDE_BITS, np.int64)
    for row in range(len(offsets) - 1):
        start, stop = offsets[row], offsets[row + 1]
        length = stop - start
        mine = payload[start:stop] if carry else payload[:0]
        if length <= _INSERTION:
            insertion(keys[start:stop], mine, length * length)
        else:
            spare = spare_payload[:length] if carry else spare_payload[:0]
            radix_sort(keys[start:stop], mine, spare_keys[:length], spare, histogram)


@kernel
def drop_duplicates(
    offsets: IntArray, neighbors: AnyArray, weights: AnyArray, kept: IntArray
) -> int:
    """Keep one arc of each run of equal neighbours in a sorted row, the lightest; in place.

    The arcs kept move to the front of ``neighbors`` (and ``weights``); how many. ``kept`` int64
    (rows,) receives each row's new length.
    """
    weighted = len(weights) > 0
    out = 0
    for row in range(len(offsets) - 1):
        before = out
        for i in range(offsets[row], offsets[row + 1]):
            if out > before and neighbors[out - 1] == neighbors[i]:
                if weighted and weights[i] < weights[out - 1]:
                    weights[out - 1] = weights[i]
                continue
            neighbors[out] = neighbors[i]
            if weighted:
                weights[out] = weights[i]
            out += 1
        kept[row] = out - before
    return out


@kernel
def fold_row(neighbors: AnyArray, weights: AnyArray, seen: AnyArray, lightest: AnyArray) -> None:
    """Fold a part of one huge row into a bitmap over vertices and the lightest weight of each."""
    weighted = len(weights) > 0
    for i in range(len(neighbors)):
        neighbor = np.int64(neighbors[i])
        if seen[neighbor]:
            if weighted and weights[i] < lightest[neighbor]:
                lightest[neighbor] = weights[i]
        else:
            seen[neighbor] = True
            if weighted:
                lightest[neighbor] = weights[i]


@kernel
def _flip_floats(bits: AnyArray, sign: Any, back: bool) -> None:
    for i in range(len(bits)):
        negative = (bits[i] & sign) != 0
        if negative != back:
            bits[i] = ~bits[i]
        else:
            bits[i] ^= sign


def as_keys(weights: AnyArray) -> AnyArray:
    """Turn numbers into unsigned keys of the same order, in place; a view of the same memory.

    IEEE numbers: the sign bit is set on positive ones, negative ones are complemented. Minus zero
    must have been made zero before, so that equal weights are equal keys.
    """
    bits: AnyArray = weights.view(f"u{weights.itemsize}")
    sign = bits.dtype.type(1 << (weights.itemsize * 8 - 1))
    if weights.dtype.kind == "f":
        _flip_floats(bits, sign, False)
    else:
        bits ^= sign
    return bits


def from_keys(bits: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Inverse of `as_keys`, in place."""
    sign = bits.dtype.type(1 << (bits.itemsize * 8 - 1))
    if dtype.kind == "f":
        _flip_floats(bits, sign, True)
    else:
        bits ^= sign
    return bits.view(dtype)
