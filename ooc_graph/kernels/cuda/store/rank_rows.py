"""Rows of a shard that are in a store, with the first arcs of each, the heads, on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import pack_bits
from ooc_graph.kernels.common.sssp.distances import distance_dtype
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows, on_device, require_rows
from ooc_graph.kernels.cuda.runtime.shares import RankRows
from ooc_graph.kernels.cuda.runtime.steps import Steps, width
from ooc_graph.kernels.cuda.sssp.shared import constants
from ooc_graph.kernels.cuda.store.heads import fill_heads
from ooc_graph.kernels.cuda.store.rows import ends_of
from ooc_graph.kernels.cuda.store.staged import Launch, Staged
from ooc_graph.types import IntArray


class StoreRows:
    """Rows of one side: heads and offsets on the device, all arcs in a store.

    ``rows`` has lengths and places, in host memory. Of each row ``least`` arcs are on the device,
    and one in ``2**shift`` of its arcs. `fill` brings them there.
    """

    def __init__(self, rows: TierRows, least: int, shift: int) -> None:
        lengths = rows.heads.lengths
        require_rows(len(lengths))
        self.rows, self.loaded = rows, rows.loaded(min(least, 1 << 32), shift)
        kept = np.minimum((lengths.astype(np.int64) >> shift) + self.loaded.least, lengths)
        cupy, ids, last = cuda(), rows.dtypes[0], rows.dtypes[-1]
        self.weights = last if len(rows.dtypes) > 1 else None
        """Type of the weights."""
        with within_memory("the first arcs of every row"):
            self.longer = on_device(pack_bits(kept < lengths)).view(np.uint32)
            """Rows that have more arcs than their heads, a bitmap on the device."""
            ends = ends_of(kept)
            weights = None if self.weights is None else cupy.empty(int(ends[-1]), last)
            self.heads = DeviceRows(on_device(ends), cupy.empty(int(ends[-1]), ids), weights)
            self.staged = Staged(rows, pins=False)
            if self.weights is None:
                self.steps = Steps("bfs_rank_store.cu", width(ids))
            else:
                types = constants(last, distance_dtype(np.empty(0, last)), ids)
                self.steps = Steps("sssp_rank_store.cu", types)

    def fill(self, rows: TierRows) -> Any:
        """Bring the heads to the device, in the order of the store; the largest weight seen.

        ``rows`` are the same rows, with limits: what is fetched of each, its head or more.
        """
        heads = self.heads
        columns = [heads.neighbors] if heads.weights is None else [heads.neighbors, heads.weights]

        def launch(asked: IntArray, fetched: tuple[Any, ...]) -> None:
            self.steps.launch("hold_fetched", 32 * len(asked), *fetched, heads.offsets, *columns)

        return fill_heads(rows, self.staged, launch)

    def scan(self, bits: Any, name: str, *arguments: Any, cursor: Any = None) -> None:
        """Have a kernel go along the tails of a bitmap's rows; the bitmap is on the device.

        Or from the arc ``cursor`` of each row on: uint32 (rows,), on the device.
        """
        for _ in self.scanned(bits, name, *arguments, cursor=cursor):
            pass

    def scanned(
        self,
        bits: Any,
        name: str,
        *arguments: Any,
        cursor: Any = None,
        room: Callable[[], int] | None = None,
    ) -> Iterator[None]:
        """As `scan`, window by window.

        If ``room`` is given, it is asked before each launch how many arcs that may go along.
        """

        def launch(asked: IntArray, fetched: tuple[Any, ...]) -> None:
            if room is None:
                self.steps.launch(name, 32 * len(asked), *fetched, *arguments)
                return
            for first, last, begin, end in portions(asked, room):
                given = *fetched, *map(np.uint32, (first, last, begin, end)), *arguments
                self.steps.launch(name, 32 * (last - first), *given)

        return self.fetched(bits, launch, cursor=cursor)

    def fetched(
        self,
        bits: Any,
        launch: Launch,
        *,
        cursor: Any = None,
        is_done: Callable[[], bool] | None = None,
    ) -> Iterator[None]:
        """As `scanned`, by whatever is launched; ``is_done`` is as of `Staged.scan`."""
        window = self.rows.window
        for waiting in self.rows.tails(bits.get().view(np.uint64), self.loaded):
            if cursor is not None:
                window.cursor[:waiting] = cursor[on_device(window.row[:waiting])].get()
            if not self.staged.scan(self.rows, waiting, launch, is_done=is_done):
                break
            yield


def portions(asked: IntArray, room: Callable[[], int]) -> Iterator[tuple[int, int, int, int]]:
    """Parts of requests in order, which ask for ``asked`` arcs each.

    A part (first, last, begin, end) is the arcs [begin, end) of the requests [first, last).

    Each part has no more arcs than there is ``room`` then. Parts are whole requests, or a piece of
    one that is longer.
    """
    ends, first = np.cumsum(asked), 0
    while first < len(asked):
        before = int(ends[first] - asked[first])
        last = int(np.searchsorted(ends, before + room(), side="right"))
        if last > first:
            yield first, last, 0, int(asked[first:last].max())
            first = last
            continue
        begin, end = 0, int(asked[first])
        while begin < end:
            piece = min(room(), end - begin)
            yield first, first + 1, begin, begin + piece
            begin += piece
        first += 1


def rank_rows(out: StoreRows, into: StoreRows) -> RankRows:
    """Their heads, as a rank's rows; ``into`` is ``out`` if the graph is undirected."""
    lengths = out.rows.heads.lengths
    with within_memory("the offsets of every row"):
        offsets = on_device(ends_of(lengths))
    arcs = int(lengths.sum(dtype=np.int64))
    return RankRows(out.heads, into.heads, arcs, offsets, out.weights)
