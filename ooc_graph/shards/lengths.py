"""What of a graph's rows is read before they are loaded: lengths, and weights of the first ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ooc_graph.kernels.common.sssp.rows import sampled_rows, survey_of
from ooc_graph.layout.names import LIGHT, ORDER_OF, OUT, rows_path
from ooc_graph.memory.cuda.device_facts import last_longer
from ooc_graph.memory.heads import Lengths
from ooc_graph.shards.load import Graph
from ooc_graph.shards.row_loader import Arrays
from ooc_graph.types import DEAL_BLOCK, AnyArray, Dealing, IntArray, owner_of, rows_of_shard

_MOST_OFFSETS = 64 * DEAL_BLOCK


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
        for first, offsets in offsets_by_piece(stored, array):
            inside = np.diff(offsets)
            found, times = np.unique(inside, return_counts=True)
            length, index = np.unique(np.concatenate([length, found]), return_inverse=True)
            counts = np.bincount(index, np.concatenate([counts, times]), len(length))
            for k, arcs in enumerate(beyond):
                if local := last_longer(inside, arcs):
                    last = dealing.internal_of(np.array([first + local - 1]))
                    longer[k] = max(longer[k], int(last[0]) + 1)
    return Lengths(length, counts.astype(np.int64)), tuple(longer)


LengthsByShard = tuple[tuple[Lengths, ...], ...]
"""Lengths of the rows of every side, by shard."""


def lengths_by_shard(graph: Graph, kernel: str) -> LengthsByShard:
    """Lengths of the rows of every side, by shard; reads the graph's offsets."""
    sides = graph.arrays_of(ORDER_OF[kernel], "offsets")
    rows = [rows_of_shard(graph.rows, graph.shards, shard) for shard in range(graph.shards)]
    return tuple(
        tuple(count_lengths(graph.stored, [arrays[shard]], count)[0] for arrays in sides)
        for shard, count in enumerate(rows)
    )


def offsets_by_piece(stored: Arrays, array: str) -> Iterator[tuple[int, IntArray]]:
    """Offsets of some rows at a time: the first row, and the offsets around the rows."""
    row, last, spec = 0, np.empty(0, np.int64), stored.spec(array)
    for index in range(spec.chunks):
        data = stored.chunk(spec, index).view(np.int64)
        for begin in range(0, len(data), _MOST_OFFSETS):
            part = np.concatenate([last, data[begin : begin + _MOST_OFFSETS]])
            yield row, part
            row, last = row + len(part) - 1, part[-1:].copy()
        del data  # before the next chunk has memory of its own


MOST_SURVEYED = 64
"""Rows that are looked at, at most: each may take two chunks of the store."""


def spread_share(graph: Graph) -> float:
    """Share of the hubs whose weights spread, as a search asks before it pulls.

    Looks at `MOST_SURVEYED` of the rows that a search looks at, evenly apart. For weighted graphs.
    """
    count = sampled_rows(graph.rows)
    sampled = np.unique(
        np.linspace(0, max(count - 1, 0), min(count, MOST_SURVEYED), dtype=np.int64)
    )
    lightest: list[AnyArray] = []
    typical: list[AnyArray] = []
    for shard in range(graph.shards):
        rows = sampled[owner_of(sampled, graph.shards) == shard]
        if not len(rows):
            continue
        local = Dealing(graph.rows, graph.shards, shard).local_of(rows)
        group = rows_path(shard, OUT, LIGHT)
        begin, end = (
            _elements(graph.stored, f"{group}/offsets", local + k).astype(np.int64) for k in (0, 1)
        )
        begin, end = begin[begin < end], end[begin < end]
        positions = np.concatenate([begin, (begin + end) // 2])
        weights = _elements(graph.stored, f"{group}/weights", positions)
        lightest.append(weights[: len(begin)])
        typical.append(weights[len(begin) :])
    if not lightest:
        return 0.0
    found = survey_of(0, 0, np.concatenate(lightest), np.concatenate(typical))
    return found.spread_rows / max(found.sampled_rows, 1)


def _elements(stored: Arrays, array: str, positions: IntArray) -> AnyArray:
    """Some elements of an array; each chunk that has any is read once."""
    spec = stored.spec(array)
    found, chunks = np.empty(len(positions), spec.dtype), positions // spec.chunk
    for index in np.unique(chunks).tolist():
        inside = chunks == index
        found[inside] = stored.chunk(spec, index)[positions[inside] - index * spec.chunk]
    return found
