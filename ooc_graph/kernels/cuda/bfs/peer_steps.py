"""What makes a rank on a CUDA device search together with others whose memory it reaches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.cuda.bfs.peers import Levels, PeerBfs
from ooc_graph.kernels.cuda.runtime.modules import cuda, device_bytes, is_limited
from ooc_graph.kernels.cuda.runtime.peers import MOST_PEERS, WORDS, can_meet
from ooc_graph.kernels.cuda.runtime.rank_bytes import peers_bytes
from ooc_graph.kernels.cuda.runtime.rows import NARROW
from ooc_graph.kernels.cuda.runtime.shares import RankRows
from ooc_graph.kernels.cuda.runtime.steps import ids_of
from ooc_graph.types import Dealing

_UNREACHED = 255


class PeerSteps:
    """What makes a rank on a device a `ooc_graph.kernels.common.peers.BfsPeerRank`.

    It can be one if its rows are on the device, ids have 32 bits, nobody limits the device's
    memory, and there is enough of it.
    """

    def __init__(self, dealing: Dealing, rows: RankRows) -> None:
        self._dealing, self._rank_rows = dealing, rows
        self._peers: PeerBfs | None = None
        self._can_join = not rows.constants and ids_of(dealing.vertices) == NARROW
        self._can_join &= 1 < dealing.shards <= MOST_PEERS and dealing.rows > 0
        self._joined: tuple[int, ...] = ()
        self._levels: Levels | None = None
        self._is_launched = False

    def offer(self) -> tuple[int, ...]:
        """As of `BfsPeerRank`: numbers below 2**64; of each rank `WORDS`, and its epoch."""
        row = np.zeros((self._dealing.shards, WORDS + 1), np.uint64)
        if self._is_launched and self._peers is not None:
            # The search was broken off: others may have been at meetings that this rank was not.
            self._peers.finish()
            self._peers, self._is_launched = None, False
        if self._peers is None and self._can_join:
            self._peers = self._made()
            self._can_join = self._peers is not None
        if self._peers is not None:
            row[self._dealing.shard] = *self._peers.memory.offer, self._peers.epoch
        return tuple(row.ravel().tolist())

    def _made(self) -> PeerBfs | None:
        """Buffers, if there is memory for them."""
        dealing = self._dealing
        if is_limited() or device_bytes()[0] < peers_bytes(dealing.vertices, dealing.rows):
            return None
        try:
            return PeerBfs(dealing, self._rank_rows)
        except MemoryError:
            return None

    def can_reach(self, offers: Sequence[int]) -> bool:
        """As of `BfsPeerRank`."""
        return can_meet(_each(offers))

    def has_joined(self, offers: Sequence[int]) -> bool:
        """As of `BfsPeerRank`."""
        return bool(self._joined) and _without_epochs(offers) == self._joined

    def join(self, offers: Sequence[int]) -> bool:
        """As of `BfsPeerRank`."""
        assert self._peers is not None
        self._joined = ()
        try:
            self._peers.join(_each(offers))
        except cuda().cuda.runtime.CUDARuntimeError:
            self._can_join, self._peers = False, None
            return False
        self._joined = _without_epochs(offers)
        return True

    def launch(self, root: int, arcs: int, offers: Sequence[int]) -> None:
        """As of `BfsPeerRank`."""
        assert self._peers is not None
        self._is_launched = True
        self._peers.launch(root, max(offers[WORDS :: WORDS + 1]), arcs)

    def finish(self) -> bool:
        """As of `BfsPeerRank`; buffers of a search that failed are no good any more."""
        assert self._peers is not None
        self._levels, self._is_launched = self._peers.finish(), False
        return self._levels is not None

    def leave(self) -> None:
        """As of `BfsPeerRank`."""
        self._can_join, self._peers, self._joined = False, None, ()

    def peer_tree(self) -> BfsTree:
        """As of `BfsPeerRank`; arcs looked at bottom-up are not counted (-1)."""
        assert self._peers is not None
        assert self._levels is not None
        levels, level = self._levels, self._peers.level.astype(np.int32)
        level[level == _UNREACHED] = -1
        tree = self._peers.parent.get(), level.get(), levels.elapsed_s
        examined = np.where(levels.pull, -1, levels.pushed)
        return BfsTree(*tree, levels.found, examined, levels.pull.astype(np.int8))


def _each(offers: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The offer of each rank, without its epoch."""
    step = WORDS + 1
    return tuple(tuple(offers[at : at + WORDS]) for at in range(0, len(offers), step))


def _without_epochs(offers: Sequence[int]) -> tuple[int, ...]:
    return tuple(word for offer in _each(offers) for word in offer)
