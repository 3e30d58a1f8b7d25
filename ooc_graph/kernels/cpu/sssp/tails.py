"""How far SSSP ranks are along tails: the arcs of rows that are not in memory (CPU)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import Words, drop, members_of, put, words_for
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.types import AnyArray


class Tails(NamedTuple):
    """Rows whose head is exhausted, and how far along their tails they are; arrays are by row.

    ``lengths`` are the arcs of rows, heads included, and ``cursor`` the next arc of a row.
    ``wanting``, a bitmap, has the rows that go on now, and ``waiting`` those whose next candidate,
    ``later``, is above the bound. Every array is empty if all arcs are in memory.
    """

    lengths: AnyArray
    cursor: AnyArray
    later: AnyArray
    wanting: Words
    waiting: Words


def new_tails(lengths: AnyArray, later: AnyArray) -> Tails:
    """Tails of rows of these lengths, none of which wants or waits."""
    bitmaps = (np.zeros(words_for(len(lengths)), np.uint64) for _ in range(2))
    return Tails(lengths, np.empty_like(lengths), later, *bitmaps)


@subroutine
def want_tail(tails: Any, row: int, head: int) -> None:
    """Have a row go on after its first ``head`` arcs, if it has more."""
    if len(tails.lengths) and head < tails.lengths[row]:
        tails.cursor[row] = head
        drop(tails.waiting, row)
        put(tails.wanting, row)


@subroutine
def wait_for(tails: Any, row: int, candidate: Any) -> None:
    """Have a row wait until the bound reaches its next candidate."""
    tails.later[row] = candidate
    drop(tails.wanting, row)
    put(tails.waiting, row)


@subroutine
def advance(tails: Any, row: int, arcs: int) -> None:
    """Move the cursor of a row; at the end of the row nothing more is wanted."""
    tails.cursor[row] += arcs
    if tails.cursor[row] == tails.lengths[row]:
        drop(tails.wanting, row)


@kernel
def raise_bound(tails: Any, bound: Any) -> None:
    """Have rows go on whose next candidate is within the bound."""
    for row in members_of(tails.waiting):
        if tails.later[row] <= bound:
            drop(tails.waiting, row)
            put(tails.wanting, row)


@kernel
def smallest_later(tails: Any, smallest: Any) -> Any:
    """Smallest candidate of those that wait, or ``smallest``."""
    for row in members_of(tails.waiting):
        smallest = min(smallest, tails.later[row])
    return smallest
