"""Bitmaps that a rank tells one after the other, of which no two have a bit in common.

As everyone knows what was told before, those bits are free: they may be set or not, whatever takes
fewer bytes. In the last levels of a BFS nearly all rows are in the frontier or were before, so that
blocks are full of ones with them, and neither full nor empty without.
"""

from __future__ import annotations

import numpy as np

from ooc_graph.exchange.block_loops import BLOCK_WORDS, count_members, fill_blocks, take_new
from ooc_graph.types import AnyArray


class Disjoint:
    """What one rank has told: uint64 (words,), the same for the sender and all receivers."""

    def __init__(self) -> None:
        self._before = np.empty(0, np.uint64)

    def filled(self, words: AnyArray) -> AnyArray:
        """The next bitmap as it is sent, with such bits of those before as make it smaller."""
        free = self._of_length(len(words))
        # Few members take few bytes one by one, and hardly fewer with others.
        is_thin = count_members(words) <= len(words)
        filled = words if is_thin else words.copy()
        if not is_thin:
            whole = len(words) - len(words) % BLOCK_WORDS
            fill_blocks(words[:whole], free, filled)
        free |= words
        return filled

    def taken(self, filled: AnyArray) -> AnyArray:
        """Undo `filled`."""
        words = np.empty(len(filled), np.uint64)
        take_new(filled, self._of_length(len(filled)), words)
        return words

    def _of_length(self, length: int) -> AnyArray:
        """Bits told before; none at first."""
        if len(self._before) != length:
            self._before = np.zeros(length, np.uint64)
        return self._before
