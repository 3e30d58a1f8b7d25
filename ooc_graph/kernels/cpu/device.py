"""The CPU as a device: numba kernels on a team of threads.

A search's kernels are imported when it is made: a first search in a new process needs few.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ooc_graph.kernels.common import dealt
from ooc_graph.kernels.common.device import SsspSearch
from ooc_graph.kernels.common.team import Team
from ooc_graph.types import AnyArray, Dealing, Rows, Shard

if TYPE_CHECKING:
    from ooc_graph.kernels.common.sssp.owned import SharedSettled
    from ooc_graph.kernels.common.sssp.rows import Known
    from ooc_graph.kernels.common.store.rows import TierRows
    from ooc_graph.kernels.cpu.bfs.peer_rank import CpuPeerBfsRank
    from ooc_graph.kernels.cpu.bfs.rank import CpuBfsShared
    from ooc_graph.kernels.cpu.bfs.search import CpuBfsSearch
    from ooc_graph.kernels.cpu.components.search import (
        CpuComponentsRank,
        CpuComponentsSearch,
        CpuComponentsShared,
    )
    from ooc_graph.kernels.cpu.edge_list.grouped import GroupedEdges
    from ooc_graph.kernels.cpu.edge_list.search import CpuEdgesBfs, CpuEdgesSssp
    from ooc_graph.kernels.cpu.many.bfs_search import CpuManyBfs
    from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
    from ooc_graph.kernels.cpu.pagerank.rank import CpuPagerankRank, CpuPagerankShared, InArcs
    from ooc_graph.kernels.cpu.sssp.owned import CpuOwnedSsspRank
    from ooc_graph.kernels.cpu.sssp.peer_rank import CpuPeerSsspRank
    from ooc_graph.kernels.cpu.sssp.shared import CpuSsspShared
    from ooc_graph.kernels.cpu.store.bfs import TierBfsSearch
    from ooc_graph.kernels.cpu.store.bfs_rank import StoreBfsRank
    from ooc_graph.kernels.cpu.store.johnson import TierJohnson
    from ooc_graph.kernels.cpu.store.sssp_owned import StoreOwnedSsspRank
    from ooc_graph.kernels.cpu.store.sssp_rank import StoreSsspRank
    from ooc_graph.kernels.cpu.store.sssp_search import TierSsspSearch


class CpuDevice:
    """Searches on ``threads`` threads of this process, which work on one search together."""

    def __init__(self, threads: int) -> None:
        self._team, self.threads = Team(threads), threads

    def bfs(self, shard: Shard, *, copies: bool = True) -> CpuBfsSearch:
        """BFS on a whole graph (hub-first rows); with copies of short rows if they fit."""
        from ooc_graph.kernels.cpu.bfs.search import CpuBfsSearch

        dealt.require_whole(shard.dealing)
        return CpuBfsSearch(*dealt.hub_rows(shard), self._team, copies=copies)

    def bfs_rank(self, shard: Shard) -> CpuPeerBfsRank:
        """BFS steps on one shard (hub-first rows), which may be taken together with others."""
        from ooc_graph.kernels.cpu.bfs.peer_rank import CpuPeerBfsRank
        from ooc_graph.kernels.cpu.bfs.search import into_rows, never_claimed, out_rows

        out, into = dealt.hub_rows(shard)
        never = never_claimed(into.offsets[1:] == into.offsets[:-1])
        return CpuPeerBfsRank(shard.dealing, out_rows(out), into_rows(into), never, self._team)

    def bfs_shared(self, vertices: int, shards: int) -> CpuBfsShared:
        """Frontier and visited vertices of all ranks, one of it in a process."""
        from ooc_graph.kernels.cpu.bfs.rank import CpuBfsShared

        return CpuBfsShared(vertices, shards)

    def sssp(self, shard: Shard, *, copies: bool = True) -> SsspSearch:
        """SSSP on a whole graph (light-first rows); by near-far if its copy fits."""
        from ooc_graph.kernels.cpu.sssp.near_far_search import CpuNearFarSearch, suits_near_far
        from ooc_graph.kernels.cpu.sssp.search import CpuSsspSearch

        dealt.require_whole(shard.dealing)
        out, into = dealt.light_rows(shard)
        if copies and suits_near_far(out, shard.tuples):
            return CpuNearFarSearch(out, into, shard.tuples, self._team)
        return CpuSsspSearch(out, into, shard.tuples, self._team)

    def tier_bfs(self, out: TierRows, into: TierRows) -> TierBfsSearch:
        """BFS on a whole graph of which only heads of rows are in memory (hub-first rows)."""
        from ooc_graph.kernels.cpu.store.bfs import TierBfsSearch

        return TierBfsSearch(out, into, self._team)

    def tier_sssp(self, out: TierRows, into: TierRows, known: Known) -> TierSsspSearch:
        """SSSP on a whole graph of which only heads of rows are in memory (light-first rows)."""
        from ooc_graph.kernels.cpu.store.sssp_search import TierSsspSearch

        return TierSsspSearch(out, into, known, self._team)

    def tier_apsp(self, out: TierRows, heaviest: Any) -> TierJohnson:
        """Distances from many sources, with heads alone in memory (weights of any sign)."""
        from ooc_graph.kernels.cpu.store.johnson import TierJohnson

        return TierJohnson(out, heaviest)

    def sssp_rank(self, shard: Shard) -> CpuPeerSsspRank:
        """SSSP steps on one shard (light-first rows), which may be taken together with others."""
        from ooc_graph.kernels.common.sssp.rows import Known, survey
        from ooc_graph.kernels.cpu.sssp.peer_rank import CpuPeerSsspRank
        from ooc_graph.kernels.cpu.sssp.search import headed_rows, light_rows

        out, into = dealt.light_rows(shard)
        pushed = light_rows(out)
        pulled = headed_rows(pushed if into is out else light_rows(into), shard.dealing)
        known = Known(survey(pushed, shard.tuples), pushed.weights.max(initial=0))
        return CpuPeerSsspRank(shard.dealing, pushed, pulled, known, self._team)

    def tier_bfs_rank(
        self, dealing: Dealing, out: TierRows, into: TierRows, most_listed: int
    ) -> StoreBfsRank:
        """BFS steps on one shard of which only heads of rows are in memory (hub-first rows)."""
        from ooc_graph.kernels.cpu.store.bfs_rank import StoreBfsRank

        return StoreBfsRank(dealing, out, into, most_listed, self._team)

    def tier_sssp_rank(
        self, dealing: Dealing, out: TierRows, into: TierRows, known: Known, most_listed: int
    ) -> StoreSsspRank:
        """SSSP steps on one shard of which only heads of rows are in memory (light-first rows)."""
        from ooc_graph.kernels.cpu.store.sssp_rank import StoreSsspRank

        return StoreSsspRank(dealing, out, into, known, most_listed, self._team)

    def sssp_shared(self, vertices: int, dtype: np.dtype[Any]) -> CpuSsspShared:
        """Everyone's distances, of ``dtype``, one of it in a process and search."""
        from ooc_graph.kernels.cpu.sssp.shared import CpuSsspShared

        return CpuSsspShared(vertices, dtype)

    def owned_sssp_rank(self, shard: Shard) -> CpuOwnedSsspRank:
        """SSSP steps on one shard (light-first out-rows) that alone has its distances."""
        from ooc_graph.kernels.common.sssp.rows import Known, survey
        from ooc_graph.kernels.cpu.sssp.owned import CpuOwnedSsspRank
        from ooc_graph.kernels.cpu.sssp.search import light_rows

        assert shard.out_light is not None
        out = light_rows(shard.out_light)
        known = Known(survey(out, shard.tuples), out.weights.max(initial=0))
        directed = shard.directed
        return CpuOwnedSsspRank(shard.dealing, out, known, directed=directed)

    def store_owned_sssp_rank(
        self, dealing: Dealing, out: TierRows, known: Known, *, directed: bool
    ) -> StoreOwnedSsspRank:
        """As `owned_sssp_rank`, with only the heads of rows in memory."""
        from ooc_graph.kernels.cpu.store.sssp_owned import StoreOwnedSsspRank

        return StoreOwnedSsspRank(dealing, out, known, directed=directed)

    def owned_sssp_shared(self, vertices: int, shards: int, dtype: np.dtype[Any]) -> SharedSettled:
        """Which vertices are settled, one of it in a process and search; distances' ``dtype``."""
        from ooc_graph.kernels.common.sssp.owned import SharedSettled

        return SharedSettled(self.bfs_shared(vertices, shards), dtype)

    def apsp(self, shard: Shard) -> CpuJohnson:
        """Distances from many sources on a whole graph (light-first rows, weights of any sign)."""
        from ooc_graph.kernels.cpu.many.johnson import CpuJohnson

        dealt.require_whole(shard.dealing)
        return CpuJohnson(*dealt.light_rows(shard), self._team, tuples=shard.tuples)

    def multi_source_bfs(self, shard: Shard) -> CpuManyBfs:
        """Levels from many sources on a whole graph (hub-first rows)."""
        from ooc_graph.kernels.cpu.many.bfs_search import CpuManyBfs

        dealt.require_whole(shard.dealing)
        return CpuManyBfs(*dealt.hub_rows(shard), self._team)

    def components(self, shard: Shard) -> CpuComponentsSearch:
        """Weakly connected components of a whole graph (hub-first rows)."""
        from ooc_graph.kernels.cpu.components.search import CpuComponentsSearch

        dealt.require_whole(shard.dealing)
        return CpuComponentsSearch(*dealt.hub_rows(shard), self._team)

    def components_rank(self, shard: Shard) -> CpuComponentsRank:
        """Component steps on one shard (hub-first rows)."""
        from ooc_graph.kernels.cpu.bfs.search import out_rows
        from ooc_graph.kernels.cpu.components.search import CpuComponentsRank

        out, into = dealt.hub_rows(shard)
        linked = out_rows(out)
        return CpuComponentsRank(shard.dealing, linked, linked if into is out else out_rows(into))

    def components_shared(self, vertices: int) -> CpuComponentsShared:
        """Everyone's labels, one of it in a process and search."""
        from ooc_graph.kernels.cpu.components.search import CpuComponentsShared

        return CpuComponentsShared(vertices)

    def pagerank_rank(self, shard: Shard) -> CpuPagerankRank:
        """PageRank steps on one shard (hub-first rows)."""
        return self._pagerank_rank(shard.dealing, *dealt.hub_rows(shard))

    def weighted_pagerank_rank(self, shard: Shard) -> CpuPagerankRank:
        """PageRank steps on one shard, by weight (light-first rows)."""
        return self._pagerank_rank(shard.dealing, *dealt.light_rows(shard))

    def _pagerank_rank(self, dealing: Dealing, out: Rows, into: Rows) -> CpuPagerankRank:
        from ooc_graph.kernels.cpu.pagerank.rank import LoadedArcs

        weighs = self.out_weights(LoadedArcs(out))
        return self.streamed_pagerank_rank(dealing, LoadedArcs(into), weighs)

    def streamed_pagerank_rank(
        self, dealing: Dealing, into: InArcs, weighs: AnyArray
    ) -> CpuPagerankRank:
        """PageRank steps on one shard whose in-arcs may be in a store."""
        from ooc_graph.kernels.cpu.pagerank.rank import CpuPagerankRank

        return CpuPagerankRank(dealing, into, weighs, self._team)

    def out_weights(self, out: InArcs) -> AnyArray:
        """What the out-arcs of each row weigh: float64 (rows,)."""
        from ooc_graph.kernels.cpu.pagerank.rank import out_weights

        return out_weights(out)

    def pagerank_shared(self, vertices: int) -> CpuPagerankShared:
        """What every vertex sends along its arcs, one of it in a process and search."""
        from ooc_graph.kernels.cpu.pagerank.rank import CpuPagerankShared

        return CpuPagerankShared(vertices)

    def edges_bfs(self, edges: GroupedEdges, ids: np.dtype[Any]) -> CpuEdgesBfs:
        """BFS on a whole graph as grouped edges; ``ids`` is the parents' type."""
        from ooc_graph.kernels.cpu.edge_list.search import CpuEdgesBfs

        return CpuEdgesBfs(edges, ids, self._team)

    def edges_sssp(self, edges: GroupedEdges, ids: np.dtype[Any]) -> CpuEdgesSssp:
        """SSSP on a whole graph as grouped edges; ``ids`` is the parents' type."""
        from ooc_graph.kernels.cpu.edge_list.search import CpuEdgesSssp

        return CpuEdgesSssp(edges, ids, self._team)

    def close(self) -> None:
        """End the threads."""
        self._team.close()
