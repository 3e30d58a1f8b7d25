"""BFS on rows of a CUDA device, by supersteps, or together with ranks whose memory it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np

from ooc_graph.forked import free_in_child
from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.common.peers import each_of, for_all
from ooc_graph.kernels.cuda.bfs.peers import Levels, PeerBfs
from ooc_graph.kernels.cuda.bfs.rank import CudaBfsRank
from ooc_graph.kernels.cuda.runtime import peers
from ooc_graph.kernels.cuda.runtime.modules import (
    cuda,
    device_bytes,
    is_limited,
    within_memory,
)
from ooc_graph.kernels.cuda.runtime.peers import (
    IDENTITY_WORDS,
    OFFER_WORDS,
    RefusedError,
    Words,
    identity,
)
from ooc_graph.kernels.cuda.runtime.rank_bytes import peers_bytes, step_bytes
from ooc_graph.kernels.cuda.runtime.rows import NARROW
from ooc_graph.kernels.cuda.runtime.shares import RankRows
from ooc_graph.kernels.cuda.runtime.steps import ids_of
from ooc_graph.types import Dealing

MOST_FAILURES = 3
_UNREACHED = 255
_EPOCH_WORDS = 1


class CudaPeerBfsRank(CudaBfsRank):
    """A rank with all its rows on the device: also a `BfsPeerRank`.

    It searches with others if ids have 32 bits, nobody limits the device's memory, and there is
    enough of it; and until that has failed `MOST_FAILURES` times.
    """

    agrees = joins = False
    greeting = 0, 0

    def __init__(self, dealing: Dealing, rows: RankRows) -> None:
        super().__init__(dealing, rows)
        self._peers: PeerBfs | None = None
        self._identities: Sequence[Words] = ()
        self._epoch = self._failures = 0
        self._levels: Levels | None = None
        self._search: object = None

    @property
    def may_meet(self) -> bool:
        """As of `BfsPeerRank`."""
        shards = self._dealing.shards
        return ids_of(self.vertices) == NARROW and 1 < shards <= peers.MOST_PEERS

    def is_free(self, search: object) -> bool:
        """As of `BfsPeerRank`: the device is taken by `introduce`."""
        del search
        return True

    def has_met(self, greetings: Sequence[int]) -> bool:
        """As of `BfsPeerRank`: devices are taken for each search."""
        del greetings
        return False

    def introduce(self, search: object) -> tuple[int, ...]:
        """As of `BfsPeerRank`."""
        can = self._dealing.rows > 0 and self._failures < MOST_FAILURES and not is_limited()
        if not can or not _taken.take(cuda().cuda.Device().id, search):
            return for_all(self._dealing, (0,) * IDENTITY_WORDS)
        self._search = search
        return for_all(self._dealing, identity())

    def can_meet(self, introduced: Sequence[int]) -> bool:
        """As of `BfsPeerRank`."""
        self._identities = each_of(self._dealing, introduced)
        return peers.can_meet(self._identities)

    def offer(self) -> tuple[int, ...]:
        """As of `BfsPeerRank`."""
        self._peers = self._peers or self._made()
        if self._peers is None:
            return for_all(self._dealing, (0,) * (OFFER_WORDS + _EPOCH_WORDS))
        return for_all(self._dealing, (*self._peers.memory.offer, self._peers.epoch))

    def _made(self) -> PeerBfs | None:
        """Buffers, if there is memory for them, and for supersteps besides."""
        cuda().get_default_memory_pool().free_all_blocks()
        dealing = self._dealing
        needed = peers_bytes(dealing.vertices, dealing.rows) + step_bytes(dealing.rows)
        try:
            return PeerBfs(dealing, self._out, self._into) if device_bytes()[0] >= needed else None
        except MemoryError:
            return None

    def join(self, offers: Sequence[int]) -> bool:
        """As of `BfsPeerRank`."""
        each = each_of(self._dealing, offers)
        if self._peers is None or not all(map(any, each)):
            return False
        # A rank that broke off may have been at a meeting behind those that the others know of.
        self._epoch = max(offer[-1] for offer in each) + 1
        try:
            self._peers.join(self._identities, [offer[:-_EPOCH_WORDS] for offer in each])
        except (RefusedError, MemoryError):
            return False
        return True

    def launch(self, root: int, arcs: int) -> None:
        """As of `BfsPeerRank`."""
        assert self._peers is not None
        self._peers.launch(root, self._epoch, arcs)

    def finish(self) -> bool:
        """As of `BfsPeerRank`."""
        assert self._peers is not None
        self._levels = self._peers.finish()
        return self._levels is not None

    @within_memory("the answer of a BFS")
    def peer_tree(self) -> BfsTree:
        """As of `BfsPeerRank`; arcs looked at bottom-up are not counted (-1)."""
        assert self._peers is not None
        assert self._levels is not None
        levels, level = self._levels, self._peers.level.astype(np.int32)
        level[level == _UNREACHED] = -1
        tree = self._peers.parent.get(), level.get(), levels.elapsed_s
        examined = np.where(levels.pull, -1, levels.pushed)
        return BfsTree(*tree, levels.found, examined, levels.pull.astype(np.int8))

    def part(self, *, may_keep: bool) -> None:
        """As of `BfsPeerRank`; waits for a kernel that was broken off."""
        if not may_keep:
            self._failures += 1
            if self._peers is not None:
                self._peers.close()
            self._peers = None
        if self._search is not None:
            _taken.give_back(cuda().cuda.Device().id, self._search)
        self._search = self._levels = None


class _Taken:
    """Which search has a device, for kernels that wait for those of other devices.

    Those of two searches would wait for each other.
    """

    def __init__(self) -> None:
        self._lock = free_in_child(Lock())
        self._searches: dict[int, tuple[object, int]] = {}

    def take(self, device: int, search: object) -> bool:
        """Take a device for one rank more of a search; False if another search has it."""
        with self._lock:
            owner, ranks = self._searches.get(device, (search, 0))
            if owner is not search:
                return False
            self._searches[device] = search, ranks + 1
        return True

    def give_back(self, device: int, search: object) -> None:
        """One rank of the search has done with it."""
        with self._lock:
            _, ranks = self._searches.pop(device)
            if ranks > 1:
                self._searches[device] = search, ranks - 1


_taken = _Taken()
