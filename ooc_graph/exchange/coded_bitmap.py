"""Bitmaps as coded arrays: as members, or by blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.exchange import block_loops as blocks
from ooc_graph.exchange import codec_loops as loops
from ooc_graph.exchange.coded import Form, header_of, with_body
from ooc_graph.layout.names import id_dtype
from ooc_graph.types import AnyArray

_GROUP_BYTES = 16


def listed(words: AnyArray, members: int, base: Any, dtype: np.dtype[Any]) -> AnyArray:
    """The members of a bitmap, ascending, above a uint64."""
    found = np.empty(members + loops.SLACK, dtype)
    loops.list_members(words, base, found)
    return found[:members]


class Bitmap(NamedTuple):
    """A bitmap of whole blocks, in its smallest form, and what was counted for that."""

    words: AnyArray
    form: Form
    body_bytes: int
    amount: int  # members, or words that are copied
    members: AnyArray  # in that form, after a zero, from which the first step goes

    @classmethod
    def of(cls, words: AnyArray) -> Bitmap:
        """Measure any words."""
        rest = -len(words) % blocks.BLOCK_WORDS
        words = np.append(words, np.zeros(rest, np.uint64)) if rest else words
        members, directory_bytes = blocks.count_members(words), _GROUP_BYTES * _groups(words)
        as_words, block_bytes = 0, directory_bytes
        # Steps between few members take less than the headers of groups alone: up to 2**28 rows, a
        # step takes four bytes at most.
        if 4 * members > directory_bytes or len(words) > 1 << 22:
            as_words, more_bytes = blocks.measure_blocks(words)
            block_bytes += more_bytes + 8 * blocks.BLOCK_WORDS * as_words
        # More than one a word would take twice as long as blocks, and hardly fewer bytes.
        if members <= len(words):
            numbers = listed(words, members, np.uint64(0), id_dtype(64 * len(words)))
            numbers = np.append(np.zeros(1, numbers.dtype), numbers)
            list_bytes = loops.measure_steps(numbers, True)
            if list_bytes <= block_bytes:
                return cls(words, Form.MEMBERS, list_bytes, members, numbers)
        copied = as_words * blocks.BLOCK_WORDS
        return cls(words, Form.BLOCKS, block_bytes, copied, words[:0])

    def coded(self, length: int) -> AnyArray:
        """The first ``length`` words of it, coded; the others are empty."""
        coded, body = with_body(header_of(self.form, length, self.amount), self.body_bytes)
        if self.form == Form.MEMBERS:
            loops.write_steps(self.members, True, body)
        else:
            blocks.write_blocks(self.words, *blocks_of(body, _groups(self.words), self.amount))
        return coded


def read_bitmap(form: int, length: int, count: int, body: AnyArray) -> AnyArray:
    """Undo `Bitmap.coded`, given what is in the header."""
    words = np.zeros(length + -length % blocks.BLOCK_WORDS, np.uint64)
    if form == Form.BLOCKS:
        groups = _groups(words)
        blocks.read_blocks(*blocks_of(body, groups, count), 0, groups, words)
    else:
        members = np.empty(1 + count, id_dtype(64 * length))
        loops.read_steps(body, True, np.uint64(0), members)
        loops.put_members(members[1:], np.uint64(0), words)
    return words[:length]


def _groups(words: AnyArray) -> int:
    return -(-len(words) // blocks.GROUP_WORDS)


def blocks_of(
    body: AnyArray, groups: int, copied: int
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Which blocks each group has, where it begins, words that are copied, and bytes; views."""
    present, begins, whole, rest = np.split(body, np.cumsum([8 * groups, 8 * groups, 8 * copied]))
    begins = begins.view(np.uint32).reshape(groups, 2)
    return present.view(np.uint64), begins, whole.view(np.uint64), rest
