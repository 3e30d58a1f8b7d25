"""Arrays that ranks tell each other, in few bytes: sets of rows, ids, and columns of entries.

An array is coded in the form that takes the fewest bytes, which are known before it is written,
from what is counted beforehand: members, runs, steps. It stays as it is if no form saves an eighth,
or if it is none of uint32 or uint64 (n,). Every array comes back as it was.

A coded array is uint64 (words,): a header of `HEADER` words (form, width and bytes of a number, one
byte each; length; one number more), and a body in the form:

- ``MEMBERS``, of a bitmap: steps from one member to the next, 7 bits a byte. No member: no body.
- ``BLOCKS``, of a bitmap: 256 bits by 256. Those without members take one bit. Each other one lies
  as its words, as positions of its members, or as positions where runs of ones and of zeros begin,
  one byte each, so that a full one takes one byte. Groups of 64 blocks say where they begin, and
  can be read in any order, or at once.
- ``SET``, of ascending ids: such a bitmap, coded, of what they are above the first.
- ``NARROW``: what each number is above the least, in the bytes that the largest needs.
- ``RISING``, of ascending numbers, and ``STEPS``: from one number to the next, 7 bits a byte.
- ``RUNS``: where runs of equal numbers begin, and these numbers, both coded.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.exchange import block_loops as blocks
from ooc_graph.exchange import codec_loops as loops
from ooc_graph.types import AnyArray

HEADER = 3
FEW_BYTES = 64
"""Arrays of at most so many bytes stay as they are."""
LEAST_SAVED = 8
"""A form is taken if it saves one byte of so many."""
DENSE = 128
"""Ascending ids may be told as a bitmap if one of so many is there."""
_BLOCK_BITS, _GROUP_BYTES = 64 * blocks.BLOCK_WORDS, 16


class Form(IntEnum):
    """How a coded array lies."""

    MEMBERS, BLOCKS, SET, NARROW, RISING, STEPS, RUNS = range(7)


class Packed(NamedTuple):
    """An array as it travels, in host memory: coded, or as it is."""

    array: AnyArray
    is_coded: bool


def packed(array: AnyArray) -> Packed:
    """The array in its smallest form."""
    coded = _smallest(array)
    return Packed(array, False) if coded is None else Packed(coded, True)


def unpacked(packed: Packed) -> AnyArray:
    """Undo `packed`."""
    return _decoded(packed.array) if packed.is_coded else packed.array


def rehearse() -> None:
    """Code and decode an array of every form, so that their loops are compiled."""
    ids = np.arange(0, 9_000, 30, dtype=np.uint64)
    for numbers in (ids, ids[::-1] * ids, ids.astype(np.uint32), np.repeat(ids[:9], 99)):
        unpacked(packed(numbers))
    few, many = np.zeros((2, 900), np.uint64)
    few[5], many[:300] = 1, ids * np.uint64(0x9E3779B97F4A7C15)
    for words in (few, many):
        unpacked(packed(words))
    blocks.fill_blocks(many, few, np.empty_like(many))
    counts = np.zeros((2, 900), np.int64)
    loops.rank_members(ids, ids[0], few, *counts)


def _smallest(array: AnyArray) -> AnyArray | None:
    """The array coded; None: no form is smaller."""
    is_coded = array.dtype in (np.uint32, np.uint64) and array.ndim == 1
    if not is_coded or array.nbytes <= FEW_BYTES:
        return None
    numbers = np.ascontiguousarray(array, np.uint64)
    below = array.nbytes - array.nbytes // LEAST_SAVED - 8 * (HEADER + 1)
    if array.dtype == np.uint32:
        return _numbers(numbers, array.itemsize, below)
    bitmap = _Bitmap.of(numbers)
    coded = _numbers(numbers, array.itemsize, min(below, bitmap.body_bytes))
    if coded is None and bitmap.body_bytes < below:
        coded = bitmap.coded(len(array))
    return coded


def _decoded(coded: AnyArray) -> AnyArray:
    form, width, size = (int(byte) for byte in coded[:1].view(np.uint8)[:3])
    length, more, body = int(coded[1]), coded[2], coded[HEADER:]
    if form in (Form.MEMBERS, Form.BLOCKS):
        return _read_bitmap(form, length, int(more), body.view(np.uint8))
    if form == Form.SET:
        numbers = _listed(_decoded(body), length) + more
    elif form == Form.RUNS:
        begins, values = _decoded(body[: int(more)]), _decoded(body[int(more) :])
        lengths: AnyArray = np.diff(begins.astype(np.int64), append=length)
        numbers = np.repeat(values, lengths)
    elif form == Form.NARROW:
        numbers = np.empty(length, np.uint64)
        loops.read_narrow(body.view(np.uint8), more, width, numbers)
    else:
        numbers = np.empty(length, np.uint64)
        loops.read_steps(body.view(np.uint8), form == Form.RISING, more, numbers)
    found: AnyArray = numbers.astype(f"u{size}", copy=False)
    return found


def _header(form: Form, length: int, more: Any, size: int = 8, width: int = 0) -> AnyArray:
    header = np.zeros(HEADER, np.uint64)
    header[:1].view(np.uint8)[:3] = form, width, size
    header[1:] = length, more
    return header


def _with_body(header: AnyArray, body_bytes: int) -> tuple[AnyArray, AnyArray]:
    """A coded array that lacks its body, and memory for that with some bytes behind it."""
    # Reading looks at one byte more than there are, and writing at a few.
    words = HEADER + (1 + body_bytes // 8 if body_bytes else 0)
    coded = np.zeros(words + 1, np.uint64)
    coded[:HEADER] = header
    return coded[:words], coded[HEADER:].view(np.uint8)


def _listed(words: AnyArray, members: int) -> AnyArray:
    """Members of a bitmap: uint64, ascending."""
    listed = np.empty(members + loops.SLACK, np.uint64)
    loops.list_members(words, listed)
    return listed[:members]


class _Bitmap(NamedTuple):
    """A bitmap of whole blocks, in its smallest form, and what was counted for that."""

    words: AnyArray
    form: Form
    body_bytes: int
    amount: int  # members, or words that are copied
    members: AnyArray  # in that form, after a zero, from which the first step goes

    @classmethod
    def of(cls, words: AnyArray) -> _Bitmap:
        rest = -len(words) % blocks.BLOCK_WORDS
        words = np.append(words, np.zeros(rest, np.uint64)) if rest else words
        members, as_words, block_bytes = blocks.measure_blocks(words)
        copied = as_words * blocks.BLOCK_WORDS
        block_bytes += _GROUP_BYTES * _groups(words) + 8 * copied
        # More would take twice as long, and hardly fewer bytes.
        if members <= len(words):
            listed = np.append(np.zeros(1, np.uint64), _listed(words, members))
            list_bytes = loops.measure_steps(listed, True)
            if list_bytes < block_bytes:
                return cls(words, Form.MEMBERS, list_bytes, members, listed)
        return cls(words, Form.BLOCKS, block_bytes, copied, words[:0])

    def coded(self, length: int) -> AnyArray:
        """So many words of it, coded; the others are empty."""
        coded, body = _with_body(_header(self.form, length, self.amount), self.body_bytes)
        if self.form == Form.MEMBERS:
            loops.write_steps(self.members, True, body)
        else:
            blocks.write_blocks(self.words, *_blocks_of(body, _groups(self.words), self.amount))
        return coded


def _read_bitmap(form: int, length: int, count: int, body: AnyArray) -> AnyArray:
    words = np.zeros(length + -length % blocks.BLOCK_WORDS, np.uint64)
    if form == Form.BLOCKS:
        groups = _groups(words)
        blocks.read_blocks(*_blocks_of(body, groups, count), 0, groups, words)
    else:
        listed = np.empty(1 + count, np.uint64)
        loops.read_steps(body, True, np.uint64(0), listed)
        loops.put_members(listed[1:], np.uint64(0), words)
    return words[:length]


def _groups(words: AnyArray) -> int:
    return -(-len(words) // blocks.GROUP_WORDS)


def _blocks_of(
    body: AnyArray, groups: int, copied: int
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Which blocks each group has, where it begins, words that are copied, and bytes; views."""
    present, begins, whole, rest = np.split(body, np.cumsum([8 * groups, 8 * groups, 8 * copied]))
    begins = begins.view(np.uint32).reshape(groups, 2)
    return present.view(np.uint64), begins, whole.view(np.uint64), rest


