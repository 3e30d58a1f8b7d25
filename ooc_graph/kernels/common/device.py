"""What a device makes, and what its searches and ranks do. No implementation here, and no numba.

Those of components and PageRank are in `ooc_graph.kernels.common.components` and ``.pagerank``.
``tests/unit/test_device_contracts.py`` checks that both devices make what `Device` lists, and that
it does what its protocol says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ooc_graph.kernels.common.decisions import BfsTree, SsspTree
from ooc_graph.kernels.common.many.sources import Apsp, MultiSourceBfs
from ooc_graph.types import AnyArray, Shard


class BfsSearch(Protocol):
    """BFS on a graph that one rank holds whole; buffers allocated once."""

    def run(self, root: int) -> BfsTree:
        """Search from an internal id."""


class BfsShared(Protocol):
    """The frontier of all ranks and what they have visited, one of it in a process."""

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Take every rank's frontier, a bitmap of its own rows: a payload of one array."""


class BfsRank(Protocol):
    """BFS steps on the rows of one shard."""

    vertices: int
    arcs: int

    def start(self, root: int) -> None:
        """Forget everything, and claim the root if this rank owns it."""

    def frontier(self) -> tuple[int, int, AnyArray]:
        """Vertices found last, their out-arcs, and their bitmap over the own rows."""

    def push(self, shared: BfsShared) -> tuple[AnyArray, AnyArray, int]:
        """Neighbours of the own frontier not visited yet, their parents; arcs examined."""

    def claim(self, target: AnyArray, parent: AnyArray) -> None:
        """Make own rows among ``target`` the new frontier; the smallest parent counts."""

    def pull(self, shared: BfsShared) -> int:
        """Find the unvisited own rows next to the frontier; return arcs examined."""

    def tree(
        self, vertices: Sequence[int], arcs: Sequence[int], direction: Sequence[int]
    ) -> BfsTree:
        """Answer for the own rows, with what happened in each level."""


@runtime_checkable
class BfsPartsRank(BfsRank, Protocol):
    """A rank that pushes in parts: ``claim`` comes several times in a level, `frontier` ends it."""

    # A frontier with no more arcs, those of all ranks, is pushed in one part. 0: always in parts,
    # and never before the direction is known.
    most_at_once: int

    @property
    def is_pushing(self) -> bool:
        """Whether rows are left to push."""

    def begin_push(self) -> None:
        """Have the own frontier pushed from its first row on; ``push`` lists the next rows."""


Payload = tuple[AnyArray, AnyArray, AnyArray]
"""What SSSP ranks share to relax; see `SsspShared`."""


class SsspSearch(Protocol):
    """SSSP on a graph that one rank holds whole; buffers allocated once."""

    def run(self, root: int) -> SsspTree:
        """Search from an internal id."""


class SsspShared(Protocol):
    """Everyone's distances, one of it in a process, or one that all processes of a host map.

    `merge` alone changes it, and what an `SsspInnerRank` does at once, whose payload all take next.
    Distances that processes share change at any time, and only become smaller.

    A payload of three arrays relaxes: vertices, candidate distances, and the sender's smallest
    candidate not yet taken (1,), which counts only if no rank lists a vertex. A payload of two
    arrays has vertices that join and that leave the set of those that wait for a parent on a
    plateau.
    """

    @property
    def smallest(self) -> float:
        """Smallest candidate not yet taken, of all ranks in the last merge."""

    @property
    def low(self) -> float:
        """Smallest distance that the last merge improved."""

    @property
    def unreached(self) -> float:
        """Distance of what is not reached."""

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Take every rank's payload."""

    def bound_above(self, step: float) -> float:
        """Bound that lies ``step`` above the smallest candidate."""


