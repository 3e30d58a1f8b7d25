"""Ranks of a CUDA device whose rows are in pinned host memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ooc_graph.kernels.cuda.bfs.rank import CudaBfsRank, CudaBfsShared
from ooc_graph.kernels.cuda.device import CudaDevice
from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.kernels.cuda.sssp.rank import CudaSsspRank
from ooc_graph.kernels.cuda.sssp.shared import CudaSsspShared
from ooc_graph.types import Rows, Shard


class PinnedRanks:
    """A device that copies the rows of its ranks to pinned memory, and a share of each to itself.

    Parameters
    ----------
    least, shift
        See `ooc_graph.kernels.cuda.runtime.shares.Shares`.
    """

    def __init__(self, least: int, shift: int) -> None:
        self._device, self._share = CudaDevice(), (least, shift)

    def bfs_rank(self, shard: Shard) -> CudaBfsRank:
        room = PinnedAllocator(2)
        hub = {name: in_room(room, getattr(shard, name)) for name in ("out_hub", "into_hub")}
        return self._device.tier_bfs_rank(replace(shard, **hub), room, *self._share)

    def sssp_rank(self, shard: Shard) -> CudaSsspRank:
        room = PinnedAllocator(2)
        light = {name: in_room(room, getattr(shard, name)) for name in ("out_light", "into_light")}
        return self._device.tier_sssp_rank(replace(shard, **light), room, *self._share)

    def bfs_shared(self, vertices: int, shards: int) -> CudaBfsShared:
        return self._device.bfs_shared(vertices, shards)

    def sssp_shared(self, vertices: int, dtype: np.dtype[Any]) -> CudaSsspShared:
        return self._device.sssp_shared(vertices, dtype)


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
