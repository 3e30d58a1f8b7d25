"""What the weights of a graph's first rows are like, before rows are brought into memory."""

from __future__ import annotations

import numpy as np

from ooc_graph.kernels.common.sssp.survey import sampled_rows, survey_of
from ooc_graph.layout.names import LIGHT, OUT, rows_path
from ooc_graph.shards.arrays import Arrays
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, Dealing, IntArray, owner_of

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
        places = np.concatenate([begin, (begin + end) // 2])
        weights = _elements(graph.stored, f"{group}/weights", places)
        lightest.append(weights[: len(begin)])
        typical.append(weights[len(begin) :])
    if not lightest:
        return 0.0
    found = survey_of(0, 0, np.concatenate(lightest), np.concatenate(typical))
    return found.spread_rows / max(found.sampled_rows, 1)


def _elements(stored: Arrays, array: str, places: IntArray) -> AnyArray:
    """Some elements of an array; each chunk that has any is read once."""
    spec = stored.spec(array)
    found, chunks = np.empty(len(places), spec.dtype), places // spec.chunk
    for index in np.unique(chunks).tolist():
        here = chunks == index
        found[here] = stored.chunk(spec, index)[places[here] - index * spec.chunk]
    return found