class SsspRank(Protocol):
    """SSSP steps on the rows of one shard."""

    vertices: int
    arcs: int

    def start(self) -> None:
        """Forget everything."""

    def survey(self) -> tuple[tuple[int, ...], float]:
        """Tuples at the first rows and at all, first rows with spread weights and all; a step.

        The last count says whether paths of the heaviest own arcs would be too long.
        """

    def nothing(self, smallest: float) -> Payload:
        """Payload that relaxes nothing."""

    def seed(self, root: int) -> Payload:
        """Payload that puts the root at distance 0, if this rank owns it."""

    def drop_pending(self) -> None:
        """Forget the rows that wait above the bound."""

    def push(self, shared: SsspShared, bound: float) -> tuple[Payload, int, int]:
        """Candidates up to ``bound`` from own rows just improved or pending.

        A vertex stands there for each of its candidates, or once for the smallest. Also the arcs
        examined, and how many candidates improve what was reached before.
        """

    def pull(self, shared: SsspShared, final: float, floor: float) -> tuple[Payload, int, int]:
        """Own rows beyond ``final`` that improve; their out-arcs; arcs examined.

        ``floor`` is a lower bound of the distances that changed since the last pass.
        """

    def distances(self, shared: SsspShared) -> AnyArray:
        """Distances of the own rows, in an array of their own; steps go on as without."""

    def find_parents(self, shared: SsspShared, root: int) -> tuple[AnyArray, int]:
        """Find the parents that are still lacking; vertices left on plateaus, and arcs examined."""

    def resolve(self, shared: SsspShared) -> AnyArray:
        """Vertices on plateaus that are next to one that has a parent, and take it."""

    def overflowed(self, shared: SsspShared) -> bool:
        """Tell whether a shortest distance from here exceeds the distances' dtype."""

    def refuse_overflow(self) -> None:
        """Raise the error that says so."""

    def tree(self, shared: SsspShared, phase_arcs: dict[str, int]) -> SsspTree:
        """Answer for the own rows."""


@runtime_checkable
class SsspInnerRank(SsspRank, Protocol):
    """A rank that can push the vertices nearest to the root along all of their arcs.

    These vertices are those within a bound, up to which all distances are final. And it can write
    what its own rows find at once. Others that do not share distances lack it until they merge.
    """

    def push_at_once(self, shared: SsspShared, bound: float) -> tuple[Payload, int, int]:
        """As `push`, but own rows that improve may be pushed in turn, by this call or the next."""

    def pull_at_once(
        self, shared: SsspShared, final: float, floor: float
    ) -> tuple[Payload, int, int]:
        """As `pull`, with the newest distances; if shared, it tells the nearest vertex alone."""

    def arcs_within(self, shared: SsspShared, bounds: Sequence[float]) -> list[int]:
        """Arcs of the own rows with a distance of at most each of the bounds, which ascend."""

    def push_within(self, shared: SsspShared, bound: float) -> tuple[Payload, int]:
        """Candidates along all arcs of the own rows within ``bound``; arcs examined."""

    def offer_within(self, shared: SsspShared, bound: float) -> tuple[AnyArray, AnyArray, int]:
        """Vertices that own rows within ``bound`` may be parents of, these rows; arcs examined."""

    def take_offered(
        self, shared: SsspShared, target: AnyArray, offered: AnyArray, floor: float
    ) -> None:
        """Give own rows among ``target`` the best parents that are offered.

        ``floor`` is a lower bound of the distances of all that have not been offered.
        """


class Device(Protocol):
    """What every device makes; each is bound to a shard, or the whole graph, and its buffers.

    The CPU also makes components, PageRank, edge lists, and searches with arcs in the store. A CUDA
    device also makes searches of rows in pinned host memory.
    """

    def bfs(self, shard: Shard) -> BfsSearch:
        """BFS on a whole graph."""

    def bfs_rank(self, shard: Shard) -> BfsRank:
        """BFS steps on one shard."""

    def bfs_shared(self, vertices: int, shards: int) -> BfsShared:
        """State that the BFS ranks of one process share."""

    def sssp(self, shard: Shard) -> SsspSearch:
        """SSSP on a whole graph."""

    def sssp_rank(self, shard: Shard) -> SsspRank:
        """SSSP steps on one shard."""

    def sssp_shared(self, vertices: int, dtype: np.dtype[Any]) -> SsspShared:
        """State that the SSSP ranks of one process share; ``dtype`` is the distances'."""

    def apsp(self, shard: Shard) -> Apsp:
        """Distances from many sources on a whole graph."""

    def multi_source_bfs(self, shard: Shard) -> MultiSourceBfs:
        """Levels from many sources on a whole graph."""

    def close(self) -> None:
        """End what the device runs."""


def search_of(device: Device, kernel: str) -> Callable[..., Any]:
    """The device's search of a whole graph, by the algorithm's name; or else the steps of ranks."""
    make: Callable[..., Any] | None = getattr(device, kernel, None)
    make = make or getattr(device, f"{kernel}_rank", None)
    if make is None:
        raise AssertionError(f"no search by the name {kernel}")
    return make
