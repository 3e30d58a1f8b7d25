"""The loop by which what a rank sends is ordered by who gets it, compiled; it does not allocate."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernel_cache import compiled, subroutine
from ooc_graph.types import DEAL_BLOCK_BITS


@subroutine
def _seat(target: Any, index: int, seat_of_rank: Any) -> Any:
    """Seat of the rank that owns a target."""
    return seat_of_rank[(np.int64(target[index]) >> DEAL_BLOCK_BITS) % len(seat_of_rank)]


@compiled
def order_by_seat(target: Any, seat_of_rank: Any, ends: Any, order: Any) -> None:
    """List entries by the seat of their target's owner, in ``order``; those of a seat keep theirs.

    ``ends`` are zeros (seats,) before, and where the entries of each seat end afterwards.
    """
    for index in range(len(target)):
        ends[_seat(target, index, seat_of_rank)] += 1
    before = 0
    for seat in range(len(ends)):
        before, ends[seat] = before + ends[seat], before
    for index in range(len(target)):
        seat = _seat(target, index, seat_of_rank)
        order[ends[seat]] = index
        ends[seat] += 1
