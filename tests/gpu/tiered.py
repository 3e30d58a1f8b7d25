"""Ranks of a CUDA device whose rows are in pinned host memory, or on a tier in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ooc_graph.kernels.common.sssp.owned import SharedSettled
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.kernels.cuda.bfs.near import BfsShare
from ooc_graph.kernels.cuda.bfs.rank import CudaBfsRank, CudaBfsShared
from ooc_graph.kernels.cuda.device import CudaDevice
from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.kernels.cuda.sssp.rank import CudaSsspRank
from ooc_graph.kernels.cuda.sssp.shared import CudaSsspShared, known_of
from ooc_graph.kernels.cuda.store.bfs_rank import CudaStoreBfsRank
from ooc_graph.kernels.cuda.store.rank_rows import StoreRows
from ooc_graph.kernels.cuda.store.sssp_owned import CudaStoreOwnedSsspRank
from ooc_graph.kernels.cuda.store.sssp_rank import CudaStoreSsspRank
from ooc_graph.memory.heads import HeadRule
from ooc_graph.shards.tiny_tiers import bind_rows
from ooc_graph.types import Rows, Shard
from tests.gpu.comparison import hub_sides, light_sides
from tests.gpu.disked import bare


class PinnedRanks:
    """A device that copies the rows of its ranks to pinned memory, and a share of each to itself.

    Parameters
    ----------
    least, shift
        See `ooc_graph.kernels.cuda.runtime.shares.Shares`.
    joined
        What there is if BFS ranks search together; None: they do not.
    """

    def __init__(self, least: int, shift: int, joined: BfsShare | None = None) -> None:
        self._device, self._share, self._joined = CudaDevice(), (least, shift), joined

    def bfs_rank(self, shard: Shard) -> CudaBfsRank:
        room = PinnedAllocator(2)
        hub = {name: in_room(room, getattr(shard, name)) for name in ("out_hub", "into_hub")}
        return self._device.tier_bfs_rank(replace(shard, **hub), room, *self._share, self._joined)

    def sssp_rank(self, shard: Shard) -> CudaSsspRank:
        room = PinnedAllocator(2)
        light = {name: in_room(room, getattr(shard, name)) for name in ("out_light", "into_light")}
        return self._device.tier_sssp_rank(replace(shard, **light), room, *self._share)

    def bfs_shared(self, vertices: int, shards: int) -> CudaBfsShared:
        return self._device.bfs_shared(vertices, shards)

    def sssp_shared(self, vertices: int, dtype: np.dtype[Any]) -> CudaSsspShared:
        return self._device.sssp_shared(vertices, dtype)


class StoreRanks:
    """A device that has the first arcs of its ranks' rows, the others being on a tier in memory.

    Parameters
    ----------
    least, shift
        See `ooc_graph.memory.heads.HeadRule`.
    sizes
        Of units, batches, windows and looks, as of `ooc_graph.shards.tiny_tiers.bind_rows`; and how
        many ``entries`` a push of BFS lists at a time.
    """

    def __init__(self, least: int, shift: int, **sizes: int) -> None:
        self._entries = sizes.pop("entries", 0)
        self._device, self._rule, self._sizes = CudaDevice(), HeadRule(least, shift), sizes

    def _sides(self, sides: tuple[Rows, Rows]) -> list[StoreRows]:
        out, into = sides
        held = [self._rows(out)]
        return [held[0], held[0] if into is out else self._rows(into)]

    def _rows(self, rows: Rows) -> StoreRows:
        bound = bind_rows(rows, HeadRule(1), **self._sizes)
        blocks, window, look = bound._blocks, len(bound.window.row), self._sizes.get("look", 1024)
        known = bare(bound.heads)
        there = self._device.store_rows(
            TierRows(known, blocks, window, look), self._rule.least, self._rule.shift
        )
        there.fill(TierRows(known, blocks, window, limits=self._rule.of(known.lengths)))
        return there

    def bfs_rank(self, shard: Shard) -> CudaStoreBfsRank:
        rank = self._device.store_bfs_rank(shard.dealing, *self._sides(hub_sides(shard)))
        rank._entries = self._entries or rank._entries
        return rank

    def sssp_rank(self, shard: Shard) -> CudaStoreSsspRank:
        out, into, tuples = light_sides(shard)
        known = known_of(out, tuples)
        return self._device.store_sssp_rank(shard.dealing, *self._sides((out, into)), known)

    def owned_sssp_rank(self, shard: Shard) -> CudaStoreOwnedSsspRank:
        out = shard.out_light
        assert out is not None
        given = shard.dealing, self._rows(out), known_of(out, shard.tuples)
        return self._device.store_owned_sssp_rank(*given, directed=shard.directed)

    def bfs_shared(self, vertices: int, shards: int) -> CudaBfsShared:
        return self._device.bfs_shared(vertices, shards)

    def sssp_shared(self, vertices: int, dtype: np.dtype[Any]) -> CudaSsspShared:
        return self._device.sssp_shared(vertices, dtype)

    def owned_sssp_shared(self, vertices: int, shards: int, dtype: np.dtype[Any]) -> SharedSettled:
        return self._device.owned_sssp_shared(vertices, shards, dtype)


def in_room(room: PinnedAllocator, rows: Rows | None) -> Rows | None:
    """The same rows, with neighbours and weights in pinned memory."""
    if rows is None:
        return None
    neighbors = room(len(rows.neighbors), rows.neighbors.dtype)
    neighbors[:] = rows.neighbors
    weights = None
    if rows.weights is not None:
        weights = room(len(rows.weights), rows.weights.dtype)
        weights[:] = rows.weights
    return Rows(rows.offsets, neighbors, weights)
