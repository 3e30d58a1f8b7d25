"""Shared vocabulary: array types, and how rows are dealt to shards.

Vertices carry two ids. The *original* id is the user's own (int64, gaps allowed). The *internal*
id is the vertex's rank by falling degree (decision 1). Rows belong to shards in blocks of
``DEAL_BLOCK`` consecutive internal ids, round-robin (decision 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
AnyArray = NDArray[Any]

DEAL_BLOCK_BITS = 10
DEAL_BLOCK = 1 << DEAL_BLOCK_BITS

INT64_UNREACHED = np.iinfo(np.int64).max


@dataclass(frozen=True)
class EdgeBlock:
    """Input tuples as read: original ids, in host memory.

    Parameters
    ----------
    source, target
        int64 (m,): original ids, non-negative.
    weight
        float32, float64 or int64 (m,), or None when the input has no weights.
    """

    source: IntArray
    target: IntArray
    weight: AnyArray | None = None

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Dealing:
    """Which rows one of ``shards`` owns, and where they stand in it.

    Parameters
    ----------
    vertices
        Number of rows in the whole graph (kept vertices).
    shards
        Number of virtual shards P, a power of two.
    shard
        This shard's number, 0 <= shard < shards.
    """

    vertices: int
    shards: int = 1
    shard: int = 0

    @property
    def rows(self) -> int:
        """Number of rows this shard owns."""
        return rows_of_shard(self.vertices, self.shards, self.shard)

    def local_of(self, internal: AnyArray) -> AnyArray:
        """Row number inside the shard of internal ids that it owns."""
        block = internal >> DEAL_BLOCK_BITS
        return ((block // self.shards) << DEAL_BLOCK_BITS) | (internal & (DEAL_BLOCK - 1))

    def internal_of(self, local: AnyArray) -> AnyArray:
        """Internal id of row numbers inside the shard."""
        block = (local >> DEAL_BLOCK_BITS) * self.shards + self.shard
        return (block << DEAL_BLOCK_BITS) | (local & (DEAL_BLOCK - 1))


def rows_of_shard(vertices: int, shards: int, shard: int) -> int:
    """Rows that shard ``shard`` of ``shards`` owns in a graph of ``vertices`` rows."""
    full, rest = divmod(vertices, DEAL_BLOCK)
    rows = ((full - shard + shards - 1) // shards) * DEAL_BLOCK if full > shard else 0
    return rows + (rest if full % shards == shard else 0)


def owner_of(internal: AnyArray, shards: int) -> AnyArray:
    """Shard that owns each internal id."""
    return (internal >> DEAL_BLOCK_BITS) % shards
