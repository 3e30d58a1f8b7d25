"""Arrays that ranks tell each other, in few bytes: sets of rows, ids, and columns of entries.

An array is coded in the form that takes the fewest bytes, which are known before it is written,
from what is counted beforehand: members, runs, steps. It stays as it is if no form saves an eighth,
or if it is none of uint32 or uint64 (n,). Every array comes back as it was. How coded
arrays lie is written in `ooc_graph.exchange.coded`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ooc_graph.exchange import block_loops as blocks
from ooc_graph.exchange import codec_loops as loops
from ooc_graph.exchange.coded import HEADER, Form, header_of, with_body
from ooc_graph.exchange.coded_bitmap import Bitmap, listed, read_bitmap
from ooc_graph.layout.names import id_dtype
from ooc_graph.types import AnyArray

FEW_BYTES = 64
"""Arrays of at most 64 bytes stay as they are."""
LEAST_SAVED = 8
"""A form is taken if it saves at least one byte in eight."""
DENSE = 128
"""Ascending ids may be coded as a bitmap if at least one in 128 of their range is there."""
_BLOCK_BITS = 64 * blocks.BLOCK_WORDS


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
    """Code and decode arrays of every form, so that their loops are compiled.

    Ids of 64 bits are left to graphs that have some.
    """
    few, many = np.zeros((2, 900), np.uint64)
    ids: AnyArray = np.arange(0, 9_000, 30, dtype=np.uint32)
    thrown: AnyArray = ids * np.uint32(0x9E3779B1)
    for numbers in (
        ids,
        np.tile(ids[:30], 9),
        ids[:99] // 30,
        np.repeat(ids[:9], 99),
        thrown % 999,
    ):
        unpacked(packed(numbers))
    few[5], many[:300] = 1, thrown.astype(np.uint64) ** 2
    for words in (few, many):
        unpacked(packed(words))
    blocks.fill_blocks(many, few, np.empty_like(many))
    blocks.take_new(many, few, np.empty_like(many))
    counts = np.zeros((2, 900), np.int64)
    loops.rank_members(ids, np.uint64(0), few, *counts)


def _smallest(array: AnyArray) -> AnyArray | None:
    """The array coded; None: no form is smaller."""
    is_coded = array.dtype in (np.uint32, np.uint64) and array.ndim == 1
    if not is_coded or array.nbytes <= FEW_BYTES:
        return None
    array = np.ascontiguousarray(array)
    below = array.nbytes - array.nbytes // LEAST_SAVED - 8 * (HEADER + 1)
    if array.dtype == np.uint32:
        return _numbers(array, below)
    bitmap = Bitmap.of(array)
    coded = _numbers(array, min(below, bitmap.body_bytes))
    if coded is None and bitmap.body_bytes < below:
        coded = bitmap.coded(len(array))
    return coded


def _decoded(coded: AnyArray) -> AnyArray:
    form, width, size = (int(byte) for byte in coded[:1].view(np.uint8)[:3])
    length, more, body = int(coded[1]), coded[2], coded[HEADER:]
    if form in (Form.MEMBERS, Form.BLOCKS):
        return read_bitmap(form, length, int(more), body.view(np.uint8))
    if form == Form.SET:
        return listed(_decoded(body), length, more, np.dtype(f"u{size}"))
    if form == Form.RUNS:
        begins, values = _decoded(body[: int(more)]), _decoded(body[int(more) :])
        lengths: AnyArray = np.diff(begins.astype(np.int64), append=length)
        return np.repeat(values, lengths)
    numbers = np.empty(length, f"u{size}")
    if form == Form.NARROW:
        loops.read_narrow(body.view(np.uint8), more, width, numbers)
    else:
        loops.read_steps(body.view(np.uint8), form == Form.RISING, more, numbers)
    return numbers


def _numbers(values: AnyArray, below: int) -> AnyArray | None:
    """Numbers, one at least, coded; None: not in a body below a limit."""
    least, most, falls, changes = loops.survey(values)
    length, size, span = len(values), values.itemsize, int(most - least)
    width = -(-span.bit_length() // 8)
    # Of equally small forms the first is taken, which is the quickest to read.
    sizes = {Form.NARROW: width * length, Form.RUNS: 16 * (HEADER + 2 + changes)}
    if not falls and changes == length - 1 and span < DENSE * length:
        # Its blocks are those of all ids.
        base = np.uint64(least - least % _BLOCK_BITS)
        words = np.zeros(((most - int(base)) // _BLOCK_BITS + 1) * blocks.BLOCK_WORDS, np.uint64)
        loops.put_members(values, base, words)
        bitmap = Bitmap.of(words)
        sizes[Form.SET] = 8 * (HEADER + 1) + bitmap.body_bytes
    steps = Form.STEPS if falls else Form.RISING
    # A step takes one byte at least, and in any order as many as the number.
    if min(below, *sizes.values()) > length and falls <= length // 4:
        sizes[steps] = loops.measure_steps(values, not falls)
    form = min(sizes, key=lambda form: sizes[form])
    if sizes[form] >= below:
        return None
    if form == Form.SET:
        return np.append(header_of(form, length, base, size), bitmap.coded(len(words)))
    if form == Form.RUNS:
        return _runs(values)
    more = least if form == Form.NARROW else values[0]
    coded, body = with_body(header_of(form, length, more, size, width), sizes[form])
    if form == Form.NARROW:
        loops.write_narrow(values, np.uint64(least), width, body)
    else:
        loops.write_steps(values, not falls, body)
    return coded


def _runs(values: AnyArray) -> AnyArray:
    """Numbers as runs of equal ones."""
    begins = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    first, second = (
        _coded_anyhow(begins.astype(id_dtype(len(values)))),
        _coded_anyhow(values[begins]),
    )
    header = header_of(Form.RUNS, len(values), len(first), values.itemsize)
    return np.concatenate([header, first, second])


def _coded_anyhow(values: AnyArray) -> AnyArray:
    coded = _numbers(values, 9 * len(values))
    assert coded is not None  # narrow numbers have at most 8 bytes each
    return coded
