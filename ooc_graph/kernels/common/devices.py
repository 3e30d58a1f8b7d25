"""What devices make: all searches, ranks and shared states. No implementation here.

`Device` lists what every device makes, `HostDevice` what the CPU makes as well, and `PinnedDevice`
what a CUDA device does. ``tests/unit/test_device_contracts.py`` checks that they make no less and
no more, and that what they make does what its protocol says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from ooc_graph.kernels.common.components import ComponentsRank, ComponentsSearch, ComponentsShared
from ooc_graph.kernels.common.device import (
    BfsPartsRank,
    BfsRank,
    BfsSearch,
    BfsShared,
    SsspRank,
    SsspSearch,
    SsspShared,
)
from ooc_graph.kernels.common.many.sources import Apsp, ManyDistances, MultiSourceBfs
from ooc_graph.types import AnyArray, Dealing, Shard

if TYPE_CHECKING:
    from ooc_graph.kernels.common.sssp.survey import Known
    from ooc_graph.kernels.common.store.rows import TierRows


class Device(Protocol):
    """What every device makes; each is bound to a shard, or the whole graph, and its buffers."""

    def bfs(self, shard: Shard) -> BfsSearch:
        """BFS on a whole graph."""
        ...

    def bfs_rank(self, shard: Shard) -> BfsRank:
        """BFS steps on one shard."""
        ...

    def bfs_shared(self, vertices: int, shards: int) -> BfsShared:
        """State that the BFS ranks of one process share."""
        ...

    def sssp(self, shard: Shard) -> SsspSearch:
        """SSSP on a whole graph."""
        ...

    def sssp_rank(self, shard: Shard) -> SsspRank:
        """SSSP steps on one shard."""
        ...

    def sssp_shared(self, vertices: int, dtype: np.dtype[Any]) -> SsspShared:
        """State that the SSSP ranks of one process share; ``dtype`` is the distances'."""
        ...

    def apsp(self, shard: Shard) -> Apsp:
        """Distances from many sources on a whole graph."""
        ...

    def multi_source_bfs(self, shard: Shard) -> MultiSourceBfs:
        """Levels from many sources on a whole graph."""
        ...

    def close(self) -> None:
        """End what the device runs."""
        ...


@runtime_checkable
class HostDevice(Device, Protocol):
    """What the CPU makes: also components, edge lists, and searches with arcs in the store."""

    @property
    def threads(self) -> int:
        """Threads that work on one search together."""
        ...

    def bfs(self, shard: Shard, *, copies: bool = True) -> BfsSearch:
        """BFS on a whole graph; whether there is memory for copies of rows."""
        ...

    def sssp(self, shard: Shard, *, copies: bool = True) -> SsspSearch:
        """SSSP on a whole graph; whether there is memory for copies of rows."""
        ...

    def components(self, shard: Shard) -> ComponentsSearch:
        """Weakly connected components of a whole graph."""
        ...

    def components_rank(self, shard: Shard) -> ComponentsRank:
        """Component steps on one shard."""
        ...

    def components_shared(self, vertices: int) -> ComponentsShared:
        """Labels that the ranks of one process share."""
        ...

    def edges_bfs(self, edges: Any, ids: np.dtype[Any]) -> BfsSearch:
        """BFS on a whole graph as grouped edges; ``ids`` is the parents' type."""
        ...

    def edges_sssp(self, edges: Any, ids: np.dtype[Any]) -> SsspSearch:
        """SSSP on a whole graph as grouped edges; ``ids`` is the parents' type."""
        ...

    def tier_bfs(self, out: TierRows, into: TierRows) -> BfsSearch:
        """BFS on a whole graph of which only heads of rows are in memory."""
        ...

    def tier_sssp(self, out: TierRows, into: TierRows, known: Known) -> SsspSearch:
        """SSSP on a whole graph of which only heads of rows are in memory."""
        ...

    def tier_bfs_rank(
        self, dealing: Dealing, out: TierRows, into: TierRows, most_listed: int
    ) -> BfsPartsRank:
        """BFS steps on one shard of which only heads of rows are in memory."""
        ...

    def tier_sssp_rank(
        self, dealing: Dealing, out: TierRows, into: TierRows, known: Known, most_listed: int
    ) -> SsspRank:
        """SSSP steps on one shard of which only heads of rows are in memory."""
        ...

    def tier_singly(self, search: Any, rows: TierRows) -> ManyDistances:
        """Many sources, one after the other by such a search of ``rows``."""
        ...

    def tier_apsp(self, out: TierRows, heaviest: Any) -> ManyDistances:
        """Distances from many sources, with heads alone in memory."""
        ...


class PinnedDevice(Device, Protocol):
    """What a CUDA device makes: also searches of rows in pinned host memory.

    ``original_of`` has ids for answers that stay on the device, ``room`` the rows; ``threads`` of
    the CPU copy answers.
    """

    def bfs(self, shard: Shard, *, original_of: AnyArray | None = None) -> BfsSearch:
        """BFS on a whole graph."""
        ...

    def sssp(self, shard: Shard, *, original_of: AnyArray | None = None) -> SsspSearch:
        """SSSP on a whole graph."""
        ...

    def apsp(self, shard: Shard, *, threads: int = 1) -> Apsp:
        """Distances from many sources on a whole graph."""
        ...

    def multi_source_bfs(self, shard: Shard, *, threads: int = 1) -> MultiSourceBfs:
        """Levels from many sources on a whole graph."""
        ...

    def tier_bfs(
        self,
        shard: Shard,
        room: Any,
        held: Any,
        deep: Any,
        *,
        original_of: AnyArray | None = None,
    ) -> BfsSearch:
        """BFS on rows in pinned memory, of which ``held`` and ``deep`` are on the device too."""
        ...

    def tier_sssp(
        self,
        shard: Shard,
        room: Any,
        least: int,
        shift: int,
        *,
        original_of: AnyArray | None = None,
    ) -> SsspSearch:
        """SSSP on rows in pinned memory, of which some arcs are on the device too."""
        ...

    def tier_near(
        self, shard: Shard, room: Any, *, original_of: AnyArray | None = None
    ) -> SsspSearch:
        """SSSP by near-far on rows in pinned memory."""
        ...


def search_of(device: Device, kernel: str) -> Callable[..., Any]:
    """What makes the search of a whole graph: the device's method of the algorithm's name."""
    make: Callable[..., Any] = getattr(device, kernel)
    return make
