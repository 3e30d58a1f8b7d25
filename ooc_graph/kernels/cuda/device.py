"""One CUDA device: whole searches in one launch, and the steps of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.dealt import hub_rows, light_rows, require_whole
from ooc_graph.kernels.common.sssp.owned import SharedSettled
from ooc_graph.kernels.common.sssp.rows import Known
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.kernels.cuda.bfs.near import BfsShare
from ooc_graph.kernels.cuda.bfs.peer_rank import CudaPeerBfsRank
from ooc_graph.kernels.cuda.bfs.rank import CudaBfsRank, CudaBfsShared
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.many.bfs import CudaManyBfs
from ooc_graph.kernels.cuda.many.johnson import CudaJohnson
from ooc_graph.kernels.cuda.pinned.bfs import CudaTierBfsSearch
from ooc_graph.kernels.cuda.pinned.near_far import CudaTierNearSearch
from ooc_graph.kernels.cuda.pinned.peer_rank import CudaPinnedPeerBfsRank
from ooc_graph.kernels.cuda.pinned.sssp import CudaTierSsspSearch, SsspShare
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.kernels.cuda.runtime.shares import ON_DEVICE, Pinned, Tier, rank_rows
from ooc_graph.kernels.cuda.sssp.owned import CudaOwnedSsspRank
from ooc_graph.kernels.cuda.sssp.rank import CudaSsspRank
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.kernels.cuda.sssp.shared import CudaSsspShared, known_of
from ooc_graph.kernels.cuda.store.bfs_rank import CudaStoreBfsRank
from ooc_graph.kernels.cuda.store.rank_rows import StoreRows
from ooc_graph.kernels.cuda.store.sssp_owned import CudaStoreOwnedSsspRank
from ooc_graph.kernels.cuda.store.sssp_rank import CudaStoreSsspRank
from ooc_graph.types import AnyArray, Dealing, Rows, Shard


class CudaDevice:
    """Searches on the device and the stream that are CuPy's current ones.

    Made in the process that uses it, and stays there. Connected components it does not have: the
    search refuses them before.
    """

    def __init__(self) -> None:
        cuda()

    def bfs(self, shard: Shard, *, original_of: AnyArray | None = None) -> CudaBfsSearch:
        """BFS on a whole graph (hub-first rows); ``original_of`` are ids below 2**32 - 1."""
        require_whole(shard.dealing)
        return CudaBfsSearch(*hub_rows(shard), original_of=original_of, count_arcs=False)

    def bfs_rank(self, shard: Shard) -> CudaPeerBfsRank:
        """BFS on one shard (hub-first rows), together with ranks whose memory it reaches."""
        rows = rank_rows(shard.dealing, *hub_rows(shard), ON_DEVICE)
        return CudaPeerBfsRank(shard.dealing, rows)

    def bfs_shared(self, vertices: int, shards: int) -> CudaBfsShared:
        """Frontier and visited vertices of all ranks, one of it in a process."""
        return CudaBfsShared(vertices, shards)

    def sssp(self, shard: Shard, *, original_of: AnyArray | None = None) -> CudaSsspSearch:
        """SSSP on a whole graph (light-first rows); ``original_of`` as of `bfs`."""
        require_whole(shard.dealing)
        return CudaSsspSearch(*light_rows(shard), shard.tuples, original_of=original_of)

    def tier_bfs(
        self,
        shard: Shard,
        allocator: PinnedAllocator,
        share: BfsShare,
        deep: BfsShare,
        *,
        original_of: AnyArray | None = None,
    ) -> CudaTierBfsSearch:
        """BFS on hub-first rows of a whole graph in pinned host memory (of the ``allocator``)."""
        require_whole(shard.dealing)
        out, into = _seen(hub_rows(shard), allocator)
        return CudaTierBfsSearch(
            out, into, share, deep=deep, original_of=original_of, count_arcs=False
        )

    def tier_sssp(
        self,
        shard: Shard,
        allocator: PinnedAllocator,
        least: int,
        shift: int,
        *,
        original_of: AnyArray | None = None,
    ) -> CudaTierSsspSearch:
        """As `tier_bfs` for SSSP, of light-first rows; ``least``, ``shift`` as of `SsspShare`."""
        require_whole(shard.dealing)
        out, into = _seen(light_rows(shard), allocator)
        share = SsspShare(least, shift)
        return CudaTierSsspSearch(out, into, shard.tuples, share, original_of=original_of)

    def tier_near(
        self, shard: Shard, allocator: PinnedAllocator, *, original_of: AnyArray | None = None
    ) -> CudaTierNearSearch:
        """As `tier_sssp` for weights of every type, with nothing of the rows on the device too."""
        require_whole(shard.dealing)
        out, into = _seen(light_rows(shard), allocator)
        return CudaTierNearSearch(out, into, shard.tuples, original_of=original_of)

    def sssp_rank(self, shard: Shard) -> CudaSsspRank:
        """SSSP steps on one shard (light-first rows)."""
        return _sssp_rank(shard, ON_DEVICE)

    def owned_sssp_rank(self, shard: Shard) -> CudaOwnedSsspRank:
        """SSSP steps on one shard (light-first out-rows) that alone has its distances."""
        return _owned_sssp_rank(shard, ON_DEVICE)

    def owned_sssp_shared(self, vertices: int, shards: int, dtype: np.dtype[Any]) -> SharedSettled:
        """Which vertices are settled, one of it in a process and search; distances' ``dtype``."""
        return SharedSettled(self.bfs_shared(vertices, shards), dtype)

    def tier_bfs_rank(
        self,
        shard: Shard,
        allocator: PinnedAllocator,
        least: int,
        shift: int,
        joined: BfsShare | None = None,
    ) -> CudaBfsRank:
        """BFS on one shard, whose hub-first rows are in pinned host memory (``allocator``).

        ``least`` and ``shift`` are as of `ooc_graph.kernels.cuda.runtime.shares.Shares`. The rank
        searches together with others whose memory it reaches if it may have ``joined`` for that.
        """
        share = least, shift
        rows = rank_rows(shard.dealing, *hub_rows(shard), Pinned(allocator, *share))
        if joined is None:
            return CudaBfsRank(shard.dealing, rows)
        return CudaPinnedPeerBfsRank(shard.dealing, rows, share, joined)

    def tier_sssp_rank(
        self, shard: Shard, allocator: PinnedAllocator, least: int, shift: int
    ) -> CudaSsspRank:
        """As `tier_bfs_rank` for SSSP, of light-first rows."""
        return _sssp_rank(shard, Pinned(allocator, least, shift))

    def tier_owned_sssp_rank(
        self, shard: Shard, allocator: PinnedAllocator, least: int, shift: int
    ) -> CudaOwnedSsspRank:
        """As `owned_sssp_rank`, of rows in pinned host memory as of `tier_bfs_rank`."""
        return _owned_sssp_rank(shard, Pinned(allocator, least, shift))

    def store_rows(self, rows: TierRows, least: int, shift: int) -> StoreRows:
        """Rows of one side of a shard in a store, of whose first arcs the device has a share."""
        return StoreRows(rows, least, shift)

    def store_bfs_rank(self, dealing: Dealing, out: StoreRows, into: StoreRows) -> CudaStoreBfsRank:
        """BFS steps on one shard, whose hub-first rows are in a store."""
        return CudaStoreBfsRank(dealing, out, into)

    def store_sssp_rank(
        self, dealing: Dealing, out: StoreRows, into: StoreRows, known: Known
    ) -> CudaStoreSsspRank:
        """As `store_bfs_rank` for SSSP, of light-first rows."""
        return CudaStoreSsspRank(dealing, out, into, known)

    def store_owned_sssp_rank(
        self, dealing: Dealing, out: StoreRows, known: Known, *, directed: bool
    ) -> CudaStoreOwnedSsspRank:
        """As `owned_sssp_rank`, of rows in a store."""
        return CudaStoreOwnedSsspRank(dealing, out, known, directed=directed)

    def sssp_shared(self, vertices: int, dtype: np.dtype[Any]) -> CudaSsspShared:
        """Everyone's distances, of ``dtype``, one of it in a process and search."""
        return CudaSsspShared(vertices, dtype)

    def apsp(self, shard: Shard, *, threads: int = 1) -> CudaJohnson:
        """Distances from many sources on a whole graph (light-first rows, weights of any sign)."""
        require_whole(shard.dealing)
        return CudaJohnson(*light_rows(shard), threads=threads)

    def multi_source_bfs(self, shard: Shard, *, threads: int = 1) -> CudaManyBfs:
        """Levels from many sources on a whole graph (hub-first rows)."""
        require_whole(shard.dealing)
        return CudaManyBfs(*hub_rows(shard), threads=threads)

    def close(self) -> None:
        """Nothing to end: what searches hold goes with them."""


def _sssp_rank(shard: Shard, tier: Tier) -> CudaSsspRank:
    """SSSP steps on one shard, whose rows are in a tier."""
    out, into = light_rows(shard)
    known = known_of(out, shard.tuples)
    return CudaSsspRank(
        shard.dealing, rank_rows(shard.dealing, out, into, tier, weighted=True), known
    )


def _owned_sssp_rank(shard: Shard, tier: Tier) -> CudaOwnedSsspRank:
    """SSSP steps on one shard that alone has its distances; its out-arcs are in a tier."""
    out = shard.out_light
    assert out is not None
    known = known_of(out, shard.tuples)
    rows = rank_rows(shard.dealing, out, out, tier, weighted=True)
    return CudaOwnedSsspRank(shard.dealing, rows, known, directed=shard.directed)


def _seen(sides: tuple[Rows, Rows], allocator: PinnedAllocator) -> tuple[Rows, Rows]:
    """Both sides as the device sees them; one and the same object when undirected."""
    out = allocator.on_device(sides[0])
    return out, out if sides[1] is sides[0] else allocator.on_device(sides[1])
