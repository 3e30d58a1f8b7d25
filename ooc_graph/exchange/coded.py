"""Coded arrays: a header of a few words, and a body in one of several forms.

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
from typing import Any

import numpy as np

from ooc_graph.types import AnyArray

HEADER = 3


class Form(IntEnum):
    """How a coded array lies."""

    MEMBERS, BLOCKS, SET, NARROW, RISING, STEPS, RUNS = range(7)


def header_of(form: Form, length: int, more: Any, size: int = 8, width: int = 0) -> AnyArray:
    """Header of an array of numbers of ``size`` bytes, which take ``width`` bytes in its body."""
    header = np.zeros(HEADER, np.uint64)
    header[:1].view(np.uint8)[:3] = form, width, size
    header[1:] = length, more
    return header


def with_body(header: AnyArray, body_bytes: int) -> tuple[AnyArray, AnyArray]:
    """A coded array that lacks its body, and memory for that with some bytes behind it."""
    # Reading looks at one byte more than there are, and writing at a few.
    words = HEADER + (1 + body_bytes // 8 if body_bytes else 0)
    coded = np.zeros(words + 1, np.uint64)
    coded[:HEADER] = header
    return coded[:words], coded[HEADER:].view(np.uint8)
