"""A small graph whose rows lie far apart among those of a graph that has more than 2**32.

The first shards of very many have all arcs. Their rows are the rows of a small graph dealt to as
few shards, in the same order, so that a search goes the same way and only the ids are larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ooc_graph.types import DEAL_BLOCK, DEAL_BLOCK_BITS, AnyArray, Dealing, Rows, Shard
from tests.strategies import Arcs

NEAR_SHARDS = 8
FAR_SHARDS = 1 << 20
BLOCKS = 5
"""Blocks of ids that each shard has; the last of them lie above 2**32."""
HUBS = 600
NEAR_VERTICES = BLOCKS * NEAR_SHARDS * DEAL_BLOCK
FAR_VERTICES = BLOCKS * FAR_SHARDS * DEAL_BLOCK


def far_ids(near: AnyArray) -> AnyArray:
    """Id in the large graph of each in the small one, all ones (none) as before: uint64."""
    ids = near.astype(np.int64)
    block = ids >> DEAL_BLOCK_BITS
    dealt = block // NEAR_SHARDS * FAR_SHARDS + block % NEAR_SHARDS
    far = (dealt << DEAL_BLOCK_BITS | ids & (DEAL_BLOCK - 1)).astype(np.uint64)
    return np.where(near == np.iinfo(near.dtype).max, np.iinfo(np.uint64).max, far)


def padded(arcs: Arcs) -> Arcs:
    """The same arcs among `NEAR_VERTICES` vertices: the first stay, as hubs must, others spread."""
    free = np.random.default_rng(3).permutation(np.arange(HUBS, NEAR_VERTICES))
    spread = np.concatenate([np.arange(HUBS), np.sort(free[: arcs.vertices - HUBS])])
    tuples = np.zeros(NEAR_VERTICES, arcs.tuples.dtype)
    tuples[spread] = arcs.tuples
    ends = spread[arcs.source], spread[arcs.target]
    return Arcs(NEAR_VERTICES, *ends, arcs.weight, tuples, arcs.directed)


def funnel() -> tuple[Arcs, int]:
    """Arcs among `NEAR_VERTICES` vertices, and a root: rows that are found far behind their heads.

    Each of 8,000 vertices has arcs from 20 that are never reached, which stand first in its rows of
    either order, and from 40 of those that the root has arcs to, which lie beyond 2**32.
    """
    count, root, first, high = 8_000, 600, 1_000, NEAR_VERTICES - 8_000
    at = np.arange(count)
    dead = (at[:, None] * 20 + np.arange(20)) % 512
    live = high + (at[:, None] * 40 + np.arange(40) * 97) % count
    source = np.concatenate([np.full(count, root), dead.ravel(), live.ravel()])
    ends = high + at, np.repeat(first + at, 20), np.repeat(first + at, 40)
    target = np.concatenate(ends)
    light = np.where(at[:, None] % 10 == 0, 1e-6, 1e-4) + np.zeros((1, 20))
    weight = np.concatenate([1 + at / count, light.ravel(), np.full(40 * count, 0.5)])
    tuples = np.bincount(np.concatenate([source, target]), minlength=NEAR_VERTICES)
    tuples[0] += 1_000_000  # duplicates, so that pulling pays as with hubs
    return Arcs(NEAR_VERTICES, source, target, weight.astype(np.float32), tuples, True), root


def far_shards(arcs: Arcs) -> list[Shard]:
    """The shards of `padded` arcs as the first ones of the large graph."""
    near = arcs.shards(NEAR_SHARDS)
    return [
        replace(
            shard,
            dealing=Dealing(FAR_VERTICES, FAR_SHARDS, number),
            **{
                name: _far_rows(getattr(shard, name))
                for name in ("out_hub", "into_hub", "out_light", "into_light")
            },
        )
        for number, shard in enumerate(near)
    ]


def _far_rows(rows: Rows | None) -> Rows | None:
    return None if rows is None else replace(rows, neighbors=far_ids(rows.neighbors))


class AsNear:
    """A rank of the large graph that says it were of the small one, by which decisions go."""

    vertices = NEAR_VERTICES

    def __init__(self, rank: Any) -> None:
        self._rank = rank

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rank, name)


def by_near_id(columns: Sequence[AnyArray]) -> AnyArray:
    """What the far ranks found, in the order of the small graph's ids."""
    whole = np.empty(NEAR_VERTICES, columns[0].dtype)
    for shard, column in enumerate(columns):
        whole[Dealing(NEAR_VERTICES, NEAR_SHARDS, shard).owned()] = column
    return whole
