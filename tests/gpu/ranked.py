"""Searches by many ranks in one process, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.common.decisions import BfsTree, SsspTree
from ooc_graph.kernels.common.device import BfsRank, SsspInnerRank, SsspRank
from ooc_graph.kernels.common.peers import BfsPeerRank
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import AnyArray, Shard
from tests import local_exchange


def distance_dtype(weights: AnyArray) -> np.dtype[Any]:
    return weights.dtype if weights.dtype.kind == "f" else np.dtype(np.int64)


def joined(parts: Sequence[Shard], columns: Sequence[AnyArray]) -> AnyArray:
    """What all ranks found, in the order of internal ids."""
    whole = np.empty(parts[0].dealing.vertices, columns[0].dtype)
    for part, column in zip(parts, columns, strict=True):
        whole[part.dealing.owned()] = column
    return whole


class TogetherBfs:
    """BFS on ranks that are made once, and search together if they can."""

    def __init__(self, device: Any, parts: Sequence[Shard]) -> None:
        self._device, self._parts = device, parts
        self._ranks: list[Any] = [device.bfs_rank(part) for part in parts]

    def run(self, root: int) -> BfsTree:
        count = len(self._parts)
        shared = self._device.bfs_shared(self._parts[0].dealing.vertices, count)
        trees, _ = local_exchange.run(
            [bfs(rank, root, shared) for rank in self._ranks], shared, count
        )
        parent = joined(self._parts, [tree.parent for tree in trees])
        level = joined(self._parts, [tree.level for tree in trees])
        first = trees[0]
        course = first.level_vertices, first.level_arcs, first.level_direction
        return BfsTree(parent, level, 0.0, *course)


class RankedBfs(TogetherBfs):
    """The same by supersteps alone."""

    def __init__(self, device: Any, parts: Sequence[Shard]) -> None:
        super().__init__(device, parts)
        self._ranks = [CommonSteps(rank) for rank in self._ranks]


class CommonSteps:
    """A rank that has no other steps than every device's ranks, so that arcs examined agree."""

    def __init__(self, rank: Any) -> None:
        self._rank = rank

    def __getattr__(self, name: str) -> Any:
        if name in _MORE_STEPS:
            raise AttributeError(name)
        return getattr(self._rank, name)


_MORE_STEPS = set(vars(SsspInnerRank)) - set(vars(SsspRank))
_MORE_STEPS |= set(vars(BfsPeerRank)) - set(vars(BfsRank))


class RankedSssp:
    """SSSP on ranks that are made once, by the steps that every device has."""

    def __init__(self, device: Any, parts: Sequence[Shard]) -> None:
        self._device, self._parts = device, parts
        self._ranks: Any = [CommonSteps(device.sssp_rank(part)) for part in parts]

    def run(self, root: int) -> SsspTree:
        rows, count = self._parts[0].out_light, len(self._parts)
        assert rows is not None
        assert rows.weights is not None
        vertices = self._parts[0].dealing.vertices
        shared = self._device.sssp_shared(vertices, distance_dtype(rows.weights))
        trees, _ = local_exchange.run(
            [sssp(rank, root, shared) for rank in self._ranks], shared, count
        )
        parent = joined(self._parts, [tree.parent for tree in trees])
        distance = joined(self._parts, [tree.distance for tree in trees])
        return SsspTree(parent, distance, 0.0, trees[0].phase_arcs)
