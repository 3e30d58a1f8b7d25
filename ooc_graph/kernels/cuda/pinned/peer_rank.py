"""BFS on rows in pinned host memory, by supersteps, or together with ranks of the same host."""

from __future__ import annotations

from typing import Any

from ooc_graph.kernels.cuda.bfs.peer_rank import CudaPeerBfsRank
from ooc_graph.kernels.cuda.bfs.peers import PeerBfs
from ooc_graph.kernels.cuda.pinned.bfs import BfsShare
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.shares import RankRows, TieredRows
from ooc_graph.types import Dealing

LEAST_SHARE = 1, 63
"""The first arc of each row, as of `ooc_graph.kernels.cuda.runtime.shares.Shares`."""


class CudaPinnedPeerBfsRank(CudaPeerBfsRank):
    """As `CudaPeerBfsRank`, of rows in pinned host memory.

    What the device has of them beside depends on who searches: a ``share`` of each row by
    supersteps, ``joined`` together with others, while there is the least share for supersteps.
    """

    def __init__(
        self, dealing: Dealing, rows: RankRows, share: tuple[int, int], joined: BfsShare
    ) -> None:
        super().__init__(dealing, rows)
        self._share, self._joined = share, joined
        tiered: tuple[Any, Any] = rows.out, rows.into
        self._outside = tuple(one.outside for one in tiered)
        self._is_undirected = rows.into is rows.out

    def _made(self) -> PeerBfs | None:
        """Buffers, if there is memory for them."""
        self._have(LEAST_SHARE)
        out, into = self._outside
        try:
            return PeerBfs(self._dealing, out, out if self._is_undirected else into, self._joined)
        except MemoryError:
            self._have(self._share)
            return None

    def part(self, *, may_keep: bool) -> None:
        """As of `BfsPeerRank`."""
        was_made = self._peers is not None
        super().part(may_keep=may_keep)
        if was_made and self._peers is None:
            self._have(self._share)

    def _have(self, share: tuple[int, int]) -> None:
        """Have this share of the rows on the device for supersteps, and no other."""
        del self._out, self._into
        cuda().get_default_memory_pool().free_all_blocks()
        with within_memory("the rows of a rank"):
            self._out = self._into = TieredRows.of(self._outside[0], *share)
            if not self._is_undirected:
                self._into = TieredRows.of(self._outside[1], *share)