def _numbers(values: AnyArray, size: int, below: int) -> AnyArray | None:
    """Numbers, one at least, of so many bytes each, coded; None: not in a body below a limit."""
    least, most, falls, changes = loops.survey(values)
    length, span = len(values), int(most - least)
    width = -(-span.bit_length() // 8)
    # Of equally small forms the first is taken, which is the quickest to read.
    sizes = {Form.NARROW: width * length, Form.RUNS: 16 * (HEADER + 2 + changes)}
    if not falls and changes == length - 1 and span < DENSE * length:
        # Its blocks are those of all ids.
        base = least - least % np.uint64(_BLOCK_BITS)
        words = np.zeros((int(most - base) // _BLOCK_BITS + 1) * blocks.BLOCK_WORDS, np.uint64)
        loops.put_members(values, base, words)
        bitmap = _Bitmap.of(words)
        sizes[Form.SET] = 8 * (HEADER + 1) + bitmap.body_bytes
    steps = Form.STEPS if falls else Form.RISING
    # A step takes one byte at least, and in any order as many as the number.
    if min(below, *sizes.values()) > length and falls <= length // 4:
        sizes[steps] = loops.measure_steps(values, not falls)
    form = min(sizes, key=lambda form: sizes[form])
    if sizes[form] >= below:
        return None
    if form == Form.SET:
        return np.append(_header(form, length, base, size), bitmap.coded(len(words)))
    if form == Form.RUNS:
        return _runs(values, size)
    more = least if form == Form.NARROW else values[0]
    coded, body = _with_body(_header(form, length, more, size, width), sizes[form])
    if form == Form.NARROW:
        loops.write_narrow(values, np.uint64(least), width, body)
    else:
        loops.write_steps(values, not falls, body)
    return coded


def _runs(values: AnyArray, size: int) -> AnyArray:
    """Numbers as runs of equal ones."""
    begins = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    first = _coded_anyhow(begins.astype(np.uint64), 8)
    second = _coded_anyhow(values[begins], size)
    header = _header(Form.RUNS, len(values), len(first), size)
    return np.concatenate([header, first, second])


def _coded_anyhow(values: AnyArray, size: int) -> AnyArray:
    coded = _numbers(values, size, 9 * len(values))
    assert coded is not None  # narrow numbers have at most 8 bytes each
    return coded
