"""BFS on rows in pinned host memory, by supersteps, or together with ranks of the same host."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ooc_graph.kernels.cuda.bfs.near import BfsShare
from ooc_graph.kernels.cuda.bfs.peer_rank import CudaPeerBfsRank
from ooc_graph.kernels.cuda.bfs.peers import PeerBfs
from ooc_graph.kernels.cuda.runtime.modules import cuda, device_bytes, within_memory
from ooc_graph.kernels.cuda.runtime.rank_bytes import step_bytes
from ooc_graph.kernels.cuda.runtime.shares import RankRows, TieredRows
from ooc_graph.types import Dealing

LEAST_SHARE = 1, 63
"""The first arc of each row, as of `ooc_graph.kernels.cuda.runtime.shares.Shares`."""


class CudaPinnedPeerBfsRank(CudaPeerBfsRank):
    """As `CudaPeerBfsRank`, of rows in pinned host memory.

    What the device has of them depends on who searches. Supersteps have a ``share`` of each row.
    Ranks that search together have ``joined``, and supersteps the least share as long.
    """

    def __init__(
        self, dealing: Dealing, rows: RankRows, share: tuple[int, int], joined: BfsShare
    ) -> None:
        super().__init__(dealing, rows)
        self._share, self._joined = share, joined
        sides: tuple[Any, Any] = rows.out, rows.into
        self._outside: tuple[Any, Any] = sides[0].outside, sides[1].outside

    def start(self, root: int) -> None:
        """As of `CudaBfsRank`."""
        if self._out is None:  # the search before was refused it
            self._have(self._share)
        super().start(root)

    def _made(self) -> PeerBfs | None:
        """Buffers, if there is memory for them, and for supersteps besides."""
        self._have(LEAST_SHARE)
        made = self._within_memory()
        if made is None:
            self._have(self._share)
        return made

    def _within_memory(self) -> PeerBfs | None:
        # Whoever calls this finds the memory free again that an error's frames kept.
        with suppress(MemoryError):
            made = PeerBfs(self._dealing, *self._outside, self._joined)
            if device_bytes()[0] >= step_bytes(self._dealing.rows):
                return made
        return None

    def part(self, *, may_keep: bool) -> None:
        """As of `BfsPeerRank`."""
        was_made = self._peers is not None
        super().part(may_keep=may_keep)
        if was_made and self._peers is None:
            self._have(self._share)

    def _have(self, share: tuple[int, int]) -> None:
        """Have this share of the rows on the device for supersteps, or the least if it is refused.

        If that is refused, too, it is a `MemoryBudgetError`.
        """
        if not self._has(share):
            with within_memory("the rows of a rank"):
                self._take(LEAST_SHARE)

    def _has(self, share: tuple[int, int]) -> bool:
        with suppress(MemoryError):
            self._take(share)
            return True
        return False

    def _take(self, share: tuple[int, int]) -> None:
        self._out = self._into = None
        cuda().get_default_memory_pool().free_all_blocks()
        out, into = self._outside
        pushed = TieredRows.of(out, *share)
        self._into = pushed if into is out else TieredRows.of(into, *share)
        self._out = pushed
