"""How long a graph's rows are, from their offsets, of which a stretch is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ooc_graph.memory.cpu.plan import Lengths
from ooc_graph.memory.cuda.pinned_plan import last_longer
from ooc_graph.shards.arrays import Arrays
from ooc_graph.types import DEAL_BLOCK, Dealing, IntArray

_STRETCH = 64 * DEAL_BLOCK


def count_lengths(
    stored: Arrays, arrays: Sequence[str], rows: int, beyond: Sequence[int] = ()
) -> tuple[Lengths, tuple[int, ...]]:
    """How many rows of a side, whose offsets by shard are ``arrays``, have how many arcs.

    And for each number of arcs in ``beyond`` the row from which on none has more, in global order.
    ``rows`` are those of the graph.
    """
    length, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    longer = [0] * len(beyond)
    for shard, array in enumerate(arrays):
        dealing = Dealing(rows, len(arrays), shard)
        for first, offsets in stretches(stored, array):
            here = np.diff(offsets)
            found, times = np.unique(here, return_counts=True)
            length, place = np.unique(np.concatenate([length, found]), return_inverse=True)
            counts = np.bincount(place, np.concatenate([counts, times]), len(length))
            for k, arcs in enumerate(beyond):
                if local := last_longer(here, arcs):
                    last = dealing.internal_of(np.array([first + local - 1]))
                    longer[k] = max(longer[k], int(last[0]) + 1)
    return Lengths(length, counts.astype(np.int64)), tuple(longer)


def stretches(stored: Arrays, array: str) -> Iterator[tuple[int, IntArray]]:
    """Offsets of some rows at a time: the first row, and the offsets around the rows."""
    row, last, spec = 0, np.empty(0, np.int64), stored.spec(array)
    for index in range(spec.chunks):
        data = stored.chunk(spec, index).view(np.int64)
        for begin in range(0, len(data), _STRETCH):
            part = np.concatenate([last, data[begin : begin + _STRETCH]])
            yield row, part
            row, last = row + len(part) - 1, part[-1:].copy()
        del data  # before the next chunk has memory of its own
