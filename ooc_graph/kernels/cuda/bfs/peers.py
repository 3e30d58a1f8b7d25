"""BFS over devices that reach each other's memory: one launch on each, and no host between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.kernels.cuda.bfs.compiled import BLOCK, BUFFER_BYTES, BYTE_LEVELS, constants
from ooc_graph.kernels.cuda.bfs.heads import Heads
from ooc_graph.kernels.cuda.bfs.near import BfsShare, Near, queue_capacity
from ooc_graph.kernels.cuda.runtime.modules import cuda, kernel, limits
from ooc_graph.kernels.cuda.runtime.peers import MAIL_BYTES, Opened, Reached, Words
from ooc_graph.kernels.cuda.runtime.rows import QUAD_ROWS, DeviceRows
from ooc_graph.kernels.cuda.runtime.shares import TIERED
from ooc_graph.types import DEAL_BLOCK, AnyArray, Dealing

_FRONTS, _MAPS, _OPEN_BELOW = 3, 8, 32
_FLOOD_ENTRIES = 1 << 18  # of the queue, at most, if two devices flood
_STATE_WORDS = 128
_TRACED = 256  # levels, more than bytes can tell
_TRACE_FIELDS = "found", "pushed", "examined", "ns", "pull"
# Words of the state: levels, overflow, is_whole behind the meeting.
_LEVELS = 12


def peers_constants(shared_bytes: int, *, count_arcs: bool) -> dict[str, int | str]:
    """What ``bfs_peers.cu`` is compiled with for a device; as of `constants`."""
    chosen = constants(shared_bytes, BYTE_LEVELS, count_arcs=count_arcs)
    flood = {"FLOOD_ENTRIES": f"{_FLOOD_ENTRIES}u"}
    return chosen | {"PEERS": 1, "MAPS": f"{_MAPS}u", "OPEN_BELOW": _OPEN_BELOW} | flood


@dataclass(frozen=True)
class Levels:
    """What a search did in each level that has vertices; the same on all ranks but ``examined``.

    Arrays are int64 (levels,). ``examined`` are arcs that this rank has looked at bottom-up, for
    the level that was found by them. ``elapsed_s`` is this device's, by events; it contains the
    wait for those that begin later.
    """

    found: AnyArray
    pushed: AnyArray
    examined: AnyArray
    pull: AnyArray
    elapsed_s: float


class PeerBfs:
    """One rank's part in searches by devices that reach each other; buffers are allocated once.

    ``count_arcs`` counts arcs looked at bottom-up, which takes a little time.

    The rows are on the current device, or in pinned host memory and a ``share`` of them on the
    device; ids have 32 bits. Ranks of one process that share a device divide its multiprocessors.
    If the device has too little memory, that is a `MemoryError`.
    """

    def __init__(
        self,
        dealing: Dealing,
        out: DeviceRows,
        into: DeviceRows,
        share: BfsShare | None = None,
        *,
        count_arcs: bool = False,
    ) -> None:
        cupy, self._dealing = cuda(), dealing
        self._out, self._into = out, into
        self._near = None if share is None else Near(out, into, share)
        self._heads: Any = Heads(into, None) if self._near is None else self._near.heads
        ranks, quads = dealing.shards, self._out.quads
        blocks = -(-dealing.vertices // (DEAL_BLOCK * ranks))
        own_quads = blocks * (DEAL_BLOCK // QUAD_ROWS)
        self._all_quads = own_quads * ranks
        sizes = _FRONTS * 16 * self._all_quads, 16 * self._all_quads, 16 * own_quads
        queued = dealing.rows if share is None else queue_capacity(out, into)
        rows = QUAD_ROWS * own_quads
        # Behind the starts of few entries the parents of another device's rows have room.
        starts = queued if share is None else max(queued, _FLOOD_ENTRIES + rows)
        ends = np.cumsum([MAIL_BYTES, *sizes, 4 * rows, 4 * starts]).tolist()
        self._offsets = ends[:-1]
        self.memory = Opened(ends[-1])
        self.parent = self.memory.array(self._offsets[-2], dealing.rows, np.uint32)
        self.level = cupy.empty(quads * QUAD_ROWS, np.uint8)[: dealing.rows]
        self._visited, self._shut = (cupy.empty(4 * quads, np.uint32) for _ in range(2))
        self._maps = cupy.empty(_MAPS * 4 * quads, np.uint32)
        self._queue = cupy.empty(queued, np.uint32)
        self._pieces = cupy.empty(max(1, self._heads.extents.pieces), np.uint64)
        self._open = cupy.empty(dealing.vertices // _OPEN_BELOW + 1, np.uint32)
        self._state = cupy.zeros(_STATE_WORDS, np.uint32)
        self._trace = cupy.zeros((_TRACED, len(_TRACE_FIELDS)), np.uint64)
        multiprocessors, most = limits(cupy.cuda.Device().id)
        chosen = peers_constants(most, count_arcs=count_arcs)
        if share is not None:
            chosen |= TIERED
        words = int(chosen["HUB_WORDS"]) + int(chosen["ROUGH_WORDS"])
        self._shared_bytes = words * 4 + BLOCK // 32 * BUFFER_BYTES
        self._blocks, self._chosen = multiprocessors, chosen
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._begin, self._end = cupy.cuda.Event(), cupy.cuda.Event()
        self._reached: Reached | None = None
        self._offers: Sequence[Words] = ()
        self._is_running = False
        self.epoch = 0
        """Meetings that the devices have had; the same on all after a search."""

    def join(self, identities: Sequence[Words], offers: Sequence[Words]) -> None:
        """Reach the memory of all ranks, which have offered theirs."""
        if offers == self._offers:
            return
        if self._reached is not None:
            self._reached.close()
        self._offers = ()
        self._reached = Reached(identities, offers)
        sharing = sum(one == identities[self._dealing.shard] for one in identities)
        self._grid = self._blocks // sharing
        # Blocks of cooperative launches are surely there together, and so is a part of a device.
        self._kernel = kernel("bfs_peers.cu", "bfs_peers", self._chosen, cooperative=sharing == 1)
        self._kernel.max_dynamic_shared_size_bytes = self._shared_bytes
        self._offers = offers

    def close(self) -> None:
        """Wait until no kernel runs, and let go of the others' memory; then this is of no use."""
        if self._is_running:
            self._stream.synchronize()
        if self._reached is not None:
            self._reached.close()

    def launch(self, root: int, epoch: int, arcs: int) -> None:
        """Begin a search from an internal id; all ranks do so, with the same arguments.

        No rank has been at the meeting ``epoch`` before. ``arcs`` is how many they have together.
        """
        assert self._reached is not None
        dealing, out, into, heads = self._dealing, self._out, self._into, self._heads
        arguments = (
            *(np.uint32(dealing.rows), np.uint32(out.quads), np.uint32(dealing.vertices)),
            *(np.uint32(self._all_quads), np.uint64(arcs)),
            *(out.offsets, out.neighbors, into.offsets, into.neighbors, heads.head, heads.heads),
            *(np.uint32(heads.extents.longer1), np.uint32(heads.extents.longer5)),
            *(self.level, self._visited, self._shut, self._maps, self._queue),
            *(self._pieces, self._open, self._state, self._trace, np.uint32(_TRACED)),
            *(np.uint32(root), np.uint32(epoch), self._reached.addresses),
            *(np.uint32(dealing.shards.bit_length() - 1), np.uint32(dealing.shard)),
            *(np.uint64(offset) for offset in self._offsets),
            *(() if self._near is None else self._near.arguments),
        )
        cuda().cuda.get_current_stream().synchronize()
        with self._stream:
            self._begin.record()
            self._is_running = True
            self._kernel((self._grid,), (BLOCK,), arguments, shared_mem=self._shared_bytes)
            self._end.record()

    def finish(self) -> Levels | None:
        """Wait for the search; None if another device did not come, or a level is too high.

        Then nothing of it is of use, and neither is this object.
        """
        self._end.synchronize()
        self._is_running = False
        elapsed_s = float(cuda().cuda.get_elapsed_time(self._begin, self._end)) / 1e3
        state = self._state.get()
        levels, overflow, is_whole = state[_LEVELS : _LEVELS + 3].tolist()
        self.epoch = int(state[2])
        if overflow or not is_whole:
            return None
        trace = self._trace[: levels + 1].get()
        columns = dict(zip(_TRACE_FIELDS, trace.T.astype(np.int64), strict=True))
        self.level_ns = columns.pop("ns")
        by_level = {name: column[:levels] for name, column in columns.items()}
        by_level["examined"], by_level["pushed"] = columns["examined"][1:], columns["pushed"][1:]
        by_level["pull"] = columns["pull"][1:]
        return Levels(**by_level, elapsed_s=elapsed_s)
